"""Columns of any schema: a bounded pipeline of columns gives what the same pipeline of functions and rows gives."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import COLUMNS, Table, tables

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.sdk.elements.row import Row
from penstock.transforms import reshuffle
from penstock.windowing import CalendarDays, FixedWindows, GlobalWindows, Sessions, SlidingWindows

col = beam.col

# Sums of other floats depend on the order.
KINDS = [kind for kind in COLUMNS if kind not in ("float", "float32")]
WINDOWS = [
    GlobalWindows(),
    FixedWindows(20),
    SlidingWindows(20, 10),
    SlidingWindows(5, 10),
    Sessions(4),
    CalendarDays(),
]
COMBINERS: list[Any] = [
    *(sum, min, max, all, any),
    beam.combiners.CountCombineFn(),
    beam.combiners.MeanCombineFn(),
    beam.combiners.ToSetCombineFn(),
    beam.combiners.CountDistinctCombineFn(),
    beam.combiners.TopCombineFn(2),
]


@attrs.frozen
class Twins:
    """A step of a pipeline, once with expressions and names, and once with functions."""

    text: str
    of_columns: Callable[[Any], Any] = attrs.field(repr=False)
    of_rows: Callable[[Any], Any] = attrs.field(repr=False)


def same(text: str, transform: Callable[[], Any]) -> Twins:
    return twins(text, transform, transform)


def twins(text: str, of_columns: Callable[[], Any], of_rows: Callable[[], Any]) -> Twins:
    return Twins(text, lambda rows: rows | of_columns(), lambda rows: rows | of_rows())


def steps(names: list[str]) -> st.SearchStrategy[Twins]:
    """Steps that leave the fields of elements as they are."""
    field = st.sampled_from(names)
    return st.one_of(
        field.map(
            lambda n: twins(
                f"{n} is not None",
                lambda: beam.Filter(~col(n).is_null()),
                lambda: beam.Filter(lambda r: getattr(r, n) is not None),
            )
        ),
        st.integers(0, 3).map(
            lambda k: twins(
                f"at % 4 != {k}", lambda: beam.Filter(col("at") % 4 != k), lambda: beam.Filter(lambda r: r.at % 4 != k)
            )
        ),
        st.just(twins("at", lambda: beam.WithTimestamps("at"), lambda: beam.WithTimestamps(lambda r: r.at))),
        st.sampled_from(WINDOWS).map(lambda window_fn: same(f"{window_fn}", lambda: beam.WindowInto(window_fn))),
        st.just(same("reshuffle", beam.Reshuffle)),
        st.sampled_from(BATCHES).map(
            lambda fn: twins(fn.__name__, lambda: beam.ParDo(fn()), lambda: beam.Map(lambda row: row))
        ),
    )


class OfList(beam.DoFn):
    def process_batch(self, batch: list[Row]) -> Iterator[list[Row]]:
        yield batch


class OfRecords(beam.DoFn):
    def process_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert isinstance(batch, pa.RecordBatch)
        yield batch


class OfTables(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        assert isinstance(batch, pa.Table)
        yield batch


BATCHES: list[Any] = [OfList, OfRecords, OfTables]


def ends(names: list[str]) -> st.SearchStrategy[Twins]:
    """Groupings, projections, and nothing."""
    fields = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    aggregates = st.lists(
        st.tuples(st.sampled_from([*names, "at"]), st.sampled_from(COMBINERS)), min_size=1, max_size=2
    )
    return st.one_of(
        st.just(Twins("end", lambda rows: rows, lambda rows: rows)),
        fields.map(
            lambda own: twins(
                f"select {own}",
                lambda: beam.Select(*own),
                lambda: beam.Map(lambda r: Row(**{name: getattr(r, name) for name in own})),
            )
        ),
        st.builds(_grouped, fields, aggregates),
        st.builds(_combined, st.sampled_from(names), st.sampled_from([*names, "at"]), st.sampled_from(COMBINERS)),
        st.sampled_from(names).map(
            lambda name: twins(
                f"count of each {name}",
                lambda: beam.Map(col(name)) | beam.combiners.Count.PerElement(),
                lambda: beam.Map(lambda r: getattr(r, name)) | beam.combiners.Count.PerElement(),
            )
        ),
    )


def _grouped(keys: list[str], aggregates: list[tuple[str, Any]]) -> Twins:
    of_columns: Any = beam.GroupBy(**{f"k{i}": col(name) for i, name in enumerate(keys)})
    of_rows: Any = beam.GroupBy(**{f"k{i}": lambda r, name=name: getattr(r, name) for i, name in enumerate(keys)})
    for i, (name, fn) in enumerate(aggregates):
        of_columns = of_columns.aggregate_field(col(name), fn, f"a{i}")
        of_rows = of_rows.aggregate_field(lambda r, name=name: getattr(r, name), fn, f"a{i}")
    return twins(f"group by {keys}, {aggregates}", lambda: of_columns, lambda: of_rows)


def _combined(key: str, value: str, fn: Any) -> Twins:
    return twins(
        f"{fn} of {value} by {key}",
        lambda: beam.Map((col(key), col(value))) | beam.CombinePerKey(fn),
        lambda: beam.Map(lambda r: (getattr(r, key), getattr(r, value))) | beam.CombinePerKey(fn),
    )


@attrs.frozen
class Case:
    """A table with a column "at" of seconds, and a pipeline.

    Attributes:
      source: what its columns come from.
    """

    table: Table
    source: str
    steps: list[Twins]
    end: Twins


@st.composite
def cases(draw: st.DrawFn) -> Case:
    table = draw(tables(KINDS, max_rows=8))
    arrow = table.arrow
    for i, field in enumerate(arrow.schema):
        if pa.types.is_string(field.type) and draw(st.booleans()):
            arrow = arrow.set_column(i, field.name, arrow.column(i).dictionary_encode())
    at = draw(st.lists(st.integers(0, 50), min_size=len(table.rows), max_size=len(table.rows)))
    arrow = arrow.append_column("at", pa.array(at, "int32"))
    names = [f"c{i}" for i in range(len(table.arrow.schema))]
    arrow = arrow.rename_columns([*names, "at"])
    rows = [dict(zip([*names, "at"], [*row.values(), seconds])) for row, seconds in zip(table.rows, at, strict=True)]
    return Case(
        Table(arrow, rows),
        draw(st.sampled_from(["table", "parquet"])),
        draw(st.lists(steps(names), max_size=4)),
        draw(ends(names)),
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("columns") / "a.parquet"


@pytest.fixture(autouse=True)
def few_are_many() -> Iterator[None]:
    """Fold all that can be folded before a shuffle, and send any columns of a Reshuffle as such."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pre_aggregation, "SMALLEST", 1)
        patch.setattr(pre_aggregation, "_WORTH", 1e9)
        patch.setattr(reshuffle, "_MANY", 1)
        patch.setattr(reshuffle, "_ROWS_OF_A_PART", 2)
        yield


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_columns_give_what_rows_give(run: Any, path: Path, case: Case) -> None:
    """The same elements, timestamps and windows, or an error of the same class."""
    pyarrow.parquet.write_table(case.table.arrow, path)
    columns = beam.Create(case.table.arrow) if case.source == "table" else beam.io.ReadFromParquet(path, as_rows=True)
    rows = beam.Create([Row(**row) for row in case.table.rows]).with_output_types(Row)
    expected = outcome(run, rows, [step.of_rows for step in (*case.steps, case.end)])
    assert expected == outcome(run, columns, [step.of_columns for step in (*case.steps, case.end)])


