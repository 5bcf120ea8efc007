"""Cells folded of columns give what cells folded of the rows give: in place, through a shuffle, and in a table."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.plan.fusion import Grouping, Stage, fuse
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.execution.shuffle.pre_aggregation import PreAggregation
from penstock.runners.execution.shuffle.reader import receive
from penstock.runners.execution.shuffle.writer import CellWriter
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.columns import folded_columns
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk import graph
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import Pairs, as_nones, as_rows, as_values, of_columns
from penstock.sdk.elements.bundle import Bundle
from penstock.transforms.combiners.mean import MeanCombineFn
from penstock.transforms.combiners.tuple_combine import SingleInputTupleCombineFn, TupleCombineFn
from penstock.windowing import IntervalWindow, TimestampCombiner

WINDOWS = [
    (IntervalWindow(0, 60),),
    (IntervalWindow(60, 120),),
    (IntervalWindow(0, 60), IntervalWindow(30, 90)),
    (IntervalWindow(30, 90), IntervalWindow(60, 120), IntervalWindow(90, 150)),
]
SMALL = st.integers(-3, 3)
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "int64": (SMALL, pyarrow.int64()),
    "int8": (SMALL, pyarrow.int8()),
    "uint64": (st.integers(0, 3), pyarrow.uint64()),
    "large": (st.integers(2**61, 2**63 - 1), pyarrow.int64()),
    # Sums of these are exact.
    "float64": (SMALL.map(lambda number: number / 4), pyarrow.float64()),
    "float32": (SMALL.map(lambda number: number / 4), pyarrow.float32()),
    "nan": (st.sampled_from([math.nan, 1.0, -1.0, math.inf]), pyarrow.float64()),
    "zeros": (st.sampled_from([0.0, -0.0]), pyarrow.float64()),
    "bool": (st.booleans(), pyarrow.bool_()),
    "string": (st.sampled_from(["", "a", "b", "ä"]), pyarrow.string()),
    "large_string": (st.sampled_from(["", "a", "b", "ä"]), pyarrow.large_string()),
    "dictionary": (st.sampled_from(["", "a", "b"]), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
    "binary": (st.sampled_from([b"", b"a", b"\0"]), pyarrow.binary()),
    "date": (SMALL.map(lambda days: dt.date(2020, 1, 5) + dt.timedelta(days)), pyarrow.date32()),
    "timestamp": (SMALL.map(lambda days: dt.datetime(2020, 1, 5) + dt.timedelta(days)), pyarrow.timestamp("ms")),
    "decimal": (SMALL.map(lambda number: Decimal(number) / 2), pyarrow.decimal128(5, 1)),
    "list": (st.lists(SMALL, max_size=1), pyarrow.list_(pyarrow.int64())),
    "null": (st.none(), pyarrow.null()),
}
# What the values of a column may be combined by.
ANYTHING = ["count", "distinct"]
COMPARED = [*ANYTHING, "min", "max", "greatest", "least"]
NUMBERS = [*COMPARED, "sum", "mean"]
OF_TYPES = {
    **dict.fromkeys(COLUMNS, NUMBERS),
    **dict.fromkeys(["string", "large_string", "dictionary", "binary", "date", "timestamp", "list"], COMPARED),
    # NaN has no order: its extremes depend on which values are folded first.
    "nan": [*ANYTHING, "sum", "mean"],
    "bool": [*NUMBERS, "any", "all"],
    "null": ANYTHING,
}
COMBINERS: dict[str, Callable[[], Any]] = {
    "sum": lambda: sum,
    "mean": MeanCombineFn,
    "count": beam.combiners.CountCombineFn,
    "distinct": beam.combiners.CountDistinctCombineFn,
    "greatest": lambda: beam.combiners.Largest(2),
    "least": lambda: beam.combiners.Smallest(3),
    "min": lambda: min,
    "max": lambda: max,
    "any": lambda: any,
    "all": lambda: all,
}


def grouping(combiner: Any, stamps: TimestampCombiner = TimestampCombiner.OUTPUT_AT_EOW) -> graph.Transform:
    p = beam.Pipeline()
    windowed = p | beam.Create([]) | beam.WindowInto(beam.window.FixedWindows(60), timestamp_combiner=stamps)
    _ = windowed | beam.CombinePerKey(combiner)
    return fuse(p.graph()).steps[-1].transform  # type: ignore[union-attr]


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Any, list[ColumnBundle]]:
    """Return strategies of a combiner, and of bundles of pairs of columns for it."""
    key_kinds = draw(
        st.lists(st.sampled_from([kind for kind in COLUMNS if kind not in ("nan", "zeros", "list")]), max_size=2)
    )
    value_kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    of_keys = [of_columns, as_rows, as_values] if len(key_kinds) == 1 else [of_columns, as_rows]
    keys: Any = draw(st.sampled_from(of_keys))
    chosen = [draw(st.sampled_from(OF_TYPES[kind])) for kind in value_kinds]
    if len(value_kinds) == 1 and draw(st.booleans()):
        values: Any = as_values
        combiner = COMBINERS[chosen[0]]()
        if draw(st.booleans()):
            combiner = SingleInputTupleCombineFn(combiner, beam.combiners.CountCombineFn())
    else:
        values = of_columns
        combiner = TupleCombineFn(*(COMBINERS[name]() for name in chosen))
    bundles = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 12))
        columns = []
        for place, kind in enumerate([*key_kinds, *value_kinds]):
            of, arrow = COLUMNS[kind]
            has_nulls = place < len(key_kinds) or chosen[place - len(key_kinds)] in ANYTHING
            item = st.one_of(st.none(), of) if has_nulls and draw(st.booleans()) else of
            columns.append(pyarrow.array([draw(item) for _ in range(n)], arrow))
        batch = pyarrow.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
        micros: Any = draw(st.sampled_from([7, numpy.arange(n, dtype=numpy.int64) * 5 % 7]))
        assigned: Any = draw(st.sampled_from([*WINDOWS, (numpy.arange(n) % len(WINDOWS), WINDOWS)]))
        bundles.append(ColumnBundle(batch, Pairs(len(key_kinds), keys, values), micros, assigned))
    return combiner, bundles


def as_bundle(bundle: ColumnBundle) -> Bundle:
    return Bundle(bundle.values, bundle.timestamps, bundle.windows)


def ways(transform: graph.Transform, bundles: list[Any]) -> Iterator[Any]:
    """Yield what each way through a grouping gives for these bundles, comparable."""

    def folding(cells: Any, fold: Fold) -> StageExecutor:
        return StageExecutor(Stage((), 0, transform), lambda tag, bundle: None, None, cells, fold)

    operator = WindowOperator(Fold(transform))
    executor = folding(operator.cells, operator.fold)
    for bundle in bundles:
        executor.process(bundle)
    yield results(operator)
    blocks: list[tuple[int, bytes]] = []
    for part in (bundles[:2], bundles[2:]):
        writer = CellWriter(Fold(transform), lambda group, block: blocks.append((group, block)))
        executor = folding(writer.cells, writer.fold)
        for bundle in part:
            for portion in writer.portions(bundle):
                executor.process(portion)
        writer.flush()
    groups: dict[Any, int] = {}
    found: list[Any] = []
    for group in sorted({group for group, _ in blocks}):
        operator = WindowOperator(Fold(transform))
        assert sum(receive(operator, block) for own, block in blocks if own == group)
        of_group = results(operator)
        for key, *_ in of_group:
            assert groups.setdefault(key, group) == group, "a key is in two key groups"
        found += of_group
    yield sorted(found, key=repr)
    before = PreAggregation.of(Grouping(transform, False))
    if before is not None:
        for bundle in bundles:
            assert before.add(bundle) is None
            assert not before.is_full
        rows = [row for _, folded in before.take() for row in folded.rows()]
        yield sorted(((key, unordered(value), *rest) for (key, value), *rest in rows), key=repr)


def results(operator: WindowOperator) -> list[Any]:
    """Return the results of an operator, comparable: NaN equals itself, and types count."""
    return sorted(
        (
            (key, windows, micros, comparable(value), sign)
            for bundle in operator.flush()
            for (key, value), micros, windows, _, sign in bundle.rows()
        ),
        key=repr,
    )


def comparable(value: Any) -> Any:
    return tuple(map(comparable, value)) if isinstance(value, tuple) else (type(value), repr(value))


def unordered(accumulator: Any) -> Any:
    """Return an accumulator, comparable; the order of its elements doesn't count."""
    if isinstance(accumulator, tuple):
        return tuple(map(unordered, accumulator))
    items = accumulator.items() if isinstance(accumulator, dict) else accumulator
    return (
        sorted(map(comparable, items), key=repr) if isinstance(accumulator, (dict, list)) else comparable(accumulator)
    )


