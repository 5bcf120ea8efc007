"""What SqlTransform refuses when the pipeline is built, and what SQL can't reach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
import pytest

import penstock as beam
from penstock.runners.execution.plan.read_columns import with_read_columns
from penstock.sdk.errors import ColumnError, MissingExtraError, PenstockError, PipelineError, TypeHintError
from penstock.testing import TestStream, assert_that, equal_to
from penstock.transforms.sql import SqlTransform
from penstock.transforms.sql.query import planned
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows


class Point(NamedTuple):
    x: int
    name: str


POINTS = beam.Create([Point(1, "a"), Point(2, "b")])
SCHEMA = pyarrow.schema([("x", "int64"), ("name", "string")])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELEC 1", "DuckDB refuses the query: Parser Error"),
        ("SELECT y FROM PCOLLECTION", 'column "y" not found'),
        ("SELECT x FROM points", "Table with name points does not exist"),
        ("SELECT x || name FROM PCOLLECTION", "can't be the name of a field; name the column by AS"),
        ("SELECT x, x FROM PCOLLECTION", "two columns are called 'x'"),
        ("SELECT INTERVAL 1 DAY AS day FROM PCOLLECTION", "'day' has the type INTERVAL; cast it to another one"),
        ("SELECT 1 AS a; SELECT 2 AS b", "expected one SELECT, got SELECT, SELECT"),
        ("CREATE TABLE t (x INT)", "expected one SELECT, got CREATE"),
        ("", "expected one SELECT, got nothing"),
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled"),
        ("SELECT * FROM '/etc/passwd.csv'", "file system operations are disabled"),
        ("SELECT * FROM SCHEMA", "Table with name SCHEMA does not exist"),
    ],
)
def test_a_wrong_query_is_refused_when_it_is_built(query: str, expected: str) -> None:
    """With the label of the transform.  Files, and variables of the program, are no tables."""
    points = beam.Pipeline() | POINTS

    with pytest.raises(PipelineError) as refused:
        points | "Ask" >> SqlTransform(query)

    assert str(refused.value).startswith("Ask: ")
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("query", "by_row"),
    [
        ("SELECT x + 1 AS y, upper(name) AS name FROM PCOLLECTION p WHERE p.x > 1 AND name IN ('a', 'b')", True),
        ("FROM PCOLLECTION", True),
        ("SELECT * EXCLUDE (x) FROM PCOLLECTION", True),
        ("SELECT CASE WHEN x > 1 THEN name END AS name, random() AS r FROM PCOLLECTION", True),
        ("SELECT unnest([x, x]) AS x FROM PCOLLECTION", True),
        ("SELECT COLUMNS(*) FROM PCOLLECTION", True),
        ("SELECT count(COLUMNS('x')) AS n FROM PCOLLECTION", False),
        ("SELECT COUNT(*) AS n FROM PCOLLECTION", False),
        ("SELECT 1 AS one FROM PCOLLECTION HAVING true", False),
        ("SELECT DISTINCT x FROM PCOLLECTION", False),
        ("SELECT x, row_number() OVER (ORDER BY x) AS n FROM PCOLLECTION", False),
        ("SELECT x FROM PCOLLECTION QUALIFY row_number() OVER () = 1", False),
        ("SELECT x FROM PCOLLECTION LIMIT 1", False),
        ("SELECT x FROM PCOLLECTION ORDER BY x", False),
        ("SELECT x FROM PCOLLECTION TABLESAMPLE 1 ROWS", False),
        ("SELECT x FROM PCOLLECTION WHERE x = (SELECT MAX(x) FROM PCOLLECTION)", False),
        ("SELECT a.x FROM PCOLLECTION a, PCOLLECTION b", False),
        ("SELECT x FROM PCOLLECTION UNION ALL SELECT x FROM PCOLLECTION", False),
        ("WITH t AS (SELECT x FROM PCOLLECTION) SELECT count(*) AS n FROM t", False),
    ],
)
def test_a_query_is_evaluated_by_row_if_each_result_depends_on_one_row(query: str, by_row: bool) -> None:
    """DuckDB's plan decides."""
    assert by_row == (planned(query, {"PCOLLECTION": SCHEMA}, "Ask").text_by_row is not None)


def test_the_fields_of_the_result_are_known() -> None:
    """With their types, so that later transforms are checked."""
    points = beam.Pipeline() | POINTS
    totals = points | SqlTransform("SELECT name, SUM(x) AS total FROM PCOLLECTION GROUP BY name")

    with pytest.raises(ColumnError, match="there is no field 'totl'; the elements have name, total"):
        totals | beam.Filter(beam.col("totl") > 1)


