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
    """Trigger that never fires: a window has only its closing pane.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, Never
    >>> stream = TestStream().add_elements([1]).add_elements([2])
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), Never(), AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    """

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
