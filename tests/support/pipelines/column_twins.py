"""Hypothesis strategies for twins of bounded pipelines: on columns of any schema, and on rows by functions."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy
import pandas
import pyarrow as pa
import pyarrow.parquet
from hypothesis import strategies as st
from support.pipelines.arrow_tables import COLUMNS, Table, tables
from support.pipelines.recording import Recording

import penstock as beam
from penstock.sdk.elements.row import Row
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


class OfFrames(beam.DoFn):
    def process_batch(self, batch: pandas.DataFrame) -> Iterator[pandas.DataFrame]:
        assert isinstance(batch, pandas.DataFrame)
        yield batch


class OfArrow(beam.DoFn):
    def process_batch(self, batch: pa.Array) -> Iterator[pa.Array]:
        assert isinstance(batch, pa.Array)
        yield batch


class OfNumpy(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        assert isinstance(batch, numpy.ndarray)
        yield batch


class OfSeries(beam.DoFn):
    def process_batch(self, batch: pandas.Series) -> Iterator[pandas.Series]:
        assert isinstance(batch, pandas.Series)
        yield batch


# Of rows, and of single values.
BATCHES: list[Any] = [OfList, OfRecords, OfTables, OfFrames]
ARRAYS: list[Any] = [OfArrow, OfNumpy, OfSeries]


def selected(names: list[str]) -> st.SearchStrategy[Twins]:
    return _fields(names).map(
        lambda own: twins(
            f"select {own}",
            lambda: beam.Select(*own),
            lambda: beam.Map(lambda r: Row(**{name: getattr(r, name) for name in own})),
        )
    )


def grouped(names: list[str]) -> st.SearchStrategy[Twins]:
    aggregate = st.tuples(st.sampled_from([*names, "at"]), st.sampled_from(COMBINERS))
    return st.builds(_grouped, _fields(names), st.lists(aggregate, min_size=1, max_size=2))


def combined(names: list[str]) -> st.SearchStrategy[Twins]:
    return st.builds(_combined, st.sampled_from(names), st.sampled_from([*names, "at"]), st.sampled_from(COMBINERS))


def counted_values(names: list[str]) -> st.SearchStrategy[Twins]:
    return st.sampled_from(names).map(
        lambda name: twins(
            f"count of each {name}",
            lambda: beam.Map(col(name)) | beam.combiners.Count.PerElement(),
            lambda: beam.Map(lambda r: getattr(r, name)) | beam.combiners.Count.PerElement(),
        )
    )


def in_arrays(names: list[str]) -> st.SearchStrategy[Twins]:
    fns = st.lists(st.sampled_from(ARRAYS), min_size=1, max_size=3)
    return st.builds(_of_arrays, st.sampled_from(names), fns, st.booleans(), st.sampled_from(COMBINERS))


def as_they_are(names: list[str]) -> st.SearchStrategy[Twins]:
    return st.just(Twins("end", lambda rows: rows, lambda rows: rows))


# The last step of a pipeline.
ENDS = [as_they_are, selected, grouped, combined, counted_values, in_arrays]


def _fields(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)


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


def _of_arrays(name: str, fns: list[Any], is_shuffled: bool, fn: Any) -> Twins:
    """Return a fold of a field behind batched DoFns, with a Reshuffle before the last one."""

    def built(values: Any, are_batches: bool) -> Any:
        for i, of_batch in enumerate(fns):
            values = values | f"shuffle {i}" >> beam.Reshuffle() if is_shuffled and i == len(fns) - 1 else values
            values = values | f"batch {i}" >> (beam.ParDo(of_batch()) if are_batches else beam.Map(lambda value: value))
        return values | beam.CombineGlobally(fn).without_defaults()

    return Twins(
        f"{fn} of {name} in {[of_batch.__name__ for of_batch in fns]}{', shuffled' * is_shuffled}",
        lambda rows: built(rows | beam.Map(col(name)), True),
        lambda rows: built(rows | beam.Map(lambda row: getattr(row, name)), False),
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

    def of_rows(self, p: Any) -> Any:
        """Build the pipeline of rows and functions."""
        rows = p | beam.Create([Row(**row) for row in self.table.rows]).with_output_types(Row)
        return built(rows, [step.of_rows for step in (*self.steps, self.end)])

    def of_columns(self, p: Any, path: Path) -> Any:
        """Build the pipeline of columns, whose file is written to `path`."""
        table = self.table.arrow
        pyarrow.parquet.write_table(table, path)
        rows = p | (beam.Create(table) if self.source == "table" else beam.io.ReadFromParquet(path, as_rows=True))
        return built(rows, [step.of_columns for step in (*self.steps, self.end)])

    def behind(self, rows: Any, are_columns: bool) -> Any:
        """Build the pipeline, of columns or of rows and functions, behind rows of the table from elsewhere."""
        return built(rows, [each.of_columns if are_columns else each.of_rows for each in (*self.steps, self.end)])

    def repeated(self, times: int) -> Case:
        """Return the case with each row so many times."""
        return attrs.evolve(self, table=Table(pa.concat_tables([self.table.arrow] * times), self.table.rows * times))


@st.composite
def cases(
    draw: st.DrawFn,
    ends: Sequence[Callable[[list[str]], Any]] = tuple(ENDS),
    is_large: bool = False,
    kinds: Sequence[str] = KINDS,
) -> Case:
    """Return cases with one of these ends and kinds of columns; large ones have several rows, columns and steps."""
    least = 2 if is_large else 0
    table = draw(tables(kinds, min_columns=max(least, 1), min_rows=2 * least, max_rows=8))
    arrow = table.arrow
    for i, field in enumerate(arrow.schema):
        if pa.types.is_string(field.type) and draw(st.booleans()):
            arrow = arrow.set_column(i, field.name, arrow.column(i).dictionary_encode())
    at = draw(st.lists(st.integers(0, 50), min_size=len(table.rows), max_size=len(table.rows)))
    arrow = arrow.append_column("at", pa.array(at, "int32"))
    names = [f"c{i}" for i in range(len(table.arrow.schema))]
    arrow = arrow.rename_columns([*names, "at"])
    of_values = [name for name in names if not pa.types.is_list(arrow.schema.field(name).type)]
    rows = [dict(zip([*names, "at"], [*row.values(), seconds])) for row, seconds in zip(table.rows, at, strict=True)]
    return Case(
        Table(arrow, rows),
        draw(st.sampled_from(["table", "parquet"])),
        draw(st.lists(steps(names), min_size=least, max_size=4)),
        # NumPy makes arrays of lists.
        draw(st.one_of([end([*of_values, "at"] if end is in_arrays else names) for end in ends])),
    )


def built(rows: Any, steps: list[Callable[[Any], Any]]) -> Any:
    for i, step in enumerate(steps):
        rows = rows | f"{i}" >> Step(step)
    return rows


def outcome(run: Callable[[Callable[[Any], Any]], Recording], build: Callable[[Any], Any]) -> Any:
    """Return what a pipeline gives: the number of each of its elements, or the class of its error."""
    try:
        return counted(run(build))
    except Exception as error:
        return type(error).__name__


def counted(recording: Recording) -> Counter[Any]:
    """Return how often each element has come, with its timestamp and windows."""
    changes = recording.changes
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
