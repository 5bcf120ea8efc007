"""Always: logically, true: whenever something has come, it comes out.

>>> from penstock.triggers import Always
>>> Always()
Always()
"""

from __future__ import annotations

from collections.abc import Sequence

from .trigger import Trigger, TriggerContext


class Always(Trigger):
    """Fires for every bundle, with all that it brought."""

    # Its state is whether something has come since it fired.
    def on_element(self, state: bool | None, element: object, context: TriggerContext) -> bool:
        return True

    def on_merge(self, states: Sequence[bool | None], context: TriggerContext) -> bool:
        return any(states)

    def should_fire(self, state: bool | None, context: TriggerContext) -> bool:
        return bool(state)

    def on_fire(self, state: bool | None, context: TriggerContext) -> tuple[bool, bool]:
        return False, False

    def __repr__(self) -> str:
        return "Always()"