def test_a_sum_of_more_than_64_bits_is_an_error() -> None:
    """As everywhere with columns."""
    large = [Point(2**62, "a"), Point(2**62, "b")]

    with pytest.raises(PenstockError, match="'total' was declared as int64"), beam.Pipeline() as p:
        p | beam.Create(large) | SqlTransform("SELECT SUM(x) AS total FROM PCOLLECTION")


def test_elements_without_known_fields_are_refused() -> None:
    """Of a function without a hint, and with a field of any class."""
    points = beam.Pipeline() | beam.Create([1]) | beam.Map(lambda n: eval("n"))

    with pytest.raises(TypeHintError, match=r"the fields of Map\(.*\)'s elements, or their types, aren't known"):
        points | SqlTransform("SELECT x FROM PCOLLECTION")
    with pytest.raises(TypeHintError, match=r"Ask: a: the field 'x' is of the type complex"):
        {"a": points.pipeline | "c" >> beam.Create([Complex(1j)])} | "Ask" >> SqlTransform("SELECT x FROM a")


class Complex(NamedTuple):
    x: complex


def test_inputs_that_may_change_are_refused() -> None:
    """A query over a window needs its rows once; a query by row takes all but retractions."""
    stream = beam.Pipeline() | TestStream().with_output_types(Point)
    often = {"trigger": Repeatedly(AfterCount(1)), "accumulation_mode": AccumulationMode.ACCUMULATING}
    accumulating = stream | "accumulating" >> beam.WindowInto(FixedWindows(10), **often)
    discarding = stream | "discarding" >> beam.WindowInto(
        FixedWindows(10), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
    )
    count = SqlTransform("SELECT COUNT(*) AS n FROM PCOLLECTION")

    with pytest.raises(PipelineError, match="are ACCUMULATING; a query over all rows of a window needs DISCARDING"):
        accumulating | count
    with pytest.raises(PipelineError, match="a query over several tables needs the default trigger"):
        {"a": discarding, "b": discarding} | "join" >> SqlTransform("SELECT a.x FROM a JOIN b USING (x)")
    assert discarding | count
    assert accumulating | "by row" >> SqlTransform("SELECT x FROM PCOLLECTION")


def test_an_unbounded_input_in_the_global_window_is_refused() -> None:
    """Its window never ends; rows pass."""
    numbers = beam.Pipeline() | beam.PeriodicImpulse(0)
    points = numbers | beam.Map(lambda n: Point(n, "a")).with_output_types(Point)

    with pytest.raises(PipelineError, match="Total.*unbounded"):
        points | "Total" >> SqlTransform("SELECT SUM(x) AS total FROM PCOLLECTION")
    assert points | SqlTransform("SELECT x FROM PCOLLECTION")


@pytest.mark.parametrize(("name", "value"), [("dialect", "zetasql"), ("ddl", "SET a = 1")])
def test_other_parameters_of_beam_are_refused(name: str, value: str) -> None:
    """By name.  The dialect of Beam's default queries is read as DuckDB's."""
    with pytest.raises(PipelineError, match=f"SqlTransform: {name}='{value}' isn't supported"):
        SqlTransform("SELECT 1 AS n", **{name: value})
    assert SqlTransform("SELECT 1 AS n", dialect="calcite", expansion_service="localhost:8097")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the pipeline is built."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    points = beam.Pipeline() | POINTS

    with pytest.raises(MissingExtraError, match=r"penstock\[sql-transform\]"):
        points | SqlTransform("SELECT x FROM PCOLLECTION")


@pytest.mark.parametrize(
    "query", ["SELECT b FROM PCOLLECTION WHERE a > 0", "SELECT b, SUM(a) AS a FROM PCOLLECTION GROUP BY b"]
)
def test_only_columns_of_the_query_are_read(query: str, tmp_path: Path) -> None:
    """From a Parquet file, by row and by window."""
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": [2], "c": [3]}), path)
    p = beam.Pipeline()
    _ = p | beam.io.ReadFromParquet(path, as_rows=True) | SqlTransform(query)

    source: Any = with_read_columns(p.graph()).transforms[0].primitive
    assert ("a", "b") == source.source.used


def test_fields_of_structs_are_read(tmp_path: Path) -> None:
    """Of other columns with dots in their names, too."""
    places = {"place": [{"city": "Rome", "at": {"x": 1}}], "a.b": [{"c": 5}], "x": [1]}
    pyarrow.parquet.write_table(pyarrow.table(places), tmp_path / "places.parquet")
    query = 'SELECT MAX(place.city) AS city, SUM(place."at".x) AS x, SUM("a.b".c) AS c FROM PCOLLECTION'
    with beam.Pipeline() as p:
        rows = p | beam.io.ReadFromParquet(tmp_path / "places.parquet", as_rows=True)
        found = rows | SqlTransform(query) | beam.Map(lambda row: (row.city, row.x, row.c))
        assert_that(found, equal_to([("Rome", 1, 5)]))
