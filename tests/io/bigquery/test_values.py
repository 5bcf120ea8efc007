"""Rows as BigQuery takes them by each of its APIs, and as it returns them."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow
import pytest
from servers.bigquery_server import DATASET, PROJECT, BigQueryServer

from penstock.io.bigquery.client import TableName, open_client, open_read_client, open_write_client
from penstock.io.bigquery.schemas import Column, as_json, schema_of
from penstock.io.bigquery.values import Rows, WrongValueError, message_class, rows_of
from penstock.windowing import Timestamp

COLUMNS = schema_of(
    "Write",
    "text:STRING,whole:INT64,real:FLOAT,flag:BOOL,raw:BYTES,price:NUMERIC,large:BIGNUMERIC,day:DATE,clock:TIME,"
    "local:DATETIME,instant:TIMESTAMP,document:JSON,place:GEOGRAPHY",
) + schema_of(
    "Write",
    [
        {"name": "lines", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "day", "type": "DATE"}]},
        {"name": "numbers", "type": "INT64", "mode": "REPEATED"},
    ],
)

_FULL = {
    "text": "é",
    "whole": -(2**63),
    "real": 1.5,
    "flag": True,
    "raw": b"\x00\xff",
    "price": Decimal("-1.000000001"),
    "large": Decimal("2.500000000000000001"),
    "day": datetime.date(1969, 12, 31),
    "clock": datetime.time(1, 2, 3, 4),
    "local": datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    "instant": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    "document": {"a": [1]},
    "place": "POINT (1 2)",
    "lines": [{"day": datetime.date(2026, 1, 1)}, {"day": None}],
    "numbers": [1, 2],
}
_EMPTY = {column.name: [] if column.mode == "REPEATED" else None for column in COLUMNS}


def _inserted(client: Any, table: str, rows: Any) -> None:
    assert [] == client.insert_rows_json(table, [Rows(COLUMNS).as_json(row) for row in rows])


def _loaded(client: Any, table: str, rows: Any) -> None:
    client.load_table_from_json([Rows(COLUMNS, parsed_json=True).as_json(row) for row in rows], table).result()


def _appended(client: Any, table: str, rows: Any) -> None:
    from google.cloud.bigquery_storage_v1 import types

    descriptor, message = message_class(COLUMNS)
    data = [message(**Rows(COLUMNS).as_fields(row)).SerializeToString() for row in rows]
    sent = types.AppendRowsRequest.ProtoData(
        writer_schema=types.ProtoSchema(proto_descriptor=descriptor), rows=types.ProtoRows(serialized_rows=data)
    )
    stream = f"{TableName.of('Write', table).path}/streams/_default"
    request = types.AppendRowsRequest(write_stream=stream, proto_rows=sent)
    answers = open_write_client().append_rows(iter([request]))
    assert [0] == [answer.error.code for answer in answers]


@pytest.mark.parametrize("written", [_inserted, _loaded, _appended])
def test_values_of_all_types_are_written(bigquery: BigQueryServer, name: str, written: Callable[..., None]) -> None:
    from google.cloud import bigquery as google

    client, table = open_client("Write"), f"{PROJECT}.{DATASET}.{name}"
    client.create_table(google.Table(table, [google.SchemaField.from_api_repr(each.as_json()) for each in COLUMNS]))
    written(client, table, [_FULL, {}])
    assert [_FULL, _EMPTY] == bigquery.rows(name)


def test_columns_of_arrow_are_read_as_rows(bigquery: BigQueryServer, name: str) -> None:
    from google.cloud.bigquery_storage_v1 import types

    bigquery.make(name, [("n", "INTEGER"), ("instant", "TIMESTAMP"), ("price", "NUMERIC")])
    row = {
        "n": 1,
        "instant": datetime.datetime(2026, 1, 2, microsecond=1, tzinfo=datetime.UTC),
        "price": Decimal("1.5"),
    }
    columns = schema_of("Read", "n:INTEGER,instant:TIMESTAMP,price:NUMERIC")
    table = TableName(PROJECT, DATASET, name)
    client = open_client("Read")
    client.insert_rows_json(table.sql, [Rows(columns).as_json(row)])
    reader = open_read_client()
    session = types.ReadSession(table=table.path, data_format=types.DataFormat.ARROW)
    opened = reader.create_read_session(parent=f"projects/{PROJECT}", read_session=session, max_stream_count=1)
    assert [row] == rows_of(reader.read_rows(opened.streams[0].name).to_arrow(opened))


def test_a_repeated_column_without_values_is_an_empty_list() -> None:
    table = pyarrow.table({"n": pyarrow.array([None, [1]], pyarrow.list_(pyarrow.int64()))})
    assert [{"n": []}, {"n": [1]}] == rows_of(table)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("INTEGER", "7", "7"),
        ("INTEGER", 7.0, "7"),
        ("FLOAT", float("nan"), "NaN"),
        ("FLOAT", "-inf", "-Infinity"),
        ("BOOLEAN", "TRUE", True),
        ("STRING", 7, "7"),
        ("NUMERIC", 0.1, "0.1"),
        ("NUMERIC", Decimal("1E+3"), "1000"),
        ("DATE", "2026-01-31", "2026-01-31"),
        ("TIMESTAMP", 1.5, "1970-01-01T00:00:01.500000+00:00"),
        ("TIMESTAMP", Timestamp(1.5), "1970-01-01T00:00:01.500000+00:00"),
        ("TIMESTAMP", "1970-01-01 01:00:00+01:00", "1970-01-01T00:00:00+00:00"),
        ("TIMESTAMP", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00+00:00"),
        ("JSON", "[1]", "[1]"),
        ("BYTES", b"\xff", "/w=="),
        ("BYTES", "/w==", "/w=="),
    ],
)
def test_a_value_is_given_in_many_ways(kind: str, given: Any, expected: Any) -> None:
    assert {"c": expected} == Rows([Column("c", kind)]).as_json({"c": given})


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("INTEGER", 1.5),
        ("INTEGER", 2**63),
        ("INTEGER", True),
        ("FLOAT", "much"),
        ("BOOLEAN", 1),
        ("STRING", b"a"),
        ("NUMERIC", Decimal("1E+29")),
        ("NUMERIC", "1.0000000001"),
        ("NUMERIC", float("nan")),
        ("DATE", "31.1.2026"),
        ("DATE", datetime.datetime(2026, 1, 31)),
        ("DATETIME", datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)),
        ("TIMESTAMP", "yesterday"),
        ("TIMESTAMP", float("inf")),
        ("JSON", "{"),
        ("BYTES", "*"),
        ("RECORD", 7),
    ],
)
def test_a_wrong_value_is_named(kind: str, given: Any) -> None:
    fields = (Column("d", "DATE"),) if kind == "RECORD" else ()
    for convert in (
        Rows([Column("c", kind, fields=fields)]).as_json,
        Rows([Column("c", kind, fields=fields)]).as_fields,
    ):
        with pytest.raises(WrongValueError, match="^column c"):
            convert({"c": given})


def test_a_nested_column_is_named() -> None:
    rows = Rows([Column("outer", "RECORD", "REPEATED", (Column("day", "DATE"),))])
    with pytest.raises(WrongValueError, match="^column outer.day: expected a DATE, got 7$"):
        rows.as_json({"outer": [{"day": 7}]})


def test_unknown_columns_are_errors_unless_they_are_ignored() -> None:
    with pytest.raises(WrongValueError, match="^column m: the table has no such column"):
        Rows([Column("n", "INTEGER")]).as_json({"n": 1, "m": 2})
    assert {"n": 1} == Rows([Column("n", "INTEGER")], ignores_unknown=True).as_fields({"N": 1, "m": 2})


def test_a_required_column_has_a_value() -> None:
    with pytest.raises(WrongValueError, match="^column n: it is REQUIRED"):
        Rows([Column("n", "INTEGER", "REQUIRED")]).as_json({"n": None})


def test_bytes_are_base64_where_beam_has_them_so() -> None:
    rows = Rows([Column("raw", "BYTES")], base64_bytes=True)
    given = base64.b64encode(b"\xff")
    assert ({"raw": "/w=="}, {"raw": b"\xff"}) == (rows.as_json({"raw": given}), rows.as_fields({"raw": given}))


def test_a_schema_is_the_same_as_json() -> None:
    assert COLUMNS == schema_of("Write", as_json(COLUMNS))
