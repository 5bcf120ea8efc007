"""Large snapshots, written by a forked child while processing goes on.

A fork costs a few milliseconds, whatever there is to be written: the child has everything as it was at the barrier.  It
serialises, writes its part and ends.  It shares no pipe with anybody, and does nothing that takes a
lock which a thread of its parent could have held: no logging, no imports, no collection of garbage.

Pickling in a thread instead would stall processing for seconds: both need the interpreter's lock.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

import attrs

# How many entries have to be written to be worth a fork: it takes 20 ms of CPU, most of it for memory that is copied as
# it changes afterwards, and 10,000 entries take about as long.
LARGE = 10_000

# File descriptors that a child closes, at most.
_MANY = 65_536


@attrs.frozen
class _Child:
    pid: int
    pipe: int
    done: Callable[[Any, str | None], None]
    heard: list[bytes] = attrs.field(factory=list)


class ForkedSnapshots:
    """The children that are writing, at most one for each of whoever has snapshots written.

    >>> forks = ForkedSnapshots()
    >>> if forks.may_fork():
    ...     forks.begin("sums", lambda: 6 * 7, lambda written, why: print(written, why))
    ...     forks.finish()
    42 None
    """

    def __init__(self) -> None:
        self._children: dict[Hashable, _Child] = {}

    def may_fork(self) -> bool:
        """Whether a child could run into nothing that somebody else holds.

        Penstock's own threads hold nothing while a process forks; of a user's nobody knows.
        """
        if not hasattr(os, "fork") or threading.current_thread() is not threading.main_thread():
            return False
        own = threading.current_thread()
        return all(thread is own or thread.name.startswith("penstock") for thread in threading.enumerate())

    def begin(self, whose: Hashable, work: Callable[[], Any], done: Callable[[Any, str | None], None]) -> None:
        """Have a child do `work`.  `done` is called, from `poll`, with what it returned, or else why it failed.

        What a child of the same owner is still writing is given up.  Raises `OSError` if there can't be a child.
        """
        self._give_up(whose)
        entry, exit = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(entry)
            os.close(exit)
            raise
        if pid == 0:
            _work(work, exit)
        os.close(exit)
        os.set_blocking(entry, False)
        self._children[whose] = _Child(pid, entry, done)

    @property
    def is_busy(self) -> bool:
        """Whether any child is writing."""
        return bool(self._children)

    def poll(self) -> None:
        """Look who is done; never waits."""
        for whose, child in list(self._children.items()):
            try:
                while data := os.read(child.pipe, 1 << 16):
                    child.heard.append(data)
            except BlockingIOError:
                continue
            del self._children[whose]
            os.close(child.pipe)
            _, status = os.waitpid(child.pid, 0)
            child.done(*_told(child, status))

    def finish(self) -> None:
        """Wait until nobody is writing any more."""
        while self._children:
            for child in self._children.values():
                os.set_blocking(child.pipe, True)
            self.poll()

    def abandon(self) -> None:
        """Give up whatever is being written."""
        for whose in list(self._children):
            self._give_up(whose)

    def _give_up(self, whose: Hashable) -> None:
        child = self._children.pop(whose, None)
        if child is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            os.close(child.pipe)
            os.waitpid(child.pid, 0)


def _told(child: _Child, status: int) -> tuple[Any, str | None]:
    if not child.heard:
        return None, f"the process that was writing it ended with {os.waitstatus_to_exitcode(status)}"
    written, why = pickle.loads(b"".join(child.heard))
    return written, why


def _work(work: Callable[[], Any], exit: int) -> None:
    """The whole life of the child."""
    try:
        gc.disable()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Whoever waits for the end of a pipe of the parent's must not wait for the child.
        os.closerange(3, exit)
        os.closerange(exit + 1, _MANY)
        try:
            told: Any = work(), None
        except Exception as error:
            told = None, str(error) or type(error).__name__
        view = memoryview(pickle.dumps(told, protocol=5))
        while view:
            view = view[os.write(exit, view) :]
    finally:
        os._exit(0)
