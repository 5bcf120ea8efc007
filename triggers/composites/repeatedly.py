"""Repeatedly: logically, a trigger that restarts whenever it finishes.

>>> from penstock.triggers import AfterCount, Repeatedly
>>> Repeatedly(AfterCount(2))
Repeatedly(AfterCount(2))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..lifetime import Lifetime, begun, fired, is_finished, merged
from ..trigger import Trigger, TriggerContext
from .composite import check_trigger


class Repeatedly(Lifetime):
    """Trigger that fires whenever `underlying` fires, and never finishes.

    Attributes:
      underlying: the trigger.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, Repeatedly
    >>> stream = TestStream().add_elements([1]).add_elements([2])
    >>> each = Repeatedly(AfterCount(1))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), each, AccumulationMode.ACCUMULATING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    1
    3
    """

    def __init__(self, underlying: Trigger) -> None:
        check_trigger("Repeatedly", underlying)
        self.underlying = underlying
        self.element_wise = underlying.element_wise

    # Its state is the trigger's, which never stays finished.
    def begun(self, context: TriggerContext) -> Any:
        return begun(self.underlying, context)

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        return self.underlying.on_element(state, element, context)

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        return merged(self.underlying, states, context)

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return self.underlying.should_fire(state, context)

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        after = fired(self.underlying, state, context)
        return (begun(self.underlying, context) if is_finished(self.underlying, after) else after), False

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        return self.underlying.next_event_time(state, context)

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        return self.underlying.next_processing_time(state, context)

    def signals(self) -> frozenset[str]:
        return self.underlying.signals()

    def percentiles(self) -> frozenset[float]:
        return self.underlying.percentiles()

    def continuation(self) -> Trigger:
        return Repeatedly(self.underlying.continuation())

    def has_ontime_pane(self) -> bool:
        return self.underlying.has_ontime_pane()

    def __repr__(self) -> str:
        return f"Repeatedly({self.underlying!r})"
