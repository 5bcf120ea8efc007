"""AfterAny: logically, an OR of its triggers.

>>> from penstock.triggers import AfterAny, AfterCount, AfterProcessingTime, Repeatedly
>>> Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime(10)))
Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime(delay=10)))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data_loss import DataLossReason
from ..lifetime import is_finished
from ..trigger import Trigger, TriggerContext
from .composite import Composite


class AfterAny(Composite):
    """Trigger that fires whenever one of its triggers fires, and finishes when one of them finishes.

    The others are unaffected.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterAny, AfterCount, AfterProcessingTime, Repeatedly
    >>> stream = TestStream().add_elements([1]).add_elements([2]).add_elements([4]).advance_processing_time(60)
    >>> either = Repeatedly(AfterAny(AfterCount(2), AfterProcessingTime(60)))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), either, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    4
    """

    def is_over(self, parts: Sequence[Any]) -> bool:
        # A loop, since a generator costs more than the few questions.
        for part, own in zip(self.triggers, parts):  # noqa: SIM110
            if is_finished(part, own):
                return True
        return False

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return not self.is_finished(state) and any(self.ready(state, context))

    def continuation(self) -> Trigger:
        return AfterAny(*(part.continuation() for part in self.triggers))

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        reasons = DataLossReason.NO_POTENTIAL_LOSS
        for part in self.triggers:
            reasons |= part.may_lose_data(windowing)
        return reasons
