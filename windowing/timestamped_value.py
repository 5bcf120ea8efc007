"""TimestampedValue: a value and its event time (Dataflow Model, section 1.3)."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic

from ..persistence import restores
from .microseconds import MICROS_PER_SECOND, micros_of_seconds
from .timestamp import MAX_MICROS, MIN_MICROS, Timestamp, TimestampTypes, in_range

_MAX_SECONDS = MAX_MICROS // MICROS_PER_SECOND
_MIN_SECONDS = -_MAX_SECONDS

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)


class TimestampedValue(Generic[T_co]):
    """An output of a user's function with an event timestamp.

    Args:
      value: any value.
      timestamp: seconds since 1970, or a Timestamp.

    Raises the errors of `Timestamp`.

    Attributes:
      at: an integer of seconds, as it was given, or a tuple with the microseconds.

    >>> from penstock.windowing import TimestampedValue
    >>> TimestampedValue("a", 5)
    TimestampedValue('a', Timestamp(5))
    """

    __slots__ = ("at", "value")
    at: int | tuple[int]

    # Created for every element of many pipelines.  The conversion would take a sixth of the time, and windows of whole
    # seconds don't need it.
    def __init__(self, value: T_co, timestamp: TimestampTypes) -> None:
        self.value = value
        if type(timestamp) is int and _MIN_SECONDS <= timestamp <= _MAX_SECONDS:
            self.at = timestamp
        elif type(timestamp) is float:
            micros = micros_of_seconds(timestamp, "a timestamp in seconds")
            self.at = (micros if MIN_MICROS <= micros <= MAX_MICROS else in_range(micros),)
        else:
            self.at = (Timestamp.of(timestamp).micros,)

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        """Return the type of values with a timestamp: `TimestampedValue[str]`, in annotations."""
        return GenericAlias(cls, (item,))

    @property
    def micros(self) -> int:
        """The event timestamp in microseconds."""
        at = self.at
        return at[0] if isinstance(at, tuple) else at * MICROS_PER_SECOND

    @property
    def timestamp(self) -> Timestamp:
        """The event timestamp."""
        return Timestamp.of_micros(self.micros)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.micros == other.micros and bool(self.value == other.value)

    def __lt__(self, other: object) -> bool:
        """Order by value, then timestamp."""
        if type(other) is not type(self):
            return NotImplemented
        if self.value != other.value:
            mine: Any = self.value
            return bool(mine < other.value)
        return self.micros < other.micros

    def __hash__(self) -> int:
        return hash((self.value, self.micros))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r}, {self.timestamp!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self) is TimestampedValue:
            return (_timestamped, (self.value, self.timestamp))
        return (type(self), (self.value, self.timestamp))


@restores("timestamped-value", 1, TimestampedValue)
def _timestamped(value: Any, timestamp: Timestamp) -> TimestampedValue:
    return TimestampedValue(value, timestamp)
