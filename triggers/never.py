"""Never: logically, false: nothing comes out before the window expires, then everything in one pane.

>>> from penstock.triggers import Never
>>> Never()
Never()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .trigger import Trigger, TriggerContext


class Never(Trigger):
    """Never fires: a window has its closing pane only."""

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
