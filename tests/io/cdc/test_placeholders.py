"""Debezium's placeholders for values that didn't change, in each form in which its messages are read."""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pytest
from support.pipelines.recording import record

import penstock as beam
from penstock.io import FromDebezium
from penstock.testing import TestPipeline

EXACT = Context(prec=100)
DEFAULT = "__debezium_unavailable_value"
# The columns of a table: in Kafka Connect's JSON schema and in Avro's, with a value.
COLUMNS: dict[str, tuple[Any, Any, Any]] = {
    "text": ({"type": "string"}, "string", "long"),
    "data": ({"type": "bytes"}, "bytes", b"\x01\xff"),
    "texts": ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": "string"}, ["a", "b"]),
    "numbers": ({"type": "array", "items": {"type": "int32"}}, {"type": "array", "items": "int"}, [1, 2]),
    "tags": (
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
        {"type": "map", "values": "string"},
        {"a": "1"},
    ),
    # Kafka Connect has pairs of maps whose keys may be null: lists in JSON, and records in Avro.
    "pairs": (
        {"type": "map", "keys": {"type": "string", "optional": True}, "values": {"type": "string"}},
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "MapEntry",
                "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
            },
        },
        None,
    ),
    "price": (
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        {"type": "bytes", "logicalType": "decimal", "precision": 90, "scale": 2},
        Decimal("12.50"),
    ),
    "code": (
        {"type": "string", "name": "io.debezium.data.Uuid"},
        {"type": "string", "logicalType": "uuid"},
        uuid.UUID(int=7),
    ),
    "document": ({"type": "string", "name": "io.debezium.data.Json"}, "string", '{"a": 1}'),
}


def unchanged(column: str, placeholder: str, is_avro: bool) -> Any:
    """What a connector writes for a column's value that it doesn't have."""
    octets = placeholder.encode()
    return {
        "text": placeholder,
        "data": octets,
        "texts": [placeholder],
        "numbers": [octet - 256 if octet > 127 else octet for octet in octets],
        "tags": {placeholder: placeholder},
        "pairs": [{"key": placeholder, "value": placeholder}] if is_avro else [[placeholder, placeholder]],
        "price": Decimal(int.from_bytes(octets, "big", signed=True)).scaleb(-2, EXACT) if is_avro else octets,
        "code": uuid.UUID(bytes=hashlib.md5(octets, usedforsecurity=False).digest(), version=3),
        "document": placeholder,
    }[column]


def envelopes(column: str, placeholder: str, is_avro: bool, has_former: bool) -> list[dict[str, Any]]:
    """An insert, and an update that leaves the value of the column as it is."""
    value = COLUMNS[column][2]
    if column == "pairs":
        value = [{"key": "a", "value": "1"}] if is_avro else [["a", "1"]]
    first = {"id": 1, "n": 1, "value": value}
    update = {"id": 1, "n": 2, "value": unchanged(column, placeholder, is_avro)}
    source = {"ts_ms": 1000, "lsn": 1}
    return [
        {"op": "c", "before": None, "after": first, "source": source},
        {"op": "u", "before": first if has_former else None, "after": update, "source": source | {"lsn": 2}},
    ]


def as_json(value: Any) -> Any:
    """The value as Kafka Connect's JsonConverter writes it."""
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(2))
        return as_json(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
    return (
        base64.b64encode(value).decode()
        if isinstance(value, bytes)
        else str(value)
        if isinstance(value, uuid.UUID)
        else value
    )


def with_schema(column: str, message: Any) -> Any:
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "int64", "field": "n"},
        COLUMNS[column][0] | {"field": "value"},
    ]
    rows = [{"type": "struct", "fields": fields, "optional": True, "field": name} for name in ("before", "after")]
    return {"schema": {"type": "struct", "fields": rows}, "payload": message}


def written(path: pathlib.Path, column: str, messages: list[Any]) -> str:
    """A file of Avro with the messages."""
    fastavro = pytest.importorskip("fastavro")
    kinds = {"id": "long", "n": "long", "value": ["null", COLUMNS[column][1]]}
    row = {"type": "record", "name": "Value", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    source = {"type": "record", "name": "Source", "fields": [{"name": n, "type": "long"} for n in ("ts_ms", "lsn")]}
    fields = {"op": "string", "before": ["null", row], "after": ["null", "Value"], "source": source}
    schema = {"type": "record", "name": "Envelope", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, messages)
    return str(path)


def lines(path: pathlib.Path, messages: list[Any]) -> str:
    path.write_text("".join(f"{json.dumps(as_json(message))}\n" for message in messages))
    return str(path)


# A transform that reads the messages of a column, and True if they are Avro's.
FORMS: dict[str, tuple[Callable[[pathlib.Path, str, list[Any]], Any], bool]] = {
    "dicts": (lambda path, column, messages: beam.Create(as_json(messages)), False),
    "dicts with schemas": (
        lambda path, column, messages: beam.Create([with_schema(column, each) for each in as_json(messages)]), False
    ),
    "pairs of JSON": (
        lambda path, column, messages: beam.Create([(b"1", json.dumps(as_json(each)).encode()) for each in messages]),
        False,
    ),
    "a file of lines": (lambda path, column, messages: beam.io.ReadFromText(lines(path, messages)), False),
    "a file of lines with schemas": (
        lambda path, column, messages: beam.io.ReadFromText(
            lines(path, [with_schema(column, each) for each in messages])
        ),
        False,
    ),
    "a file of JSON": (lambda path, column, messages: beam.io.ReadFromJson(lines(path, messages)), False),
    "a file of Avro": (lambda path, column, messages: beam.io.ReadFromAvro(written(path, column, messages)), True),
    "Rows of Avro": (
        lambda path, column, messages: beam.io.ReadFromAvro(written(path, column, messages), as_rows=True), True
    ),
}  # fmt: skip


# Another placeholder is looked for where the default one is: in a form of JSON, and in one of Avro.
CASES = [(DEFAULT, form) for form in FORMS] + [("nichts \u00e4", form) for form in ("dicts", "Rows of Avro")]


@pytest.mark.parametrize(("placeholder", "form"), CASES)
@pytest.mark.parametrize("column", COLUMNS)
def test_an_unchanged_value_is_that_of_the_former_row(
    tmp_path: pathlib.Path, column: str, form: str, placeholder: str
) -> None:
    """Of the envelope, or of the state of the key."""
    read, is_avro = FORMS[form]
    options = {} if placeholder == DEFAULT else {"unavailable_value": placeholder}
    for key in (None, "id"):
        messages = envelopes(column, placeholder, is_avro, has_former=key is None)
        with TestPipeline() as p:
            rows = record(p | read(tmp_path / f"{key}", column, messages) | FromDebezium(key=key, **options))
        (first, former, newest) = [change.value for change in rows.changes]
        assert [+1, -1, +1] == [change.sign for change in rows.changes]
        assert [1, 1, 2] == [first.n, former.n, newest.n]
        assert [repr(first.value)] * 2 == [repr(former.value), repr(newest.value)]
