"""ReadFromBigQuery and ReadAllFromBigQuery on a server with BigQuery's API."""

from __future__ import annotations

import datetime
import threading
import time
from decimal import Decimal
from typing import Any

import pytest
from servers.bigquery_server import DATASET, PROJECT, BigQueryServer
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import ReadAllFromBigQuery, ReadFromBigQuery, ReadFromBigQueryRequest
from penstock.sdk.errors import PenstockError, SourceError
from penstock.sdk.options.value_provider import RuntimeValueProvider
from penstock.testing.util import assert_that, equal_to

NUMBERS = [("n", "INTEGER"), ("name", "STRING")]


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"n": n, "name": f"row {n}"} for n in range(start, stop)]


def insert(bigquery: BigQueryServer, table: str, values: list[dict[str, Any]]) -> None:
    assert [] == bigquery.client().insert_rows_json(table.replace(":", "."), values, retry=None)


@pytest.fixture
def table(bigquery: BigQueryServer, name: str) -> str:
    """A table of twenty rows."""
    table = bigquery.make(name, NUMBERS)
    insert(bigquery, table, rows(0, 20))
    return table


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_every_runner_reads_tables(bigquery: BigQueryServer, table: str, make_pipeline: Any, request: Any) -> None:
    """Two of them, as columns, and one of them twice."""
    if request.getfixturevalue("runner_name").startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(bigquery.environment)
    other = bigquery.make(f"{table.partition('.')[2]}_other", NUMBERS)
    insert(bigquery, other, rows(20, 25))
    read = ReadFromBigQuery(table=table)
    with make_pipeline() as p:
        found = (p | "Left" >> read, p | "Right" >> read, p | ReadFromBigQuery(table=other)) | beam.Flatten()
        assert_that(found, equal_to([*rows(0, 25), *rows(0, 20)]))


def test_an_empty_table(bigquery: BigQueryServer, name: str) -> None:
    with beam.Pipeline() as p:
        assert_that(p | ReadFromBigQuery(table=bigquery.make(name, NUMBERS)), equal_to([]))


def test_columns_and_rows_are_chosen(bigquery: BigQueryServer, table: str) -> None:
    """By the server."""
    with beam.Pipeline() as p:
        chosen = ReadFromBigQuery(table=table, selected_fields=["name"], row_restriction="n > 17")
        assert_that(p | chosen, equal_to([{"name": "row 18"}, {"name": "row 19"}]))


def test_rows_have_the_types_of_the_table(bigquery: BigQueryServer, table: str) -> None:
    """Only the columns that are used are read."""
    p = beam.Pipeline()
    found = p | ReadFromBigQuery(table=table, output_type="BEAM_ROW", method="DIRECT_READ")
    totals = found | beam.GroupBy(even=lambda row: row.n % 2 == 0).aggregate_field("n", sum, "total")
    assert_that(totals, equal_to([beam.Row(even=True, total=90), beam.Row(even=False, total=100)]))
    p.run()


@pytest.mark.parametrize("standard", [True, False])
def test_a_query(bigquery: BigQueryServer, table: str, standard: bool) -> None:
    of = f"`{table.replace(':', '.')}`" if standard else f"[{table}]"
    with beam.Pipeline() as p:
        found = p | ReadFromBigQuery(query=f"SELECT n FROM {of} WHERE n > 17", use_standard_sql=standard)
        assert_that(found, equal_to([{"n": 18}, {"n": 19}]))


