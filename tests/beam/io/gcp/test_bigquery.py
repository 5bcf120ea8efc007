"""Beam's names of BigQuery: a program for Beam writes, and its helpers are there."""

from __future__ import annotations

import datetime
import io
import itertools
import sys
from decimal import Decimal
from typing import Any

import pytest
from servers.bigquery_server import DATASET, PROJECT, BigQueryServer

import penstock as beam
from penstock.beam.import_hook import install_import_hook
from penstock.sdk.errors import UnsupportedError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.options.value_provider import RuntimeValueProvider
from penstock.testing import assert_that, equal_to

_numbers = itertools.count()

ROWS = [{"key": key, "n": key} for key in range(3)]


@pytest.fixture(autouse=True)
def _beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    install_import_hook()


@pytest.fixture
def name() -> str:
    """The name of a table."""
    return f"of_beam{next(_numbers)}"


@pytest.mark.parametrize("method", ["STREAMING_INSERTS", "FILE_LOADS", "STORAGE_WRITE_API"])
def test_a_program_for_beam_writes(bigquery: BigQueryServer, name: str, method: str) -> None:
    """The project is that of the options; parameters without effect are accepted."""
    from apache_beam.io import BigQueryDisposition  # type: ignore[import-not-found]
    from apache_beam.io.gcp.bigquery import BigQueryWriteFn, WriteToBigQuery  # type: ignore[import-not-found]
    from apache_beam.io.gcp.bigquery_tools import RetryStrategy  # type: ignore[import-not-found]
    from apache_beam.io.gcp.internal.clients import bigquery as messages  # type: ignore[import-not-found]

    schema = messages.TableSchema()
    for column in ("key", "n"):
        schema.fields.append(messages.TableFieldSchema(name=column, type="INTEGER", mode="NULLABLE"))
    reference = messages.TableReference(datasetId=DATASET, tableId=name)
    with beam.Pipeline(options=PipelineOptions(["--project", PROJECT])) as p:
        result = (
            p
            | beam.Create(ROWS)
            | WriteToBigQuery(
                reference,
                schema=schema,
                create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
                write_disposition=BigQueryDisposition.WRITE_APPEND,
                method=getattr(WriteToBigQuery.Method, method),
                insert_retry_strategy=RetryStrategy.RETRY_ON_TRANSIENT_ERROR,
                batch_size=10,
                max_file_size=1 << 20,
                num_storage_api_streams=2,
            )
        )
        _ = result[BigQueryWriteFn.FAILED_ROWS] | beam.Map(str)
    assert ROWS == sorted(bigquery.rows(name), key=lambda row: row["key"])


def test_a_table_is_named_by_its_parts(bigquery: BigQueryServer, name: str) -> None:
    from apache_beam.io import BigQuerySink, Write  # type: ignore[import-not-found]

    with beam.Pipeline() as p:
        _ = p | beam.Create(ROWS) | Write(BigQuerySink(name, DATASET, PROJECT, "key:INTEGER,n:INTEGER"))
    assert ROWS == sorted(bigquery.rows(name), key=lambda row: row["key"])


def test_a_table_without_a_project_is_of_that_of_the_options(bigquery: BigQueryServer, name: str) -> None:
    """Also one that the options name."""
    table = bigquery.make(name, [("n", "INTEGER")])
    assert [] == bigquery.client().insert_rows_json(table.replace(":", "."), [{"n": 1}], retry=None)
    provider = RuntimeValueProvider("table", str, table.partition(":")[2])
    with beam.Pipeline(options=PipelineOptions([f"--project={PROJECT}"])) as p:
        assert_that(p | beam.io.ReadFromBigQuery(table=provider), equal_to([{"n": 1}]))


def test_options_of_a_schema_s_update_are_those_of_load_jobs() -> None:
    from apache_beam.io.gcp.bigquery import BigQuerySchemaUpdateOption, WriteToBigQuery

    write = WriteToBigQuery(
        "shop.orders",
        method=WriteToBigQuery.Method.FILE_LOADS,
        additional_bq_parameters={"clustering": {"fields": ["n"]}},
        schema_update_options=[BigQuerySchemaUpdateOption.ALLOW_FIELD_ADDITION],
    )
    expected = {"clustering": {"fields": ["n"]}, "schemaUpdateOptions": ["ALLOW_FIELD_ADDITION"]}
    assert expected == write.written.parameters


@pytest.mark.parametrize("argument", ["test_client", "big_lake_configuration"])
def test_what_is_not_supported_is_refused_by_name(argument: str) -> None:
    from apache_beam.io.gcp.bigquery import WriteToBigQuery

    with pytest.raises(UnsupportedError, match=f"^WriteToBigQuery: {argument} isn't supported; "):
        WriteToBigQuery("shop.orders", **{argument: object()})


