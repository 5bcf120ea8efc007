"""AfterWatermark: logically, "the watermark has passed the end of the window".

With early results every minute before that, and one for every late element after it:

>>> from penstock.triggers import AfterCount, AfterProcessingTime, AfterWatermark
>>> AfterWatermark(early=AfterProcessingTime(align_to=60), late=AfterCount(1))
AfterWatermark(early=AfterProcessingTime(align_to=60), late=AfterCount(1))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..persistence import stored_as
from .composites.composite import check_trigger, earliest
from .composites.repeatedly import Repeatedly
from .data_loss import DataLossReason
from .lifetime import FINISHED, Lifetime, begun
from .trigger import Trigger, TriggerContext


@stored_as("trigger-phase", 1)
class Phase(NamedTuple):
    """The phase before or after the firing on time, and the state of its trigger."""

    is_late: bool
    own: Any = None


class AfterWatermark(Lifetime):
    """Trigger that fires when the watermark passes the end of the window, and before and after by other triggers.

    It fires on time even without new elements since the last early firing.  After a merge the merged window's end is
    decisive: until the watermark passes it, firings are early again, although one of the windows may have fired on
    time.

    Args:
      early: the trigger of early panes, repeated.
      late: the trigger of late panes, repeated; without it, the on-time pane is the last.

    Source: Dataflow Model, section 2.3 (AtWatermark).

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, AfterWatermark
    >>> at = beam.window.TimestampedValue
    >>> stream = TestStream().add_elements([at(1, 5)]).advance_watermark_to(60).add_elements([at(2, 6)])
    >>> def shown(total, pane=beam.DoFn.PaneInfoParam):
    ...     print(pane.timing, total)
    >>> with beam.Pipeline() as p:
    ...     trigger = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
    ...     each = beam.window.FixedWindows(60)
    ...     windows = beam.WindowInto(each, trigger, AccumulationMode.ACCUMULATING, allowed_lateness=30)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(shown)
    EARLY 1
    ON_TIME 1
    LATE 3
    """

    def __init__(self, early: Trigger | None = None, late: Trigger | None = None) -> None:
        self.early = _repeated("early", early)
        self.late = _repeated("late", late)
        self.element_wise = any(part.element_wise for part in self._parts())

    def begun(self, context: TriggerContext) -> Phase | None:
        if context.watermark >= context.end_of_window:
            return None
        return Phase(False, self.early and begun(self.early, context))

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        if state is FINISHED:
            return FINISHED
        phase = state or Phase(False)
        part = self._part(phase)
        return phase if part is None else Phase(phase.is_late, part.on_element(phase.own, element, context))

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        if not any(states):
            return None
        phases = [state for state in states if isinstance(state, Phase)]
        if context.watermark < context.end_of_window:
            return self._joined(False, phases, context)
        if FINISHED in states:
            return FINISHED
        return self._joined(any(phase.is_late for phase in phases), phases, context)

    # The state of the other phase is dropped: this phase emits its elements.
    def _joined(self, is_late: bool, phases: list[Phase], context: TriggerContext) -> Phase:
        part = self.late if is_late else self.early
        own = [phase.own for phase in phases if phase.is_late == is_late]
        return Phase(is_late, part.on_merge(own, context) if part and own else part and begun(part, context))

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        if state is None or state is FINISHED:
            return False
        if not state.is_late and context.watermark >= context.end_of_window:
            return True
        part = self._part(state)
        return part is not None and part.should_fire(state.own, context)

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        if not state.is_late and context.watermark >= context.end_of_window:
            if self.late is None:
                return FINISHED, True
            return Phase(True, begun(self.late, context)), False
        part = self._part(state)
        assert part is not None
        return Phase(state.is_late, part.on_fire(state.own, context)[0]), False

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        if state is None or state is FINISHED:
            return None
        part = self._part(state)
        own = None if part is None else part.next_event_time(state.own, context)
        return own if state.is_late else earliest([own, context.end_of_window])

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        part = None if state is None or state is FINISHED else self._part(state)
        return None if part is None else part.next_processing_time(state.own, context)

    def signals(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.signals() for part in self._parts()))

    def percentiles(self) -> frozenset[float]:
        return frozenset[float]().union(*(part.percentiles() for part in self._parts()))

    def continuation(self) -> Trigger:
        return AfterWatermark(self.early and self.early.continuation(), self.late and self.late.continuation())

    def has_ontime_pane(self) -> bool:
        return True

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        if self.late is None and windowing.allowed_lateness > 0:
            return DataLossReason.MAY_FINISH
        return DataLossReason.NO_POTENTIAL_LOSS

    def _part(self, phase: Phase) -> Repeatedly | None:
        return self.late if phase.is_late else self.early

    def _parts(self) -> list[Repeatedly]:
        return [part for part in (self.early, self.late) if part is not None]

    def __repr__(self) -> str:
        parts = {"early": self.early, "late": self.late}
        given = [f"{name}={part.underlying!r}" for name, part in parts.items() if part is not None]
        return f"AfterWatermark({', '.join(given)})"


def _repeated(name: str, trigger: Trigger | None) -> Repeatedly | None:
    if trigger is None:
        return None
    check_trigger("AfterWatermark", trigger, f"a trigger for `{name}`")
    return trigger if isinstance(trigger, Repeatedly) else Repeatedly(trigger)
