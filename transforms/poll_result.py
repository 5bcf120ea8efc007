"""What a function that is watched finds, and when nobody asks it any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import attrs

from ..stored import stored_as
from ..windowing import TimestampedValue
from ..windowing.duration import micros_of_span
from ..windowing.timestamp import Timestamp

T = TypeVar("T")


@stored_as("poll-result", 1)
@attrs.frozen
class PollResult(Generic[T]):
    """What a function that is watched found.

    Attributes:
      outputs: all that there is, new or not; values, or `TimestampedValue`s.
      watermark: nothing new will be of before this time; None if that isn't known.
      is_complete: whether it will never find anything new, as a watermark at the end of time says too.
      is_in_order: whether nothing new will be of before what is new now, so that the watermark is known from that.

    >>> PollResult.complete(["a"], timestamp=5).outputs
    (TimestampedValue('a', Timestamp(5)),)
    """

    outputs: Sequence[Any]
    watermark: Timestamp | None = None
    is_complete: bool = False
    is_in_order: bool = False

    @classmethod
    def incomplete(cls, outputs: Iterable[Any], timestamp: Any = None) -> PollResult[Any]:
        """Outputs, after which more will come, of no earlier time; `timestamp` for those that have none."""
        return cls(_stamped(outputs, timestamp), is_in_order=True)

    @classmethod
    def complete(cls, outputs: Iterable[Any], timestamp: Any = None) -> PollResult[Any]:
        """The last outputs; `timestamp` for those that have none."""
        return cls(_stamped(outputs, timestamp), is_complete=True)

    def with_watermark(self, watermark: Any) -> PollResult[T]:
        """The same with a watermark: nothing new will be of before it."""
        return attrs.evolve(self, watermark=Timestamp.of(watermark), is_in_order=False)


def _stamped(outputs: Iterable[Any], timestamp: Any) -> tuple[Any, ...]:
    if timestamp is None:
        return tuple(outputs)
    return tuple(o if isinstance(o, TimestampedValue) else TimestampedValue(o, timestamp) for o in outputs)


class PollFn:
    """What a function that is watched may be a subclass of; any other will do as well."""

    def __call__(self, element: Any) -> PollResult[Any]:
        """All that there is for an element now."""
        raise NotImplementedError


@attrs.frozen
class Termination:
    """When nobody looks for an element any more, in microseconds; None for never.

    Attributes:
      total: so long after the first look.
      quiet: when for so long nothing new was found.
    """

    total: int | None = None
    quiet: int | None = None


def never() -> Termination:
    """Look until the function says that it is complete."""
    return Termination()


def after_total_of(duration: Any) -> Termination:
    """Look for so many seconds, or for a `Duration`.

    >>> after_total_of(60)
    Termination(total=60000000, quiet=None)
    """
    return Termination(total=micros_of_span(duration))
