"""Always: logically, true: every arrival is emitted.

>>> from penstock.triggers import Always
>>> Always()
Always()
"""

from __future__ import annotations

from collections.abc import Sequence

from .trigger import Trigger, TriggerContext


class Always(Trigger):
    """Trigger that fires after every bundle, with all of its elements.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, Always
    >>> stream = TestStream().add_elements([1, 2]).add_elements([4])
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), Always(), AccumulationMode.ACCUMULATING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    3
    7
    """

    # Its state is True if an element has arrived since it fired.
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
