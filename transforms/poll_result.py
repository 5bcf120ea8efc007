"""Results of polling functions, and termination of polling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from ..stored import stored_as
from ..windowing import TimestampedValue
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import MAX_TIMESTAMP, Timestamp

T = TypeVar("T")


@stored_as("poll-result", 1)
@attrs.frozen
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


@attrs.frozen
class Termination:
    """Spans after which an element is not polled any more, in microseconds, or None for never.

    Attributes:
      total: the span since the first poll.
      quiet: the span without new outputs.
    """

    total: int | None = None
    quiet: int | None = None


def never() -> Termination:
    """Poll until the function's result is complete."""
    return Termination()


def after_total_of(duration: Any) -> Termination:
    """Poll for a number of seconds, or for a `Duration`.

    >>> after_total_of(60)
    Termination(total=60000000, quiet=None)
    """
    return Termination(total=micros_of_span(duration))
