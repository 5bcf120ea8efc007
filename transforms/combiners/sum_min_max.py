"""Sum, Min and Max: `CombineGlobally(sum)`, `CombinePerKey(max)` and so on, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ...sdk.combine_fn import MaxCombineFn, MinCombineFn, SumCombineFn
from .globally_and_per_key import GlobalCombiner, KeyedCombiner

if TYPE_CHECKING:
    from ...sdk.pvalue import PCollection
    from ...sdk.static_results import Keeps, KeepsPairs

    K = TypeVar("K")
    T = TypeVar("T")


class Sum:
    """The sum.

    >>> import penstock as beam
    >>> [1, 2, 3] | beam.combiners.Sum.Globally()
    [6]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection; 0 if it is empty.

        Returns a `PCollection[T]`, as its input is.

        >>> import penstock as beam
        >>> [1, 2, 3] | beam.combiners.Sum.Globally()
        [6]
        """

        if TYPE_CHECKING:
            __ror__: Keeps  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[T]: ...

        def __init__(self, has_defaults: bool = True) -> None:
            super().__init__(SumCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, V]]`, as its input is.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 2)] | beam.combiners.Sum.PerKey()
        [('a', 3)]
        """

        if TYPE_CHECKING:
            __ror__: KeepsPairs  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]: ...

        def __init__(self, label: str | None = None) -> None:
            super().__init__(SumCombineFn(), label)


class Min:
    """The least.

    >>> import penstock as beam
    >>> [("a", 3), ("a", 1)] | beam.combiners.Min.PerKey()
    [('a', 1)]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection; no output if it is empty.

        Returns a `PCollection[T]`, as its input is.

        >>> import penstock as beam
        >>> [3, 1, 2] | beam.combiners.Min.Globally()
        [1]
        """

        if TYPE_CHECKING:
            __ror__: Keeps  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[T]: ...

        def __init__(self, has_defaults: bool = False) -> None:
            super().__init__(MinCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, V]]`, as its input is.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 2)] | beam.combiners.Min.PerKey()
        [('a', 1)]
        """

        if TYPE_CHECKING:
            __ror__: KeepsPairs  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]: ...

        def __init__(self, label: str | None = None) -> None:
            super().__init__(MinCombineFn(), label)


class Max:
    """The greatest.

    >>> import penstock as beam
    >>> [("a", 3), ("a", 1)] | beam.combiners.Max.PerKey()
    [('a', 3)]
    """

    class Globally(GlobalCombiner):
        """Of a whole collection; no output if it is empty.

        Returns a `PCollection[T]`, as its input is.

        >>> import penstock as beam
        >>> [3, 1, 2] | beam.combiners.Max.Globally()
        [3]
        """

        if TYPE_CHECKING:
            __ror__: Keeps  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[T]) -> PCollection[T]: ...

        def __init__(self, has_defaults: bool = False) -> None:
            super().__init__(MaxCombineFn(), has_defaults)

    class PerKey(KeyedCombiner):
        """Of each key's values.

        Returns a `PCollection[tuple[K, V]]`, as its input is.

        >>> import penstock as beam
        >>> [("a", 1), ("a", 2)] | beam.combiners.Max.PerKey()
        [('a', 2)]
        """

        if TYPE_CHECKING:
            __ror__: KeepsPairs  # type: ignore[assignment]

            def expand(self, pcoll: PCollection[tuple[K, T]]) -> PCollection[tuple[K, T]]: ...

        def __init__(self, label: str | None = None) -> None:
            super().__init__(MaxCombineFn(), label)
