"""Columns: a grouping of columns has the panes of the same grouping of rows, on every runner of streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

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


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    scripts(),
    windowings(mode=MODES, lateness=st.sampled_from([0, 4, 30]), timestamps=ANY_TIMESTAMPS),
    st.lists(st.sampled_from(list(COMBINERS)), min_size=1, max_size=3, unique=True),
)
def test_panes_of_columns_are_those_of_rows(
    run: Any, script: list[Step], windowing: Windowing, names: list[str]
) -> None:
    """With late data, in all modes; and an expression behind the grouping sees its results."""

    def build(p: Any) -> dict[str, Any]:
        rows = p | stream_of(script) | beam.Map(lambda event: beam.Row(key=event[0], value=event[1], name=event[0] * 2))
        windowed = rows | windowing.stream()
        of_columns: Any = beam.GroupBy(key=beam.col("key"))
        of_rows: Any = beam.GroupBy(key=lambda row: row.key)
        for name in names:
            fn, field = COMBINERS[name]
            of_columns = of_columns.aggregate_field(beam.col(field), fn, name)
            of_rows = of_rows.aggregate_field(lambda row, field=field: getattr(row, field), fn, name)
        found = {}
        for kind, grouping in (("columns", of_columns), ("rows", of_rows)):
            grouped = windowed | kind >> grouping | f"{kind} filter" >> beam.Filter(lambda row: row.key is not None)
            found[f"record {kind}"] = grouped | f"{kind} pair" >> beam.Map(lambda row, kind=kind: (kind, tuple(row)))
        return found

    changes = run(build).changes
    by_kind: dict[str, Counter[Any]] = {"columns": Counter(), "rows": Counter()}
    for change in changes:
        kind, row = change.value
        shown = tuple(sorted(item) if isinstance(item, (set, frozenset)) else item for item in row)
        by_kind[kind][repr(shown), change.micros, change.windows, str(change.pane), change.sign] += 1
    assert by_kind["rows"] == by_kind["columns"]
