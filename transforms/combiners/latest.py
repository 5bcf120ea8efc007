"""Latest: the element with the latest event timestamp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.combine_fn import CombineFn
from ...sdk.dofn.dofn import DoFn
from ...sdk.pvalue import PCollection
from ...windowing import MIN_TIMESTAMP
from ..par_do.map_and_filter import Map
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps, KeepsPairs

    K = TypeVar("K")
    T = TypeVar("T")


class LatestCombineFn(CombineFn[tuple[Any, Any], tuple[Any, Any], Any]):
    """The value with the latest timestamp of (value, timestamp) pairs, or None without pairs.

    Of several values with the latest timestamp, the last one to arrive.

    >>> LatestCombineFn().apply([("old", 1), ("new", 5), ("middling", 3)])
    'new'
    """

    def create_accumulator(self) -> tuple[Any, Any]:
        return None, MIN_TIMESTAMP

    def add_input(self, accumulator: tuple[Any, Any], element: tuple[Any, Any]) -> tuple[Any, Any]:
        return accumulator if accumulator[1] > element[1] else element

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
        return self.add_inputs(self.create_accumulator(), accumulators)

    def extract_output(self, accumulator: tuple[Any, Any]) -> Any:
        return accumulator[0]


class Latest:
    """The element with the latest event timestamp.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     visits = p | beam.Create([("ann", "Rome", 20), ("ann", "Oslo", 10)])
    ...     at_times = visits | beam.WithTimestamps(lambda visit: visit[2])
    ...     cities = at_times | beam.Map(lambda visit: (visit[0], visit[1]))
    ...     _ = cities | beam.combiners.Latest.PerKey() | beam.Map(print)
    ('ann', 'Rome')
    """

    class Globally(GlobalCombiner):
        """Of a whole collection, or None if it is empty.

        Returns a `PCollection[T]`, as its input is.

        >>> import penstock as beam
        >>> stamped = beam.Map(lambda x: beam.window.TimestampedValue(x, x))
        >>> [3, 9, 5] | (stamped | beam.combiners.Latest.Globally())
        [9]
        """

        if TYPE_CHECKING:
            __ror__: Keeps  # type: ignore[assignment]

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(LatestCombineFn(), has_defaults)

        def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
            latest: PCollection[T] = super().expand(pcoll | "WithTimestamp" >> Map(_with_timestamp))
            return latest

    class PerKey(KeyedCombiner):
        """Of each key's elements: (key, the latest value).

        Returns a `PCollection[tuple[K, T]]`, as its input is.

        >>> import penstock as beam
        >>> stamped = beam.Map(lambda x: beam.window.TimestampedValue(x, x[1]))
        >>> [("a", 9), ("a", 3), ("b", 5)] | (stamped | beam.combiners.Latest.PerKey())
        [('a', 9), ('b', 5)]
        """

        if TYPE_CHECKING:
            __ror__: KeepsPairs  # type: ignore[assignment]

        def __init__(self, label: str | None = None) -> None:
            super().__init__(LatestCombineFn(), label)

        def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]:
            latest: PCollection[tuple[K, T]] = super().expand(pcoll | "WithTimestamp" >> Map(_value_with_timestamp))
            return latest


def _with_timestamp(element: Any, timestamp: Any = DoFn.TimestampParam) -> tuple[Any, Any]:
    return element, timestamp


def _value_with_timestamp(element: tuple[Any, Any], timestamp: Any = DoFn.TimestampParam) -> tuple[Any, Any]:
    key, value = element
    return key, (value, timestamp)
