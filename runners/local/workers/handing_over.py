"""Pipes that are handed from one process to another, over the one that they share already."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection

# The kernel takes 253 at a time.
_AT_A_TIME = 100


def hand_over(control: Connection, pipes: Sequence[socket.socket]) -> None:
    """Give pipes to whoever reads the other end, who has to know how many are coming.

    >>> import multiprocessing
    >>> ours, theirs = multiprocessing.Pipe()
    >>> left, right = socket.socketpair()
    >>> hand_over(ours, [right])
    >>> (taken,) = take_over(theirs, 1)
    >>> left.send(b"here"), taken.recv(10)
    (4, b'here')
    >>> left.close(), right.close(), taken.close()
    (None, None, None)
    """
    with socket.socket(fileno=os.dup(control.fileno())) as channel:
        for start in range(0, len(pipes), _AT_A_TIME):
            descriptors = [pipe.fileno() for pipe in pipes[start : start + _AT_A_TIME]]
            socket.send_fds(channel, [b"."], descriptors)


def take_over(control: Connection, count: int) -> list[socket.socket]:
    """Take so many pipes.  Raises `EOFError` if nobody is there any more to give them."""
    pipes: list[socket.socket] = []
    with socket.socket(fileno=os.dup(control.fileno())) as channel:
        while len(pipes) < count:
            data, descriptors, _, _ = socket.recv_fds(channel, 1, _AT_A_TIME)
            if not data:
                raise EOFError
            pipes += [socket.socket(fileno=descriptor) for descriptor in descriptors]
    return pipes
