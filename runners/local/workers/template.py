"""Template process of workers, for the program: an interpreter with penstock's modules, which forks them on request.

The program's process can't be forked safely: a lock that one of its threads holds, for instance in a database's
library, would stay locked in the worker.  The template has no other threads, and nothing of the program.  It is started
as another program is, by `vfork` and `exec`, when the first worker is needed, and serves all later runs.  It ends with
the program, and its workers with it.

A request is a number and the name of the module that the worker is to run, which the template imports once, with the
worker's descriptors; the answer is the number with the worker's process id.  The worker's exit status comes through a
socket of its own.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import count
from typing import Any

from ....sdk.errors import PenstockError
from .interpreter import start_interpreter

# The function of the process.
_SERVE = "penstock.runners.local.worker_template:serve"

# A request's number and module; the number and a process id, or the negative number of the system's error; an exit
# status.
REQUEST, ANSWER, STATUS = struct.Struct("=q120s"), struct.Struct("=qq"), struct.Struct("=q")

# A request's descriptors: the worker's pipe and heartbeats, the socket of its status, the working directory, and the
# standard output and error.
DESCRIPTORS = 6

_DIRECTORY = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)

# Seconds until a template that doesn't end is killed.
_ENDING = 5.0


def _standard_descriptor(name: str, number: int) -> int | None:
    """Return the descriptor of a standard stream; None if it is closed.

    A program may have replaced the stream by a file.

    Args:
      name: "stdout" or "stderr".
      number: the descriptor that it has by convention.
    """
    stream = getattr(sys, name)
    with suppress(OSError, ValueError):
        if isinstance(stream, io.TextIOWrapper):
            number = stream.fileno()
        os.fstat(number)
        return number
    return None


class ForkedWorker:
    """A worker that the template has forked.

    Args:
      status: the socket that its exit status arrives at.
    """

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self._status = status

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative if a signal has ended it; None while it runs."""
        # What is only looked at stays there for other threads.
        try:
            status = self._status.recv(STATUS.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        # A worker doesn't outlive the template.
        return int(STATUS.unpack(status)[0]) if status else -signal.SIGKILL

    def join(self, seconds: float | None = None) -> None:
        """Wait for its end, at most so long."""
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        poll.poll(None if seconds is None else 1000 * seconds)

    def close(self) -> None:
        """Close the socket."""
        self._status.close()


class _Template:
    """The template process.

    Args:
      module: the name of a module that its first workers are to run.
    """

    def __init__(self, module: str) -> None:
        self.owner = _owner()
        self._numbers = count()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = start_interpreter(_SERVE, [theirs.fileno()], module)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, module: str, control: int, beats: int) -> ForkedWorker:
        """Fork a worker.  Raises `OSError` if the system refuses it, and `_Gone`."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        # By descriptor, since the directory may have been deleted, or may not be read.
        opened = [os.open(os.devnull, os.O_WRONLY), os.open(".", _DIRECTORY)]
        null, directory = opened
        try:
            found = [_standard_descriptor(name, own) for name, own in (("stdout", 1), ("stderr", 2))]
            streams = [null if each is None else each for each in found]
            request = REQUEST.pack(number, module.encode())
            socket.send_fds(self._socket, [request], [control, beats, theirs.fileno(), directory, *streams])
            # An interrupted call may not have taken its answer.
            answered = -1
            while answered != number:
                answer = self._socket.recv(ANSWER.size, socket.MSG_WAITALL)
                if not answer:
                    raise _Gone
                answered, pid = ANSWER.unpack(answer)
        except BaseException as error:
            ours.close()
            if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                raise _Gone from None
            raise
        finally:
            theirs.close()
            for each in opened:
                os.close(each)
        if pid < 0:
            ours.close()
            raise OSError(-pid, os.strerror(-pid))
        return ForkedWorker(pid, ours)

    def status(self) -> int:
        """Return the exit status of the process, which has ended."""
        return self._process.wait()

    def end(self) -> None:
        """End the process, and its workers."""
        self._socket.close()
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            # It is stopped, for example.
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Close the socket of a template that belongs to the parent of this process."""
        self._socket.close()
        # So that no warning says that it still runs.
        self._process.returncode = 0


class _Gone(Exception):
    """The template has ended."""


def _owner() -> Any:
    """Return what a template has in common with its program: a worker has neither more nor fewer rights."""
    return os.getpid(), os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()


_lock = threading.Lock()
_template: _Template | None = None


def begin_template(module: str) -> None:
    """Start the template process, unless there is one; it imports the module while this process goes on."""
    with _lock:
        _begun(module)


def fork_worker(module: str, control: int, beats: int) -> ForkedWorker:
    """Fork a worker from the template process.

    Args:
      module: the name of the module that it is to run.
      control, beats: the descriptors of its pipe and of the heartbeats.

    Raises `OSError` if the system refuses it, and `PenstockError` if the template ends.
    """
    with _lock:
        with suppress(_Gone):
            return _begun(module).fork(module, control, beats)
        # It has just ended, such as by a signal.
        _end()
        template = _begun(module)
        try:
            return template.fork(module, control, beats)
        except _Gone:
            raise PenstockError(
                f"The template process of workers has ended with status {template.status()}; its standard error may "
                "say why. --start_method=spawn does without it"
            ) from None


def _begun(module: str) -> _Template:
    global _template
    if _template is not None and not (_template.is_alive and _template.owner == _owner()):
        _template.end()
        _template = None
    if _template is None:
        _template = _Template(module)
    return _template


def _end() -> None:
    if _template is not None:
        _template.end()


def _in_child() -> None:
    global _lock, _template
    _lock = threading.Lock()
    if _template is not None:
        _template.forget()
        _template = None


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
