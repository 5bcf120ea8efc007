"""DefaultTrigger: logically, repeatedly "the watermark has passed the end of the window".

It fires once when the watermark passes, and then for every late element that is still
within the allowed lateness.

>>> from penstock.triggers import DefaultTrigger
>>> DefaultTrigger()
DefaultTrigger()
"""

from __future__ import annotations

from .trigger import Trigger, TriggerContext


class DefaultTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and for what is late."""

    # It remembers nothing: the watermark and the window say it all.  The window operator
    # therefore asks once a window, not once a key.
    def on_element(self, state: None, context: TriggerContext) -> None:
        return None

    def on_merge(self, states: list[None], context: TriggerContext) -> None:
        return None

    def should_fire(self, state: None, context: TriggerContext) -> bool:
        return context.watermark >= context.end_of_window

    def on_fire(self, state: None, context: TriggerContext) -> tuple[None, bool]:
        return None, False

    def event_time_timer(self, state: None, context: TriggerContext) -> int | None:
        return context.end_of_window

    def __repr__(self) -> str:
        return "DefaultTrigger()"
