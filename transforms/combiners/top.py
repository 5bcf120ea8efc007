"""Top: the n greatest elements of a collection, or of each key's values; or the n least."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.combine_fn import CombineFn
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.columns.arrow_lists import Best
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import MakesLists, MakesListsPerKey

    K = TypeVar("K")
    T = TypeVar("T")


class TopCombineFn(CombineFn[Any, list[Any], list[Any]]):
    """The n greatest elements, greatest first.

    Args:
      n: the number of elements.
      key: the sort key, as in `sorted`.
      reverse: selects the n least instead, least first.

    >>> TopCombineFn(2).apply([3, 1, 4, 1, 5])
    [5, 4]
    >>> TopCombineFn(2, key=len, reverse=True).apply(["ccc", "a", "bb"])
    ['a', 'bb']
    """

    def __init__(self, n: int, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        if n < 0:
            raise ValueError(f"{type(self).__name__} needs a count of elements, not negative: got n={n}")
        self._n = n
        self._key = key
        self._reverse = reverse
        # The accumulator is an unordered list, which is truncated at this size: one sort of many elements costs less
        # than a heap operation for each, and the accumulator has plain elements instead of wrappers for the comparison.
        self._limit = 2 * n + 16

    @property
    def arrow_fold(self) -> Best | None:  # type: ignore[override]
        """The fold of columns, unless there is a sort key."""
        from ...sdk.columns.arrow_lists import Best

        return Best(number=self._n, is_least=self._reverse) if self._n and self._key is None else None

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator if len(accumulator) < self._limit else self._best(accumulator)

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        merged: list[Any] = []
        for accumulator in accumulators:
            merged.extend(accumulator)
            if len(merged) >= self._limit:
                merged = self._best(merged)
        return merged

    def compact(self, accumulator: list[Any]) -> list[Any]:
        return self._best(accumulator) if len(accumulator) > self._n else accumulator

    def infer_output_type(self, input_type: Any) -> Any:
        return list[input_type]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return self._best(accumulator)

    def _best(self, elements: list[Any]) -> list[Any]:
        return sorted(elements, key=self._key, reverse=not self._reverse)[: self._n]


class Largest(TopCombineFn):
    """`TopCombineFn` under another name, as in `CombineGlobally(Largest(3))`.

    >>> Largest(2).apply([3, 1, 2])
    [3, 2]
    """


class Smallest(TopCombineFn):
    """The n least elements, least first.

    >>> Smallest(2).apply([3, 1, 2])
    [1, 2]
    """

    def __init__(self, n: int, key: Callable[[Any], Any] | None = None) -> None:
        super().__init__(n, key, reverse=True)


class Top:
    """The n greatest elements, greatest first; with `reverse` the n least, least first.

    >>> import penstock as beam
    >>> [3, 1, 2] | beam.combiners.Top.Of(2)
    [[3, 2]]
    >>> [("a", 3), ("a", 1), ("a", 2)] | beam.combiners.Top.SmallestPerKey(2)
    [('a', [1, 2])]
    """

    class Of(GlobalCombiner):
        """Of a whole collection, as one list.

        Returns a `PCollection[list[T]]` for elements of type T.

        >>> import penstock as beam
        >>> ["aa", "bbb", "c"] | beam.combiners.Top.Of(2, key=len)
        [['bbb', 'aa']]
        """

        if TYPE_CHECKING:
            __ror__: MakesLists  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]: ...  # type: ignore[override]

        def __init__(self, n: int, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))
            self._n = n

        def default_label(self) -> str:
            return f"Top({self._n})"

    class PerKey(KeyedCombiner):
        """Of each key's values, as one list.

        Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

        >>> import penstock as beam
        >>> [("k", 1), ("k", 3), ("k", 2)] | beam.combiners.Top.PerKey(2)
        [('k', [3, 2])]
        """

        if TYPE_CHECKING:
            __ror__: MakesListsPerKey  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, list[T]]]: ...  # type: ignore[override]

        def __init__(self, n: int, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
            super().__init__(TopCombineFn(n, key, reverse))
            self._n = n

        def default_label(self) -> str:
            return f"TopPerKey({self._n})"

    class Largest(Of):
        """The n greatest of a whole collection.

        Returns a `PCollection[list[T]]` for elements of type T.

        >>> import penstock as beam
        >>> [3, 1, 2] | beam.combiners.Top.Largest(2)
        [[3, 2]]
        """

        def __init__(self, n: int, has_defaults: bool = True, key: Callable[[Any], Any] | None = None) -> None:
            super().__init__(n, key)
            self.has_defaults = has_defaults

        def default_label(self) -> str:
            return f"Largest({self._n})"

    class Smallest(Of):
        """The n least of a whole collection.

        Returns a `PCollection[list[T]]` for elements of type T.

        >>> import penstock as beam
        >>> [3, 1, 2] | beam.combiners.Top.Smallest(2)
        [[1, 2]]
        """

        def __init__(self, n: int, has_defaults: bool = True, key: Callable[[Any], Any] | None = None) -> None:
            super().__init__(n, key, reverse=True)
            self.has_defaults = has_defaults

        def default_label(self) -> str:
            return f"Smallest({self._n})"

    class LargestPerKey(PerKey):
        """The n greatest of each key's values.

        Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

        >>> import penstock as beam
        >>> [("k", 1), ("k", 3), ("k", 2)] | beam.combiners.Top.LargestPerKey(1)
        [('k', [3])]
        """

        def __init__(self, n: int, key: Callable[[Any], Any] | None = None) -> None:
            super().__init__(n, key)

        def default_label(self) -> str:
            return f"LargestPerKey({self._n})"

    class SmallestPerKey(PerKey):
        """The n least of each key's values.

        Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

        >>> import penstock as beam
        >>> [("k", 1), ("k", 3), ("k", 2)] | beam.combiners.Top.SmallestPerKey(1)
        [('k', [1])]
        """

        def __init__(self, n: int, key: Callable[[Any], Any] | None = None) -> None:
            super().__init__(n, key, reverse=True)

        def default_label(self) -> str:
            return f"SmallestPerKey({self._n})"
