"""AfterSignal: logically, "the signal has arrived since the pane's first element".

A signal is external to the data, such as an operator's command, the end of a game, or a finished upload.

>>> from penstock.triggers import AfterSignal, Repeatedly
>>> Repeatedly(AfterSignal("flush"))
Repeatedly(AfterSignal('flush'))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .after_count import AfterCount
from .data_loss import DataLossReason
from .lifetime import Once
from .trigger import Trigger, TriggerContext


class AfterSignal(Once):
    """Trigger that fires once the signal of this name has reached the pipeline after an element.

    A signal before the pane's first element doesn't count.  After a merge, a signal for any of the windows is
    sufficient.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterSignal, Repeatedly
    >>> stream = TestStream().add_elements([1]).add_elements([2]).signal("end of day").add_elements([4])
    >>> with beam.Pipeline() as p:
    ...     on_signal = Repeatedly(AfterSignal("end of day"))
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), on_signal, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    4
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"AfterSignal: expected the name of a signal, got {name!r}")
        self.name = name

    # Its state is the number of signals before the first element.
    def seen(self, state: int | None, element: object, context: TriggerContext) -> int:
        return context.signalled(self.name) if state is None else state

    def joined(self, states: Sequence[int], context: TriggerContext) -> int:
        return min(states)

    def ready(self, state: int, context: TriggerContext) -> bool:
        return context.signalled(self.name) > state

    def signals(self) -> frozenset[str]:
        return frozenset([self.name])

    def continuation(self) -> Trigger:
        return AfterCount(1)

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        return f"AfterSignal({self.name!r})"
