"""AfterEach: logically, its triggers in sequence.

>>> from penstock.triggers import AfterCount, AfterEach, AfterWatermark, Repeatedly
>>> AfterEach(AfterCount(10), AfterWatermark(), Repeatedly(AfterCount(1)))
AfterEach(AfterCount(10), AfterWatermark(), Repeatedly(AfterCount(1)))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data_loss import DataLossReason
from ..lifetime import FINISHED, begun, fired, is_finished, merged, unfinished
from ..trigger import Trigger, TriggerContext
from .after_any import AfterAny
from .composite import Composite
from .repeatedly import Repeatedly


class AfterEach(Composite):
    """Trigger that fires as its first trigger until that finishes, then as the next; finishes with the last.

    A trigger sees the elements of its own turn only.  After a merge of windows, the turn is that of the first trigger
    that has not finished in all of them.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, AfterEach, Repeatedly
    >>> stream = TestStream().add_elements([1]).add_elements([2]).add_elements([4]).add_elements([8]).add_elements([16])
    >>> each = AfterEach(AfterCount(1), Repeatedly(AfterCount(2)))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), each, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    1
    6
    24
    """

    def is_over(self, parts: Sequence[Any]) -> bool:
        return is_finished(self.triggers[-1], parts[-1])

    # Its state is that of each trigger: finished before the current one, None behind it.
    def pairs(self, state: Any) -> list[tuple[Trigger, Any]]:
        for part, own in zip(self.triggers, self.parts(state)):
            if not is_finished(part, own):
                return [(part, own)]
        return []

    def begun(self, context: TriggerContext) -> Any:
        return self._in_turn(0, begun(self.triggers[0], context), ())

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        if self.is_finished(state):
            return state
        turn, own = self._turn(state)
        return self._in_turn(turn, self.triggers[turn].on_element(own, element, context), self.parts(state))

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        started = unfinished(states)
        if not started:
            return FINISHED if FINISHED in states else None
        result: list[Any] = []
        for part, column in zip(self.triggers, zip(*(self.parts(state) for state in started))):
            result.append(merged(part, column, context))
            if not is_finished(part, result[-1]):
                break
        return (*result, *[None] * (len(self.triggers) - len(result)))

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return not self.is_finished(state) and any(self.ready(state, context))

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        turn, own = self._turn(state)
        parts = self._in_turn(turn, fired(self.triggers[turn], own, context), self.parts(state))
        if not is_finished(self.triggers[turn], parts[turn]):
            return parts, False
        if turn + 1 == len(self.triggers):
            return parts, True
        return self._in_turn(turn + 1, begun(self.triggers[turn + 1], context), parts), False

    def _turn(self, state: Any) -> tuple[int, Any]:
        parts = self.parts(state)
        for turn, (part, own) in enumerate(zip(self.triggers, parts)):
            if not is_finished(part, own):
                return turn, own
        return len(parts) - 1, parts[-1]

    def _in_turn(self, turn: int, own: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*parts[:turn], own, *[None] * (len(self.triggers) - turn - 1))

    def continuation(self) -> Trigger:
        return Repeatedly(AfterAny(*(part.continuation() for part in self.triggers)))

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        reasons = [part.may_lose_data(windowing) for part in self.triggers]
        if all(DataLossReason.MAY_FINISH in reason for reason in reasons):
            return DataLossReason.MAY_FINISH
        return DataLossReason.NO_POTENTIAL_LOSS
