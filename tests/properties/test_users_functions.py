"""Users' window functions and combiners: whatever Python they are, elements, Rows and columns have the same results.

The classes are made by hypothesis: new ones, and subclasses of built-in ones that override one method, with conditional
expressions, closures and default arguments.  A naive loop over `assign_windows`, `merge_windows` and `add_input` says
what is expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Recording
from support.pipelines.strategies import Event, events, some, timestamped
from support.runners.local_variants import runner_of

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.testing import TestPipeline
from penstock.windowing import (
    CalendarDays,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    WindowFn,
)

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def folds_all() -> Iterator[None]:
    """Fold all foldable elements before a shuffle, with any gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pre_aggregation, "SMALLEST", 1)
        patch.setattr(pre_aggregation, "_WORTH", 1e9)
        yield


# Window functions


def subclass(base: type[Any], methods: dict[str, Any], is_mixed_in: bool) -> type[Any]:
    """A class that overrides methods itself, or by a class before its base class."""
    if not is_mixed_in:
        return type("Own", (base,), methods)
    return type("Own", (type("Mixin", (), methods), base), {})


def shifted(base: type[Any], name: str, by: int, is_mixed_in: bool) -> type[Any]:
    """A window function whose windows are sometimes later."""

    def by_micros(self: Any, micros: int, more: int = by) -> Any:
        return base.assign_micros(self, micros + (more if micros // SECOND % 2 else 0) * SECOND)

    def by_context(self: Any, context: Any, more: int = by) -> Any:
        micros = context.timestamp.micros
        return (
            list(base.assign_micros(self, micros + more * SECOND))
            if micros // SECOND % 3
            else [IntervalWindow(micros // SECOND, micros // SECOND + by)]
        )

    def bucket_of(self: Any, micros: Any) -> Any:
        return 0 if micros < by else 1

    methods = {"assign_micros": by_micros, "bucket_of": bucket_of}
    return subclass(base, {name: methods.get(name, by_context)}, is_mixed_in)


BUILT_IN: list[tuple[type[Any], tuple[Any, ...]]] = [
    (GlobalWindows, ()),
    (FixedWindows, (10, 3)),
    (SlidingWindows, (10, 5)),
    (CalendarDays, ()),
    (Sessions, (3,)),
]
OVERRIDDEN = ["assign", "assign_windows", "assign_micros", "bucket_of", "nothing"]


@st.composite
def of_built_in(draw: Any) -> WindowFn:
    base, arguments = draw(st.sampled_from(BUILT_IN))
    name, by, is_mixed_in = draw(st.sampled_from(OVERRIDDEN)), draw(st.integers(1, 12)), draw(st.booleans())
    kind = base if name == "nothing" else shifted(base, name, by, is_mixed_in)
    fn: WindowFn = kind(*arguments)
    return fn


@st.composite
def of_users(draw: Any) -> WindowFn:
    size, every, never = draw(st.integers(1, 15)), draw(st.integers(2, 5)), draw(st.integers(0, 5))
    by_timestamp, merges = draw(st.booleans()), draw(st.booleans())

    def starts(second: int, size: int = size) -> list[int]:
        return [] if second % 6 == never else [second - second % size, second] if second % every else [second]

    class Own(WindowFn if merges else NonMergingWindowFn):  # type: ignore[misc]
        depends_only_on_timestamp = by_timestamp

        def assign_windows(self, context: Any) -> Any:
            return [IntervalWindow(start, start + size) for start in dict.fromkeys(starts(int(context.timestamp)))]

        def merge_windows(self, merge_context: Any) -> None:
            """Merge those of an equal start."""
            for start in {window.start for window in merge_context.windows} if merges else ():
                equal = [window for window in merge_context.windows if window.start == start]
                if len(equal) > 1:
                    merge_context.merge(equal, max(equal, key=lambda window: window.end))

    return Own()


# Combiners


@st.composite
def of_built_in_combiners(draw: Any) -> beam.CombineFn:
    base = draw(st.sampled_from(COMBINERS))
    by, is_mixed_in = draw(st.integers(2, 3)), draw(st.booleans())

    def add_input(self: Any, accumulator: Any, element: Any, by: int = by) -> Any:
        return base.add_input(self, accumulator, element * by if element % 2 else -element)

    def extract_output(self: Any, accumulator: Any) -> Any:
        return "result", base.extract_output(self, accumulator)

    def compact(self: Any, accumulator: Any) -> Any:
        return accumulator

    methods = {"add_input": add_input, "extract_output": extract_output, "compact": compact}
    name = draw(st.sampled_from([*methods, "nothing"]))
    kind = base if name == "nothing" else subclass(base, {name: methods[name]}, is_mixed_in)
    fn: beam.CombineFn = kind()
    together = draw(st.sampled_from([None, None, beam.combiners.SingleInputTupleCombineFn]))
    return fn if together is None else together(fn, max)


COMBINERS: list[Any] = [
    *(type(beam.CombineFn.maybe_from_callable(fn)) for fn in (sum, min, max, any, all)),
    beam.combiners.CountCombineFn,
    beam.combiners.CountDistinctCombineFn,
    beam.combiners.MeanCombineFn,
    beam.combiners.ToListCombineFn,
    beam.combiners.ToSetCombineFn,
]


@st.composite
def of_users_combiners(draw: Any) -> beam.CombineFn:
    limit, in_place = draw(st.integers(0, 4)), draw(st.booleans())

    class Own(beam.CombineFn):
        def create_accumulator(self) -> Any:
            return [] if in_place else ()

        def add_input(self, accumulator: Any, element: Any, *, most: int = limit) -> Any:
            found = element if element < most else most
            if in_place:
                accumulator.append(found)
                return accumulator
            return (*accumulator, found)

        def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
            merged = [value for accumulator in accumulators for value in accumulator]
            return merged if in_place else tuple(merged)

        def extract_output(self, accumulator: Any) -> Any:
            return sum(accumulator) if accumulator else None

    return Own()


# What is expected


class Merges(WindowFn.MergeContext):
    def __init__(self, values: dict[Any, list[int]]) -> None:
        super().__init__(values)
        self.values = values

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        merged = [value for window in list(to_be_merged) for value in self.values.pop(window)]
        self.values.setdefault(merge_result, []).extend(merged)


def naive(window_fn: WindowFn, fn: beam.CombineFn, found: list[Event]) -> Counter[Any]:
    """The results, by the loop that a reader of the model would write."""
    by_key: dict[str, dict[Any, list[int]]] = {}
    for key, value, time in found:
        for window in window_fn.assign_windows(WindowFn.AssignContext(time, (key, value))):
            by_key.setdefault(key, {}).setdefault(window, []).append(value)
    results: Counter[Any] = Counter()
    for key, by_window in by_key.items():
        if window_fn.is_merging:
            window_fn.merge_windows(Merges(by_window))
        for window, values in by_window.items():
            accumulator = fn.create_accumulator()
            for value in values:
                accumulator = fn.add_input(accumulator, value)
            results[key, repr(window), shown(fn.extract_output(accumulator))] += 1
    return results


def shown(result: Any) -> str:
    """A result as text; the order of elements isn't determined."""
    if isinstance(result, tuple):
        return repr([shown(item) for item in result])
    return repr(sorted(result) if isinstance(result, (list, set, frozenset)) else result)


# What is done


class Batched(beam.DoFn):
    """Makes batches of Arrow of elements, and leaves batches as they are."""

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch


@attrs.frozen
class Case:
    """Events, and the user's functions that they are grouped and combined by."""

    window_fn: WindowFn
    combine_fn: beam.CombineFn
    events: list[Event]

    def built(self, p: Any) -> dict[str, Any]:
        """Combine the events as elements, as Rows, as columns and as whole batches of Arrow."""
        pairs = p | beam.Create(timestamped(self.events))
        rows = pairs | "as rows" >> beam.Map(lambda pair: beam.Row(key=pair[0], value=pair[1]))
        tables = rows | "batches" >> beam.ParDo(Batched())
        col = beam.col
        by_name = beam.GroupBy("key").aggregate_field("value", self.combine_fn, "result")
        by_column = beam.GroupBy(key=col("key")).aggregate_field(col("value"), self.combine_fn, "result")
        grouped = {
            "elements": (pairs, beam.CombinePerKey(self.combine_fn)),
            "rows": (rows, by_name),
            "columns": (rows, by_column),
            "tables": (tables, by_column),
        }
        return {
            kind: own
            | f"window {kind}" >> beam.WindowInto(self.window_fn)
            | f"combine {kind}" >> transform
            | f"name {kind}" >> beam.Map(lambda pair, kind=kind: (kind, *pair))
            for kind, (own, transform) in grouped.items()
        }

    def expected(self) -> dict[str, Counter[Any]]:
        results = naive(self.window_fn, self.combine_fn, self.events)
        return dict.fromkeys(("elements", "rows", "columns", "tables"), results)


def found(recording: Recording) -> dict[str, Counter[Any]]:
    """The results by kind."""
    by_kind: dict[str, Counter[Any]] = {kind: Counter() for kind in ("elements", "rows", "columns", "tables")}
    for change in recording.changes:
        kind, key, result = change.value
        by_kind[kind][key, repr(change.windows[0]), shown(result)] += 1
    return by_kind


CASES = st.builds(
    Case, of_built_in() | of_users(), of_built_in_combiners() | of_users_combiners(), events(min_size=1, max_size=20)
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(CASES)
def test_users_functions_give_the_same_over_elements_rows_and_columns(run: Any, case: Case) -> None:
    """What the naive loop gives, in one process, in several tasks, and in a stream with checkpoints."""
    assert case.expected() == found(run(case.built))


@pytest.mark.parametrize("name", ["spark-batch", "spark-microbatch"])
def test_users_functions_give_the_same_on_spark(spark: Any, name: str) -> None:
    """Of several cases in one pipeline."""
    cases = some(CASES, 8, are_random=False)
    sinks = [Recording() for _ in cases]
    with TestPipeline(runner_of(name)) as p:
        for i, (case, sink) in enumerate(zip(cases, sinks, strict=True)):
            for kind, results in (p | f"case {i}" >> Built(case)).items():
                results | f"sink {i} {kind}" >> beam.io.Write(sink)

    assert [case.expected() for case in cases] == [found(sink) for sink in sinks]


class Built(beam.PTransform):
    """A case's transforms, under a label of their own."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def expand(self, p: Any) -> Any:
        return self.case.built(p.pipeline)
