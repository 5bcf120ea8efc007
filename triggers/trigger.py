"""Trigger: when in processing time a window's results are emitted (Dataflow Model, section 2.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum, IntFlag
from typing import Any, Protocol


class AccumulationMode(IntEnum):
    """How a window's panes relate to each other (Dataflow Model, section 2.3).

    DISCARDING: a pane holds what arrived since the last one.
    ACCUMULATING: a pane holds everything so far, and replaces the last one.
    """

    DISCARDING = 1
    ACCUMULATING = 2


class DataLossReason(IntFlag):
    """Why a trigger might leave data unemitted."""

    NO_POTENTIAL_LOSS = 0
    MAY_FINISH = 1
    CONDITION_NOT_GUARANTEED = 2


class TriggerContext(Protocol):
    """What a trigger may look at: the two clocks, and its window's end."""

    @property
    def watermark(self) -> int:
        """The input watermark, in microseconds of event time."""

    @property
    def processing_time(self) -> int:
        """The clock, in microseconds."""

    @property
    def end_of_window(self) -> int:
        """The last microsecond that belongs to the window."""


class Trigger(ABC):
    """State in, state out: what a trigger remembers of one key's window is a value.

    The window operator keeps that value, and hands it to these methods.  A trigger object
    itself never changes, so that one serves every key and window.
    """

    def initial_state(self) -> Any:
        """What is remembered of a window that nothing has happened to yet."""
        return None

    @abstractmethod
    def on_element(self, state: Any, context: TriggerContext) -> Any:
        """The state after one more element of the window."""

    @abstractmethod
    def on_merge(self, states: list[Any], context: TriggerContext) -> Any:
        """The state of the window that several have merged into."""

    @abstractmethod
    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        """Whether a pane is due now."""

    @abstractmethod
    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        """The state after a pane was emitted, and whether the trigger is finished for good."""

    def event_time_timer(self, state: Any, context: TriggerContext) -> int | None:
        """The watermark at which `should_fire` has to be asked again, if any."""
        return None

    def may_lose_data(self, windowing: Any) -> DataLossReason:
        """Whether data could be left behind unemitted."""
        return DataLossReason.NO_POTENTIAL_LOSS

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))
