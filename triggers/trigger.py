"""Trigger: when in processing time a window's results are emitted (Dataflow Model, section 2.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from .data_loss import DataLossReason


class TriggerContext(Protocol):
    """What a trigger may look at besides what it remembers itself."""

    @property
    def watermark(self) -> int:
        """The input watermark, in microseconds of event time."""

    @property
    def processing_time(self) -> int:
        """The clock, in microseconds."""

    @property
    def end_of_window(self) -> int:
        """The end of the window: the watermark, in microseconds, at which nothing on time can come any more."""

    def percentile_watermark(self, percentile: float) -> int:
        """What that share of the input's elements is past, in microseconds of event time."""

    def signalled(self, name: str) -> int:
        """How often the signal of this name has reached the pipeline."""

    def size_of(self, element: Any) -> int:
        """The size of an element, in bytes, encoded as it would travel."""


class Trigger(ABC):
    """State in, state out: what a trigger remembers of one key's window is a value.

    The window operator keeps that value, and hands it to these methods.  It is immutable and
    picklable, and None of a window that nothing has happened to yet.  A trigger object itself
    never changes, so one serves every key and window.

    The operator asks `should_fire` after an element, after a merge, and whenever a clock
    reaches what `next_event_time` or `next_processing_time` gave; if it is true, a pane is
    emitted and `on_fire` called.
    """

    # Whether each single element matters, and not only that there were some: the operator
    # then calls `on_element` and `should_fire` for each; otherwise once for each bundle and
    # window that it touches, with None for the element.
    element_wise: bool = False

    @abstractmethod
    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        """The state after one more element of the window."""

    @abstractmethod
    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        """The state of the window that several have merged into; `context` is the new window's."""

    @abstractmethod
    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        """Return whether a pane is due now."""

    @abstractmethod
    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        """The state after a pane was emitted, and whether the trigger is finished for good."""

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        """The watermark, in microseconds, at which to ask again; None if it makes no difference."""
        return None

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        """The processing time, in microseconds, at which to ask again; None if it makes no difference."""
        return None

    def signals(self) -> frozenset[str]:
        """The names of the signals that it listens to."""
        return frozenset()

    def percentiles(self) -> frozenset[float]:
        """The percentile watermarks that it listens to."""
        return frozenset()

    def continuation(self) -> Trigger:
        """The trigger for a grouping after this one: it passes on what this one lets through."""
        return self

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        """Return whether data could be left behind unemitted until the window closes.

        `windowing` has an `allowed_lateness`, in microseconds.
        """
        return DataLossReason.NO_POTENTIAL_LOSS

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))
