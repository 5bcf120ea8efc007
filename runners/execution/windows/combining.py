"""The fold of a grouping: how elements become accumulators, and those results.

Both kinds of grouping are one here: a plain one folds values into lists.

Accumulators merged, key by key: what most of the time behind a shuffle goes into.

Of a combiner whose merge is an expression the loop is generated, as a stage's is; that saves
a call, and a list to call it with, for each key.

Accumulators on their way through a shuffle, in the place of the elements that were folded into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.bundle import Bundle
from ....sdk.combine_fn import CombineFn
from ....sdk.windowing_strategy import WindowingStrategy
from ....windowing import WindowFn
from ....windowing.timestamp_combiner import TimestampCombiner
from ..user_code import guarded

# Stands for "no accumulator yet", which no accumulator is equal to.
MISSING = object()


@attrs.frozen
class FoldOperation:
    """The fold of a grouping, at the end of a stage.

    Attributes:
      label: the grouping's full label.
      first, step: expressions over `acc` and `x`; both None to collect values in lists.
      combiner: which timestamps it keeps.
      window_fn: the grouping's window function.
    """

    label: str
    first: str | None
    step: str | None
    combiner: TimestampCombiner
    window_fn: WindowFn

    @property
    def merging(self) -> bool:
        """Whether elements are kept as they are until their windows have merged."""
        return self.window_fn.is_merging

    @property
    def stamped(self) -> bool:
        """Whether the timestamps of elements matter."""
        return self.combiner is not TimestampCombiner.OUTPUT_AT_EOW

    @property
    def pending_width(self) -> int:
        """How many entries of `Cells.pending` an element is, where windows merge by overlap."""
        return 4 if self.stamped else 3


class Fold:
    """One worker's copy of a grouping's fold.

    Attributes:
      label: the grouping's full label.
      combine_fn: its combiner; None for a plain grouping.
      operation: what the generated code needs to know.
      names: what the generated code calls, by name.
    """

    def __init__(self, transform: graph.Transform) -> None:
        primitive = transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self.label = transform.label
        self.windowing: WindowingStrategy = primitive.windowing
        self.combine_fn: CombineFn[Any, Any, Any] | None = None
        self.names: dict[str, Any] = {}
        first: str | None = None
        step: str | None = None
        if primitive.combine is not None:
            fn = self.combine_fn = primitive.combine.load()
            if fn.inline_fold is not None:
                first, step = fn.inline_fold.first, fn.inline_fold.step
            else:
                first, step = "add_input(create(), x)", "add_input(acc, x)"
                self.names = {"create": fn.create_accumulator, "add_input": fn.add_input}
        window_fn = self.windowing.window_fn
        self.operation = FoldOperation(self.label, first, step, self.windowing.timestamp_combiner, window_fn)

    def setup(self) -> None:
        """Set up the combiner."""
        if self.combine_fn is not None:
            guarded(self.label, self.combine_fn.setup)

    def teardown(self) -> None:
        """Tear down the combiner."""
        if self.combine_fn is not None:
            guarded(self.label, self.combine_fn.teardown)

    def of(self, values: list[Any]) -> Any:
        """The accumulator of these values."""
        fn = self.combine_fn
        return values if fn is None else fn.add_inputs(fn.create_accumulator(), values)

    def merged(self, accumulators: list[Any]) -> Any:
        """One accumulator for several."""
        if len(accumulators) == 1:
            return accumulators[0]
        if self.combine_fn is not None:
            return self.combine_fn.merge_accumulators(accumulators)
        # A group that is on disk takes in the others.
        whole: Any = next((values for values in accumulators if type(values) is not list), [])
        for values in accumulators:
            if values is not whole:
                whole.extend(values)
        return whole

    def compacted(self, accumulators: Iterable[Any]) -> list[Any]:
        """Accumulators as they are to travel."""
        fn = self.combine_fn
        if fn is None or type(fn).compact is CombineFn.compact:
            return list(accumulators)
        return [fn.compact(accumulator) for accumulator in accumulators]

    @property
    def extracts(self) -> bool:
        """Whether a result is something else than its accumulator."""
        return self.combine_fn is not None and not self.combine_fn.output_is_accumulator

    def extracted(self, accumulator: Any) -> Any:
        """The result that an accumulator stands for."""
        fn = self.combine_fn
        return accumulator if fn is None or fn.output_is_accumulator else fn.extract_output(accumulator)


MergeInto = Callable[[dict[Any, Any], list[Any], list[Any]], None]

_SOURCE = """
def merge_into(held, keys, accumulators):
    get = held.get
    for key, x in zip(keys, accumulators):
        acc = get(key, MISSING)
        held[key] = x if acc is MISSING else {merge}
"""

# A plain grouping's lists grow in place.
_APPENDED = "acc.extend(x) or acc"


def _merge_of(fold: Fold) -> tuple[str, dict[str, Any]]:
    """The merge of two accumulators, `acc` and `x`, as an expression; and the names in it."""
    expression = "merged([acc, x])"
    if fold.combine_fn is None:
        expression = _APPENDED
    elif fold.combine_fn.inline_fold is not None and fold.combine_fn.inline_fold.merge is not None:
        expression = fold.combine_fn.inline_fold.merge
    return expression, {"MISSING": MISSING, "merged": fold.merged}


def merging_two(fold: Fold) -> Callable[[Any, Any], Any]:
    """A function of two accumulators, of at least one element each, that gives one for both."""
    expression, names = _merge_of(fold)
    return eval(_compiled(f"lambda acc, x: {expression}", "eval"), names)  # type: ignore[no-any-return]


def merging_into(fold: Fold) -> MergeInto:
    """A function `(held, keys, accumulators)` that merges accumulators into those held by key.

    >>> from penstock.runners.execution.windows.combining import MISSING
    >>> exec(_SOURCE.format(merge="acc + x"), names := {"MISSING": MISSING})
    >>> names["merge_into"](held := {"a": 1}, ["a", "b"], [2, 3])
    >>> held
    {'a': 3, 'b': 3}
    """
    expression, names = _merge_of(fold)
    exec(_compiled(_SOURCE.format(merge=expression), "exec"), names)
    merge_into: MergeInto = names["merge_into"]

    def merge(held: dict[Any, Any], keys: list[Any], accumulators: list[Any]) -> None:
        if held:
            merge_into(held, keys, accumulators)
        else:
            held.update(zip(keys, accumulators, strict=True))

    return merge


@lru_cache(maxsize=256)
def _compiled(source: str, mode: str) -> CodeType:
    return compile(source, "<penstock merge>", mode)


class FoldedBundle(Bundle):
    """A bundle whose values are `(key, (accumulator, elements))`: of so many elements, each in one window.

    Its timestamps are what the grouping's timestamp combiner keeps.

    >>> folded = FoldedBundle([("a", (5, 2)), ("b", (1, 1))])
    >>> len(folded), folded.elements, folded.part(0, 1).elements
    (2, 3, 2)
    """

    __slots__ = ()

    @property
    def elements(self) -> int:
        """How many elements were folded into what it has."""
        return sum(count for _, (_, count) in self.values)

    def part(self, start: int, stop: int) -> FoldedBundle:
        part = super().part(start, stop)
        return FoldedBundle(part.values, part.timestamps, part.windows, part.panes, part.signs)