def test_schemas_are_text_dicts_and_objects() -> None:
    """And other things, such as functions, stay as they are."""
    from apache_beam.io.gcp import bigquery_tools as tools

    expected = {"fields": [{"name": "n", "type": "INTEGER", "mode": "NULLABLE"}]}
    schema = tools.get_bq_tableschema("n:INTEGER")
    assert [expected] * 2 == [tools.get_dict_table_schema(each) for each in ("n:INTEGER", schema)]
    assert schema == tools.get_bq_tableschema(expected)
    assert [None, len] == [tools.get_dict_table_schema(None), tools.get_bq_tableschema(len)]
    with pytest.raises(TypeError, match="Unexpected schema argument: 7"):
        tools.get_dict_table_schema(7)


def test_references_of_tables_are_parsed() -> None:
    from apache_beam.io.gcp.bigquery_tools import parse_table_reference
    from apache_beam.io.gcp.internal.clients.bigquery import TableReference

    found = parse_table_reference("shop:sales.orders$20260101")
    assert TableReference("shop", "sales", "orders$20260101") == found == parse_table_reference(found)
    assert TableReference("shop", "sales", "orders") == parse_table_reference("orders", "sales", "shop")
    with pytest.raises(ValueError, match="Expected a table reference"):
        parse_table_reference("orders")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("RETRY_ALWAYS", [True, True]), ("RETRY_NEVER", [False, False]), ("RETRY_ON_TRANSIENT_ERROR", [False, True])],
)
def test_a_strategy_says_what_is_tried_again(strategy: str, expected: list[bool]) -> None:
    from apache_beam.io.gcp.bigquery_tools import RetryStrategy

    assert expected == [RetryStrategy.should_retry(strategy, error) for error in ("invalid", "backendError")]


def test_a_wrapper_has_tables_and_datasets(bigquery: BigQueryServer, name: str) -> None:
    from apache_beam.io.gcp.bigquery_tools import BigQueryWrapper

    wrapper: Any = BigQueryWrapper()
    wrapper.get_or_create_dataset(PROJECT, DATASET)
    bigquery.make(name, [("n", "INTEGER")])
    assert ["n"] == [column.name for column in wrapper.get_table(PROJECT, DATASET, name).schema]
    wrapper._delete_table(PROJECT, DATASET, name)
    assert [] == bigquery.rows(name)


def test_rows_are_lines_of_json() -> None:
    """As Beam's writer has them."""
    from apache_beam.io.gcp.bigquery_tools import JsonRowWriter, RowAsDictJsonCoder

    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    row = {"d": moment.date(), "t": datetime.time(1, 2), "dt": moment, "n": Decimal("1.50"), "b": b"abc", "u": "é"}
    file = io.BytesIO()
    writer = JsonRowWriter(file)
    writer.write(row)
    writer.write({"d": None})
    writer.flush()
    first, second = file.getvalue().splitlines()
    expected = '{"d": "2026-01-02", "t": "01:02:00", "dt": "2026-01-02 03:04:05.000006+00:00", "n": "1.50", "b": "abc"'
    assert f'{expected}, "u": "é"}}' == first.decode()
    assert {"d": None} == RowAsDictJsonCoder().decode(second)
    with pytest.raises(ValueError, match="NAN, INF and -INF values are not JSON compliant"):
        writer.write({"d": float("nan")})
    with pytest.raises(TypeError, match="Object of type 'object' is not JSON serializable"):
        writer.write({"d": object()})
    with pytest.raises(io.UnsupportedOperation, match="JsonRowWriter is not readable"):
        writer.read()
    writer.close()
    assert writer.closed


def test_rows_are_records_of_avro() -> None:
    fastavro = pytest.importorskip("fastavro")
    from apache_beam.io.gcp.bigquery_tools import AvroRowWriter

    schema = {
        "fields": [
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "price", "type": "NUMERIC"},
            {"name": "at", "type": "TIMESTAMP"},
            {"name": "tags", "type": "STRING", "mode": "REPEATED"},
            {"name": "buyer", "type": "RECORD", "fields": [{"name": "name", "type": "STRING"}]},
        ]
    }
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    rows = [
        {"id": 1, "price": Decimal("1.500000000"), "at": at, "tags": ["a", "b"], "buyer": {"name": "Ann"}},
        {"id": 2, "price": None, "at": None, "tags": [], "buyer": None},
    ]
    file = io.BytesIO()
    writer = AvroRowWriter(file, schema)
    for row in rows:
        writer.write(row)
    writer.flush()
    file.seek(0)
    assert rows == list(fastavro.reader(file))
    with pytest.raises(ValueError, match="column 'n' has the type INTERVAL"):
        AvroRowWriter(io.BytesIO(), "n:INTERVAL")


def test_a_row_of_a_table_becomes_a_row_with_all_columns() -> None:
    from apache_beam.io.gcp.bigquery_tools import beam_row_from_dict

    schema = {
        "fields": [
            {"name": "id", "type": "INTEGER"},
            {"name": "lines", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "n", "type": "INTEGER"}]},
            {"name": "note", "type": "STRING"},
        ]
    }
    expected = beam.Row(id=1, lines=[beam.Row(n=2)], note=None)
    assert expected == beam_row_from_dict({"id": 1, "lines": [{"n": 2}]}, schema)
