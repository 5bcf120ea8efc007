"""WriteToAvro without a schema, and Avro files that appear."""

import datetime
from typing import NamedTuple

import pytest

import penstock as beam
from penstock.io.avroio import ReadAllFromAvroContinuously
from penstock.testing import TestPipeline, assert_that, equal_to
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
