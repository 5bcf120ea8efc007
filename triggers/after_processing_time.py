"""AfterProcessingTime: logically, "a span of time has passed since the pane's first element".

The paper's AtPeriod, every whole minute by the clock:

>>> from penstock.triggers import AfterProcessingTime, Repeatedly
>>> Repeatedly(AfterProcessingTime(align_to=60))
Repeatedly(AfterProcessingTime(align_to=60))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..windowing.duration import DurationTypes, micros_of_span
from ..windowing.microseconds import MICROS_PER_SECOND
from .data_loss import DataLossReason
from .lifetime import Once, unfinished
from .trigger import Trigger, TriggerContext


class AfterProcessingTime(Once):
    """Trigger that fires at a processing time that the pane's first element determines.

    After a merge of windows, the earliest time is decisive.

    Args:
      delay: seconds after the element; 0 fires with it.
      align_to: seconds; the time is rounded up to the next whole multiple, strictly after the delay: with 60, an
        element of 12:05:19 fires at 12:06:00, and one of 12:06:00 at 12:07:00.

    Raises `ValueError` for a negative delay, and for a multiple that isn't positive.
    Source: Dataflow Model, figures 7, 8, 13 and 14.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
    >>> stream = TestStream().add_elements([1]).advance_processing_time(5).add_elements([2]).advance_processing_time(5)
    >>> after_ten_seconds = Repeatedly(AfterProcessingTime(10))
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), after_ten_seconds, AccumulationMode.DISCARDING)
    ...     later = stream.add_elements([4]).advance_watermark_to_infinity()
    ...     _ = p | later | windows | beam.CombineGlobally(sum).without_defaults() | beam.Map(print)
    3
    4
    """

    def __init__(self, delay: DurationTypes = 0, align_to: DurationTypes | None = None) -> None:
        self._delay = micros_of_span(delay)
        self._period = None if align_to is None else micros_of_span(align_to)
        if self._delay < 0:
            raise ValueError(f"AfterProcessingTime: delay must not be negative, got {delay!r}")
        if self._period is not None and self._period <= 0:
            raise ValueError(f"AfterProcessingTime: align_to must be positive, got {align_to!r}")

    @property
    def delay(self) -> float:
        """Seconds after the element."""
        return _seconds(self._delay)

    @property
    def align_to(self) -> float | None:
        """Seconds to whose multiples the time is rounded up, or None."""
        return None if self._period is None else _seconds(self._period)

    # Its state is the processing time at which it fires.
    def seen(self, state: int | None, element: object, context: TriggerContext) -> int:
        if state is not None:
            return state
        at = context.processing_time + self._delay
        return at if self._period is None else (at // self._period + 1) * self._period

    def joined(self, states: Sequence[int], context: TriggerContext) -> int:
        return min(states)

    def ready(self, state: int, context: TriggerContext) -> bool:
        return context.processing_time >= state

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        return state if unfinished([state]) else None

    def continuation(self) -> Trigger:
        return AfterProcessingTime()

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        given = []
        if self._delay or self._period is None:
            given.append(f"delay={self.delay}")
        if self._period is not None:
            given.append(f"align_to={self.align_to}")
        return f"AfterProcessingTime({', '.join(given)})"


def _seconds(micros: int) -> float:
    seconds, rest = divmod(micros, MICROS_PER_SECOND)
    return micros / MICROS_PER_SECOND if rest else seconds
