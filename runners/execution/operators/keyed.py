"""A stateful ParDo as a step: its elements, its watermark and its clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....sdk.metrics import MetricsContainer
from ....windowing.timestamp import MAX_MICROS
from ..clock import Clock
from ..shuffle.reader import in_order_of_time
from ..state.stateful_pardo import StatefulExecutor
from .dataflow import StageRun
from .grouping import DROPPED_LATE


class KeyedRun:
    """A stateful ParDo.

    When the input ends, no time passes any more: processing-time timers that are still set fire at the end, so that a
    drained stream has the results of a batch.  Where a script sets the clock, timers beyond its last time do not fire.
    """

    def __init__(
        self, run: StageRun, clock: Clock, is_batch: bool, metrics: MetricsContainer, has_script: bool = False
    ) -> None:
        assert isinstance(run.executor, StatefulExecutor)
        self._run = run
        self.executor = run.executor
        self._clock = clock
        self._is_batch = is_batch
        self._has_script = has_script
        self._counters = metrics.step(run.executor.label).counters
        self._is_done = False
        # Advancing the clock makes upstream groupings fire, and their results arrive at the new time.
        run.tick = self.pass_time

    @property
    def kept(self) -> int:
        """Return the number of state cells in memory."""
        return len(self.executor.state)

    def next_processing_time(self) -> int | None:
        """Return the processing time, in microseconds, at which the next timer fires."""
        return self.executor.next_processing_time()

    def next_event_time(self) -> int | None:
        """Return the watermark, in microseconds, at which the next timer fires or window expires."""
        return self.executor.next_event_time()

    def advance(self, watermark: int) -> int:
        """Advance the input watermark and the clock; return the output watermark."""
        kept = self._run.hold()
        if kept is not None:
            watermark = min(watermark, kept)
        executor = self.executor
        self.pass_time()
        if watermark >= MAX_MICROS and not self._has_script:
            if not self._is_done:
                executor.finish()
                self._run.fire_due()
                if not executor.is_due:
                    executor.begin_anew()
                    self._is_done = True
        elif not self._is_batch and watermark > executor.watermark:
            executor.watermark = watermark
            self._run.fire_due()
            self._drop_expired()
        if executor.dropped:
            self._counters[DROPPED_LATE] += executor.dropped
            executor.dropped = 0
        held = executor.hold()
        return watermark if held is None else min(watermark, held)

    def finish(self) -> None:
        """Advance the watermark to infinity; then reset, for the next range of keys of a bounded input."""
        self.advance(MAX_MICROS)
        self._is_done = False

    def receive_blocks(self, blocks: Iterable[bytes]) -> Iterator[None]:
        """Process a key group of a bounded input in the order of event times."""
        for bundle in in_order_of_time(blocks):
            self._run.receive(bundle)
            yield

    def look_at_restored(self) -> None:
        """Note whether work of the snapshot is due."""
        self._run.look_at_pending()

    def pass_time(self) -> None:
        """Advance the clock only."""
        executor = self.executor
        if self._clock.now > executor.processing_time:
            executor.processing_time = self._clock.now
            self._run.fire_due()
            self._drop_expired()

    def _drop_expired(self) -> None:
        """Remove what has expired, until none remains or the step has taken its time."""
        while self.executor.drop_expired() and not self._run.must_yield():
            pass
