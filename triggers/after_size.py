"""AfterSize: logically, "at least a number of bytes has arrived".

>>> from penstock.triggers import AfterSize, Repeatedly
>>> Repeatedly(AfterSize(64 * 1024))
Repeatedly(AfterSize(65536))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .after_count import AfterCount, is_positive
from .data_loss import DataLossReason
from .lifetime import Once
from .trigger import Trigger, TriggerContext


class AfterSize(Once):
    """Trigger that fires once a pane's elements have `size` bytes in the encoding of a shuffle.

    The sizes of windows that merge are added.  Raises `ValueError` if the size isn't a positive whole number.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterSize, Repeatedly
    >>> stream = TestStream().add_elements(["x" * 60]).add_elements(["y" * 60]).add_elements(["z"])
    >>> by_size = Repeatedly(AfterSize(100))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), by_size, AccumulationMode.DISCARDING)
    ...     texts = p | stream.advance_watermark_to_infinity() | windows
    ...     joined = texts | beam.CombineGlobally("".join).without_defaults()
    ...     _ = joined | beam.Map(len) | beam.Map(print)
    120
    1
    """

    element_wise = True

    def __init__(self, size: int) -> None:
        if not is_positive(size):
            raise ValueError(f"AfterSize: size must be a positive whole number of bytes, got {size!r}")
        self.size = int(size)

    # Its state is the number of bytes.
    def seen(self, state: int | None, element: object, context: TriggerContext) -> int:
        return (state or 0) + context.size_of(element)

    def joined(self, states: Sequence[int], context: TriggerContext) -> int:
        return sum(states)

    def ready(self, state: int, context: TriggerContext) -> bool:
        return state >= self.size

    def continuation(self) -> Trigger:
        return AfterCount(1)

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        return f"AfterSize({self.size})"
