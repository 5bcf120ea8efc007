"""Beam's managed transforms: reads and writes by the name of a system."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from kafka.topics import Topic
from servers.bigquery_server import BigQueryServer

import penstock as beam
from penstock.beam.io.gcp.bigquery import BigQuerySource
from penstock.beam.io.managed import BIGQUERY, DELTA, ICEBERG, KAFKA, Read, Write
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import UnsupportedError
from penstock.testing import TestPipeline, assert_that, equal_to

ROWS = [beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1)]


@pytest.fixture
def table(tmp_path: pathlib.Path) -> dict[str, Any]:
    return {"table": "shop.sales", "catalog_name": "lake", "catalog_properties": {"warehouse": str(tmp_path)}}


def test_a_table_of_iceberg_is_written_and_read(table: dict[str, Any]) -> None:
    with TestPipeline() as p:
        _ = p | beam.Create(ROWS) | Write(ICEBERG, config={**table, "triggering_frequency_seconds": 60})
    with TestPipeline() as p:
        read = p | Read("Iceberg", config={**table, "keep": ["item"]}) | beam.Map(lambda row: row.item)
        assert_that(read, equal_to(["tea", "milk"]))


def test_a_table_of_bigquery_is_written_and_read(bigquery: BigQueryServer) -> None:
    """It is created with the columns of the rows' type."""
    options = PipelineOptions(["--project=penstock"])
    with TestPipeline(options=options) as p:
        _ = p | beam.Create(ROWS) | Write(BIGQUERY, config={"table": "shop.managed"})
    assert [{"item": "tea", "cups": 2}, {"item": "milk", "cups": 1}] == bigquery.rows("managed")
    with TestPipeline(options=options) as p:
        some = p | Read(BIGQUERY, config={"table": "shop.managed", "row_restriction": "cups > 1", "fields": ["item"]})
        assert_that(some, equal_to([beam.Row(item="tea")]))
    with TestPipeline(options=options) as p:
        query = "SELECT SUM(cups) AS cups FROM `penstock.shop.managed`"
        assert_that(p | Read(BIGQUERY, config={"query": query}), equal_to([beam.Row(cups=3)]))


def test_the_source_of_beam_reads(bigquery: BigQueryServer) -> None:
    """As it did from files of JSON."""
    table = bigquery.make("of_source", [("day", "DATE")])
    assert [] == bigquery.client().insert_rows_json(table.replace(":", "."), [{"day": "2026-01-31"}], retry=None)
    with TestPipeline() as p:
        assert_that(p | beam.io.Read(BigQuerySource(table=table)), equal_to([{"day": "2026-01-31"}]))


@pytest.mark.parametrize("text", ['{"table": "shop.sales"}', "table: shop.sales\n"])
def test_the_settings_are_in_a_file(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    assert "shop.sales" == Read(ICEBERG, config_url=str(file)).transform.display_data()["table"]


@pytest.mark.parametrize(
    ("kind", "rows", "records"),
    [
        ("JSON", ROWS, [b'{"item": "tea", "cups": 2}', b'{"item": "milk", "cups": 1}']),
        ("RAW", [beam.Row(payload=b"tea"), beam.Row(payload=b"milk")], [b"tea", b"milk"]),
        ("STRING", [beam.Row(payload="tea"), beam.Row(payload="milk")], [b"tea", b"milk"]),
    ],
)
def test_records_of_kafka_are_written_and_read(topic: Topic, kind: str, rows: list[Any], records: list[bytes]) -> None:
    """In each format."""
    place = {"bootstrap_servers": topic.producer_config["bootstrap.servers"], "topic": topic.name, "format": kind}
    with TestPipeline() as p:
        _ = p | beam.Create(rows) | Write(KAFKA, config=place)
    with TestPipeline() as p:
        config = {"bootstrap.servers": place["bootstrap_servers"], "auto.offset.reset": "earliest"}
        raw = p | beam.io.ReadFromKafka(config, [topic.name], bounded=True) | beam.Values()
        assert_that(raw, equal_to(records))
    with TestPipeline() as p:
        settings = {**place, "auto_offset_reset_config": "earliest", "max_read_time_seconds": 1}
        read = p | Read(KAFKA, config=settings) | beam.Map(lambda row: row.as_dict())
        assert_that(read, equal_to([row.as_dict() for row in rows]))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Read("spanner", config={}),
            UnsupportedError,
            r"managed.Read\('spanner'\): penstock reads bigquery, delta, iceberg, kafka",
        ),
        (lambda: Read(ICEBERG), ValueError, "expected either config or config_url"),
        (lambda: Read(ICEBERG, config={}), ValueError, "the setting 'table' is missing"),
        (
            lambda: Read(ICEBERG, config={"table": "a.b", "tabel": 1}),
            ValueError,
            "there is no setting 'tabel' here; there are",
        ),
        (
            lambda: Write(KAFKA, config={"bootstrap_servers": "x:1", "topic": "t", "format": "AVRO"}),
            UnsupportedError,
            "format AVRO: penstock has RAW, STRING, JSON here",
        ),
    ],
)
def test_what_penstock_lacks_is_refused(make: Any, error: type[Exception], message: str) -> None:
    """When the transform is made."""
    with pytest.raises(error, match=message):
        make()


def test_a_file_without_settings_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(["table"]))

    with pytest.raises(ValueError, match="settings.json: expected a mapping of settings, got list"):
        Read(ICEBERG, config_url=str(file))


def test_a_table_of_delta_is_read_in_a_version(tmp_path: pathlib.Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    path = str(tmp_path / "names")
    for name in ("tea", "milk"):
        deltalake.write_deltalake(path, pa.table({"name": [name]}), mode="append")
    with TestPipeline() as p:
        names = p | Read(DELTA, config={"table": path}) | beam.Map(lambda row: row.name)
        assert_that(names, equal_to(["tea", "milk"]))
    with TestPipeline() as p:
        first = p | Read(DELTA, config={"table": path, "version": 0}) | beam.Map(lambda row: row.name)
        assert_that(first, equal_to(["tea"]))


def test_the_system_may_be_given_by_beams_name_of_it() -> None:
    read = Read(source="bigquery", config={"table": "shop.orders"})
    write = Write(sink="BigQuery", config={"table": "shop.orders"})

    assert "ReadFromBigQuery" == read.transform.default_label()
    assert "_WriteRows" == type(write.transform).__name__


def test_rows_with_the_types_of_a_table_are_written_to_it() -> None:
    """Columns may be NULL, or REPEATED."""
    from penstock.beam.io.gcp.bigquery_rows import beam_row_from_dict, get_beam_typehints_from_tableschema
    from penstock.beam.typehints.row_type import RowTypeConstraint

    columns = [
        {"name": "item", "type": "STRING"},
        {"name": "prices", "type": "FLOAT64", "mode": "REPEATED"},
        {"name": "n", "type": "INT64", "mode": "REQUIRED"},
    ]
    schema = {"fields": columns}
    types = RowTypeConstraint.from_fields(get_beam_typehints_from_tableschema(schema))
    p = beam.Pipeline()
    rows = p | beam.Create([{"n": 1}]) | beam.Map(beam_row_from_dict, schema).with_output_types(types)
    result = rows | Write(BIGQUERY, config={"table": "shop.orders"})
    assert result.failed_rows is not None
