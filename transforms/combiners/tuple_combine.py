"""TupleCombineFn: several combiners at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import attrs

from ...sdk.columns.arrow_fold import ArrowFold, ArrowFolds
from ...sdk.combine_fn import CombineFn


class _SideBySide(CombineFn[Any, tuple[Any, ...], tuple[Any, ...]]):
    """Base class of combiners of tuples.  A subclass defines the input of each combiner."""

    def __init__(self, *combiners: Any, merge_accumulators_batch_size: int | None = None) -> None:
        self.combiners = tuple(CombineFn.maybe_from_callable(combiner) for combiner in combiners)
        self._names = [getattr(combiner, "__name__", type(combiner).__name__) for combiner in combiners]
        # The number of accumulators, which are tuples, that a merge has in memory.
        self._batch_size = merge_accumulators_batch_size or max(10, 1000 // max(1, len(combiners)))

    def _inputs(self, element: Any) -> Iterable[Any]:
        """Return each combiner's input for an element."""
        raise NotImplementedError

    @property
    def arrow_fold(self) -> ArrowFolds | None:  # type: ignore[override]
        """The folds of all combiners, if each has one."""
        folds = [self._taking(combiner.arrow_fold, k) for k, combiner in enumerate(self.combiners)]
        found = [fold for fold in folds if fold is not None]
        return tuple(found) if found and len(found) == len(folds) else None

    def _taking(self, fold: ArrowFolds | None, k: int) -> ArrowFold | None:
        """Return the fold of the k-th combiner, which takes its input; None if it has none, or is a tuple itself."""
        return fold if isinstance(fold, ArrowFold) else None

    def setup(self, *args: Any, **kwargs: Any) -> None:
        for combiner in self.combiners:
            combiner.setup(*args, **kwargs)

    def create_accumulator(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(combiner.create_accumulator(*args, **kwargs) for combiner in self.combiners)

    def add_input(self, accumulator: tuple[Any, ...], element: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(
            combiner.add_input(part, value, *args, **kwargs)
            for combiner, part, value in zip(self.combiners, accumulator, self._inputs(element))
        )

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, ...]], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        rest: Iterator[tuple[Any, ...]] = iter(accumulators)
        merged = next(rest, None)
        if merged is None:
            return self.create_accumulator(*args, **kwargs)
        while batch := list(islice(rest, self._batch_size)):
            merged = tuple(
                combiner.merge_accumulators(parts, *args, **kwargs)
                for combiner, parts in zip(self.combiners, zip(merged, *batch))
            )
        return merged

    def compact(self, accumulator: tuple[Any, ...], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(combiner.compact(part, *args, **kwargs) for combiner, part in zip(self.combiners, accumulator))

    def extract_output(self, accumulator: tuple[Any, ...], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(
            combiner.extract_output(part, *args, **kwargs) for combiner, part in zip(self.combiners, accumulator)
        )

    @property
    def retract_input(self) -> Any:  # type: ignore[override]
        """The retraction from each part; None unless every combiner has one."""
        if any(combiner.retract_input is None for combiner in self.combiners):
            return None
        return self._retract_from_each

    def _retract_from_each(self, accumulator: tuple[Any, ...], element: Any) -> tuple[Any, ...]:
        combiners: Any = self.combiners
        return tuple(
            combiner.retract_input(part, value)
            for combiner, part, value in zip(combiners, accumulator, self._inputs(element))
        )

    def retracts_exactly(self, element: Any) -> bool:
        """Return whether every combiner can retract its part of `element` exactly."""
        combiners: Any = self.combiners
        return all(
            combiner.retracts_exactly(value)
            for combiner, value in zip(combiners, self._inputs(element))
            if hasattr(combiner, "retracts_exactly")
        )

    def teardown(self, *args: Any, **kwargs: Any) -> None:
        for combiner in reversed(self.combiners):
            combiner.teardown(*args, **kwargs)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"combiners": str(self._names), "merge_accumulators_batch_size": self._batch_size}


class TupleCombineFn(_SideBySide):
    """Combiner of n-tuples by n combiners, the k-th of which combines the k-th items.

    Args:
      combiners: CombineFns, or callables such as `sum`.
      merge_accumulators_batch_size: the number of accumulators that are merged, and so in memory, at once.

    >>> TupleCombineFn(max, sum).apply([("a", 1), ("b", 2)])
    ('b', 3)
    """

    def _taking(self, fold: ArrowFolds | None, k: int) -> ArrowFold | None:
        own = super()._taking(fold, k)
        return None if own is None else attrs.evolve(own, item=k)

    def _inputs(self, element: Any) -> Iterable[Any]:
        return tuple(element)

    def with_common_input(self) -> SingleInputTupleCombineFn:
        """Return a combiner that passes every whole element to each of these combiners.

        >>> TupleCombineFn(min, max, sum).with_common_input().apply([3, 1, 2])
        (1, 3, 6)
        """
        return SingleInputTupleCombineFn(*self.combiners)


class SingleInputTupleCombineFn(_SideBySide):
    """Combiner of elements by n combiners, each of which gets every element; the result is an n-tuple.

    >>> SingleInputTupleCombineFn(min, max).apply([3, 1, 2])
    (1, 3)
    """

    def _inputs(self, element: Any) -> Iterable[Any]:
        return (element for _ in self.combiners)
