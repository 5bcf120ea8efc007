"""A stateful ParDo in this process: fed and advanced."""

from __future__ import annotations

from ...sdk.metrics import MetricsContainer
from ...windowing.timestamp import MAX_MICROS
from .clock import Clock
from .dataflow import StageRun
from .grouping import DROPPED_LATE
from .stateful import StatefulExecutor


class KeyedRun:
    """A stateful ParDo.

    Where the whole input is bounded, no time will come when it is over: what is still set then to a
    processing time fires at the end.
    """

    def __init__(self, run: StageRun, clock: Clock, is_batch: bool, metrics: MetricsContainer) -> None:
        assert isinstance(run.executor, StatefulExecutor)
        self._run = run
        self._executor = run.executor
        self._clock = clock
        self._is_batch = is_batch
        self._counters = metrics.step(run.executor.label).counters
        self._is_done = False
        # A clock that moves makes groupings before this one fire: what they put out comes at the new time.
        run.tick = self._tick

    @property
    def executor(self) -> StatefulExecutor:
        """The ParDo at work."""
        return self._executor

    def next_processing_time(self) -> int | None:
        """The processing time, in microseconds, at which a timer will fire."""
        return self._executor.next_processing_time()

    def next_event_time(self) -> int | None:
        """The watermark, in microseconds, at which a timer will fire or a window expire."""
        return self._executor.next_event_time()

    def advance(self, watermark: int) -> int:
        """Move the input watermark and the clock on; the output watermark."""
        kept = self._run.hold()
        if kept is not None:
            watermark = min(watermark, kept - 1)
        executor = self._executor
        self._tick()
        if not self._is_batch:
            executor.advance_watermark(watermark)
        elif watermark >= MAX_MICROS and not self._is_done:
            self._is_done = True
            executor.finish()
        if executor.dropped:
            self._counters[DROPPED_LATE] += executor.dropped
            executor.dropped = 0
        held = executor.hold()
        # A window is over when the watermark is at its last microsecond: so what is yet to come
        # at a time holds the watermark just before it.
        return watermark if held is None else min(watermark, held - 1)

    def _tick(self) -> None:
        self._executor.advance_processing_time(self._clock.now)
