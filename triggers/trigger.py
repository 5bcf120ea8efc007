"""Trigger: decides in processing time when a window's results are emitted (Dataflow Model, section 2.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from .data_loss import DataLossReason


class TriggerContext(Protocol):
    """Environment of a trigger: times, signals and sizes.

    A test of a trigger makes one:

    >>> from penstock.triggers import AfterWatermark
    >>> class Context:
    ...     watermark, end_of_window, processing_time = 60_000_000, 60_000_000, 0
    >>> state = AfterWatermark().on_element(None, "tea", Context())
    >>> AfterWatermark().should_fire(state, Context())
    True
    """

    @property
    def watermark(self) -> int:
        """The input watermark, in microseconds of event time."""

    @property
    def processing_time(self) -> int:
        """The processing time, in microseconds."""

    @property
    def end_of_window(self) -> int:
        """The end of the window: the watermark, in microseconds, from which on all elements are late."""

    def percentile_watermark(self, percentile: float) -> int:
        """Return the watermark of a share of the input's elements, in microseconds of event time."""

    def signalled(self, name: str) -> int:
        """Return the number of signals of this name so far."""

    def size_of(self, element: Any) -> int:
        """Return the size of an element in the encoding of a shuffle, in bytes."""


class Trigger(ABC):
    """Base class of triggers, whose methods map states to states.

    The window operator stores a trigger's state for each key and window, and passes it to these methods.  It is
    immutable and picklable, and initially None.  A trigger object never changes, so one object serves all keys and
    windows.

    The operator calls `should_fire` after an element, after a merge, and when the watermark or processing time
    reaches the result of `next_event_time` or `next_processing_time`.  If it returns true, the operator emits a pane
    and calls `on_fire`.

    >>> from penstock.trigger import AfterCount
    >>> trigger = AfterCount(2)
    >>> one = trigger.on_element(None, "a", None)
    >>> two = trigger.on_element(one, "b", None)
    >>> trigger.should_fire(one, None), trigger.should_fire(two, None)
    (False, True)
    >>> trigger.on_fire(two, None)
    (<Finished.FINISHED: 'finished'>, True)
    """

    # True if the operator must call `on_element` and `should_fire` for each element.  Otherwise it calls them once for
    # each bundle and window, with None for the element.
    element_wise: bool = False

    @abstractmethod
    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        """Return the state after one more element of the window."""

    @abstractmethod
    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        """Return the state of a merged window; `context` is the merged window's."""

    @abstractmethod
    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        """Return whether a pane is due now."""

    @abstractmethod
    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        """Return the state after a pane was emitted, and whether the trigger has finished."""

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        """Return the watermark, in microseconds, at which to call `should_fire` again, or None."""
        return None

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        """Return the processing time, in microseconds, at which to call `should_fire` again, or None."""
        return None

    def signals(self) -> frozenset[str]:
        """Return the names of the signals that the trigger depends on."""
        return frozenset()

    def percentiles(self) -> frozenset[float]:
        """Return the percentile watermarks that the trigger depends on."""
        return frozenset()

    def continuation(self) -> Trigger:
        """Return the trigger for a grouping after this one, which continues this trigger."""
        return self

    def has_ontime_pane(self) -> bool:
        """Return whether the trigger fires on time even if a window has no new elements since its last pane."""
        return False

    def get_continuation_trigger(self) -> Trigger:
        """Return `continuation()`, under Beam's name."""
        return self.continuation()

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        """Return the reasons why data may not be emitted before the window expires.

        `windowing` has an `allowed_lateness`, a span of time.
        """
        return DataLossReason.NO_POTENTIAL_LOSS

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))
