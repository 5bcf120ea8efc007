"""ApproximateQuantiles: the values at evenly spaced ranks, such as quartiles or percentiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ...persistence import restores
from ...sdk.combine_fn import CombineFn
from .globally_and_per_key import GlobalCombiner, KeyedCombiner
from .quantile_sketches import KllSketch, QuantileSketch, VarOptSketch

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import MakesLists, MakesListsPerKey

    K = TypeVar("K")
    T = TypeVar("T")


class ApproximateQuantilesCombineFn(CombineFn[Any, QuantileSketch, list[Any]]):
    """The least value, the greatest, and between them the values at evenly spaced ranks.

    Exact for up to 2,048 values.  Beyond, the rank of each is within `epsilon`, relative to the number of values (or
    the total weight), with 99% confidence.  The result for no values is an empty list.

    Args:
      num_quantiles: the number of values in the result, at least 2.
      epsilon: by default 1 / num_quantiles, and at most 0.01 if weighted.
      key: the sort key, as in `sorted`.
      reverse: puts the greatest value first.
      weighted: inputs are (value, weight) pairs.
      input_batched: each input is a list of values; if weighted, a pair of lists, the values and their weights.

    >>> ApproximateQuantilesCombineFn(5).apply(range(101))
    [0, 25, 50, 75, 100]
    >>> ApproximateQuantilesCombineFn(3, weighted=True).apply([("a", 1), ("b", 8), ("c", 1)])
    ['a', 'b', 'c']
    """

    # A KLL sketch of this size has an error of 0.14%, and about 6,000 values at most.
    MIN_K = 2048

    def __init__(
        self,
        num_quantiles: int,
        epsilon: float | None = None,
        key: Callable[[Any], Any] | None = None,
        reverse: bool = False,
        weighted: bool = False,
        input_batched: bool = False,
    ) -> None:
        if num_quantiles < 2:
            raise ValueError(
                f"ApproximateQuantiles returns at least the least and the greatest value: num_quantiles must be 2 or "
                f"more, got {num_quantiles!r}"
            )
        if epsilon is None:
            epsilon = min(0.01, 1 / num_quantiles) if weighted else 1 / num_quantiles
        if not 0 < epsilon < 1:
            raise ValueError(f"ApproximateQuantiles needs an epsilon between 0 and 1, got {epsilon!r}")
        self._num_quantiles = num_quantiles
        self._key = key
        self._reverse = reverse
        self._weighted = weighted
        self._input_batched = input_batched
        sketch: type[KllSketch] | type[VarOptSketch] = VarOptSketch if weighted else KllSketch
        self._sketch = sketch
        self._k = max(self.MIN_K, sketch.k_for(epsilon))

    @classmethod
    def create(
        cls,
        num_quantiles: int,
        epsilon: float | None = None,
        max_num_elements: int | None = None,
        key: Callable[[Any], Any] | None = None,
        reverse: bool = False,
        weighted: bool = False,
        input_batched: bool = False,
    ) -> ApproximateQuantilesCombineFn:
        """Return the combiner for Beam's arguments.

        The error of these sketches is independent of the number of elements, so `max_num_elements` has no effect.
        """
        return cls(num_quantiles, epsilon, key, reverse, weighted, input_batched)

    def create_accumulator(self) -> QuantileSketch:
        return self._sketch(self._k)

    def add_input(self, accumulator: QuantileSketch, element: Any) -> QuantileSketch:
        if self._input_batched:
            values, weights = element if self._weighted else (element, repeat(1))
            for value, weight in zip(values, weights):
                accumulator.add(self._comparable(value), weight)
        else:
            value, weight = element if self._weighted else (element, 1)
            accumulator.add(self._comparable(value), weight)
        return accumulator

    def _comparable(self, value: Any) -> Any:
        return value if self._key is None else Ranked(self._key(value), value)

    def merge_accumulators(self, accumulators: Iterable[QuantileSketch]) -> QuantileSketch:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: QuantileSketch) -> list[Any]:
        extremes = accumulator.extremes()
        if extremes is None:
            return []
        first, last = reversed(extremes) if self._reverse else extremes
        values = [first, *self._between(list(accumulator.weighted_values()), last), last]
        return values if self._key is None else [ranked.value for ranked in values]

    def _between(self, values: list[tuple[Any, float]], last: Any) -> Iterator[Any]:
        """Yield the values of all ranks but the first and the last.

        Beam's definition: of n values the i-th of q quantiles is the one at the position (i * n - 1) / (q - 1), counted
        from 0 and rounded down.  A value with a weight counts as often as its weight.
        """
        values.sort(key=itemgetter(0), reverse=self._reverse)
        total = sum(weight for _, weight in values)
        steps = self._num_quantiles - 1
        ordered = iter(values)
        # All values between the first and the last may have no weight.
        value, reached = next(ordered, (last, inf))
        for i in range(1, steps):
            position = (i * total - 1) / steps
            while reached <= position and (following := next(ordered, None)) is not None:
                value = following[0]
                reached += following[1]
            yield value


class Ranked:
    """A value that is compared by its rank, for sketches with a `key`."""

    __slots__ = ("rank", "value")

    def __init__(self, rank: Any, value: Any) -> None:
        self.rank = rank
        self.value = value

    def __lt__(self, other: Ranked) -> bool:
        return bool(self.rank < other.rank)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ranked, (self.rank, self.value)


@restores("ranked", 1)
def _ranked(rank: Any, value: Any) -> Ranked:
    return Ranked(rank, value)


class ApproximateQuantiles:
    """The values at evenly spaced ranks, the least and the greatest among them.

    `ApproximateQuantilesCombineFn` explains the arguments and the error.

    >>> import penstock as beam
    >>> range(1, 102) | beam.combiners.ApproximateQuantiles.Globally(5)
    [[1, 26, 51, 76, 101]]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection.

        Returns a `PCollection[list[T]]` for elements of type T.

        >>> import penstock as beam
        >>> list(range(101)) | beam.ApproximateQuantiles.Globally(5)
        [[0, 25, 50, 75, 100]]
        """

        if TYPE_CHECKING:
            __ror__: MakesLists  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]: ...  # type: ignore[override]

        def __init__(
            self,
            num_quantiles: int,
            key: Callable[[Any], Any] | None = None,
            reverse: bool = False,
            weighted: bool = False,
            input_batched: bool = False,
        ) -> None:
            super().__init__(ApproximateQuantilesCombineFn(num_quantiles, None, key, reverse, weighted, input_batched))

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 2), ("a", 3)] | beam.ApproximateQuantiles.PerKey(2)
        [('a', [1, 3])]
        """

        if TYPE_CHECKING:
            __ror__: MakesListsPerKey  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, list[T]]]: ...  # type: ignore[override]

        def __init__(
            self,
            num_quantiles: int,
            key: Callable[[Any], Any] | None = None,
            reverse: bool = False,
            weighted: bool = False,
            input_batched: bool = False,
        ) -> None:
            super().__init__(ApproximateQuantilesCombineFn(num_quantiles, None, key, reverse, weighted, input_batched))