def outcome(run: Any, read: Any, steps: list[Callable[[Any], Any]]) -> Any:
    """Return what a pipeline gives: the number of each of its elements, or the class of its error."""

    def build(p: Any) -> Any:
        rows = p | read
        for i, step in enumerate(steps):
            rows = rows | f"{i}" >> Step(step)
        return {"Record": rows}

    try:
        changes = run(build).changes
    except Exception as error:
        return type(error).__name__
    return Counter((shown(change.value), change.micros, change.windows, change.sign) for change in changes)


class Step(beam.PTransform):
    def __init__(self, expand: Callable[[Any], Any]) -> None:
        super().__init__()
        self._expand = expand

    def expand(self, pcoll: Any) -> Any:
        return self._expand(pcoll)


def shown(value: Any) -> Any:
    """Return a value with its type as something that is equal for equal values, NaN included."""
    if isinstance(value, Row):
        return Row, tuple((name, shown(field)) for name, field in value.as_dict().items())
    if isinstance(value, dict):
        return dict, tuple((name, shown(field)) for name, field in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(shown, value))
    if isinstance(value, (set, frozenset)):
        return type(value), tuple(sorted(map(repr, map(shown, value))))
    if isinstance(value, (datetime.datetime, datetime.time)):
        return type(value), value.isoformat()
    # 0.0 and -0.0 are one key.
    return type(value), repr(value + 0.0 if isinstance(value, float) else value)