@given(
    drawn=inputs(),
    stamps=st.sampled_from(list(TimestampCombiner)),
    kept=st.sampled_from([0, 200, folded_columns._KEPT_BYTES]),
)
def test_columns_give_what_rows_give(drawn: Any, stamps: TimestampCombiner, kept: int) -> None:
    """For columns of all types, with nulls and NaN, sums beyond 64 bits, and bundles of several schemas."""
    combiner, bundles = drawn
    transform = grouping(combiner, stamps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folded_columns, "_KEPT_BYTES", kept)
        patch.setattr(pre_aggregation, "SMALLEST", 1)
        patch.setattr(pre_aggregation, "_WORTH", 1e9)
        of_rows = ways(transform, [as_bundle(bundle) for bundle in bundles])
        of_columns = ways(transform, bundles)
        while True:
            expected, error = outcome(of_rows)
            actual, own_error = outcome(of_columns)
            assert (expected, error) == (actual, own_error)
            if expected is None:
                return


def outcome(steps: Iterator[Any]) -> tuple[Any, Any]:
    try:
        return next(steps, None), None
    except Exception as error:
        # Each error of user code has a class of its own.
        return None, (type(error).__qualname__, str(error), getattr(error, "__notes__", None))


def test_columns_are_folded_as_columns() -> None:
    """And their results are columns, in the order of the windows' ends."""
    transform = grouping(TupleCombineFn(sum, MeanCombineFn()))
    batch = pyarrow.record_batch({"k": ["a", None, "a"], "x": [1, 2, 3], "y": [1.0, 2.0, 4.0]})
    assigned = (numpy.array([1, 0, 1]), WINDOWS)
    operator = WindowOperator(Fold(transform))
    assert operator.cells.add_columns(ColumnBundle(batch, Pairs(1, as_values, of_columns), 0, assigned), operator.fold)
    assert 3 == len(operator.cells)
    (found,) = operator.flush()
    assert isinstance(found, ColumnBundle)
    assert [(None, (2, 2.0)), ("a", (4, 2.5))] == found.values
    assert [59_999_999, 119_999_999] == found.timestamps
    assert [WINDOWS[0], WINDOWS[1]] == found.windows
    assert not list(operator.flush())
    assert 0 == len(operator.cells)


