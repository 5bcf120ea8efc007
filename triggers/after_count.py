"""AfterCount: logically, "at least a number of elements has arrived".

>>> from penstock.triggers import AfterCount, Repeatedly
>>> Repeatedly(AfterCount(100))
Repeatedly(AfterCount(100))
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from .data_loss import DataLossReason
from .lifetime import Once
from .trigger import Trigger, TriggerContext


class AfterCount(Once):
    """Trigger that fires once a pane has `count` elements.  The counts of windows that merge are added.

    Raises `ValueError` if the count isn't a positive whole number.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, Repeatedly
    >>> stream = TestStream().add_elements([1]).add_elements([2]).add_elements([4])
    >>> every_two = Repeatedly(AfterCount(2))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), every_two, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    4
    """

    element_wise = True

    def __init__(self, count: int) -> None:
        if not is_positive(count):
            raise ValueError(f"AfterCount: count must be a positive whole number, got {count!r}")
        self.count = int(count)

    # Its state is the number of elements.
    def seen(self, state: int | None, element: object, context: TriggerContext) -> int:
        return (state or 0) + 1

    def joined(self, states: Sequence[int], context: TriggerContext) -> int:
        return sum(states)

    def ready(self, state: int, context: TriggerContext) -> bool:
        return state >= self.count

    def continuation(self) -> Trigger:
        return AfterCount(1)

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        return f"AfterCount({self.count})"


def is_positive(number: object) -> bool:
    """Return whether a value is a whole number above 0, NumPy's included."""
    return isinstance(number, Integral) and int(number) > 0
