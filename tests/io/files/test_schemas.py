"""Fields of files that are known when the pipeline is built."""

from __future__ import annotations

import bz2
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
import pytest

import penstock as beam
from penstock.io import ReadFromAvro, ReadFromCsv, ReadFromJson, ReadFromParquet, ReadFromParquetBatched
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import ColumnError, SourceError
from penstock.sdk.typehints.schema import schemas_of
from penstock.testing.util import assert_that, equal_to

col = beam.col


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A Parquet file."""
    columns = {
        "item": pyarrow.array(["tea", "fig"]).dictionary_encode(),
        "price": pyarrow.array([3, 1], "int8"),
        "at": pyarrow.array([5000, 6000], "timestamp[ns]"),
        "weight": [decimal.Decimal("1.5"), None],
        "nothing": pyarrow.nulls(2),
        "place": [{"x": 1, "y": 2}, None],
    }
    return written(tmp_path / "a.parquet", **columns)


def written(path: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def fields(read: beam.PTransform) -> str:
    found = schemas_of((beam.Pipeline() | read).hint)
    return str(found[0][1]) if found else "unknown"


@pytest.mark.parametrize("as_rows", [False, True])
def test_the_fields_are_those_of_the_footer(sales: Path, as_rows: bool) -> None:
    """With the types that their elements have."""
    expected = "item: string, price: int8, at: timestamp[us], weight: decimal128(2, 1), nothing, place: struct<x: int64"
    assert fields(ReadFromParquet(sales, as_rows=as_rows)).startswith(expected)
    assert "at: timestamp[us], item: string" == fields(ReadFromParquet(sales, as_rows=as_rows, columns=["at", "item"]))
    assert "place, price: int8" == fields(ReadFromParquet(sales, as_rows=as_rows, columns=["place.x", "price"]))


@pytest.mark.parametrize("as_rows", [False, True])
def test_an_unknown_column_is_refused_when_the_pipeline_is_built(sales: Path, as_rows: bool) -> None:
    p = beam.Pipeline()
    rows = p | "Sales" >> ReadFromParquet(sales, columns=["price"], as_rows=as_rows)
    with pytest.raises(ColumnError, match=r"^Filter\(item == 'tea'\): there is no field 'item'; .* have price$"):
        _ = rows | beam.Filter(col("item") == "tea")
    for read in (ReadFromParquet, ReadFromParquetBatched):
        with pytest.raises(SourceError, match=r"^Other: '.*a.parquet' has no column 'prize'; it has item, price, at"):
            _ = p | "Other" >> read(sales, columns=["prize"])


def test_fields_of_dicts_are_no_attributes(sales: Path) -> None:
    dicts = beam.Pipeline() | ReadFromParquet(sales)
    expected = r"the field 'item' of a dict isn't an attribute; use the expression col\('item'\)"
    for transform in (beam.Select("item"), beam.GroupBy("item").aggregate_field("price", sum, "total")):
        with pytest.raises(ColumnError, match=expected):
            _ = dicts | transform
    _ = dicts | beam.GroupBy(col("item")).aggregate_field("price", sum, "total")


def test_functions_of_dicts_are_as_before(sales: Path) -> None:
    def price(sale: dict[str, int]) -> int:
        return sale["price"]

    with beam.Pipeline() as p:
        dicts = p | ReadFromParquet(sales)
        assert_that(dicts | beam.Map(price), equal_to([3, 1]))
        assert_that(dicts | beam.FlatMap(lambda sale: [sale["price"] + 1]), equal_to([4, 2]), "next")


def test_dicts_of_several_files_may_have_other_fields(tmp_path: Path) -> None:
    """A field of any file is left to the run; a type is that of one file."""
    written(tmp_path / "a.parquet", item=["tea"], price=["3"])
    written(tmp_path / "b.parquet", item=["fig"], price=[3], tax=[1])
    with beam.Pipeline() as p:
        dicts = p | ReadFromParquet(tmp_path / "*.parquet")
        taxed = dicts | beam.Filter(lambda sale: "tax" in sale)
        assert_that(taxed | beam.Map(col("tax") + col("price")), equal_to([4]))
        with pytest.raises(ColumnError, match="there is no field 'prize'; the elements have item, price"):
            _ = taxed | "wrong" >> beam.Map(col("prize"))


def test_rows_have_the_fields_of_the_first_file(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", item=["tea"])
    written(tmp_path / "b.parquet", item=["fig"], tax=[1])
    p = beam.Pipeline()
    rows = p | ReadFromParquet(tmp_path / "*.parquet", as_rows=True)
    with pytest.raises(ColumnError, match="there is no field 'tax'; the elements have item"):
        _ = rows | beam.Select("tax")
    with pytest.raises(SourceError, match=r"b.parquet' has another schema than '.*a.parquet': the field 'tax' is of"):
        p.run().wait_until_finish()


def test_rows_of_a_file_that_is_replaced_have_the_fields_of_the_built_pipeline(sales: Path) -> None:
    p = beam.Pipeline()
    _ = p | ReadFromParquet(sales, as_rows=True) | beam.Filter(col("price") > 1)
    written(sales, item=["tea"], price=["3"])
    with pytest.raises(
        SourceError, match="has another schema than when the pipeline was built: the field 'price' is of"
    ):
        p.run().wait_until_finish()


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
@pytest.mark.parametrize("as_rows", [False, True])
def test_workers_read_files_of_known_fields(tmp_path: Path, as_rows: bool, start: str) -> None:
    for i in range(3):
        written(tmp_path / f"{i}.parquet", item=["tea"], price=[i])
    options = PipelineOptions([], parallelism=2, start_method=start)
    with beam.Pipeline(options=options) as p:
        rows = p | ReadFromParquet(tmp_path / "*.parquet", as_rows=as_rows) | beam.Filter(col("price") > 0)
        totals = rows | beam.Reshuffle() | beam.GroupBy(col("item")).aggregate_field("price", sum, "total")
        assert_that(totals | beam.Map(lambda result: result.total), equal_to([3]))


def test_the_footer_is_read_once_and_of_the_first_file_only(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sales.parent / "b.parquet").write_text("not Parquet")
    read_schema, calls = pyarrow.parquet.read_schema, []
    monkeypatch.setattr(pyarrow.parquet, "read_schema", lambda file: calls.append(file.name) or read_schema(file))
    p = beam.Pipeline()
    rows = p | ReadFromParquet(sales.parent / "*.parquet")
    for i in range(3):
        _ = rows | f"{i}" >> beam.Filter(col("price") > i) | f"map {i}" >> beam.Map(col("item"))
    assert [str(sales)] == calls


def test_files_that_cannot_be_read_yet_are_left_to_the_run(tmp_path: Path) -> None:
    later = tmp_path / "later.parquet"
    p = beam.Pipeline()
    rows = p | ReadFromParquet(later, validate=False)
    found = rows | beam.Filter(col("price") > 1) | beam.Map(col("item"))
    assert_that(found, equal_to(["tea"]))
    written(later, item=["tea"], price=[3])
    p.run().wait_until_finish()

    later.write_text("not Parquet")
    p = beam.Pipeline()
    _ = p | ReadFromParquet(later) | beam.Filter(col("price") > 1)
    with pytest.raises(SourceError, match="later.parquet' is not a Parquet file"):
        p.run().wait_until_finish()
    with pytest.raises(SourceError, match="no file matches"):
        _ = beam.Pipeline() | ReadFromParquet(tmp_path / "none-*")


def test_csv_has_the_fields_of_its_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf\n"item";price;when\ntea;3;now\n')
    read = {"path": tmp_path / "a.csv", "delimiter": ";", "converters": {"price": int, "when": str.upper}}
    assert "item: string, price: int64, when" == fields(ReadFromCsv(**read))
    assert "item: string, price: int64, when, file: string" == fields(ReadFromCsv(**read, filename_column="file"))
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"item,price\ntea,3\n"))
    assert "price: string" == fields(ReadFromCsv(tmp_path / "a.csv.bz2", usecols=["price"], as_rows=True))
    assert "x: string, y: string" == fields(ReadFromCsv(tmp_path / "a.csv.bz2", names=["x", "y"]))
    (tmp_path / "empty.csv").write_text("")
    assert "unknown" == fields(ReadFromCsv(tmp_path / "empty.csv"))

    rows = beam.Pipeline() | ReadFromCsv(**read, as_rows=True)
    with pytest.raises(
        ColumnError, match="^GroupBy.itm..aggregate_field: there is no field 'itm'; the elements have item, price, when"
    ):
        _ = rows | beam.GroupBy("itm").aggregate_field("price", sum, "total")
    with pytest.raises(ColumnError, match="^Map.item . 1.: item . 1 can't be computed"):
        _ = rows | beam.Map(col("item") * 1)


def test_csv_files_may_have_other_headers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item\ntea\n")
    (tmp_path / "b.csv").write_text("item,tax\nfig,1\n")
    with beam.Pipeline() as p:
        rows = p | ReadFromCsv(tmp_path / "*.csv", as_rows=True)
        taxed = rows | beam.Filter(lambda row: "tax" in row._fields) | beam.Select("tax")
        assert_that(taxed | beam.Map(lambda row: row.tax), equal_to(["1"]))
        with pytest.raises(ColumnError, match="there is no field 'tx'; the elements have item"):
            _ = rows | "wrong" >> beam.Select("tx")


def test_reading_a_small_csv_file_does_not_import_pyarrow(tmp_path: Path) -> None:
    """Its fields are checked all the same."""
    (tmp_path / "a.csv").write_text("item,price\ntea,3\n")
    program = (
        "import sys, penstock as beam\n"
        "rows = beam.Pipeline() | beam.io.ReadFromCsv(sys.argv[1], as_rows=True) | beam.Select('item')\n"
        "print('pyarrow' in sys.modules)\n"
        "rows | beam.GroupBy('price')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.csv")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "False\n" == done.stdout
    assert "GroupBy(price): there is no field 'price'; the elements have item" in done.stderr


def test_avro_has_the_fields_of_its_schema(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "Sale",
        "fields": [
            {"name": "item", "type": "string"},
            {"name": "price", "type": ["null", "long"]},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    with beam.Pipeline() as p:
        _ = p | beam.Create([{"item": "tea", "price": 3, "day": 1}]) | beam.io.WriteToAvro(tmp_path / "out", schema)
    assert "item: string, price: int64, day: date32[day]" == fields(ReadFromAvro(tmp_path / "out*", as_rows=True))
    with pytest.raises(ColumnError, match="there is no field 'prize'; the elements have item, price, day"):
        _ = beam.Pipeline() | ReadFromAvro(tmp_path / "out*") | beam.Filter(col("prize") > 1)


class Sale(NamedTuple):
    item: str
    price: int | None
    tags: list[str]

    @property
    def first(self) -> str:
        return self.tags[0]


def test_json_has_the_fields_of_its_type(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"item": "tea", "price": 3, "tags": ["hot"]}\n')
    read = ReadFromJson(tmp_path / "a.json", type=Sale)
    assert "item: string, price: int64, tags" == fields(read)
    assert "unknown" == fields(ReadFromJson(tmp_path / "a.json"))
    with beam.Pipeline() as p:
        found = p | read | beam.GroupBy("first").aggregate_field("price", sum, "total")
        assert_that(found | beam.Map(tuple), equal_to([("hot", 3)]))
        with pytest.raises(ColumnError, match="there is no field 'prize'; the elements have item, price, tags"):
            _ = found.pipeline | "Again" >> read | beam.WithTimestamps("prize")


def test_the_known_fields_are_the_columns_of_a_written_file(sales: Path, tmp_path: Path) -> None:
    with beam.Pipeline() as p:
        rows = p | ReadFromParquet(sales) | beam.Select(item=col("item"), half=col("price") / 2, at=col("at"))
        _ = rows | beam.io.WriteToParquet(tmp_path / "out")
    (out,) = tmp_path.glob("out*")
    schema = pyarrow.schema([("item", "string"), ("half", "double"), ("at", "timestamp[us]")])
    assert schema == pyarrow.parquet.read_schema(out)


def test_drawings_show_the_fields(sales: Path) -> None:
    p = beam.Pipeline()
    _ = p | ReadFromParquet(sales, columns=["item", "price"]) | beam.Filter(col("price") > 1)
    data = p._repr_mimebundle_()
    assert "<title>item: string, price: int8</title>" in data["text/html"]
    assert 'tooltip="item: string, price: int8"' in data["text/vnd.graphviz"]
