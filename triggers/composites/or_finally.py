"""OrFinally: logically, a trigger UNTIL another one, which fires as well and ends it when it finishes.

The paper's RepeatUntil, a result every minute until the watermark passes:

>>> from penstock.triggers import AfterProcessingTime, AfterWatermark, OrFinally, Repeatedly
>>> OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
OrFinally(Repeatedly(AfterProcessingTime(align_to=60)), AfterWatermark())
"""

from __future__ import annotations

from ..trigger import Trigger
from .after_any import AfterAny
from .repeatedly import Repeatedly


class OrFinally(AfterAny):
    """Trigger that fires when `main` or `until` fires, and finishes when one of them finishes.

    `until` is usually a trigger that fires once.  One that goes on, such as `AfterWatermark(late=...)`, doesn't end it.

    Attributes:
      main: the trigger that fires until then.
      until: the trigger that ends it by finishing.

    Source: Dataflow Model, figures 13 and 14 (RepeatUntil); Beam's `OrFinally` for triggers that fire several times.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, AfterCount, AfterWatermark, OrFinally, Repeatedly
    >>> at = beam.window.TimestampedValue
    >>> stream = TestStream().add_elements([at(1, 5)]).add_elements([at(2, 6)]).advance_watermark_to(60)
    >>> trigger = OrFinally(Repeatedly(AfterCount(1)), AfterWatermark())
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.FixedWindows(60), trigger, AccumulationMode.ACCUMULATING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    1
    3
    3
    """

    def __init__(self, main: Trigger, until: Trigger) -> None:
        super().__init__(main, until)
        self.main = main
        self.until = until

    def continuation(self) -> Trigger:
        return Repeatedly(OrFinally(self.main.continuation(), self.until.continuation()))
