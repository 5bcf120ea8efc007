"""OrFinally: logically, a trigger UNTIL another one, which fires as well and ends it.

The paper's RepeatUntil, a result every minute until the watermark passes:

>>> from penstock.triggers import AfterProcessingTime, AfterWatermark, OrFinally, Repeatedly
>>> OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
"""

from __future__ import annotations

from typing import Any

from .after_all import AfterAll
from .after_any import AfterAny
from .after_each import AfterEach
from .after_processing_time import AfterProcessingTime
from .after_watermark import AfterWatermark
from .always import Always
from .composite import check_trigger
from .data_loss import DataLossReason
from .default import DefaultTrigger
from .lifetime import FINISHED
from .never import Never
from .repeatedly import Repeatedly
from .trigger import Trigger, TriggerContext


class OrFinally(AfterAny):
    """Trigger that fires when `main` or `until` fires, and finishes when `until` fires or `main` finishes.

    Attributes:
      main: the trigger that fires until then.
      until: the trigger that ends it by firing.

    Source: Dataflow Model, figures 13 and 14 (RepeatUntil).

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, AfterWatermark, OrFinally, Repeatedly
    >>> at = beam.window.TimestampedValue
    >>> stream = TestStream().add_elements([at(1, 5)]).add_elements([at(2, 6)]).advance_watermark_to(60)
    >>> trigger = OrFinally(Repeatedly(AfterCount(1)), AfterWatermark())
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.FixedWindows(60), trigger, AccumulationMode.ACCUMULATING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    1
    3
    3
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        check_trigger("OrFinally", until)
        super().__init__(main, first_firing(until))
        self.main = main
        self.until = until

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        ends = self.triggers[1].should_fire(self.parts(state)[1], context)
        after, finished = super().on_fire(state, context)
        # A user's trigger may fire repeatedly, but its first firing is the end.
        return ((None, FINISHED), True) if ends and not finished else (after, finished)

    def continuation(self) -> Trigger:
        return Repeatedly(OrFinally(self.main.continuation(), self.until.continuation()))

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        if _may_fire_before_expiry(self.triggers[1], windowing):
            return DataLossReason.MAY_FINISH
        return self.main.may_lose_data(windowing)

    def __repr__(self) -> str:
        return f"OrFinally({self.main!r}, {self.until!r})"


def first_firing(trigger: Trigger) -> Trigger:
    """Return the trigger that fires at the first firing of this one, and then has finished.

    >>> from penstock.triggers import AfterCount, AfterWatermark, DefaultTrigger, Repeatedly
    >>> first_firing(Repeatedly(AfterCount(2))), first_firing(DefaultTrigger())
    (AfterCount(2), AfterWatermark())
    >>> first_firing(AfterWatermark(early=AfterCount(2)))
    AfterAny(AfterCount(2), AfterWatermark())
    """
    if isinstance(trigger, DefaultTrigger):
        return AfterWatermark()
    if isinstance(trigger, Always):
        return AfterProcessingTime()
    if isinstance(trigger, AfterWatermark):
        return AfterWatermark() if trigger.early is None else AfterAny(first_firing(trigger.early), AfterWatermark())
    if isinstance(trigger, Repeatedly):
        return first_firing(trigger.underlying)
    if isinstance(trigger, AfterEach):
        return first_firing(trigger.triggers[0])
    if isinstance(trigger, AfterAll):
        return AfterAll(*map(first_firing, trigger.triggers))
    # OrFinally included.
    if isinstance(trigger, AfterAny):
        return AfterAny(*map(first_firing, trigger.triggers))
    return trigger


def _may_fire_before_expiry(first: Trigger, windowing: Any) -> bool:
    if isinstance(first, Never):
        return False
    if isinstance(first, AfterWatermark):
        return bool(windowing.allowed_lateness > 0)
    if isinstance(first, AfterAll):
        return all(_may_fire_before_expiry(part, windowing) for part in first.triggers)
    if isinstance(first, AfterAny):
        return any(_may_fire_before_expiry(part, windowing) for part in first.triggers)
    return True
