"""OrFinally: logically, a trigger UNTIL another one, which fires too and ends it.

The paper's RepeatUntil, a result every minute until the watermark passes:

>>> from penstock.triggers import AfterProcessingTime, AfterWatermark, OrFinally, Repeatedly
>>> OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .after_all import AfterAll
from .after_any import AfterAny
from .after_watermark import AfterWatermark
from .composite import Composite
from .data_loss import DataLossReason
from .default import DefaultTrigger
from .lifetime import FINISHED, is_finished
from .never import Never
from .repeatedly import Repeatedly
from .trigger import Trigger, TriggerContext


class OrFinally(Composite):
    """Fires when either does; finishes when `until` fires, or `main` finishes.

    Source: Dataflow Model, figures 13 and 14 (RepeatUntil).
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        super().__init__(main, until)

    @property
    def main(self) -> Trigger:
        """What fires until then."""
        return self.triggers[0]

    @property
    def until(self) -> Trigger:
        """What ends it by firing."""
        return self.triggers[1]

    def is_over(self, parts: Sequence[Any]) -> bool:
        return any(is_finished(part, own) for part, own in zip(self.triggers, parts))

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return not self.is_finished(state) and any(self.ready(state, context))

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        ends = self.until.should_fire(self.parts(state)[1], context)
        after, finished = super().on_fire(state, context)
        if ends and not finished:
            # `until` would go on by itself, but its first firing is the end.
            return (None, FINISHED), True
        return after, finished

    def continuation(self) -> Trigger:
        return Repeatedly(OrFinally(self.main.continuation(), self.until.continuation()))

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        if _may_fire_before_expiry(self.until, windowing):
            return DataLossReason.MAY_FINISH
        return self.main.may_lose_data(windowing)


def _may_fire_before_expiry(trigger: Trigger, windowing: Any) -> bool:
    if isinstance(trigger, Never):
        return False
    if isinstance(trigger, DefaultTrigger):
        return bool(windowing.allowed_lateness > 0)
    if isinstance(trigger, AfterWatermark):
        return trigger.early is not None or windowing.allowed_lateness > 0
    if isinstance(trigger, AfterAll):
        return all(_may_fire_before_expiry(part, windowing) for part in trigger.triggers)
    if isinstance(trigger, AfterAny):
        return any(_may_fire_before_expiry(part, windowing) for part in trigger.triggers)
    if isinstance(trigger, Repeatedly):
        return _may_fire_before_expiry(trigger.underlying, windowing)
    return True
