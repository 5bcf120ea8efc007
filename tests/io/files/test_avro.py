"""WriteToAvro without a schema, and Avro files that appear."""

import datetime
import pathlib
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import penstock as beam
from penstock.dataframe.convert import to_dataframe, to_pcollection
from penstock.io.avroio import ReadAllFromAvroContinuously
from penstock.sdk.errors import ColumnError, TypeHintError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.sql import SqlTransform
from penstock.windowing.timestamp import Timestamp

pytest.importorskip("fastavro")


class Sale(NamedTuple):
    """A record."""

    item: str
    prices: list[float] | None
    sold: datetime.date


def test_records_are_written_with_the_schema_of_their_class(tmp_path):
    tea = Sale("tea", [1.5], datetime.date(2026, 1, 2))
    with TestPipeline() as p:
        sales = p | beam.Create([tea, Sale("milk", None, tea.sold)]).with_output_types(Sale)
        _ = sales | beam.io.WriteToAvro(str(tmp_path / "sales"))
        _ = p | "Rows" >> beam.Create([beam.Row(a=1, b="x")]) | "B" >> beam.io.WriteToAvro(str(tmp_path / "rows"))
    with TestPipeline() as p:
        expected = [tea._asdict(), Sale("milk", None, tea.sold)._asdict()]
        assert_that(p | beam.io.ReadFromAvro(f"{tmp_path}/sales*"), equal_to(expected))
        rows = p | "R" >> beam.io.ReadFromAvro(f"{tmp_path}/rows*", as_rows=True)
        assert_that(rows, equal_to([beam.Row(a=1, b="x")]), label="rows")
    with pytest.raises(TypeError, match=r"WriteToAvro: the type of the elements, int, has no fields .* an Avro schema"):
        beam.Pipeline() | beam.Create([1]) | beam.io.WriteToAvro(str(tmp_path / "numbers"))


def test_files_that_appear_are_read_once(tmp_path):
    path = str(tmp_path / "a.avro")
    with TestPipeline() as p:
        _ = p | beam.Create([beam.Row(name="Ada")]) | beam.io.WriteToAvro(path, shard_name_template="")
    with TestPipeline() as p:
        now = Timestamp.now()
        records = p | ReadAllFromAvroContinuously(
            f"{tmp_path}/*.avro", interval=0.1, stop_timestamp=now + 1, with_filename=True
        )
        assert_that(records, equal_to([(path, {"name": "Ada"})]))


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "empty").touch()
    with TestPipeline() as p:
        assert_that(p | beam.io.ReadFromAvro(f"{tmp_path}/*"), equal_to([]))


def test_the_label_of_reading_all_files_can_be_given():
    assert "ReadAllFromAvro" == beam.io.ReadAllFromAvro().label
    assert "Parts" == beam.io.ReadAllFromAvro(with_filename=True, label="Parts").label


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
# By the name of a field: its type, with a value.
LOGICAL: dict[str, tuple[dict[str, Any], Any]] = {
    "day": ({"type": "int", "logicalType": "date"}, MOMENT.date()),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT.replace(microsecond=678901)),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, MOMENT.replace(tzinfo=None)),
    "price": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("1.25")),
    "tax": ({"type": "fixed", "name": "T", "size": 8, "logicalType": "decimal", "precision": 9}, Decimal(7)),
    "id": ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
    "since": ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3, 4000)),
    "until": ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4)),
    "raw": ({"type": "string", "logicalType": "unknown"}, "x"),
    "java": ({"type": "string", "avro.java.string": "String"}, "y"),
    "kind": ({"type": "enum", "name": "K", "symbols": ["a", "b"]}, "b"),
    "code": ({"type": "fixed", "name": "C", "size": 2}, b"ab"),
}


@pytest.mark.parametrize("behind", ["a query by row", "a query of groups", "a frame", "WriteToAvro"])
def test_logical_types_are_those_of_their_values(tmp_path, behind: str):
    """In SQL, in frames and in files again; a null stays one."""
    pytest.importorskip("duckdb")
    schema = {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": name, "type": ["null", kind]} for name, (kind, _) in LOGICAL.items()],
    }
    values = {name: value for name, (_, value) in LOGICAL.items()}
    nothing = dict.fromkeys(LOGICAL)
    with TestPipeline() as p:
        _ = p | beam.Create([values, nothing]) | beam.io.WriteToAvro(str(tmp_path / "sales"), schema)
    names = ", ".join(f"MAX({name}) AS {name}" for name in LOGICAL)
    with TestPipeline() as p:
        rows = p | beam.io.ReadFromAvro(f"{tmp_path}/sales*", as_rows=True)
        if behind == "a query by row":
            found = rows | SqlTransform("SELECT * FROM PCOLLECTION WHERE price IS NULL OR price > 1")
        elif behind == "a query of groups":
            found = rows | SqlTransform(f"SELECT day, {names.partition(', ')[2]} FROM PCOLLECTION GROUP BY day")
        elif behind == "a frame":
            found = to_pcollection(to_dataframe(rows))
        else:
            _ = rows | beam.io.WriteToAvro(str(tmp_path / "copy"))
            found = rows
        assert_that(found | beam.Map(lambda row: row._asdict()), equal_to([values, nothing]))
    if behind == "WriteToAvro":
        with TestPipeline() as p:
            assert_that(p | beam.io.ReadFromAvro(f"{tmp_path}/copy*"), equal_to([values, nothing]))


PARTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a.avro": (
        {"id": "long", "price": "int", "tags": {"type": "array", "items": "string"}},
        {"id": 1, "price": 2, "tags": ["hot"]},
    ),
    "b.avro": (
        {
            "id": "long",
            "price": "double",
            "tax": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "place": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]},
            "other": ["null", "org.shop.Place"],
        },
        {"id": 2, "price": 2.5, "tax": Decimal("1.25"), "place": {"city": "Rome"}, "other": {"city": "Oslo"}},
    ),
    "c.avro": (
        {"id": "int", "tax": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}]},
        {"id": 3, "tax": Decimal("12345.5")},
    ),
}
NOTHING = dict.fromkeys(["id", "price", "tags", "tax", "place", "other"])


def write_part(path: pathlib.Path, fields: dict[str, Any], record: dict[str, Any]) -> None:
    import fastavro

    described = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = {"type": "record", "name": "Sale", "namespace": "org.shop", "fields": described}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [record])


@pytest.fixture
def parts(tmp_path: pathlib.Path) -> str:
    """The pattern of three files with other fields each."""
    for name, (fields, record) in PARTS.items():
        write_part(tmp_path / name, fields, record)
    (tmp_path / "empty.avro").touch()
    return f"{tmp_path}/*.avro"


@pytest.mark.parametrize("behind", ["rows", "a query by row", "a query of groups", "a frame", "GroupBy"])
def test_rows_of_several_files_have_the_fields_of_all(parts: str, behind: str, make_pipeline: Any) -> None:
    """With the types that hold for each; what a file doesn't have is null."""
    pytest.importorskip("duckdb")
    records = [NOTHING | record for _, record in PARTS.values()]
    with make_pipeline() as p:
        rows = p | beam.io.ReadFromAvro(parts, as_rows=True)
        if behind == "a query of groups":
            found = rows | SqlTransform(
                "SELECT SUM(price) AS price, SUM(tax) AS tax, MAX(other.city) AS c FROM PCOLLECTION"
            )
            expected = [{"price": 4.5, "tax": Decimal("12346.75"), "c": "Oslo"}]
        elif behind == "GroupBy":
            found = rows | beam.GroupBy("id").aggregate_field("tax", beam.combiners.ToListCombineFn(), "all")
            expected = [{"id": record["id"], "all": [record["tax"]]} for record in records]
        else:
            expected = records
            query = SqlTransform("SELECT * FROM PCOLLECTION")
            found = (
                rows
                if behind == "rows"
                else rows | query
                if behind == "a query by row"
                else to_pcollection(to_dataframe(rows))
            )
        assert_that(found | beam.Map(lambda row: row._asdict()), equal_to(expected))


def test_types_that_contradict_are_told_with_their_files(parts: str, tmp_path: pathlib.Path) -> None:
    """By what needs a type; Rows don't."""
    pytest.importorskip("duckdb")
    write_part(tmp_path / "d.avro", {"id": "string", "tags": ["long", "string"]}, {"id": "x", "tags": 4})
    message = r"the type of the field 'id' isn't known: it is int64 in '.*/a.avro', and string in '.*/d.avro'"
    with TestPipeline() as p:
        rows = p | beam.io.ReadFromAvro(parts, as_rows=True)
        with pytest.raises(TypeHintError, match=rf"^SqlTransform: PCOLLECTION: {message}"):
            _ = rows | SqlTransform("SELECT id FROM PCOLLECTION")
        with pytest.raises(TypeHintError, match=message):
            to_dataframe(rows)
        with pytest.raises(TypeError, match=message):
            _ = rows | beam.io.WriteToAvro(str(tmp_path / "copy"))
        assert_that(rows | beam.Select("id") | beam.Map(lambda row: row.id), equal_to([1, 2, 3, "x"]))
        with pytest.raises(ColumnError, match="there is no field 'prize'; the elements have id, price, tags, tax"):
            _ = rows | "wrong" >> beam.Select("prize")
