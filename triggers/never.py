"""Never: logically, false: all elements are emitted in one pane when the window expires.

>>> from penstock.triggers import Never
>>> Never()
Never()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .trigger import Trigger, TriggerContext


class Never(Trigger):
    """Trigger that never fires: a window has only its closing pane."""

    def on_element(self, state: Any, element: object, context: TriggerContext) -> None:
        return None

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> None:
        return None

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return False

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        return None, False

    def __repr__(self) -> str:
        return "Never()"
