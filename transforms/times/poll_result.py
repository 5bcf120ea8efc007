"""Results of polling functions, and termination of polling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...windowing import TimestampedValue
from ...windowing.duration import micros_of_span
from ...windowing.timestamp import MAX_TIMESTAMP, Timestamp

T = TypeVar("T")


@stored_as("poll-result", 1)
@frozen
class PollResult(Generic[T]):
    """Result of a polling function.

    Attributes:
      outputs: all outputs, old and new ones; values, or `TimestampedValue`s.
      watermark: a lower bound of the event times of later outputs; None if unknown.
      is_complete: whether there will be no more outputs, as a watermark at the maximum timestamp implies.
      is_in_order: whether later outputs have no earlier event times, so that these outputs determine the watermark.

    >>> PollResult.complete(["a"], timestamp=5).outputs
    (TimestampedValue('a', Timestamp(5)),)
    """

    outputs: Sequence[Any]
    watermark: Timestamp | None = None
    is_complete: bool = False
    is_in_order: bool = False

    @classmethod
    def incomplete(cls, outputs: Iterable[Any], timestamp: Any = None) -> PollResult[Any]:
        """Return outputs that later ones follow, with no earlier event times; `timestamp` is the default event time."""
        return cls(_stamped(outputs, timestamp), is_in_order=True)

    @classmethod
    def complete(cls, outputs: Iterable[Any], timestamp: Any = None) -> PollResult[Any]:
        """Return the last outputs; `timestamp` is the default event time."""
        return cls(_stamped(outputs, timestamp), MAX_TIMESTAMP, is_complete=True)

    def with_watermark(self, watermark: Any) -> PollResult[T]:
        """Return the result with a watermark."""
        return attrs.evolve(self, watermark=Timestamp.of(watermark), is_in_order=False)


def _stamped(outputs: Iterable[Any], timestamp: Any) -> tuple[Any, ...]:
    if timestamp is None:
        return tuple(outputs)
    return tuple(o if isinstance(o, TimestampedValue) else TimestampedValue(o, timestamp) for o in outputs)


class PollFn:
    """Optional base class of polling functions."""

    def __call__(self, element: Any) -> PollResult[Any]:
        """Return all present outputs for an element."""
        raise NotImplementedError

    def default_output_coder(self) -> Any:
        """Return the coder of the outputs, whose type is that of the outputs; None if it is unknown."""
        return None


class TerminationCondition:
    """A condition under which `Watch` stops polling an element, with a state for each element.

    A state is stored in checkpoints; each method returns the next one.

    >>> class AfterPolls(TerminationCondition):
    ...     def __init__(self, number):
    ...         self.number = number
    ...     def for_new_input(self, now, element):
    ...         return 0
    ...     def on_poll_complete(self, state):
    ...         return state + 1
    ...     def can_stop_polling(self, now, state):
    ...         return state >= self.number
    """

    def for_new_input(self, now: Timestamp, element: Any) -> Any:
        """Return the state before the first poll."""
        raise NotImplementedError(f"{type(self).__name__}.for_new_input")

    def on_seen_new_output(self, now: Timestamp, state: Any) -> Any:
        """Return the state after a poll with new outputs."""
        return state

    def on_poll_complete(self, state: Any) -> Any:
        """Return the state after a poll."""
        return state

    def can_stop_polling(self, now: Timestamp, state: Any) -> bool:
        """Return whether the last poll was made."""
        raise NotImplementedError(f"{type(self).__name__}.can_stop_polling")

    def state_coder(self) -> Any:
        """Return the coder of the states: Beam's, which isn't called; states are stored pickled."""
        raise NotImplementedError(f"{type(self).__name__}.state_coder")

    def time_jumped(self, state: Any, micros: int) -> Any:
        """Return the state after a jump of processing time, in microseconds."""
        return state


@frozen
class Termination(TerminationCondition):
    """Spans after which an element is not polled any more, in microseconds, or None for never.

    A state is the times of the first poll, and of the last one with new outputs, in microseconds.

    Attributes:
      total: the span since the first poll.
      quiet: the span without new outputs.
    """

    total: int | None = None
    quiet: int | None = None

    def for_new_input(self, now: Timestamp, element: Any) -> tuple[int, int]:
        return now.micros, now.micros

    def on_seen_new_output(self, now: Timestamp, state: tuple[int, int]) -> tuple[int, int]:
        return state[0], now.micros

    def can_stop_polling(self, now: Timestamp, state: tuple[int, int]) -> bool:
        began, quiet_since = state
        return (self.total is not None and now.micros - began > self.total) or (
            self.quiet is not None and now.micros - quiet_since >= self.quiet
        )

    def time_jumped(self, state: tuple[int, int], micros: int) -> tuple[int, int]:
        return state[0] + micros, state[1] + micros


def never() -> Termination:
    """Poll until the function's result is complete."""
    return Termination()


def after_total_of(duration: Any) -> Termination:
    """Poll for a number of seconds, or for a `Duration`.

    >>> after_total_of(60)
    Termination(total=60000000, quiet=None)
    """
    return Termination(total=micros_of_span(duration))
