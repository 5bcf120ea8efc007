"""DataDrivenTrigger: logically, a user's condition on the elements.

A trigger that fires on a punctuation, which marks the end of a group of elements:

>>> from penstock.triggers import DataDrivenTrigger, Repeatedly
>>> class AfterFullStop(DataDrivenTrigger):
...     def update(self, own, element, pane):
...         return own or element.endswith(".")
...     def is_ready(self, own, pane):
...         return bool(own)
...     def merge(self, owns, pane):
...         return any(owns)
>>> Repeatedly(AfterFullStop())
Repeatedly(AfterFullStop())

A trigger that fires on a spike, an element far above the mean of the pane's earlier elements:

>>> class AfterSpike(DataDrivenTrigger):
...     def __init__(self, factor):
...         self.factor = factor
...     def update(self, own, element, pane):
...         total, spiked = own or (0, False)
...         mean = total / max(pane.count - 1, 1)
...         return total + element, spiked or (pane.count > 1 and element > self.factor * mean)
...     def is_ready(self, own, pane):
...         return own is not None and own[1]
...     def merge(self, owns, pane):
...         return sum(total for total, _ in owns), any(spiked for _, spiked in owns)
>>> AfterSpike(3).element_wise
True
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import attrs

from ..frozen import frozen
from ..persistence import stored_as
from ..windowing.timestamp import Timestamp
from .after_count import AfterCount
from .data_loss import DataLossReason
from .lifetime import Once
from .trigger import Trigger, TriggerContext


@frozen
class PaneSoFar:
    """Properties of a pane for a data-driven trigger.

    Attributes:
      count: the number of elements, the current one included.
      bytes: their size in the encoding of a shuffle; 0 unless the trigger `measures`.
      watermark: the input watermark.
      processing_time: the processing time.
      end_of_window: the last instant of the window.

    >>> from penstock.trigger import PaneSoFar
    >>> from penstock.windowing import Timestamp
    >>> pane = PaneSoFar(3, 0, Timestamp(50), Timestamp(1000), Timestamp(60))
    >>> pane.count, pane.end_of_window - pane.watermark
    (3, Duration(10))
    """

    count: int
    bytes: int
    watermark: Timestamp
    processing_time: Timestamp
    end_of_window: Timestamp


@stored_as("trigger-seen", 1)
@frozen
class Seen:
    """The state of a data-driven trigger: count and size, and the state of the user's methods."""

    count: int
    bytes: int
    own: Any


class DataDrivenTrigger(Once):
    """Base class of triggers with conditions on the elements.

    A subclass defines its state after an element (`update`), the condition to fire (`is_ready`), and the state after a
    merge of windows (`merge`).  The state is immutable and picklable, and None before a pane's first element.  The
    trigger fires once and has finished; `Repeatedly` restarts it.

    Attributes:
      measures: whether `PaneSoFar.bytes` is computed, for which each element is encoded.

    >>> import penstock as beam
    >>> from penstock.testing import TestStream
    >>> from penstock.trigger import AccumulationMode, DataDrivenTrigger, Repeatedly
    >>> class AfterTotal(DataDrivenTrigger):
    ...     def update(self, own, element, pane):
    ...         return (own or 0) + element
    ...     def is_ready(self, own, pane):
    ...         return own >= 100
    ...     def merge(self, owns, pane):
    ...         return sum(owns)
    >>> stream = TestStream().add_elements([70]).add_elements([40]).add_elements([5])
    >>> by_total = Repeatedly(AfterTotal())
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(beam.window.GlobalWindows(), by_total, AccumulationMode.DISCARDING)
    ...     sums = p | stream.advance_watermark_to_infinity() | windows | beam.CombineGlobally(sum).without_defaults()
    ...     _ = sums | beam.Map(print)
    110
    5
    """

    element_wise = True
    measures: bool = False

    def update(self, own: Any, element: Any, pane: PaneSoFar) -> Any:
        """Return the state after one more element.  For a (key, value) pair, `element` is the value."""
        return own

    @abstractmethod
    def is_ready(self, own: Any, pane: PaneSoFar) -> bool:
        """Return whether a pane is due."""

    def merge(self, owns: Sequence[Any], pane: PaneSoFar) -> Any:
        """Return the state of a merged window.  No state of `owns` is None."""
        if all(own == owns[0] for own in owns):
            return owns[0]
        raise NotImplementedError(
            f"{type(self).__name__}.merge: two windows merge, with the states {owns[0]!r} and "
            f"{owns[-1]!r}; override merge(owns, pane) to return the state of the merged window"
        )

    def seen(self, state: Seen | None, element: Any, context: TriggerContext) -> Seen:
        before = state or Seen(0, 0, None)
        size = context.size_of(element) if self.measures else 0
        now = attrs.evolve(before, count=before.count + 1, bytes=before.bytes + size)
        return attrs.evolve(now, own=self.update(before.own, element, _pane(now, context)))

    def joined(self, states: Sequence[Seen], context: TriggerContext) -> Seen:
        sums = Seen(sum(state.count for state in states), sum(state.bytes for state in states), None)
        owns = [state.own for state in states]
        return attrs.evolve(sums, own=owns[0] if len(owns) == 1 else self.merge(owns, _pane(sums, context)))

    def ready(self, state: Seen, context: TriggerContext) -> bool:
        return self.is_ready(state.own, _pane(state, context))

    def continuation(self) -> Trigger:
        return AfterCount(1)

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        return DataLossReason.MAY_FINISH

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _pane(state: Seen, context: TriggerContext) -> PaneSoFar:
    return PaneSoFar(
        count=state.count,
        bytes=state.bytes,
        watermark=Timestamp.of_micros(context.watermark),
        processing_time=Timestamp.of_micros(context.processing_time),
        end_of_window=Timestamp.of_micros(context.end_of_window),
    )
