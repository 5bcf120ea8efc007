"""Sample: n random elements, or any n elements, without replacement."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ...sdk.combine_fn import CombineFn
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ..combine import CombineGlobally
from ..par_do.map_and_filter import FlatMap
from .globally_and_per_key import GlobalCombiner, KeyedCombiner
from .top import TopCombineFn

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps, MakesLists, MakesListsPerKey

    K = TypeVar("K")
    T = TypeVar("T")

# Inside `Sample`, `Any` is a transform.
AnyType: TypeAlias = Any


class SampleCombineFn(CombineFn[Any, list[tuple[float, Any]], list[Any]]):
    """n random elements, with every subset of that size equally likely; all elements if there are no more.

    Each element gets a random number, and the elements with the n greatest numbers are the sample.

    Args:
      n: the size of the sample.
      source: the source of random numbers; by default Python's, which differs in each process.  A `random.Random` with
        a seed makes the sample repeatable for a fixed order of inputs.

    >>> SampleCombineFn(2, random.Random(7)).apply("abcde")
    ['c', 'e']
    """

    def __init__(self, n: int, source: random.Random | None = None) -> None:
        self._top = TopCombineFn(n, key=itemgetter(0))
        self._source = source

    def create_accumulator(self) -> list[tuple[float, Any]]:
        return self._top.create_accumulator()

    def add_input(self, accumulator: list[tuple[float, Any]], element: Any) -> list[tuple[float, Any]]:
        return self._top.add_input(accumulator, ((self._source or random).random(), element))

    def merge_accumulators(self, accumulators: Iterable[list[tuple[float, Any]]]) -> list[tuple[float, Any]]:
        return self._top.merge_accumulators(accumulators)

    def compact(self, accumulator: list[tuple[float, Any]]) -> list[tuple[float, Any]]:
        return self._top.compact(accumulator)

    def infer_output_type(self, input_type: Any) -> Any:
        return list[input_type]

    def extract_output(self, accumulator: list[tuple[float, Any]]) -> list[Any]:
        return [element for _, element in self._top.extract_output(accumulator)]


class AnyElementsCombineFn(CombineFn[Any, list[Any], list[Any]]):
    """The first n elements to arrive; all elements if there are no more.

    >>> AnyElementsCombineFn(2).apply([3, 1, 2])
    [3, 1]
    """

    def __init__(self, n: int) -> None:
        if n < 0:
            raise ValueError(f"Sample.Any needs a count of elements, not negative: got n={n}")
        self._n = n

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        if len(accumulator) < self._n:
            accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        return list(islice(chain.from_iterable(accumulators), self._n))

    def infer_output_type(self, input_type: Any) -> Any:
        return list[input_type]

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


class Sample:
    """Some of the elements, without replacement.

    >>> import penstock as beam
    >>> (sample,) = range(100) | beam.combiners.Sample.FixedSizeGlobally(10)
    >>> len(sample)
    10
    """

    class FixedSizeGlobally(GlobalCombiner):
        """n random elements of a whole collection, as one list.

        Returns a `PCollection[list[T]]` for elements of type T.

        >>> import penstock as beam
        >>> [7, 7, 7] | beam.combiners.Sample.FixedSizeGlobally(2)
        [[7, 7]]
        """

        if TYPE_CHECKING:
            __ror__: MakesLists  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]: ...  # type: ignore[override]

        def __init__(self, n: int, source: random.Random | None = None) -> None:
            super().__init__(SampleCombineFn(n, source))
            self._n = n

        def default_label(self) -> str:
            return f"FixedSizeGlobally({self._n})"

        def display_data(self) -> dict[str, AnyType]:
            return {"n": self._n}

    class FixedSizePerKey(KeyedCombiner):
        """n random values of each key, as one list.

        Returns a `PCollection[tuple[K, list[V]]]` for pairs of K and V.

        >>> import penstock as beam
        >>> [("k", 7), ("k", 7), ("k", 7)] | beam.combiners.Sample.FixedSizePerKey(2)
        [('k', [7, 7])]
        """

        if TYPE_CHECKING:
            __ror__: MakesListsPerKey  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, list[T]]]: ...  # type: ignore[override]

        def __init__(self, n: int, source: random.Random | None = None) -> None:
            super().__init__(SampleCombineFn(n, source))
            self._n = n

        def default_label(self) -> str:
            return f"FixedSizePerKey({self._n})"

        def display_data(self) -> dict[str, AnyType]:
            return {"n": self._n}

    class Any(PTransform):
        """The first n elements of a whole collection to arrive, one by one.

        Returns a `PCollection[T]`, as its input is.

        Cheaper than a random sample, and no substitute for one.

        >>> import penstock as beam
        >>> [7, 7, 7] | beam.combiners.Sample.Any(2)
        [7, 7]
        """

        if TYPE_CHECKING:
            _declares: None  # type: ignore[assignment]
            __ror__: Keeps  # type: ignore[assignment]

        def __init__(self, n: int) -> None:
            super().__init__()
            self._n = n
            self._combine_fn = AnyElementsCombineFn(n)

        def default_label(self) -> str:
            return f"Any({self._n})"

        def display_data(self) -> dict[str, AnyType]:
            return {"n": self._n}

        def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
            lists = pcoll | "Combine" >> CombineGlobally(self._combine_fn).without_defaults()
            return lists | "OneByOne" >> FlatMap()