def test_a_dictionary_may_have_a_value_twice() -> None:
    keys = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2, 0], "int32"), ["a", "b", "a"])
    batch = pyarrow.RecordBatch.from_arrays([keys, pyarrow.array([1, 2, 3, 4])], ["k", "x"])
    operator = WindowOperator(Fold(grouping(sum)))
    assert operator.cells.add_columns(ColumnBundle(batch, Pairs(1, as_values, as_values)), operator.fold)
    assert [("a", 8), ("b", 2)] == sorted(value for bundle in operator.flush() for value in bundle.values)


@pytest.mark.parametrize(("values", "is_folded"), [([2**62, 2**62 - 1], False), ([2**61, -(2**61)], True)])
def test_a_sum_that_may_need_more_than_64_bits_is_folded_by_rows(values: list[int], is_folded: bool) -> None:
    operator = WindowOperator(Fold(grouping(sum)))
    batch = pyarrow.record_batch({"k": [1, 1], "x": values})
    bundle = ColumnBundle(batch, Pairs(1, as_values, as_values))
    assert is_folded == operator.cells.add_columns(bundle, operator.fold)
    if is_folded:
        # Two bundles might.
        assert operator.cells.add_columns(bundle, operator.fold)
        assert [(1, 0)] == [value for own in operator.flush() for value in own.values]


@pytest.mark.parametrize("combiner", [min, max, beam.combiners.Largest(1), beam.combiners.Smallest(1)])
@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0]])
def test_the_first_of_two_equal_zeros_is_the_least_and_the_greatest(combiner: Any, values: list[float]) -> None:
    """-0.0 equals 0.0, in columns as in rows."""
    operator = WindowOperator(Fold(grouping(combiner)))
    executor = StageExecutor(Stage((), 0, grouping(combiner)), lambda *_: None, None, operator.cells, operator.fold)
    executor.process(ColumnBundle(pyarrow.record_batch({"x": values}), Pairs(0, as_nones, as_values)))
    ((_, found),) = [value for own in operator.flush() for value in own.values]
    assert repr(values[0]) == repr(found).strip("[]")


@pytest.mark.parametrize("values", [[2**55 + 1, 2**55, 2**54 + 5], [1, 2, 4]])
def test_the_mean_of_integers_is_rounded_once(values: list[int]) -> None:
    """As Python's quotient of two integers of any size."""
    operator = WindowOperator(Fold(grouping(MeanCombineFn())))
    batch = pyarrow.record_batch({"k": [1] * 3, "x": values})
    assert operator.cells.add_columns(ColumnBundle(batch, Pairs(1, as_values, as_values)), operator.fold)
    assert [(1, sum(values) / 3)] == [value for own in operator.flush() for value in own.values]
