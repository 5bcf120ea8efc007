"""Columns: a grouping of columns has the panes of the same grouping of rows, on every runner of streams."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Recording
from support.pipelines.strategies import (
    ANY_TIMESTAMPS,
    MODES,
    Bundle,
    Step,
    Windowing,
    scripts,
    some,
    stream_of,
    stream_of_all,
    tag_of,
    windowings,
)

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.testing import TestPipeline

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


@attrs.frozen
class Case:
    """What is done with the events of a script, twice: by expressions on columns, and by functions of rows."""

    windowing: Windowing
    combiners: list[str]
    key: str
    value: str
    batched: Any

    def built(self, events: Any) -> dict[str, Any]:
        """Build both twins: they give pairs of a twin's name and a result."""
        key_of, value_of = KEYS[self.key], VALUES[self.value]
        rows = events | beam.Map(lambda own: beam.Row(key=key_of(own[0]), value=value_of(own[1]), name=own[0] * 2))
        # In one window: a bundle of several windows is cut into batches, and triggers look at each bundle.
        in_batches = rows if self.batched is None else rows | beam.ParDo(self.batched())
        of_columns: Any = beam.GroupBy(key=beam.col("key"))
        of_rows: Any = beam.GroupBy(key=lambda row: row.key)
        for name in self.combiners:
            fn, field = COMBINERS[name]
            of_columns = of_columns.aggregate_field(beam.col(field), fn, name)
            of_rows = of_rows.aggregate_field(lambda row, field=field: getattr(row, field), fn, name)
        found = {}
        for kind, grouping in (("columns", of_columns), ("rows", of_rows)):
            windowed = (rows if kind == "rows" else in_batches) | f"{kind} windows" >> self.windowing.stream()
            grouped = windowed | kind >> grouping
            found[kind] = grouped | f"{kind} pair" >> beam.Map(lambda row, kind=kind: (kind, tuple(row)))
        return found


CASES = st.builds(
    Case,
    windowings(mode=MODES, lateness=st.sampled_from([0, 4, 30]), timestamps=ANY_TIMESTAMPS),
    st.lists(st.sampled_from(list(COMBINERS)), min_size=1, max_size=3, unique=True),
    st.sampled_from(list(KEYS)),
    st.sampled_from(list(VALUES)),
    st.sampled_from(BATCHED),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(scripts(), CASES)
def test_panes_of_columns_are_those_of_rows(run: Any, script: list[Step], case: Case) -> None:
    """With late data, in all modes, and behind batches; and an expression behind the grouping sees its results."""

    def build(p: Any) -> dict[str, Any]:
        return {f"record {kind}": twin for kind, twin in case.built(p | stream_of(script)).items()}

    by_kind = panes_of(run(build))
    assert by_kind["rows"] == by_kind["columns"]


def test_panes_of_columns_are_those_of_rows_in_micro_batches(spark: Any) -> None:
    """Of several scripts in one stream, with so many events that columns are folded before a shuffle."""
    found = some(st.tuples(scripts(max_steps=8).filter(lambda script: len(script) >= 4), CASES), 6, are_random=False)
    many = [[_with_more_events(step) for step in script] for script, _ in found]
    sinks = [Recording() for _ in found]
    with TestPipeline(SparkMicroBatchRunner(spark)) as p:
        outputs = p | stream_of_all([(script, 1) for script in many])
        for i, ((_, case), sink) in enumerate(zip(found, sinks, strict=True)):
            twins = outputs[tag_of(i)] | f"case {i}" >> Built(case)
            for kind, twin in twins.items():
                twin | f"sink {i} {kind}" >> beam.io.Write(sink)

    by_kinds = [(case, panes_of(sink)) for (_, case), sink in zip(found, sinks, strict=True)]
    assert [] == [case for case, by_kind in by_kinds if by_kind["rows"] != by_kind["columns"]]
    assert all(by_kind["rows"] for _, by_kind in by_kinds)


def _with_more_events(step: Step) -> Step:
    return attrs.evolve(step, events=step.events * 30) if isinstance(step, Bundle) else step


class Built(beam.PTransform):
    """A case's transforms, under a label of their own."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def expand(self, events: Any) -> Any:
        return self.case.built(events)


def panes_of(recording: Recording) -> dict[str, Counter[Any]]:
    """Return how often each pane of each twin has come."""
    by_kind: dict[str, Counter[Any]] = {"columns": Counter(), "rows": Counter()}
    for change in recording.changes:
        kind, row = change.value
        shown = tuple(sorted(item) if isinstance(item, (set, frozenset)) else item for item in row)
        by_kind[kind][repr(shown), change.micros, change.windows, str(change.pane), change.sign] += 1
    return by_kind
