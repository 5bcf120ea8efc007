"""Calls of async DoFns: those of one step in the event loop, up to `concurrency` of which run at once."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from ....sdk.coders.coder import shortened
from ....sdk.dofn.async_dofn import collected
from ....sdk.elements.defensive_copy import never_copied
from ....sdk.metrics import MetricsContainer, report_apart
from ..event_loop import EventLoop
from ..stuck_calls import Returned, Stuck, stack_of_awaited, watch_too
from ..wakeup import Wakeup


@never_copied
class Call:
    """The call of one element.

    Attributes:
      pending: the coroutine or async generator; None if there is nothing to call.
      row: the element, its timestamp, windows, pane and sign.
      began: when it has begun, in seconds of the monotonic clock; None before.
      lane: calls of one lane are emitted in their order.
      outputs, error: the result, once it is finished.
      metrics: what the call has reported.
    """

    __slots__ = ("began", "element", "error", "is_finished", "lane", "metrics", "outputs", "pending", "row")

    def __init__(self, element: Any, pending: Any) -> None:
        self.element = element
        self.pending = pending
        self.began: float | None = None
        self.row: Any = None
        self.lane: Any = None
        self.outputs: list[Any] = []
        self.error: BaseException | None = None
        self.is_finished = False
        self.metrics = MetricsContainer()

    def discard(self) -> None:
        """Close its coroutine, unless it has begun: Python warns of one that is never awaited."""
        pending = self.pending
        if inspect.iscoroutine(pending) and inspect.getcoroutinestate(pending) == inspect.CORO_CREATED:
            pending.close()

    def __repr__(self) -> str:
        # An error of the call names the element.
        return repr(self.element)


class RunningCalls:
    """The calls of one step in the event loop.

    Attributes:
      finished: the calls that have ended; the worker takes them.

    Args:
      concurrency: the greatest number of simultaneous calls.
      wakeup: set when a call ends.
    """

    def __init__(self, label: str, concurrency: int, wakeup: Wakeup) -> None:
        self._label = label
        self._concurrency = concurrency
        self._wakeup = wakeup
        # The call that was reported as stuck, and the time before which no other one is.
        self._told: Call | None = None
        self._silent_until = 0.0
        self._telling = threading.Lock()
        self.finished: deque[Call] = deque()
        self._loop: EventLoop | None = None
        # These are the loop's.
        self._waiting: deque[Call] = deque()
        self._tasks: dict[asyncio.Task[None], Call] = {}
        self._is_noted = False
        self._is_closed = False

    def open(self) -> EventLoop:
        """Return the process's event loop, which runs until `close`."""
        if self._loop is None:
            self._loop = EventLoop.acquire()
            watch_too(self)
        return self._loop

    def run(self, awaitable: Any) -> Any:
        """Wait for the result of an awaitable."""

        async def awaited() -> Any:
            return await awaitable

        return self.open().run(awaited())

    def submit(self, calls: list[Call]) -> None:
        """Start calls, as soon as there is room."""
        if calls:
            self.open().soon(self._accept, calls)

    def close(self) -> None:
        """Cancel all calls, and leave the event loop."""
        self._is_closed = True
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.soon(self._cancel)
            loop.release()

    # In a watch's thread

    @property
    def is_over(self) -> bool:
        """True once the calls are closed."""
        return self._is_closed

    def news(self, timeout: float) -> Iterable[Stuck | Returned]:
        """Return the oldest call as `Stuck` once it exceeds a timeout, and as `Returned` when it has ended.

        Each one once, and one at a time: calls of a service that doesn't answer are many.
        """
        with self._telling:
            now = time.monotonic()
            told = self._told
            if told is not None and told.began is not None:
                if told.pending is not None and not self._is_closed:
                    return ()
                self._told, self._silent_until = None, now + timeout
                return (Returned(self._label, now - told.began),)
            if self._is_closed:
                return ()
            try:
                oldest = next(iter(self._tasks.values()), None)
            except RuntimeError:
                # The loop has added or removed one meanwhile.
                return ()
            if oldest is None or oldest.began is None or now < self._silent_until or now - oldest.began < timeout:
                return ()
            pending = oldest.pending
            if pending is None:
                return ()
            self._told = oldest
            element = shortened(oldest.element, 100)
            return (Stuck(self._label, now - oldest.began, stack_of_awaited(pending), element),)

    # In the loop's thread

    def _accept(self, calls: list[Call]) -> None:
        self._waiting.extend(calls)
        self._fill()

    def _fill(self) -> None:
        loop = self._loop
        while self._waiting and len(self._tasks) < self._concurrency and loop is not None:
            call = self._waiting.popleft()
            task = loop.create_task(self._finish(call))
            self._tasks[task] = call
            task.add_done_callback(self._ended)

    async def _finish(self, call: Call) -> None:
        report_apart(call.metrics, self._label)
        call.began = time.monotonic()
        try:
            call.outputs = await collected(call.pending)
        except BaseException as error:
            # An interrupt, too, is raised in the worker's thread.
            call.error = error
        call.pending = None
        self.finished.append(call)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        loop = self._loop
        if self._is_closed or loop is None:
            return
        self._fill()
        if not self._is_noted:
            # Once for all calls that end in this turn of the loop: a wakeup costs more than a call.
            self._is_noted = True
            loop.next_turn(self._note)

    def _note(self) -> None:
        self._is_noted = False
        self._wakeup.set()

    def _cancel(self) -> None:
        for call in (*self._waiting, *self._tasks.values()):
            call.discard()
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
