"""DefaultTrigger: logically, repeatedly "the watermark has passed the end of the window".

It fires when the watermark passes, and then for every late element within the allowed lateness: a shorter name for
`Repeatedly(AfterWatermark())`.

>>> from penstock.triggers import DefaultTrigger
>>> DefaultTrigger()
DefaultTrigger()
"""

from __future__ import annotations

from collections.abc import Sequence

from .lifetime import Lifetime
from .trigger import TriggerContext


class DefaultTrigger(Lifetime):
    """Trigger that fires when the watermark passes the end of the window, and for late elements.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, DefaultTrigger
    >>> at = beam.window.TimestampedValue
    >>> stream = TestStream().add_elements([at(1, 5), at(2, 6)]).advance_watermark_to(60).add_elements([at(4, 7)])
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.FixedWindows(60), DefaultTrigger(), allowed_lateness=30)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    4
    """

    # Its state is True if an element has arrived since it fired.
    def begun(self, context: TriggerContext) -> bool:
        return context.watermark < context.end_of_window

    def on_element(self, state: bool | None, element: object, context: TriggerContext) -> bool:
        return True

    def on_merge(self, states: Sequence[bool | None], context: TriggerContext) -> bool:
        return any(states)

    def should_fire(self, state: bool | None, context: TriggerContext) -> bool:
        return bool(state) and context.watermark >= context.end_of_window

    def on_fire(self, state: bool | None, context: TriggerContext) -> tuple[bool, bool]:
        return False, False

    def next_event_time(self, state: bool | None, context: TriggerContext) -> int | None:
        return context.end_of_window if state else None

    def has_ontime_pane(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "DefaultTrigger()"
