"""A source of columns reads those that are used, and all where anything may see whole elements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import penstock as beam
from penstock.runners.execution.plan.fusion import Plan, Source, fuse
from penstock.sdk.errors import ColumnError

a, b, c = beam.col("a"), beam.col("b"), beam.col("c")
WINDOWS = beam.window.FixedWindows(60)

USED: dict[str, tuple[Callable[[Any], Any], tuple[str, ...] | None]] = {
    "select": (lambda rows: rows | beam.Filter(a > 0) | beam.Select(n=c + 1), ("a", "c")),
    "names": (lambda rows: rows | beam.Select("b"), ("b",)),
    "map": (lambda rows: rows | beam.WithTimestamps("a") | beam.WindowInto(WINDOWS) | beam.Map(b), ("a", "b")),
    "group": (lambda rows: rows | beam.GroupBy("a").aggregate_field("b", sum, "n"), ("a", "b")),
    "apply": (lambda rows: rows | beam.Map(a.apply(pa.compute.add, b)), ("a", "b")),
    "elements": (lambda rows: rows | beam.Filter(a > 0) | beam.Map(str), None),
    "keys": (lambda rows: rows | beam.GroupBy(k=a + 1), None),
    "letters": (lambda rows: (rows | beam.Map(10 // a).with_exception_handling())[0], None),
    "several": (lambda rows: (rows | beam.Map(a), rows | beam.Map(b)) | beam.Flatten(), None),
    "side": (lambda rows: rows | beam.Map(lambda row, all: row, beam.pvalue.AsList(rows)), None),
    "nothing": (lambda rows: rows, None),
    "file": (lambda rows: rows | beam.Filter(a > 0) | beam.io.WriteToCsv("unwritten"), None),
}


def plan_of(path: Path, follow: Callable[[Any], Any], **options: Any) -> Plan:
    pyarrow.parquet.write_table(pa.table({"a": [1], "b": [2], "c": [3], "d": [4]}), path)
    p = beam.Pipeline()
    follow(p | beam.io.ReadFromParquet(path, **options))
    return fuse(p.graph())


def read_by(plan: Plan) -> list[list[str]]:
    (source,) = (step.transform.primitive.source for step in plan.steps if isinstance(step, Source))  # type: ignore[union-attr]
    return [bundle.batch.schema.names for split in source.split(1) for bundle in source.read_bundles(split)]


@pytest.mark.parametrize("as_rows", [True, False])
@pytest.mark.parametrize("kind", USED)
def test_the_columns_are_those_that_are_used(tmp_path: Path, kind: str, as_rows: bool) -> None:
    # Names of attributes are for rows, not for dicts.
    if kind in ("names", "group") and not as_rows:
        with pytest.raises(ColumnError, match="of a dict isn't an attribute"):
            plan_of(tmp_path / "a.parquet", USED[kind][0])
        return
    follow, used = USED[kind]
    assert [list(used or "abcd")] == read_by(plan_of(tmp_path / "a.parquet", follow, as_rows=as_rows))


@pytest.mark.parametrize("as_rows", [True, False])
def test_chosen_columns_stay_chosen(tmp_path: Path, as_rows: bool) -> None:
    """In the order in which they are given."""
    plan = plan_of(
        tmp_path / "a.parquet", lambda rows: rows | beam.Select(n=c + 1), columns=["d", "c"], as_rows=as_rows
    )
    assert [["d", "c"]] == read_by(plan)


def test_all_are_read_for_the_error_of_one_that_is_missing(tmp_path: Path) -> None:
    """The error names the fields that there are, in a file that was not looked at when the pipeline was built."""
    plan = plan_of(tmp_path / "a.parquet", lambda rows: rows | beam.Select(n=c + beam.col("e")), validate=False)
    assert [list("abcd")] == read_by(plan)
