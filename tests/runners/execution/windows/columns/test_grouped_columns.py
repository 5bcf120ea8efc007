"""Groups of columns are the groups of the rows: in place, through a shuffle, spilled, and of several inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage, fuse
from penstock.runners.execution.shuffle import writer as writers
from penstock.runners.execution.shuffle.reader import receive
from penstock.runners.execution.shuffle.writer import PairWriter
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.cell_table import WindowOperator
from penstock.runners.execution.windows.columns import grouped_columns
from penstock.runners.execution.windows.combining import Fold
from penstock.runners.execution.windows.spilled_groups import GroupSpill
from penstock.sdk import graph
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import Pairs, as_dicts, as_nones, as_rows, as_values, of_columns
from penstock.sdk.columns.column_groups import Tagged
from penstock.sdk.elements.bundle import Bundle
from penstock.windowing import IntervalWindow, TimestampCombiner

WINDOWS = [
    (IntervalWindow(0, 60),),
    (IntervalWindow(60, 120),),
    (IntervalWindow(0, 60), IntervalWindow(30, 90)),
]
SMALL = st.integers(-2, 2)
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "int64": (SMALL, pyarrow.int64()),
    "int8": (SMALL, pyarrow.int8()),
    "float64": (SMALL.map(lambda number: number / 2), pyarrow.float64()),
    "float32": (SMALL.map(lambda number: number / 2), pyarrow.float32()),
    "string": (st.sampled_from(["", "a", "ä"]), pyarrow.string()),
    "dictionary": (st.sampled_from(["", "a", "b"]), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
    "list": (st.lists(SMALL, max_size=1), pyarrow.list_(pyarrow.int64())),
    "struct": (st.fixed_dictionaries({"a": SMALL}), pyarrow.struct([("a", pyarrow.int64())])),
    "null": (st.none(), pyarrow.null()),
}
KEYS = ["int64", "int8", "float64", "string", "dictionary", "null"]


def grouping(stamps: TimestampCombiner = TimestampCombiner.OUTPUT_AT_EOW) -> graph.Transform:
    p = beam.Pipeline()
    windowed = p | beam.Create([]) | beam.WindowInto(beam.window.FixedWindows(60), timestamp_combiner=stamps)
    _ = windowed | beam.GroupByKey()
    return fuse(p.graph()).steps[-1].transform  # type: ignore[union-attr]


@st.composite
def inputs(draw: st.DrawFn) -> list[Bundle]:
    """Bundles of pairs of columns, mostly of one layout for each tag, and now and then of rows."""
    width = draw(st.integers(0, 2))
    keys: Any = draw(st.sampled_from([[as_nones, of_columns], [as_values, as_rows], [of_columns, as_rows]][width]))
    tags = draw(st.sampled_from([[None], [0, 1]]))
    layouts = []
    for tag in tags * 2:
        values = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=2))
        of: Any = draw(st.sampled_from([as_rows, of_columns, as_dicts, *([as_values] if len(values) == 1 else [])]))
        layouts.append((values, of if tag is None else Tagged(tag, of)))
    key_kinds = [draw(st.lists(st.sampled_from(KEYS), min_size=width, max_size=width)) for _ in range(2)]
    bundles: list[Bundle] = []
    for _ in range(draw(st.integers(1, 6))):
        kinds, values_of = layouts[draw(st.sampled_from([0, 0, 1, 1, *range(len(layouts))]))]
        n = draw(st.integers(1, 8))
        own = [*key_kinds[draw(st.sampled_from([0, 0, 0, 1]))], *kinds]
        columns = []
        for kind in own:
            of, arrow = COLUMNS[kind]
            item = st.one_of(st.none(), of) if draw(st.booleans()) else of
            columns.append(pyarrow.array([draw(item) for _ in range(n)], arrow))
        batch = pyarrow.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
        micros: Any = draw(st.sampled_from([7, numpy.arange(n, dtype=numpy.int64) * 5 % 7]))
        assigned: Any = draw(st.sampled_from([*WINDOWS, (numpy.arange(n) % len(WINDOWS), WINDOWS)]))
        bundle = ColumnBundle(batch, Pairs(width, keys, values_of), micros, assigned)
        bundles.append(as_bundle(bundle) if draw(st.integers(0, 5)) == 0 else bundle)
    return bundles


def as_bundle(bundle: Bundle) -> Bundle:
    if isinstance(bundle, ColumnBundle):
        # Those that are grouped as columns have no elements yet.
        bundle = bundle.with_batch(bundle.batch, bundle.elements)
    return Bundle(bundle.values, bundle.timestamps, bundle.windows)


def ways(transform: graph.Transform, bundles: list[Any], memory_bytes: int) -> Iterator[Any]:
    """Yield what each way through a grouping gives for these bundles, comparable."""
    operator = WindowOperator(Fold(transform))
    executor = StageExecutor(Stage((), 0, transform), lambda *_: None, None, operator.cells, operator.fold)
    for bundle in bundles:
        executor.process(bundle)
    yield results(operator)
    blocks: list[tuple[int, bytes]] = []

    def send(group: int, block: bytes, blocks: list[tuple[int, bytes]] = blocks) -> None:
        blocks.append((group, block))

    writer = PairWriter(Fold(transform), send, memory_bytes=memory_bytes)
    for bundle in bundles:
        writer.receive(bundle)
    writer.flush()
    groups: dict[Any, int] = {}
    found: list[Any] = []
    for group in sorted({group for group, _ in blocks}):
        operator = WindowOperator(Fold(transform))
        spill = GroupSpill(operator, memory_bytes)
        for own, block in blocks:
            if own == group:
                spill.received(receive(operator, block), len(block))
        of_group = results(operator)
        for key, *_ in of_group:
            assert groups.setdefault(key, group) == group, "a key is in two key groups"
        found += of_group
    yield sorted(found, key=repr)


def results(operator: WindowOperator) -> list[Any]:
    """Return the results of an operator, comparable: types count, and the order of values of one input."""
    return sorted(
        (
            (key, windows, micros, shown(list(values)), sign)
            for bundle in operator.flush()
            for (key, values), micros, windows, _, sign in bundle.rows()
        ),
        key=repr,
    )


def shown(values: list[Any]) -> list[str]:
    is_tagged = all(type(value) is tuple and len(value) == 2 and type(value[0]) is int for value in values)
    return [f"{type(v)} {v!r}" for v in (sorted(values, key=lambda v: v[0]) if is_tagged else values)]


@given(
    bundles=inputs(),
    stamps=st.sampled_from(list(TimestampCombiner)),
    large=st.sampled_from([200, grouped_columns.LARGE]),
    memory_bytes=st.sampled_from([300, 1 << 20]),
)
def test_groups_of_columns_are_those_of_rows(
    bundles: list[Any], stamps: TimestampCombiner, large: int, memory_bytes: int
) -> None:
    """For keys and values of all types, bundles of several layouts, and little memory."""
    transform = grouping(stamps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_columns, "LARGE", large)
        patch.setattr(writers, "TOGETHER", 5)
        of_rows = ways(transform, [as_bundle(bundle) for bundle in bundles], memory_bytes)
        for expected, actual in zip(of_rows, ways(transform, bundles, memory_bytes), strict=True):
            assert expected == actual


def test_columns_are_grouped_as_columns() -> None:
    """And the groups are columns, in the order of the windows' ends; each input has a column of its own."""
    transform = grouping()
    operator = WindowOperator(Fold(transform))
    first = pyarrow.record_batch({"k": ["a", None, "a"], "x": [1, 2, 3]})
    second = pyarrow.record_batch({"id": ["b", "a"], "y": [1.0, None]})
    for tag, batch, places in ((0, first, [1, 0, 1]), (1, second, [1, 1])):
        pairs = Pairs(1, as_values, Tagged(tag, as_values))
        bundle = ColumnBundle(batch, pairs, 0, (numpy.array(places), WINDOWS))
        assert operator.cells.add_columns(bundle, operator.fold)
    assert 5 == len(operator.cells)
    (found,) = operator.flush()
    assert isinstance(found, ColumnBundle)
    assert 3 == found.batch.num_columns
    expected = [(None, [(0, 2)]), ("a", [(0, 1), (0, 3), (1, None)]), ("b", [(1, 1.0)])]
    assert expected == found.values
    assert [WINDOWS[0], WINDOWS[1], WINDOWS[1]] == found.windows
    assert not list(operator.flush())
    assert 0 == len(operator.cells)


def test_elements_that_exist_already_are_grouped_as_they_are() -> None:
    """They may be of a class of the user, which the columns don't know."""
    operator = WindowOperator(Fold(grouping()))
    values = [(1, object())]
    bundle = ColumnBundle(pyarrow.record_batch({"k": [1], "x": [2]}), Pairs(1, as_values, as_rows)).with_values(values)
    assert not operator.cells.add_columns(bundle, operator.fold)
