"""Folding elements into accumulators, merging accumulators, and extracting results.

A plain grouping folds values into lists; a combining one uses its CombineFn.

Merging accumulators takes most of the time behind a shuffle.  For a combiner whose merge is an expression the loop is
generated, as a stage's is: that saves a call and a list for each key.  On their way through a shuffle, accumulators
travel in a `FoldedBundle`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.combine_fn import CombineFn
from ....sdk.elements.bundle import Bundle
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.windowing_strategy import WindowingStrategy
from ....windowing import IntervalWindow, WindowFn
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner, combined
from ..user_errors import guarded

# A key without an accumulator; no accumulator is equal to it.
MISSING = object()


@attrs.frozen
class FoldOperation:
    """What the code generated for a stage has to know of the fold at its end.

    Attributes:
      label: the grouping's full label.
      first, step: expressions over `acc` and `x`; both None for values collected in lists.
      combiner: the timestamp combiner.
      window_fn: the grouping's window function.
      column: if elements aren't folded, the expression of the column that they are appended to, over their key `k` and
        the columns `c` of their window.
    """

    label: str
    first: str | None
    step: str | None
    combiner: TimestampCombiner
    window_fn: WindowFn
    column: str | None = None

    @property
    def merging(self) -> bool:
        """Return whether elements stay unfolded until their windows have merged."""
        return self.window_fn.is_merging

    @property
    def stamped(self) -> bool:
        """Return whether the timestamp combiner looks at the timestamps of elements."""
        return self.combiner is not TimestampCombiner.OUTPUT_AT_EOW

    @property
    def pending_width(self) -> int:
        """Return the number of entries of `Cells.pending` for each element, for windows that merge by overlap."""
        return 4 if self.stamped else 3


class Fold:
    """One worker's copy of a grouping's fold.

    Attributes:
      label: the grouping's full label.
      windowing: the grouping's windowing.
      only_shuffles: True if nothing looks at its groups and panes.
      combine_fn: its combiner; None for a plain grouping.
      operation: the description of the fold for generated code.
      names: the functions that generated code calls, by name.
      counts: True if accumulators are pairs of the combiner's accumulator and the number of its elements.
    """

    counts = False

    def __init__(self, transform: graph.Transform) -> None:
        primitive = transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self.label = transform.label
        self.windowing: WindowingStrategy = primitive.windowing
        self.only_shuffles = primitive.only_shuffles
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

    def extracted(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""
        fn = self.combine_fn
        if fn is None or fn.output_is_accumulator:
            return accumulator
        # The combiner may hold its output, or have it in the accumulator.
        output = fn.extract_output(accumulator)
        return output if type(output) in IMMUTABLE else defensive_copy(output)


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


def merge_of(fold: Fold) -> tuple[str, dict[str, Any]]:
    """Return the merge of two accumulators, `acc` and `x`, as an expression, and the names that it uses."""
    expression = "merged([acc, x])"
    if fold.combine_fn is None:
        expression = _APPENDED
    elif fold.combine_fn.inline_fold is not None and fold.combine_fn.inline_fold.merge is not None:
        expression = fold.combine_fn.inline_fold.merge
    if fold.counts:
        expression = re.sub(r"\bx\b", "x[0]", re.sub(r"\bacc\b", "acc[0]", expression))
        expression = f"({expression}, acc[1] + x[1])"
    return expression, {"MISSING": MISSING, "merged": fold.merged}


def merging_two(fold: Fold) -> Callable[[Any, Any], Any]:
    """Return a function that merges two accumulators, of at least one element each."""
    expression, names = merge_of(fold)
    return eval(compiled(f"lambda acc, x: {expression}", "eval"), names)  # type: ignore[no-any-return]


def merging_into(fold: Fold) -> MergeInto:
    """Return a function `(held, keys, accumulators)` that merges accumulators into those held by key.

    >>> from penstock.runners.execution.windows.combining import MISSING
    >>> exec(_SOURCE.format(merge="acc + x"), names := {"MISSING": MISSING})
    >>> names["merge_into"](held := {"a": 1}, ["a", "b"], [2, 3])
    >>> held
    {'a': 3, 'b': 3}
    """
    expression, names = merge_of(fold)
    exec(compiled(_SOURCE.format(merge=expression), "exec"), names)
    merge_into: MergeInto = names["merge_into"]

    def merge(held: dict[Any, Any], keys: list[Any], accumulators: list[Any]) -> None:
        if held:
            merge_into(held, keys, accumulators)
        else:
            held.update(zip(keys, accumulators, strict=True))

    return merge


def merge_stamps(combiner: TimestampCombiner, held: dict[Any, int], keys: list[Any], stamps: list[Any]) -> None:
    """Combine timestamps with those that are held by key."""
    for key, micros in zip(keys, stamps, strict=False):
        other = held.get(key)
        held[key] = micros if other is None else combined(combiner, other, micros)


@lru_cache(maxsize=256)
def compiled(source: str, mode: str) -> CodeType:
    """Return the code of a generated expression or function."""
    return compile(source, "<penstock merge>", mode)


_RUNS = """
def runs({arguments}):
    begin = end = {least}
    acc = MISSING
    for start, size, x in spans:
        if start < end:
            acc = {step}
            if start + size > end: end = start + size
        else:
            if acc is not MISSING:
                {give}
            begin = start
            end = start + size
            acc = {first}
    if acc is not MISSING:
        {give}
"""


FoldRuns = Callable[[Iterable[tuple[int, int, Any]], list[Any]], None]
EmitRuns = Callable[[Any, Iterable[tuple[int, int, Any]], list[Any], list[int], list[Any]], None]


def folding_runs(fold: Fold) -> FoldRuns:
    """Return a function that folds elements by the windows that theirs merge into.

    It is called with (start, size, value) of each element in the order of the starts, and a list, to which it appends
    (window, accumulator, None) for each window.  It merges those that `overlapping_runs` merges.
    """
    fold_runs: FoldRuns = _runs(
        fold, "spans, found", "found.append((new(IntervalWindow, (begin, end)), {acc}, None))", extracts=False
    )
    return fold_runs


def emitting_runs(fold: Fold) -> EmitRuns:
    """Return a function that does the same for one key, and appends the results to those of a bundle.

    It is called with the key, the elements, and the bundle's values, timestamps and windows: an object less for each
    window than by `folding_runs`, and two calls.
    """
    give = "values.append((key, {acc})); timestamps.append(end - 1 if end <= MAX_MICROS else MAX_MICROS)"
    give += "; windows.append((new(IntervalWindow, (begin, end)),))"
    emit_runs: EmitRuns = _runs(fold, "key, spans, values, timestamps, windows", give, extracts=fold.extracts)
    return emit_runs


def _runs(fold: Fold, arguments: str, give: str, *, extracts: bool) -> Any:
    operation = fold.operation
    first, step, acc = operation.first, operation.step, "acc"
    if fold.combine_fn is None or fold.combine_fn.inline_fold is None:
        # A combiner may add several inputs at once faster than one by one.
        first, step, acc = "[x]", "acc.append(x) or acc", "of(acc)"
    give = give.format(acc=f"extracted({acc})" if extracts else acc)
    source = _RUNS.format(arguments=arguments, least=MIN_MICROS, first=first, step=step, give=give)
    names: dict[str, Any] = {
        "IntervalWindow": IntervalWindow,
        "MAX_MICROS": MAX_MICROS,
        "MISSING": MISSING,
        "extracted": fold.extracted,
        "new": tuple.__new__,
        "of": fold.of,
    }
    exec(compiled(source, "exec"), names)
    return names["runs"]


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