def test_rows_of_a_query(bigquery: BigQueryServer, table: str) -> None:
    with beam.Pipeline() as p:
        sql = f"SELECT n FROM `{table.replace(':', '.')}` WHERE n > 17"
        read = ReadFromBigQuery(
            query=sql, use_standard_sql=True, output_type="BEAM_ROW", query_output_schema="n:INTEGER"
        )
        assert_that(p | read, equal_to([beam.Row(n=18), beam.Row(n=19)]))


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_the_temporary_table_of_a_query_is_removed(
    bigquery: BigQueryServer, table: str, make_pipeline: Any, request: Any
) -> None:
    """Once its rows were read."""
    if request.getfixturevalue("runner_name").startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(bigquery.environment)
    sql = f"SELECT n FROM `{table.replace(':', '.')}` WHERE n > 17"
    with make_pipeline() as p:
        read = ReadFromBigQuery(query=sql, use_standard_sql=True, temp_dataset=f"{PROJECT}.{DATASET}")
        assert_that(p | read, equal_to([{"n": 18}, {"n": 19}]))
    assert [] == [each.table_id for each in bigquery.client().list_tables(DATASET) if "penstock" in each.table_id]


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_many_tables_and_queries(bigquery: BigQueryServer, table: str, make_pipeline: Any, request: Any) -> None:
    if request.getfixturevalue("runner_name").startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(bigquery.environment)
    sql = f"SELECT n + 100 AS n FROM `{table.replace(':', '.')}` WHERE n > 17"
    requests = [ReadFromBigQueryRequest(table=table), ReadFromBigQueryRequest(query=sql)]
    with make_pipeline() as p:
        found = p | beam.Create(requests) | ReadAllFromBigQuery(temp_dataset=f"{PROJECT}.{DATASET}")
        assert_that(found, equal_to([*rows(0, 20), {"n": 118}, {"n": 119}]))
    assert [] == [each.table_id for each in bigquery.client().list_tables(DATASET) if "penstock" in each.table_id]


def test_a_table_that_the_options_name(bigquery: BigQueryServer, table: str) -> None:
    provider = RuntimeValueProvider("table", str, table)
    with beam.Pipeline() as p:
        assert_that(p | ReadFromBigQuery(table=provider), equal_to(rows(0, 20)))


# Types

TYPES = {
    "s": ("STRING", "text", "text"),
    "b": ("BYTES", "AAH/", b"\x00\x01\xff"),
    "i": ("INTEGER", str(2**63 - 1), 2**63 - 1),
    "f": ("FLOAT", 0.1, 0.1),
    "num": ("NUMERIC", "123.456789012", Decimal("123.456789012")),
    "flag": ("BOOLEAN", True, True),
    "ts": (
        "TIMESTAMP",
        "2026-01-31T10:00:00.000001+00:00",
        datetime.datetime(2026, 1, 31, 10, 0, 0, 1, tzinfo=datetime.UTC),
    ),
    "d": ("DATE", "2026-01-31", datetime.date(2026, 1, 31)),
    "t": ("TIME", "10:00:00.000001", datetime.time(10, 0, 0, 1)),
    "dt": ("DATETIME", "2026-01-31T10:00:00.000001", datetime.datetime(2026, 1, 31, 10, 0, 0, 1)),
    "j": ("JSON", '{"a": 1}', '{"a": 1}'),
}
LIKE_JSON = {
    "b": b"AAH/",
    "ts": "2026-01-31 10:00:00.000001 UTC",
    "d": "2026-01-31",
    "t": "10:00:00.000001",
    "dt": "2026-01-31T10:00:00.000001",
}


@pytest.fixture
def typed(bigquery: BigQueryServer, name: str) -> str:
    """A table with a row of values, and one of nulls."""
    from google.cloud.bigquery import SchemaField, Table

    fields = [SchemaField(column, kind) for column, (kind, _, _) in TYPES.items()]
    fields.append(SchemaField("many", "INTEGER", "REPEATED"))
    fields.append(SchemaField("part", "RECORD", fields=[SchemaField("moment", "DATETIME"), SchemaField("x", "STRING")]))
    table = f"{PROJECT}.{DATASET}.{name}"
    bigquery.client().create_table(Table(table, fields))
    values = {column: given for column, (_, given, _) in TYPES.items()}
    row = {**values, "many": [1, 2], "part": {"moment": "2026-01-31T10:00:00", "x": "y"}}
    insert(bigquery, table, [row, {"s": "nulls"}])
    return f"{PROJECT}:{DATASET}.{name}"


@pytest.mark.parametrize(
    ("options", "texts", "at"),
    [
        ({}, {}, datetime.datetime(2026, 1, 31, 10)),
        ({"method": "DIRECT_READ"}, {"dt": LIKE_JSON["dt"]}, "2026-01-31T10:00:00"),
        ({"method": "DIRECT_READ", "use_native_datetime": True}, {}, datetime.datetime(2026, 1, 31, 10)),
        ({"use_json_exports": True}, LIKE_JSON, "2026-01-31T10:00:00"),
    ],
)
def test_values_have_the_types_of_beam(typed: str, options: dict[str, Any], texts: dict[str, Any], at: Any) -> None:
    values = {column: value for column, (_, _, value) in TYPES.items()}
    row = {**values, **texts, "many": [1, 2], "part": {"moment": at, "x": "y"}}
    nulls = {**dict.fromkeys(TYPES), "s": "nulls", "many": [], "part": None}
    with beam.Pipeline() as p:
        found = p | ReadFromBigQuery(table=typed, **options) | beam.Map(_without_null_records)
        assert_that(found, equal_to([row, nulls]))


