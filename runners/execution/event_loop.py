"""The event loop of a worker process, in which the calls of async DoFns run.

It runs in a thread of its own, which the first user starts and the last one stops.  A forked child has none.

>>> loop = EventLoop.acquire()
>>> async def six() -> int:
...     return 6
>>> loop.run(six())
6
>>> loop.release()
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from ...sdk.metrics import scoped
from ...sdk.options.context import inside_a_run

T = TypeVar("T")

# Seconds that the end of the loop may take.
_PATIENCE = 5.0


class EventLoop:
    """A running event loop, shared by its users in this process."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _running: ClassVar[EventLoop | None] = None

    def __init__(self) -> None:
        self._users = 0
        self._loop = asyncio.new_event_loop()
        # The snapshot writer doesn't fork beside a thread that runs user code (`penstock...` are its own threads).
        self._thread = threading.Thread(target=self._run, name="async-calls", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> EventLoop:
        """Return the process's event loop, started if it isn't running."""
        with cls._lock:
            if cls._running is None:
                cls._running = cls()
            cls._running._users += 1
            return cls._running

    def release(self) -> None:
        """Stop the loop, if this was its last user."""
        with EventLoop._lock:
            self._users -= 1
            if self._users:
                return
            if EventLoop._running is self:
                EventLoop._running = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        # A call that blocks the loop would block its end, too.
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        with scoped(None), inside_a_run():
            try:
                self._loop.run_forever()
                for task in asyncio.all_tasks(self._loop):
                    task.cancel()
                # Cancelled tasks need a turn each to end.
                self._loop.run_until_complete(asyncio.sleep(0))
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            finally:
                self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def soon(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call a function in the loop's thread."""
        # After a fork, or a failure, the loop may be closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def next_turn(self, callback: Callable[[], Any]) -> None:
        """Call a function in the loop's next turn, from the loop's thread."""
        self._loop.call_soon(callback)

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, from the loop's thread."""
        return self._loop.create_task(coroutine)

    @classmethod
    def _in_child(cls) -> None:
        cls._lock = threading.Lock()
        cls._running = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=EventLoop._in_child)
