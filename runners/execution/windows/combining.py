"""Folding elements into accumulators, merging accumulators, and extracting results.

A plain grouping folds values into lists; a combining one uses its CombineFn.  On their way through a shuffle,
accumulators travel in a `FoldedBundle`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from ....sdk import graph
from ....sdk.combine_fn import CombineFn
from ....sdk.elements.bundle import Bundle
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.windowing_strategy import WindowingStrategy
from ....windowing.timestamp_combiner import TimestampCombiner, combined
from ..kernels.descriptions import FoldOperation
from ..kernels.folds import MISSING, fold_functions
from ..user_errors import guarded


class Fold:
    """One worker's copy of a grouping's fold.

    Attributes:
      label: the grouping's full label.
      windowing: the grouping's windowing.
      only_shuffles: True if nothing looks at its groups and panes.
      combine_fn: its combiner; None for a plain grouping.
      operation: the description of the fold for kernels.
      functions: the fold as functions.
      retracted: True if inputs may be retractions.
    """

    retracted: ClassVar[bool] = False

    def __init__(self, transform: graph.Transform, counts: bool = False) -> None:
        """Make the fold of a grouping.

        Args:
          counts: True if accumulators are pairs of the combiner's accumulator and the number of its elements.
        """
        primitive = transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self.label = transform.label
        self.windowing: WindowingStrategy = primitive.windowing
        self.only_shuffles = primitive.only_shuffles
        self.combine_fn: CombineFn[Any, Any, Any] | None = None
        if primitive.combine is not None:
            self.combine_fn = primitive.combine.load()
        self.operation = FoldOperation(
            self.label, self.combine_fn, self.windowing.timestamp_combiner, self.windowing.window_fn, counts
        )
        self.functions = fold_functions(self.combine_fn, counts)

    def setup(self) -> None:
        """Set up the combiner."""
        if self.combine_fn is not None:
            guarded(self.label, self.combine_fn.setup)

    def teardown(self) -> None:
        """Tear down the combiner."""
        if self.combine_fn is not None:
            guarded(self.label, self.combine_fn.teardown)

    def nothing(self) -> Any:
        """Return the accumulator of an empty window."""
        return [] if self.combine_fn is None else self.combine_fn.create_accumulator()

    def is_empty(self, accumulator: Any) -> bool:
        """Return whether nothing is left of what was added, and nothing is missing that was retracted."""
        return False

    def has_inputs(self, accumulator: Any) -> bool:
        """Return whether there are inputs that weren't retracted."""
        return True

    def of(self, values: list[Any]) -> Any:
        """Return an accumulator of these values."""
        fn = self.combine_fn
        return values if fn is None else fn.add_inputs(fn.create_accumulator(), values)

    def merged(self, accumulators: list[Any]) -> Any:
        """Merge accumulators into one."""
        if len(accumulators) == 1:
            return accumulators[0]
        if self.combine_fn is not None:
            return self.combine_fn.merge_accumulators(accumulators)
        # A group on disk is extended by the others.
        whole: Any = next((values for values in accumulators if type(values) is not list), [])
        for values in accumulators:
            if values is not whole:
                whole.extend(values)
        return whole

    def compacted(self, accumulators: Iterable[Any]) -> list[Any]:
        """Return accumulators as the combiner compacts them for a shuffle."""
        fn = self.combine_fn
        if fn is None or type(fn).compact is CombineFn.compact:
            return list(accumulators)
        return [fn.compact(accumulator) for accumulator in accumulators]

    @property
    def extracts(self) -> bool:
        """Return whether a result differs from its accumulator."""
        return self.combine_fn is not None and not self.combine_fn.output_is_accumulator

    def result(self, accumulator: Any, is_empty: bool = False) -> Any:
        """Return the result of an accumulator to which more may be added.

        Args:
          is_empty: True for an accumulator of no elements: the combiner decides whether there is a result.
        """
        fn = self.combine_fn
        if fn is None:
            return list(accumulator)
        if is_empty:
            return fn.extract_output(accumulator)
        return accumulator if fn.output_is_accumulator else self.extracted(accumulator)

    def extracted(self, accumulator: Any) -> Any:
        """Return the result of an accumulator that is complete."""
        fn = self.combine_fn
        if fn is None or fn.output_is_accumulator:
            return accumulator
        # The combiner may hold its output, or have it in the accumulator.
        output = fn.extract_output(accumulator)
        return output if type(output) in IMMUTABLE else defensive_copy(output)


def merge_into(fold: Fold, held: dict[Any, Any], keys: list[Any], accumulators: list[Any]) -> None:
    """Merge accumulators into those that are held by key.

    Args:
      keys: the keys, each of them once.
    """
    if not held:
        held.update(zip(keys, accumulators, strict=True))
        return
    get, merge = held.get, fold.functions.merge
    for key, accumulator in zip(keys, accumulators, strict=True):
        other = get(key, MISSING)
        held[key] = accumulator if other is MISSING else merge(other, accumulator)


def merge_stamps(combiner: TimestampCombiner, held: dict[Any, int], keys: list[Any], stamps: list[Any]) -> None:
    """Combine timestamps with those that are held by key."""
    for key, micros in zip(keys, stamps, strict=False):
        other = held.get(key)
        held[key] = micros if other is None else combined(combiner, other, micros)


class FoldedBundle(Bundle):
    """Bundle of accumulators in the place of the elements that were folded into them.

    Its values are `(key, (accumulator, number of elements))`, each in one window.  Its timestamps are those that the
    grouping's timestamp combiner keeps.

    >>> folded = FoldedBundle([("a", (5, 2)), ("b", (1, 1))])
    >>> len(folded), folded.elements, folded.part(0, 1).elements
    (2, 3, 2)
    """

    __slots__ = ()

    @property
    def elements(self) -> int:
        """Return the number of elements that were folded into the accumulators."""
        return sum(count for _, (_, count) in self.values)

    def part(self, start: int, stop: int) -> FoldedBundle:
        part = super().part(start, stop)
        return FoldedBundle(part.values, part.timestamps, part.windows, part.panes, part.signs)
