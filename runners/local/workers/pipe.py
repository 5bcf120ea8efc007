"""Pipe between a program and its worker: pickled messages, and open sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from ....sdk.user_code.pickler import pickled

# Sockets to send at a time; the kernel takes 253.
_AT_A_TIME = 100


def send(control: Connection, message: Any) -> None:
    """Send a message through a pipe, whose other end takes it by `recv`.

    It may have objects of classes that only one of the processes can import, those of the main module for example.
    """
    control.send_bytes(pickled(message))


def send_sockets(control: Connection, sockets: Sequence[socket.socket]) -> None:
    """Send open sockets to the process at the other end of a pipe, which knows how many they are.

    >>> import multiprocessing
    >>> ours, theirs = multiprocessing.Pipe()
    >>> left, right = socket.socketpair()
    >>> send_sockets(ours, [right])
    >>> (received,) = receive_sockets(theirs, 1)
    >>> left.send(b"here"), received.recv(10)
    (4, b'here')
    >>> left.close(), right.close(), received.close()
    (None, None, None)
    """
    with socket.socket(fileno=os.dup(control.fileno())) as channel:
        for start in range(0, len(sockets), _AT_A_TIME):
            descriptors = [each.fileno() for each in sockets[start : start + _AT_A_TIME]]
            socket.send_fds(channel, [b"."], descriptors)


def receive_sockets(control: Connection, count: int) -> list[socket.socket]:
    """Receive so many sockets.  Raises `EOFError` if the other end is closed."""
    sockets: list[socket.socket] = []
    with socket.socket(fileno=os.dup(control.fileno())) as channel:
        while len(sockets) < count:
            data, descriptors, _, _ = socket.recv_fds(channel, 1, _AT_A_TIME)
            if not data:
                raise EOFError
            sockets += [socket.socket(fileno=descriptor) for descriptor in descriptors]
    return sockets
