"""Reads and writes of CSV and JSON under Beam's name."""

from __future__ import annotations

import pathlib

import pytest

import penstock as beam
from penstock.beam.import_hook import install_import_hook
from penstock.dataframe import WontImplementError
from penstock.sdk.errors import SourceError
from penstock.testing import assert_that, equal_to


@pytest.fixture(autouse=True)
def _beam(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()


def test_records_of_csv_are_rows_with_types(tmp_path: pathlib.Path) -> None:
    """Penstock's own transform gives dicts of strings."""
    from apache_beam.io import ReadFromCsv
    from apache_beam.io.textio import ReadFromCsv as SameReadFromCsv

    assert ReadFromCsv is SameReadFromCsv
    path = tmp_path / "sales.csv"
    path.write_text("item,cups,price\ntea,2,1.5\nmilk,,2\n")
    with beam.Pipeline() as p:
        rows = p | ReadFromCsv(str(tmp_path / "*.csv"), filename_column="path")
        totals = rows | beam.Filter(lambda row: row.cups) | beam.Map(lambda row: (row.item, row.cups * row.price))
        assert_that(totals, equal_to([("tea", 3.0)]))
        assert_that(rows, equal_to([("tea", 2, 1.5, str(path)), ("milk", None, 2.0, str(path))]), label="rows")
        sums = rows | beam.GroupBy("item").aggregate_field("price", sum, "total")
        assert_that(sums, equal_to([("tea", 1.5), ("milk", 2.0)]), label="sums")


def test_objects_of_json_are_rows(tmp_path: pathlib.Path) -> None:
    """From lines, and from one array."""
    from apache_beam.io import ReadFromJson

    (tmp_path / "lines").write_text('{"item": "tea", "cups": 2}\n')
    (tmp_path / "array").write_text('[{"item": "milk", "cups": 1}]')
    with beam.Pipeline() as p:
        lines = p | "lines" >> ReadFromJson(str(tmp_path / "lines"))
        array = p | "array" >> ReadFromJson(str(tmp_path / "array"), lines=False)
        found = (lines, array) | beam.Flatten() | beam.Map(lambda row: f"{row.item} {row.cups}")
        assert_that(found, equal_to(["tea 2", "milk 1"]))
        assert_that(lines | beam.Map(lambda row: type(row)._fields), equal_to([("item", "cups")]), label="fields")


def test_objects_with_other_names_are_rows_without_them_as_attributes(tmp_path: pathlib.Path) -> None:
    """Names that no attribute can have."""
    from apache_beam.io import ReadFromJson

    (tmp_path / "lines").write_text('{"an item": "tea"}\n')
    with beam.Pipeline() as p:
        rows = p | ReadFromJson(str(tmp_path / "lines"))
        assert_that(rows | beam.Map(lambda row: row._asdict()), equal_to([{"an item": "tea"}]))


def test_rows_are_written_with_the_arguments_of_pandas(tmp_path: pathlib.Path) -> None:
    from apache_beam.io import WriteToCsv, WriteToJson

    with beam.Pipeline() as p:
        rows = p | beam.Create([beam.Row(item="tea", cups=2)])
        _ = rows | WriteToCsv(str(tmp_path / "a"), 1, sep=";", columns=["cups", "item"])
        _ = rows | WriteToJson(str(tmp_path / "b"), num_shards=1, orient="records")
        _ = rows | "Array" >> WriteToJson(str(tmp_path / "c"), num_shards=None, lines=False)

    written = {path.name: path.read_text().strip() for path in tmp_path.iterdir()}
    assert {
        "a-00000-of-00001": "cups;item\n2;tea",
        "b-00000-of-00001": '{"item":"tea","cups":2}',
        "c-00000-of-00001": '[\n{"item":"tea","cups":2}\n]',
    } == written


def test_what_is_not_supported_is_refused_when_built() -> None:
    """By the argument, or the path."""
    from apache_beam.io import ReadFromCsv, ReadFromJson, WriteToCsv

    with pytest.raises(WontImplementError, match=r"WriteToCsv\(quotechar='x'\)"):
        WriteToCsv("a", quotechar="x")
    with pytest.raises(WontImplementError, match=r"read_csv\(skiprows=3\)"):
        ReadFromCsv("a", skiprows=3)
    with pytest.raises(WontImplementError, match=r"ReadFromJson\(orient='split'\)"):
        ReadFromJson("a", orient="split")
    with pytest.raises(SourceError, match="ReadFromCsv/Frame: no file matches"):
        beam.Pipeline() | ReadFromCsv("/no/such/file")
