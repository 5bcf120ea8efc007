"""Columns: a grouping of columns has the panes of the same grouping of rows, on every runner of streams."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import ANY_TIMESTAMPS, MODES, Step, Windowing, scripts, stream_of, windowings

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation

COMBINERS: dict[str, tuple[Any, Any]] = {
    "total": (sum, "value"),
    "mean": (beam.combiners.MeanCombineFn(), "value"),
    "least": (min, "name"),
    "number": (beam.combiners.CountCombineFn(), "name"),
    "distinct": (beam.combiners.CountDistinctCombineFn(), "value"),
    "greatest": (beam.combiners.Largest(2), "value"),
    # Without a form for columns.
    "all": (beam.combiners.ToSetCombineFn(), "value"),
}


@pytest.fixture(autouse=True)
def folds_all() -> Iterator[None]:
    """Fold all foldable elements before a shuffle, with any gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pre_aggregation, "SMALLEST", 1)
        patch.setattr(pre_aggregation, "_WORTH", 1e9)
        yield


# The fields of an event in types that columns have: keys, and values that can be added.
KEYS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "bytes": str.encode,
    "number": ord,
    "float": lambda key: ord(key) / 4,
    "none": lambda key: None if key == "a" else key,
    "date": lambda key: datetime.date(2020, 1, ord(key) - 90),
    "time": lambda key: datetime.datetime(2020, 1, 1, 12, 0, ord(key) - 90, 5),
    "decimal": lambda key: Decimal(ord(key)).scaleb(-1),
    "bool": lambda key: key == "a",
}
VALUES: dict[str, Callable[[int], Any]] = {
    "number": int,
    "quarters": lambda value: value / 4 - 0.5,
    "huge": lambda value: (value - 1) * 2**61,
    "decimal": lambda value: Decimal(value),
    "bool": lambda value: value > 2,
    "infinite": lambda value: value / 4 if value < 4 else math.inf,
}


class Batched(beam.DoFn):
    """Does the same with an element, and with a batch of elements."""

    def process(self, row: beam.Row) -> Iterator[beam.Row]:
        yield row

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert isinstance(batch, pa.RecordBatch)
        yield batch


class BatchedLists(Batched):
    def process_batch(self, batch: list[beam.Row]) -> Iterator[list[beam.Row]]:  # type: ignore[override]
        assert isinstance(batch, list)
        yield batch


BATCHED: list[Any] = [None, Batched, BatchedLists]


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    scripts(),
    windowings(mode=MODES, lateness=st.sampled_from([0, 4, 30]), timestamps=ANY_TIMESTAMPS),
    st.lists(st.sampled_from(list(COMBINERS)), min_size=1, max_size=3, unique=True),
    st.sampled_from(list(KEYS)),
    st.sampled_from(list(VALUES)),
    st.sampled_from(BATCHED),
)
def test_panes_of_columns_are_those_of_rows(
    run: Any, script: list[Step], windowing: Windowing, names: list[str], key: str, value: str, batched: Any
) -> None:
    """With late data, in all modes, and behind batches; and an expression behind the grouping sees its results."""
    key_of, value_of = KEYS[key], VALUES[value]

    def build(p: Any) -> dict[str, Any]:
        rows = (
            p
            | stream_of(script)
            | beam.Map(lambda event: beam.Row(key=key_of(event[0]), value=value_of(event[1]), name=event[0] * 2))
        )
        # In one window: a bundle of several windows is cut into batches, and triggers look at each bundle.
        in_batches = rows if batched is None else rows | beam.ParDo(batched())
        of_columns: Any = beam.GroupBy(key=beam.col("key"))
        of_rows: Any = beam.GroupBy(key=lambda row: row.key)
        for name in names:
            fn, field = COMBINERS[name]
            of_columns = of_columns.aggregate_field(beam.col(field), fn, name)
            of_rows = of_rows.aggregate_field(lambda row, field=field: getattr(row, field), fn, name)
        found = {}
        for kind, grouping in (("columns", of_columns), ("rows", of_rows)):
            windowed = (rows if kind == "rows" else in_batches) | f"{kind} windows" >> windowing.stream()
            grouped = windowed | kind >> grouping
            found[f"record {kind}"] = grouped | f"{kind} pair" >> beam.Map(lambda row, kind=kind: (kind, tuple(row)))
        return found

    changes = run(build).changes
    by_kind: dict[str, Counter[Any]] = {"columns": Counter(), "rows": Counter()}
    for change in changes:
        kind, row = change.value
        shown = tuple(sorted(item) if isinstance(item, (set, frozenset)) else item for item in row)
        by_kind[kind][repr(shown), change.micros, change.windows, str(change.pane), change.sign] += 1
    assert by_kind["rows"] == by_kind["columns"]
