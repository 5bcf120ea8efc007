"""A stage of one async DoFn: its calls run in the process's event loop, and their outputs are emitted as they end.

The elements of unfinished calls are *in flight*.  An aligned barrier waits for them.  They are part of any other
snapshot, so that a restart calls again for each of them; and they hold the watermark.  Up to
`concurrency` calls run at once.  As many elements again wait in the event loop, so that the next call starts as soon as
one ends.  Elements beyond these are pending, and the task takes no other input meanwhile.

Where a worker does everything at once (a batch, a micro-batch, a script), it waits for the calls: when the limit is
reached, at the end of a partition, and before a watermark advances.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle
from ....windowing.timestamp import MAX_MICROS
from ..clock import StepClock, UnboundedSteps
from ..counters import Counts
from ..plan.fusion import Stage
from ..stages.executor import Emit
from ..stages.side_input_views import SideInputViews
from ..user_errors import guarded, has_hash, pair_type, unhashable
from .async_executor import AsyncExecutor
from .dataflow import Pending, PendingStep, StageRun
from .running_calls import Call


class AsyncRun(StageRun):
    """A stage of one async DoFn at work."""

    executor: AsyncExecutor

    def __init__(
        self,
        executor: AsyncExecutor,
        counts: Counts,
        step_clock: StepClock | None = None,
        unfinished: set[PendingStep] | None = None,
    ) -> None:
        super().__init__(executor, counts, None, step_clock, unfinished)
        self._is_simulated = self._step_clock.is_simulated
        self.waits_for_calls = self._is_simulated or not self._step_clock.is_bounded
        self._wakeup = self._step_clock.wakeup
        self._capacity = 2 * executor.fn.concurrency
        # In their order.
        self._in_flight: dict[Call, None] = {}
        # By lane, the calls that are not emitted; None if calls are emitted as they end.
        self._lanes: dict[Any, deque[Call]] | None = {} if executor.ordered or self._is_simulated else None
        self._earliest: int | None = None

    # Elements

    def _process(self, bundle: Bundle, index: int) -> None:
        for portion in bundle.portions() if isinstance(bundle, ColumnBundle) else (bundle,):
            self._start(portion)

    def _start(self, bundle: Bundle) -> None:
        """Start the calls of elements; those for which there is no room are pending, or wait for room."""
        done, n = 0, len(bundle)
        while done < n:
            room = self._capacity - len(self._in_flight)
            if room > 0:
                stop = self._uncut(bundle, min(n, done + room))
                self._register(self.executor.start(bundle if stop - done == n else bundle.part(done, stop)))
                done = stop
            elif self.waits_for_calls:
                self._wait()
            else:
                self.pending.appendleft((0, bundle.part(done, n)))
                self.note(True)
                return

    def _uncut(self, bundle: Bundle, stop: int) -> int:
        """Return the index at which a bundle is cut: not between a retraction and the row that may replace its row."""
        if not self.executor.is_retracted or stop == len(bundle):
            return stop
        before, after = (row[-1] for row in bundle.part(stop - 1, stop + 1).rows())
        return stop + 1 if before < 0 < after else stop

    def _register(self, calls: list[Call]) -> None:
        lanes = self._lanes
        executor = self.executor
        if executor.ordered == "key":
            guarded(executor.label, partial(_set_lanes, calls))
        for call in calls:
            self._in_flight[call] = None
            if lanes is not None:
                lanes.setdefault(call.lane, deque()).append(call)
            micros = call.row[1]
            if self._earliest is None or micros < self._earliest:
                self._earliest = micros
        executor.calls.finished.extend(call for call in calls if call.pending is None)
        # From now on the calls are the event loop's, until it returns them.
        executor.calls.submit([call for call in calls if call.pending is not None])

    @property
    def is_full(self) -> bool:
        """Return True if an element has to wait for the end of a call."""
        return len(self._in_flight) >= self._capacity

    @property
    def has_results(self) -> bool:
        """Return True if calls have ended whose outputs are to be emitted."""
        return bool(self.executor.calls.finished) and not self.waits_for_calls

    def emit_results(self) -> None:
        """Emit the outputs of the calls that have ended, as far as their order allows."""
        finished, lanes = self.executor.calls.finished, self._lanes
        ready: list[Call] = []
        while finished:
            call = finished.popleft()
            call.is_finished = True
            if lanes is None:
                ready.append(call)
                continue
            lane = lanes[call.lane]
            while lane and lane[0].is_finished:
                ready.append(lane.popleft())
            if self.executor.is_retracted and ready and lane and ready[-1].row[-1] < 0 < lane[0].row[-1]:
                # The row that may replace that of a retraction comes with it.
                lane.appendleft(ready.pop())
            if not lane:
                del lanes[call.lane]
        if not ready:
            return
        for call in ready:
            del self._in_flight[call]
        self._earliest = min((call.row[1] for call in self._in_flight), default=None)
        self._count.read += len(ready)
        self.executor.emit_results(ready)

    def _wait(self) -> None:
        """Wait until a call ends, and emit what is ready."""
        finished = self.executor.calls.finished
        # A simulation's trace is the same whichever call ends first.
        least = len(self._in_flight) if self._is_simulated else 1
        while len(finished) < least:
            self._wakeup.wait()
        self._wakeup.clear()
        self.emit_results()

    def drain(self) -> None:
        """Wait for all calls, those of pending elements included."""
        while self.pending or self._in_flight:
            if self._in_flight:
                self._wait()
            else:
                self.resume()

    def resume(self) -> None:
        while self.pending and not self.is_full:
            self._process_next()
            if self.must_yield():
                break
        self.note(bool(self.pending))

    def pending_elements(self) -> list[Pending]:
        """Return the elements in flight, and those that wait for them."""
        if not self._in_flight:
            return list(self.pending)
        rows = [call.row for call in self._in_flight]
        return [(0, Bundle(*map(list, zip(*rows, strict=True)))), *self.pending]

    @property
    def has_records(self) -> bool:
        return bool(self.pending or self._in_flight)

    @property
    def waits_for_a_call(self) -> bool:
        return self.is_full or not self.pending

    def hold(self) -> int | None:
        kept = super().hold()
        if self._earliest is None:
            return kept
        earliest = self._earliest if kept is None else min(self._earliest, kept)
        # Before the end of time, or its task would be complete.
        return min(earliest, MAX_MICROS - 1)


def _set_lanes(calls: list[Call]) -> None:
    """Make the key of each element its lane."""
    try:
        for call in calls:
            call.lane = _key_of(call.element)
    except BaseException:
        for call in calls:
            call.discard()
        raise


def _key_of(element: Any) -> Any:
    pair_type(element)
    key = element[0]
    if not has_hash(key):
        raise unhashable(key)
    return key


class AsyncRuns:
    """The async stages of a task.

    Attributes:
      runs: the stages at work, in the plan's order.
    """

    def __init__(self) -> None:
        self.runs: list[AsyncRun] = []

    def open(
        self,
        stage: Stage,
        emit: Emit,
        counts: Counts,
        views: SideInputViews,
        step_clock: StepClock | None,
        unfinished: set[PendingStep] | None,
    ) -> AsyncRun:
        """Return a stage at work, one of these from now on."""
        step_clock = step_clock or UnboundedSteps()
        executor = AsyncExecutor(stage, emit, views, step_clock.wakeup)
        self.runs.append(AsyncRun(executor, counts, step_clock, unfinished))
        return self.runs[-1]

    @property
    def has_results(self) -> bool:
        """Return True if calls have ended whose outputs are to be emitted."""
        return any(run.has_results for run in self.runs)

    def emit_results(self) -> None:
        """Emit the outputs of the calls that have ended, as far as their order allows."""
        for run in self.runs:
            if run.has_results:
                run.emit_results()

    def are_full(self, unfinished: set[PendingStep]) -> bool:
        """Return True if all steps that have pending work are among these, and wait for the end of a call."""
        return unfinished.issubset(self.runs) and all(run.is_full for run in self.runs if run.has_pending)

    @property
    def has_records(self) -> bool:
        """Return True if elements are in flight, or wait for these."""
        return any(run.has_records for run in self.runs)

    def drain(self) -> None:
        """Wait for all calls, and for those that follow from their outputs."""
        for run in self.runs:
            run.drain()

    def abandon(self) -> None:
        """Cancel all calls, after a failure."""
        for run in self.runs:
            run.executor.calls.close()
