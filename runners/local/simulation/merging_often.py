"""Combiners that merge accumulators often, so that a simulation finds a wrong `merge_accumulators`.

A stream in one process adds most inputs to one accumulator; Spark, a shuffle of many elements, sessions and a fanout
merge accumulators.  A simulation adds some inputs to a new accumulator each, and merges that into the existing one.

>>> class Last(CombineFn):
...     def create_accumulator(self): return None
...     def add_input(self, accumulator, element): return element
...     def merge_accumulators(self, accumulators): return next(iter(accumulators))
...     def extract_output(self, accumulator): return accumulator
>>> Last().apply([1, 2, 3]), MergingOften(Last()).apply([1, 2, 3])
(3, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import attrs

from ....sdk.combine_fn import CallableCombineFn, CombineFn
from ....sdk.graph import Graph, GroupByKeyAndWindow, Transform
from ....sdk.user_code.serialization import Serialized

_PACKAGE = __name__.partition(".")[0]

Combiner = CombineFn[Any, Any, Any]


class MergingOften(CombineFn[Any, Any, Any]):
    """Combiner that adds two of three inputs by `merge_accumulators`, one of them with an empty accumulator."""

    def __init__(self, fn: Combiner) -> None:
        self.fn = fn
        self._turn = 0
        for name in ("setup", "create_accumulator", "merge_accumulators", "compact", "extract_output", "teardown"):
            setattr(self, name, getattr(fn, name))
        if fn.retract_input is not None:
            self.retract_input = fn.retract_input  # type: ignore[misc]
            self.retracts_exactly = fn.retracts_exactly  # type: ignore[method-assign]

    def add_input(self, accumulator: Any, element: Any, *args: Any, **kwargs: Any) -> Any:
        fn = self.fn
        self._turn += 1
        if self._turn % 3 == 1:
            return fn.add_input(accumulator, element)
        one = fn.compact(fn.add_input(fn.create_accumulator(), element))
        accumulators = [fn.compact(accumulator), one]
        if self._turn % 3 == 0:
            accumulators.insert(1, fn.create_accumulator())
        return fn.merge_accumulators(accumulators)


def merging_often(graph: Graph, labels: Collection[str] | None = None) -> Graph:
    """Return the graph with user-defined combiners merging often, in the steps of these labels or in all."""
    transforms = [
        _merging(transform) if labels is None or transform.label in labels else transform
        for transform in graph.transforms
    ]
    return attrs.evolve(graph, transforms=tuple(transforms))


def _merging(transform: Transform) -> Transform:
    primitive = transform.primitive
    if not isinstance(primitive, GroupByKeyAndWindow) or primitive.combine is None:
        return transform
    fn: Combiner = primitive.combine.object
    if not _is_users(fn):
        return transform
    wrapped: Combiner = MergingOften(fn)
    return attrs.evolve(transform, primitive=attrs.evolve(primitive, combine=Serialized(wrapped, transform.label)))


def _is_users(fn: Any) -> bool:
    """Return True for a user-defined combiner, or one composed of some; this package's may be approximate."""
    if isinstance(fn, CallableCombineFn) or type(fn).__module__.partition(".")[0] != _PACKAGE:
        return True
    parts = [getattr(fn, "fn", None), *getattr(fn, "combiners", ())]
    return any(isinstance(part, CombineFn) and _is_users(part) for part in parts)


def wrong_merge(graph: Graph, rows_of: Callable[[Graph], Mapping[str, Any]]) -> str | None:
    """Return a sentence about the first step whose combiner merges wrongly, or None.

    Args:
      rows_of: returns the results of a plain run of a graph.
    """
    expected = rows_of(graph)
    for transform in graph.transforms:
        merging = _merging(transform)
        if merging is transform:
            continue
        if rows_of(merging_often(graph, {transform.label})) != expected:
            assert isinstance(transform.primitive, GroupByKeyAndWindow)
            assert transform.primitive.combine is not None
            name = type(transform.primitive.combine.object).__qualname__
            return (
                f"{transform.label!r} returns another result if its combiner ({name}) merges accumulators, also in a "
                "plain run: merge_accumulators, applied to compacted accumulators, has to return the same result as "
                "adding all of their inputs to one accumulator"
            )
    return None
