"""AfterWatermarkPercentile: logically, "a share of the input is past the end of the window".

A watermark waits for the slowest element; a percentile watermark does not.  Early results when an estimated 95 of 100
elements of the window have arrived:

>>> from penstock.triggers import AfterCount, AfterWatermark, AfterWatermarkPercentile
>>> AfterWatermark(early=AfterWatermarkPercentile(0.95), late=AfterCount(1))
AfterWatermark(early=AfterWatermarkPercentile(0.95), late=AfterCount(1))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .data_loss import DataLossReason
from .lifetime import FINISHED, Once, unfinished
from .trigger import TriggerContext


class AfterWatermarkPercentile(Once):
    """Trigger that fires when the watermark of a share of the input passes the end of the window.

    It fires at the latest when the watermark of the whole input passes.  After a merge the merged window's end is
    decisive, even if it has fired for a window that ended earlier.

    Args:
      percentile: a share of the elements, above 0 and up to 1.

    Source: Dataflow Model, section 2.3.

    >>> import penstock as beam
    >>> from penstock.trigger import AccumulationMode, AfterWatermark, AfterWatermarkPercentile
    >>> trigger = AfterWatermark(early=AfterWatermarkPercentile(0.9))
    >>> windows = beam.WindowInto(beam.window.FixedWindows(60), trigger, AccumulationMode.ACCUMULATING)
    >>> windows.windowing.trigger
    AfterWatermark(early=AfterWatermarkPercentile(0.9))
    """

    def __init__(self, percentile: float) -> None:
        if not 0 < percentile <= 1:
            hint = f"; did you mean {percentile / 100}?" if 1 < percentile <= 100 else ""
            raise ValueError(f"AfterWatermarkPercentile: expected a share between 0 and 1, got {percentile!r}{hint}")
        self.percentile = float(percentile)

    # Its state is True once an element has arrived.
    def begun(self, context: TriggerContext) -> bool | None:
        return None if self._passed(context) else True

    def seen(self, state: bool | None, element: object, context: TriggerContext) -> bool:
        return True

    def joined(self, states: Sequence[bool], context: TriggerContext) -> bool:
        return True

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        if FINISHED in states and not self._passed(context):
            return True
        return super().on_merge(states, context)

    def ready(self, state: bool, context: TriggerContext) -> bool:
        return self._passed(context)

    def _passed(self, context: TriggerContext) -> bool:
        end = context.end_of_window
        return context.watermark >= end or context.percentile_watermark(self.percentile) >= end

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        return context.end_of_window if unfinished([state]) else None

    def percentiles(self) -> frozenset[float]:
        return frozenset([self.percentile])

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        return f"AfterWatermarkPercentile({self.percentile})"
