"""A grouping in this process: its window operator, fed and advanced."""

from __future__ import annotations

from functools import partial

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.metrics import MetricName, MetricsContainer
from ...windowing.timestamp import MAX_MICROS
from .cells import Cells
from .clock import Clock
from .dataflow import Dataflow, Receiver
from .fold import Fold
from .folded_bundle import FoldedBundle
from .fusion import Grouping, is_final
from .key_types import KeyTypes
from .left_work import LeavingStep
from .time_slice import TimeSlice
from .triggered_windows import TriggeredWindows
from .user_code import guarded
from .window_operator import WindowOperator

# The metric that counts what came too late.
DROPPED_LATE = MetricName("penstock", "dropped_late")


class GroupingRun(LeavingStep):
    """A grouping's window operator.

    A bounded input whose windows have one result each goes through the operator's cells;
    any other one through its triggered windows.
    """

    def __init__(
        self,
        step: Grouping,
        clock: Clock,
        is_batch: bool,
        metrics: MetricsContainer,
        time_slice: TimeSlice | None = None,
        behind: set[LeavingStep] | None = None,
    ) -> None:
        super().__init__(time_slice, behind)
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self.label = step.transform.label
        self.fold = Fold(step.transform)
        self.fold.setup()
        self.operator = WindowOperator(self.fold)
        self.windows: TriggeredWindows | None = None
        self._outputs = step.transform.outputs
        self._clock = clock
        self._counters = metrics.step(self.label).counters
        self._is_done = False
        # Those of a checkpoint, until the first elements have come behind it.
        self.key_types: KeyTypes | None = None
        self._late = next((output for tag, output in self._outputs.items() if tag is not None), None)
        if not (is_batch and is_final(primitive)):
            self.windows = TriggeredWindows(self.fold, primitive.retracted, self._late is not None, self.over)

    def wire(self, dataflow: Dataflow) -> None:
        """Have results sent on."""
        self._send: Receiver = dataflow.send_to(self._outputs[None])
        self._send_late: Receiver | None = None
        if self._late is not None:
            self._send_late = dataflow.send_to(self._late)

    # What stages fold into

    @property
    def cells(self) -> Cells:
        return self.operator.cells

    def folded(self) -> None:
        """Nothing is due before the watermark moves."""

    # What comes unfolded

    def receive(self, bundle: Bundle) -> None:
        """Take in a bundle, and send on what it makes fire."""
        assert self.windows is not None
        self._tick()
        if self.key_types is not None and len(bundle):
            guarded(self.label, partial(self.key_types.check_elements, bundle.values))
            self.key_types = self.key_types if self.key_types.left > 0 else None
        if self.waits:
            self.put_off(bundle)
        else:
            self._process(bundle)

    def _process(self, bundle: Bundle) -> None:
        assert self.windows is not None
        parked = self.windows.table.parked
        if parked is not None:
            guarded(self.label, partial(parked.come_back, bundle))
        work = self.windows.merge if type(bundle) is FoldedBundle else self.windows.process
        left = guarded(self.label, partial(work, bundle))
        self._flush()
        if left:
            self.leave([(0, bundle.part(len(bundle) - left, len(bundle)))])

    def look_at_restored(self) -> None:
        """Note whether something of a snapshot is due."""
        assert self.windows is not None
        if self.over is not None:
            self.windows.look_at_restored()
            self.note(self.windows.is_behind)

    def resume(self) -> None:
        assert self.windows is not None
        if self.windows.is_behind:
            self._catch_up()
        while self.left and not self.windows.is_behind:
            _, bundle = self.left.popleft()
            self._process(bundle)
            if self.over:
                break
        self.note(self.windows.is_behind)

    # Clocks

    def advance(self, watermark: int) -> int:
        """Move the input watermark and the clock on; the output watermark."""
        if self.windows is None:
            if watermark >= MAX_MICROS and not self._is_done:
                self._is_done = True
                for bundle in self.operator.flush():
                    self._send(bundle)
            return watermark
        self._tick()
        # Called after every message, and most of them move nothing.
        if watermark > self.windows.watermark:
            guarded(self.label, partial(self.windows.advance_watermark, watermark))
            self._flush()
            self._catch_up()
        return self.windows.output_watermark()

    def next_processing_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return None if self.windows is None else self.windows.next_processing_time()

    def next_event_time(self) -> int | None:
        """The watermark, in microseconds, at which something may be due."""
        return None if self.windows is None else self.windows.next_event_time()

    def pass_time(self) -> None:
        """Move the clock on alone."""
        if self.windows is not None:
            self._tick()

    def _tick(self) -> None:
        assert self.windows is not None
        if self._clock.now > self.windows.processing_time:
            guarded(self.label, partial(self.windows.advance_processing_time, self._clock.now))
            self._flush()
            self._catch_up()

    def _catch_up(self) -> None:
        """What is due is put out portion by portion, where it has no room in memory together."""
        assert self.windows is not None
        while self.windows.is_behind and not self.over:
            if self.windows.table.parked is not None:
                self.windows.table.parked.relieve()
            guarded(self.label, self.windows.catch_up)
            self._flush()
        if self.over is not None:
            self.note(self.windows.is_behind)

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Move a percentile watermark on."""
        if self.windows is not None:
            guarded(self.label, partial(self.windows.advance_percentile, percentile, watermark))
            self._flush()

    def signal(self, name: str) -> None:
        """A signal has come."""
        if self.windows is not None:
            guarded(self.label, partial(self.windows.signal, name))
            self._flush()

    def _flush(self) -> None:
        assert self.windows is not None
        windows = self.windows
        if windows.dropped:
            self._counters[DROPPED_LATE] += windows.dropped
            windows.dropped = 0
        late = windows.taken_late()
        if late is not None and self._send_late is not None:
            self._send_late(late)
        bundle = windows.taken()
        if bundle is not None:
            self._send(bundle)

    def teardown(self) -> None:
        """The run is over."""
        self.fold.teardown()
