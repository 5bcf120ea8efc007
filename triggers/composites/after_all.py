"""AfterAll: logically, an AND of its triggers.

>>> from penstock.triggers import AfterAll, AfterCount, AfterWatermark
>>> AfterAll(AfterCount(10), AfterWatermark())
AfterAll(AfterCount(10), AfterWatermark())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data_loss import DataLossReason
from ..lifetime import is_finished
from ..trigger import Trigger, TriggerContext
from .composite import Composite, earliest


class AfterAll(Composite):
    """Trigger that fires when all of its triggers would fire, and finishes when all of them have finished.

    It doesn't wait for a trigger that has finished before the others.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterAll, AfterCount, AfterProcessingTime, Repeatedly
    >>> stream = TestStream().add_elements([1]).advance_processing_time(60).add_elements([2]).add_elements([4])
    >>> both = Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(60)))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), both, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    4
    """

    def is_over(self, parts: Sequence[Any]) -> bool:
        return all(is_finished(part, own) for part, own in zip(self.triggers, parts))

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return not self.is_finished(state) and all(self.ready(state, context))

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        return earliest([part.next_event_time(own, context) for part, own in self._awaited(state, context)])

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        return earliest([part.next_processing_time(own, context) for part, own in self._awaited(state, context)])

    # The time that one part waits for is irrelevant while other parts prevent firing.
    def _awaited(self, state: Any, context: TriggerContext) -> list[tuple[Trigger, Any]]:
        if self.should_fire(state, context):
            return self.pairs(state)
        return [(part, own) for part, own in self.pairs(state) if not part.should_fire(own, context)]

    def continuation(self) -> Trigger:
        return AfterAll(*(part.continuation() for part in self.triggers))

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        reasons = [part.may_lose_data(windowing) for part in self.triggers]
        if all(DataLossReason.MAY_FINISH in reason for reason in reasons):
            return DataLossReason.MAY_FINISH
        return DataLossReason.NO_POTENTIAL_LOSS
