"""Small snapshots, which a thread makes durable while processing goes on.

They are serialised at the barrier, and what is left is to wait for the disk: for as long as some thousand elements
take, for each subtask.  The thread comes when there is something to write, and ends when there is nothing more, so
that a fork, which would be without it, rarely finds one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Done = Callable[[Any, BaseException | None], None]

# How long, in seconds, whoever gives up waits for what is just being written.
_PATIENCE = 10.0


class WrittenBehind:
    """Work that is done in order, by a thread.

    >>> behind = WrittenBehind()
    >>> behind.begin(lambda: 6 * 7, lambda result, error: print(result, error))
    >>> behind.finish()
    42 None
    """

    def __init__(self) -> None:
        # Held while it is decided whether there is a thread.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._todo: deque[tuple[Callable[[], Any], Done]] = deque()
        self._finished: deque[tuple[Done, Any, BaseException | None]] = deque()
        self._count = 0

    def begin(self, work: Callable[[], Any], done: Done) -> None:
        """Have `work` done.  `done` is called, from `poll`, with what it returned, or else what it raised."""
        self._count += 1
        with self._lock:
            self._todo.append((work, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="penstock snapshots", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._todo:
                    self._thread = None
                    return
                work, done = self._todo.popleft()
            try:
                result, error = work(), None
            except BaseException as raised:
                result, error = None, raised
            self._finished.append((done, result, error))

    @property
    def is_busy(self) -> bool:
        """Whether there is anything of which `poll` has yet to tell."""
        return self._count > 0

    def poll(self) -> None:
        """Look what is done; never waits."""
        while self._finished:
            done, result, error = self._finished.popleft()
            self._count -= 1
            done(result, error)

    def finish(self) -> None:
        """Wait until all is done."""
        self._wait(None)
        self.poll()

    def abandon(self) -> None:
        """Nobody wants any of it: begin nothing more, and let what is being written come to its end."""
        with self._lock:
            self._todo.clear()
        self._wait(_PATIENCE)
        self._finished.clear()
        self._count = 0

    def _wait(self, seconds: float | None) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
