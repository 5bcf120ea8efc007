"""A GroupByKeyAndWindow with triggers, as a step: its windows, its late data and its clocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.metrics import MetricName, MetricsContainer
from ....triggers import AccumulationMode, AfterCount, Repeatedly
from ....windowing.timestamp import MAX_MICROS
from ..clock import Clock, StepClock
from ..plan.fusion import Grouping
from ..state.key_types import KeyTypes
from ..user_errors import guarded
from ..windows.combining import Fold
from ..windows.retractions import SignedFold
from ..windows.triggered_operator import TriggeredWindows
from .dataflow import Dataflow, PendingStep, Receiver

# The metric that counts late elements.
DROPPED_LATE = MetricName("penstock", "dropped_late")


# Each element is a pane.
_AS_IT_ARRIVES: dict[str, Any] = {
    "trigger": Repeatedly(AfterCount(1)),
    "accumulation_mode": AccumulationMode.DISCARDING,
}


class GroupingRun(PendingStep):
    """A grouping whose triggers decide when a window emits results, and how many.  Due windows are its pending work."""

    def __init__(
        self,
        step: Grouping,
        clock: Clock,
        metrics: MetricsContainer,
        step_clock: StepClock | None = None,
        unfinished: set[PendingStep] | None = None,
    ) -> None:
        super().__init__(step_clock, unfinished)
        self._pace = self._step_clock.pace(BUNDLE_SIZE)
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self.label = step.transform.label
        fold = SignedFold if primitive.retracted else Fold
        self.fold = fold(_as_it_arrives(step.transform) if primitive.only_shuffles else step.transform)
        self.fold.setup()
        self._outputs = step.transform.outputs
        self._clock = clock
        self._counters = metrics.step(self.label).counters
        # Key types of a checkpoint, until the first elements after the restart have been compared with them.
        self.key_types: KeyTypes | None = None
        self._late = next((output for tag, output in self._outputs.items() if tag is not None), None)
        self.windows = self._new_windows()

    def _new_windows(self) -> TriggeredWindows:
        return TriggeredWindows(self.fold, self._late is not None)

    def wire(self, dataflow: Dataflow) -> None:
        """Connect the outputs."""
        self._send: Receiver = dataflow.send_to(self._outputs[None])
        self._send_late: Receiver | None = None
        if self._late is not None:
            self._send_late = dataflow.send_to(self._late)

    # Elements

    def receive(self, bundle: Bundle) -> None:
        """Process a bundle, and send the panes that fire."""
        self.pass_time()
        if self.key_types is not None and len(bundle):
            guarded(self.label, partial(self.key_types.check_elements, bundle.values))
            self.key_types = self.key_types if self.key_types.unchecked > 0 else None
        spilled = self.windows.table.spilled
        if spilled is not None:
            guarded(self.label, partial(spilled.load_for, bundle))
        guarded(self.label, partial(self.windows.process, bundle))
        self._flush()

    def look_at_restored(self) -> None:
        """Note whether work of the snapshot is due."""
        self.windows.unify_restored()
        if self._step_clock.is_bounded:
            self.windows.due.look_at_restored()
            self.note(self.windows.due.is_due)

    def resume(self) -> None:
        while self.windows.due.is_due:
            if self.windows.table.spilled is not None:
                self.windows.table.spilled.spill_excess()
            self._fire(self.windows.due.fire)
            if self.must_yield():
                break
        self.note(self.windows.due.is_due)

    def _fire(self, work: Callable[[int], int]) -> None:
        """Fire as many windows as a step may take; send the panes, in bundles that are no larger."""
        pace = self._pace
        pace.begin()
        fired = guarded(self.label, partial(work, pace.count))
        self._flush()
        pace.end(fired)

    # Clocks

    def advance(self, watermark: int) -> int:
        """Advance the input watermark and the clock; return the output watermark."""
        self.pass_time()
        # This is called after every message, and most messages advance no watermark.
        if watermark > self.windows.watermark:
            self._fire(partial(self.windows.advance_watermark, watermark))
            self._go_on()
        return self.windows.output_watermark()

    def finish(self) -> None:
        """Advance the watermark to infinity; then reset, for the next range of keys of a bounded input."""
        self.advance(MAX_MICROS)
        self.windows = self._new_windows()

    def next_processing_time(self) -> int | None:
        """Return the processing time, in microseconds, at which the next timer may fire."""
        return self.windows.times.next_processing_time()

    def next_event_time(self) -> int | None:
        """Return the watermark, in microseconds, at which the next window or timer may fire."""
        return self.windows.times.next_event_time()

    def pass_time(self) -> None:
        """Advance the clock only."""
        if self._clock.now > self.windows.processing_time:
            self._fire(partial(self.windows.advance_processing_time, self._clock.now))
            self._go_on()

    def _go_on(self) -> None:
        """Fire the rest of what a clock has made due, as far as the step has time for it."""
        if self.windows.due.is_due and not self.must_yield():
            self.resume()
        else:
            self.note(self.windows.due.is_due)

    def advance_percentile(self, percentile: float, watermark: int) -> None:
        """Advance a percentile watermark."""
        guarded(self.label, partial(self.windows.advance_percentile, percentile, watermark))
        self._flush()

    def signal(self, name: str) -> None:
        """Deliver a signal to the triggers."""
        guarded(self.label, partial(self.windows.signal, name))
        self._flush()

    def _flush(self) -> None:
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
        """Tear down the combiner."""
        self.fold.teardown()


def _as_it_arrives(transform: graph.Transform) -> graph.Transform:
    """Return a grouping that only shuffles, with a pane for each element: a bounded one would wait for the end."""
    primitive = transform.primitive
    assert isinstance(primitive, graph.GroupByKeyAndWindow)
    windowing = attrs.evolve(primitive.windowing, **_AS_IT_ARRIVES)
    return attrs.evolve(transform, primitive=attrs.evolve(primitive, windowing=windowing))
