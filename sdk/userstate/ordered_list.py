"""OrderedListStateSpec: values by timestamp.

>>> from penstock.sdk.userstate import DictStore
>>> log = OrderedListStateSpec("log").of(DictStore())
>>> log.add((8, "c")), log.add((1, "a")), log.add((2, "b"))
(None, None, None)
>>> log.read_range(1, 8)
[(Timestamp(1), 'a'), (Timestamp(2), 'b')]
>>> log.clear_range(0, 2), log.read()
(None, [(Timestamp(2), 'b'), (Timestamp(8), 'c')])
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Generic

from ...persistence import restores
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp, TimestampTypes
from ..elements.defensive_copy import defensive_copy
from ..type_variables import T
from .state_spec import AccumulatingRuntimeState, StateSpec

if TYPE_CHECKING:
    from ..static_types import CoderOf
    from .state_ttl import Ttl
    from .store import StateStore


class Timeline:
    """Values in the order of their timestamps; values with equal timestamps in the order of addition."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.values: list[Any] = []

    def add(self, micros: int, value: Any) -> None:
        """Add a value."""
        index = bisect_right(self.times, micros)
        self.times.insert(index, micros)
        self.values.insert(index, value)

    def within(self, least: int, limit: int) -> slice:
        """Return the slice of the timestamps from `least` up to, and without, `limit`."""
        return slice(bisect_left(self.times, least), bisect_left(self.times, limit))

    def copy(self) -> Timeline:
        """Return a copy, which is changed independently."""
        made = Timeline()
        made.times, made.values = self.times[:], self.values[:]
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is Timeline and self.times == other.times and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Timeline({list(zip(self.times, self.values, strict=True))!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_timeline, (self.times, self.values))


@restores("ordered-list-state", 1)
def _timeline(times: list[int], values: list[Any]) -> Timeline:
    restored = Timeline()
    restored.times, restored.values = times, values
    return restored


class OrderedListRuntimeState(AccumulatingRuntimeState, Generic[T]):
    """The values of one key and window, by timestamp."""

    __slots__ = ()

    def read(self) -> list[tuple[Timestamp, T]]:
        """Return all pairs `(timestamp, value)` in the order of time."""
        return self._read(MIN_MICROS, MAX_MICROS + 1)

    def read_range(self, min_time_stamp: TimestampTypes, limit_time_stamp: TimestampTypes) -> list[tuple[Timestamp, T]]:
        """Return the pairs with timestamps from the first up to, and without, the second."""
        return self._read(Timestamp.of(min_time_stamp).micros, Timestamp.of(limit_time_stamp).micros)

    def add(self, value: tuple[TimestampTypes, T]) -> None:
        """Add `(timestamp, value)`."""
        try:
            timestamp, own = value
        except (TypeError, ValueError):
            raise TypeError(f"{self.spec!r}.add takes a pair of a timestamp and a value, got {value!r}") from None
        micros, own = Timestamp.of(timestamp).micros, defensive_copy(own)
        self.column.changing(self.key, Timeline).add(micros, own)
        self.column.wrote(self.key, own)

    def clear_range(self, min_time_stamp: TimestampTypes, limit_time_stamp: TimestampTypes) -> None:
        """Remove the values with timestamps from the first up to, and without, the second."""
        held: Timeline | None = self.column.values.get(self.key)
        if held is None:
            return
        found = held.within(Timestamp.of(min_time_stamp).micros, Timestamp.of(limit_time_stamp).micros)
        if found.start >= found.stop:
            return
        if found.stop - found.start == len(held.times):
            self.clear()
            return
        held = self.column.changing(self.key, Timeline)
        del held.times[found], held.values[found]

    def is_empty(self) -> bool:
        """Return whether there are no values."""
        return self.column.values.get(self.key) is None

    def _read(self, least: int, limit: int) -> list[tuple[Timestamp, T]]:
        held: Timeline | None = self.column.values.get(self.key)
        if held is None:
            return []
        found = held.within(least, limit)
        return [
            (Timestamp.of_micros(micros), defensive_copy(value))
            for micros, value in zip(held.times[found], held.values[found], strict=True)
        ]


class OrderedListStateSpec(StateSpec, Generic[T]):
    """Values by timestamp: `read`, `read_range`, `add`, `clear_range`, `is_empty`, `clear`.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import OrderedListStateSpec
    >>> class InOrder(beam.DoFn):
    ...     EVENTS = OrderedListStateSpec("events")
    ...     def process(self, pair, events=beam.DoFn.StateParam(EVENTS)):
    ...         events.add(pair[1])
    ...         yield [event for time, event in events.read()]
    >>> [("a", (20, "cart")), ("a", (10, "home"))] | beam.ParDo(InOrder())
    [['cart'], ['home', 'cart']]
    """

    runtime = OrderedListRuntimeState

    if TYPE_CHECKING:

        def __init__(self, name: str, coder: CoderOf[T] | None = None, *, ttl: Ttl = None) -> None: ...
        def of(self, store: StateStore, namespace: Any = None, key: Any = None) -> OrderedListRuntimeState[T]: ...
