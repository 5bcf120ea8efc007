"""The template process: imports the modules that workers run, and forks these on request of the program.

It has one thread, and none of the program's descriptors.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from .workers.handover import take_over
from .workers.heartbeats import end_with_parent
from .workers.interpreter import ignore_signals
from .workers.template import ANSWER, DESCRIPTORS, REQUEST, STATUS

# Seconds until it notices that the program is gone, if others still have its socket.
_ORPHANED = 1.0


def serve(module: str, program: int, requests: int) -> NoReturn:
    """Fork workers until the program is gone.

    Args:
      module: the name of the module that the first workers run.
      program: the id of its process.
      requests: the descriptor of the socket.
    """
    ignore_signals()
    # Without a handler it wouldn't wake anything up.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    _import(module)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    _Server(program, socket.socket(fileno=requests)).serve()
    os._exit(0)


def _import(module: str) -> None:
    """Import a module once for all workers that need it."""
    if module not in sys.modules:
        import_module(module)
        # So that no worker copies the memory of what stays.
        gc.freeze()


class _Server:
    def __init__(self, program: int, requests: socket.socket) -> None:
        self._program = program
        self._requests = requests
        # By the process ids of workers, the sockets of their statuses.
        self._workers: dict[int, socket.socket] = {}
        self._ended, self._end = socket.socketpair()
        self._ended.setblocking(False)
        self._end.setblocking(False)
        signal.set_wakeup_fd(self._end.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        while os.getppid() == self._program:
            ready, _, _ = select.select([self._requests, self._ended], [], [], _ORPHANED)
            if self._ended in ready:
                with suppress(BlockingIOError):
                    self._ended.recv(4096)
                self._reap()
            if self._requests in ready and not self._answer():
                break
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Send the exit statuses of workers that have ended."""
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with self._workers.pop(pid) as answer, suppress(OSError):
                answer.send(STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _answer(self) -> bool:
        """Fork a worker; return False if the program is gone."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST.size, DESCRIPTORS)
        except ConnectionResetError:
            return False
        if not data:
            return False
        number, module = REQUEST.unpack(data)
        _import(module.rstrip(b"\0").decode())
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self._run(parent, descriptors)
        control, beats, status, *others = descriptors
        if pid > 0:
            self._workers[pid] = socket.socket(fileno=status)
        else:
            others.append(status)
        for each in (control, beats, *others):
            os.close(each)
        try:
            self._requests.sendall(ANSWER.pack(number, pid))
        except OSError:
            return False
        return True

    def _run(self, parent: int, descriptors: list[int]) -> NoReturn:
        """Run a worker."""
        try:
            end_with_parent(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for own in (self._requests, self._ended, self._end, *self._workers.values()):
                own.close()
            control, beats, status, directory, output, errors = descriptors
            os.fchdir(directory)
            os.dup2(output, 1)
            os.dup2(errors, 2)
            for each in (status, directory, output, errors):
                os.close(each)
            take_over(control, beats)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