def _without_null_records(row: dict[str, Any]) -> dict[str, Any]:
    # The server's database makes a record of nulls of it.
    record = row["part"]
    return row if record is None or any(record.values()) else {**row, "part": None}


# Failures


def test_a_lost_server_is_waited_for(bigquery_server: BigQueryServer, bigquery: BigQueryServer, name: str) -> None:
    """Before the read begins."""
    table = bigquery.make(name, NUMBERS)
    insert(bigquery, table, rows(0, 20))
    bigquery_server.command("stop")
    back = threading.Thread(target=lambda: (time.sleep(2), bigquery_server.command("start")))
    back.start()
    try:
        with beam.Pipeline() as p:
            assert_that(p | ReadFromBigQuery(table=table), equal_to(rows(0, 20)))
    finally:
        back.join()


def built_or_run(read: Any, fails_at_build: bool) -> None:
    """Build a pipeline, and run it if that hasn't failed."""
    p = beam.Pipeline()
    _ = p | read
    assert not fails_at_build
    p.run()


@pytest.mark.parametrize("validate", [True, False])
def test_a_missing_table_is_named(bigquery: BigQueryServer, validate: bool) -> None:
    """Before the run, if that is asked for; and when it starts."""
    read = "Read orders" >> ReadFromBigQuery(table=f"{DATASET}.nowhere", validate=validate)
    with pytest.raises(SourceError, match=r"Read orders.*BigQuery's .*nowhere can't be read: .*do the project"):
        built_or_run(read, validate)


@pytest.mark.parametrize("validate", [True, False])
def test_a_wrong_query_is_named(bigquery: BigQueryServer, validate: bool) -> None:
    read = ReadFromBigQuery(query="SELECT n FROM", use_standard_sql=True, validate=validate)
    with pytest.raises(SourceError, match=r"ReadFromBigQuery: BigQuery's query (is refused|fails): .*"):
        built_or_run(read, validate)


def test_a_partition_is_refused(bigquery: BigQueryServer, table: str) -> None:
    p = beam.Pipeline()
    _ = p | ReadFromBigQuery(table=f"{table}$20260131")
    with pytest.raises(SourceError, match="names a partition, which the Storage Read API doesn't read"):
        p.run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected either a table or a query"),
        ({"table": "a.b", "query": "SELECT 1"}, "expected either a table or a query"),
        ({"table": "orders"}, "expected a table such as"),
        ({"table": lambda row: "a.b"}, "a function of elements is for writing"),
        ({"table": "a.b", "method": "GRPC"}, "method must be 'EXPORT' or 'DIRECT_READ', got 'GRPC'"),
        ({"table": "a.b", "use_native_datetime": True}, "use_native_datetime needs method='DIRECT_READ'"),
        ({"table": "a.b", "use_json_exports": True, "method": "DIRECT_READ"}, "exclude each other"),
        ({"query": "SELECT 1", "output_type": "BEAM_ROW"}, "of a query needs query_output_schema"),
        ({"query": "SELECT 1", "row_restriction": "n > 1"}, "put it into the query"),
        ({"query": "SELECT 1", "query_priority": "NOW"}, "query_priority must be 'BATCH' or 'INTERACTIVE'"),
        ({"table": "a.b", "selected_fields": "n"}, "selected_fields must be a list of names"),
        ({"query": "SELECT 1", "temp_dataset": 3}, "temp_dataset must be a dataset"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"ReadFromBigQuery: .*{message}"):
        ReadFromBigQuery(**options)


def test_a_request_is_of_a_table_or_a_query() -> None:
    with pytest.raises(ValueError, match="expected either a table or a query"):
        ReadFromBigQueryRequest()


def test_the_rows_of_a_failed_run_are_read_again(bigquery: BigQueryServer, table: str) -> None:
    p = beam.Pipeline()
    _ = p | ReadFromBigQuery(table=table) | beam.Map(lambda row: 1 // (row["n"] - 19))
    with pytest.raises((PenstockError, ZeroDivisionError)):
        p.run()
    with beam.Pipeline() as p:
        assert_that(p | ReadFromBigQuery(table=table), equal_to(rows(0, 20)))
