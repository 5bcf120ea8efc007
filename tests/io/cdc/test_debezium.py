"""FromDebezium: envelopes become rows that are added and retracted."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import json
import uuid
from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pytest
from support.pipelines.recording import SECOND, record

import penstock as beam
from penstock.io import FromDebezium, KafkaRecord
from penstock.sdk.errors import SourceError, UnsupportedError
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import Timestamp

SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "ts_ms": 5000}


def envelope(op: str, before: Any = None, after: Any = None, **others: Any) -> dict[str, Any]:
    """A change as Debezium describes it."""
    return {"op": op, "before": before, "after": after, "source": SOURCE, "ts_ms": 9000} | others


def row(id: int, price: int) -> dict[str, Any]:
    return {"id": id, "price": price}


CHANGES = [
    envelope("r", None, row(1, 10)),
    envelope("c", None, row(2, 20)),
    envelope("u", row(1, 10), row(1, 11)),
    envelope("d", row(2, 20)),
    envelope("c", None, row(3, 30)),
]


def signed(elements: list[Any], transform: Any) -> list[tuple[int, Any, int]]:
    """The outputs of a transform: sign, row and seconds."""
    with TestPipeline() as p:
        changes = record(p | beam.Create(elements) | transform)
    return [(change.sign, change.value, change.micros // SECOND) for change in changes.changes]


AS_SIGNED = [
    (+1, beam.Row(id=1, price=10), 5),
    (+1, beam.Row(id=2, price=20), 5),
    (-1, beam.Row(id=1, price=10), 5),
    (+1, beam.Row(id=1, price=11), 5),
    (-1, beam.Row(id=2, price=20), 5),
    (+1, beam.Row(id=3, price=30), 5),
]


def as_record(value: Any) -> KafkaRecord:
    return KafkaRecord("shop.public.orders", 0, 0, 0, None, value, [], 0, "CreateTime")


@pytest.mark.parametrize(
    "given",
    [
        lambda change: change,
        lambda change: json.dumps(change),
        lambda change: json.dumps(change).encode(),
        lambda change: {"schema": None, "payload": change},
        lambda change: json.dumps({"schema": {"type": "struct", "fields": []}, "payload": change}).encode(),
        lambda change: (b"key", json.dumps(change).encode()),
        lambda change: as_record(json.dumps(change).encode()),
        lambda change: beam.Row(key=None, value=bytearray(json.dumps(change).encode()), topic="orders"),
    ],
    ids=["dict", "text", "bytes", "wrapped dict", "wrapped bytes", "pair", "KafkaRecord", "Spark's row"],
)
def test_changes_become_rows_with_signs(given: Any) -> None:
    """However the envelopes come; each at the time of its commit."""
    assert AS_SIGNED == signed([given(change) for change in CHANGES], FromDebezium())


def test_what_changes_no_row_becomes_nothing() -> None:
    """Tombstones, messages, transactions, heartbeats and changes of the schema."""
    ignored = [
        None,
        (b"key", None),
        {"schema": None, "payload": None},
        envelope("m"),
        {"status": "BEGIN", "id": "571:53195829", "event_count": None, "ts_ms": 1},
        {"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": [], "ts_ms": 2},
        {"ts_ms": 1},
        {"source": SOURCE, "databaseName": "shop", "ddl": "CREATE TABLE t ()", "tableChanges": []},
    ]
    assert [] == signed(ignored, FromDebezium())


def maintained(rows: Any) -> Any:
    """The number of rows and their sum, corrected by each change."""
    return (
        rows
        | beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.RETRACTING,
        )
        | beam.Map(lambda row: ("all", row.price))
        | beam.CombinePerKey(sum)
    )


def test_an_aggregate_is_maintained_on_each_runner(make_pipeline: Any) -> None:
    """As if it were computed of the rows that are left."""
    with make_pipeline() as p:
        assert_that(maintained(p | beam.Create(CHANGES) | FromDebezium()), equal_to([("all", 41)]))


@pytest.fixture(params=["local", "spark-microbatch"])
def streaming_runner(request: pytest.FixtureRequest) -> Any:
    """Each runner that takes a TestStream, in turn."""
    if request.param == "local":
        return "local"
    from penstock.runners.spark import SparkMicroBatchRunner

    return SparkMicroBatchRunner(spark_session=request.getfixturevalue("spark"))


@pytest.mark.parametrize("key", [None, "id"], ids=["former rows of the envelopes", "former rows in state"])
def test_an_aggregate_of_a_stream_is_corrected_by_each_change(streaming_runner: Any, key: str | None) -> None:
    """Those of a later bundle retract what was added by an earlier one."""
    stream = TestStream().add_elements(CHANGES[:2]).advance_processing_time(1).add_elements(CHANGES[2:])
    with TestPipeline(streaming_runner) as p:
        sums = record(maintained(p | stream.advance_watermark_to_infinity() | FromDebezium(key=key)))
    signed = [(change.sign, change.value[1]) for change in sums.changes]
    net = Counter[int]()
    for sign, total in signed:
        net[total] += sign
    # The sum of the first two rows was published, and taken back.
    assert {(+1, 30), (-1, 30)} <= set(signed)
    assert {41: 1} == {total: count for total, count in net.items() if count}


def test_a_sink_that_only_appends_is_refused_when_the_pipeline_is_built() -> None:
    """By the names of both transforms."""
    p = beam.Pipeline()
    rows = p | beam.Create(CHANGES) | FromDebezium()
    with pytest.raises(UnsupportedError, match="only appends, but FromDebezium/Sign may retract"):
        _ = rows | beam.io.WriteToText("out")


def test_times_are_as_exact_as_the_envelope_has_them() -> None:
    """The source's before the connector's; without any, the element keeps its own."""
    times = [
        ({"ts_ns": 5_000_001_999, "ts_us": 1, "ts_ms": 1}, {}, 5_000_001),
        ({"ts_us": 5_000_001, "ts_ms": 1}, {}, 5_000_001),
        ({"ts_ms": 5_001}, {"ts_us": 1}, 5_001_000),
        ({"ts_ms": 0}, {"ts_us": 7}, 7),
        ({}, {"ts_ms": 7}, 7_000),
    ]
    for source, others, micros in times:
        change = {"op": "c", "after": row(1, 1), "source": source} | others
        assert Timestamp.of_micros(micros) == FromDebezium.event_time((None, json.dumps(change).encode()))
    untimed = {"op": "c", "after": row(1, 1)}
    assert FromDebezium.event_time(untimed) is None
    assert [(+1, beam.Row(id=1, price=1), 3)] == signed([beam.window.TimestampedValue(untimed, 3)], FromDebezium())


def test_with_a_time_of_the_row_both_of_its_changes_are_in_the_same_window() -> None:
    """Though the commits were in different ones."""
    changes = [envelope("c", None, row(1, 10)), envelope("u", row(1, 10), row(1, 70)), envelope("d", row(1, 70))]
    found = signed(changes, FromDebezium(timestamp_fn=lambda row: row.price))
    assert [(+1, 10), (-1, 10), (+1, 70), (-1, 70)] == [(sign, seconds) for sign, _, seconds in found]


class Order(NamedTuple):
    id: int
    price: int


@dataclasses.dataclass
class OrderData:
    id: int
    price: int


class OrderStruct(msgspec.Struct):
    id: int
    price: int


@pytest.mark.parametrize("kind", [Order, OrderData, OrderStruct])
def test_rows_of_a_declared_type(kind: Any) -> None:
    """Whose fields the pipeline knows when it is built."""
    found = signed(CHANGES[:1], FromDebezium(kind))
    assert [(+1, kind(1, 10), 5)] == found
    p = TestPipeline()
    assert kind is (p | beam.Create(CHANGES) | FromDebezium(kind)).hint.__origin__


def test_a_type_that_is_no_record_is_refused_when_the_transform_is_made() -> None:
    """By its name."""
    with pytest.raises(TypeError, match="FromDebezium: rows can't have the type int"):
        FromDebezium(int)


def test_only_the_changes_of_a_table_are_taken() -> None:
    """Named with its schema, its database, or both."""
    other = envelope("c", None, row(9, 90)) | {"source": SOURCE | {"table": "customers"}}
    for name in ("orders", "public.orders", "shop.public.orders"):
        assert AS_SIGNED == signed([other, *CHANGES], FromDebezium(table=name))


def test_values_have_the_types_of_the_schema() -> None:
    """Those of Debezium and of Kafka Connect."""
    fields = [
        ("day", "int32", "io.debezium.time.Date", 1, datetime.date(1970, 1, 2)),
        ("at", "int64", "io.debezium.time.MicroTimestamp", 1_000_001, datetime.datetime(1970, 1, 1, 0, 0, 1, 1)),
        ("ms", "int64", "io.debezium.time.Timestamp", 1_001, datetime.datetime(1970, 1, 1, 0, 0, 1, 1000)),
        ("ns", "int64", "io.debezium.time.NanoTimestamp", 1_999, datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (
            "zoned",
            "string",
            "io.debezium.time.ZonedTimestamp",
            "2024-05-01T10:00:00Z",
            datetime.datetime(2024, 5, 1, 10, tzinfo=datetime.UTC),
        ),
        ("time", "int64", "io.debezium.time.MicroTime", 3_600_000_000, datetime.time(1)),
        ("uuid", "string", "io.debezium.data.Uuid", str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        ("json", "string", "io.debezium.data.Json", '{"a": [1]}', {"a": [1]}),
        ("raw", "bytes", None, "YWI=", b"ab"),
        ("name", "string", None, "ann", "ann"),
        ("none", "int32", "io.debezium.time.Date", None, None),
    ]
    schema = [{"field": field, "type": kind, "name": name} for field, kind, name, _, _ in fields]
    number = base64.b64encode((-12345).to_bytes(2, "big", signed=True)).decode()
    of_number = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    schema.append({"field": "price"} | of_number)
    schema.append({"field": "prices", "type": "array", "items": of_number})
    after = {field: value for field, _, _, value, _ in fields} | {"price": number, "prices": [number, None]}
    wrapped = {
        "schema": {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": schema}]},
        "payload": envelope("c", None, after),
    }
    price = decimal.Decimal("-123.45")
    expected = {field: value for field, _, _, _, value in fields} | {"price": price, "prices": [price, None]}
    for element in (wrapped, json.dumps(wrapped).encode()):
        ((_, found, _),) = signed([element], FromDebezium())
        assert expected == found.as_dict()


def test_an_unchanged_value_that_was_not_logged_is_the_former_rows() -> None:
    """As PostgreSQL leaves out long texts."""
    unavailable = "__debezium_unavailable_value"
    change = envelope("u", {"id": 1, "text": "long"}, {"id": 1, "text": unavailable})
    given = json.loads(json.dumps(change))
    assert [{"id": 1, "text": "long"}] * 2 == [found.as_dict() for _, found, _ in signed([change], FromDebezium())]
    assert given == change
    with pytest.raises(SourceError, match="without the unchanged 'text'; have the database log whole rows"):
        signed([envelope("u", {"id": 1}, {"id": 1, "text": unavailable})], FromDebezium())


PLACEHOLDER = "__debezium_unavailable_value"
UNAVAILABLE = {
    "text": PLACEHOLDER,
    "bytes as text": base64.b64encode(PLACEHOLDER.encode()).decode(),
    "bytes in hexadecimal digits": PLACEHOLDER.encode().hex(),
    "bytes": PLACEHOLDER.encode(),
    "an array of texts": [PLACEHOLDER],
    "an array of bytes": [PLACEHOLDER.encode()],
    "an array of numbers": list(PLACEHOLDER.encode()),
    "an array of UUIDs": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    "a map": {PLACEHOLDER: PLACEHOLDER},
    "a map as text": json.dumps({PLACEHOLDER: PLACEHOLDER}),
}


@pytest.mark.parametrize("kind", UNAVAILABLE)
@pytest.mark.parametrize("key", [None, "id"])
def test_an_unchanged_value_may_be_of_any_type(kind: str, key: str | None) -> None:
    """The former row's, or the one in state."""
    changes = [
        envelope("c", None, {"id": 1, "n": 1, "value": ["former"]}),
        envelope(
            "u", None if key else {"id": 1, "n": 1, "value": ["former"]}, {"id": 1, "n": 2, "value": UNAVAILABLE[kind]}
        ),
    ]
    sign, found, _ = signed(changes, FromDebezium(key=key))[-1]
    assert (+1, {"id": 1, "n": 2, "value": ["former"]}) == (sign, found.as_dict())


@pytest.mark.parametrize(("given", "sent"), [("__gone", "__gone"), ("hex:676f6e65", "gone"), ("__gone", ["__gone"])])
def test_a_connector_may_have_a_placeholder_of_its_own(given: str, sent: Any) -> None:
    """Then the default one is a value."""
    former, update = {"id": 1, "value": "former"}, {"id": 1, "value": sent}
    found = signed([envelope("u", former, update)], FromDebezium(unavailable_value=given))
    assert ["former", "former"] == [row.value for _, row, _ in found]
    found = signed([envelope("u", former, {"id": 1, "value": PLACEHOLDER})], FromDebezium(unavailable_value=given))
    assert ["former", PLACEHOLDER] == [row.value for _, row, _ in found]
    for wrong in ("", "hex:", "hex:7", "hex:xy"):
        with pytest.raises(ValueError, match="FromDebezium: unavailable_value: expected"):
            FromDebezium(unavailable_value=wrong)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (
            envelope("u", None, row(1, 1)),
            r"without its former row; have the database log whole rows \(ALTER TABLE public.orders REPLICA IDENTITY",
        ),
        (envelope("d"), "a delete of table 'public.orders' came without its former row"),
        (envelope("t"), "table 'public.orders' was truncated, and a truncate doesn't name the rows"),
        (envelope("x"), "expected an operation 'c', 'r', 'u', 'd' or 'm', got 'x'"),
        (envelope("c"), "expected the new row in 'after'"),
        (b"{", "expected an envelope as JSON, got b'{'"),
        (b"\xff", "expected an envelope as JSON"),
        (b"[1]", "expected an envelope of Debezium as bytes, text, a dict or a Row"),
        (7, "expected an envelope of Debezium as bytes, text, a dict or a Row, or a pair"),
        ({"id": 1, "price": 3}, "if the connector has the transform ExtractNewRecordState, remove it"),
    ],
)
def test_what_cannot_be_decoded_is_an_error_or_a_dead_letter(element: Any, message: str) -> None:
    """Which says what to do."""
    with pytest.raises(SourceError, match="FromDebezium: .*" + message):
        signed([element], FromDebezium())
    with TestPipeline() as p:
        rows, bad = p | beam.Create([element, CHANGES[0]]) | FromDebezium().with_exception_handling()
        assert_that(rows, equal_to([beam.Row(id=1, price=10)]), label="rows")
        assert_that(bad | beam.Map(lambda letter: letter[0]), equal_to([element]), label="bad")


def test_a_row_of_another_type_is_an_error_or_a_dead_letter() -> None:
    """With the field that doesn't fit."""
    element = envelope("c", None, {"id": "one", "price": 1})
    with pytest.raises(SourceError, match=r"a row is not of the type Order: Expected `int`, got `str` - at `\$.id`"):
        signed([element], FromDebezium(Order))
    with TestPipeline() as p:
        rows, bad = p | beam.Create([element]) | FromDebezium(Order, key="id").with_exception_handling()
        assert_that(rows, equal_to([]), label="rows")
        assert_that(bad | beam.Map(lambda letter: letter[0]), equal_to([element]), label="bad")


# With a key


def test_with_a_key_former_rows_are_those_in_state_on_each_runner(make_pipeline: Any) -> None:
    """Of updates and deletes that have none."""
    changes = [
        envelope("r", None, row(1, 10), source=SOURCE | {"lsn": 1}),
        envelope("c", None, row(2, 20), source=SOURCE | {"lsn": 2}),
        envelope("u", None, row(1, 11), source=SOURCE | {"lsn": 3}),
        envelope("d", {"id": 2}, source=SOURCE | {"lsn": 4}),
    ]
    with make_pipeline() as p:
        assert_that(maintained(p | beam.Create(changes) | FromDebezium(key="id")), equal_to([("all", 11)]))


def test_with_a_key_what_comes_twice_has_no_effect() -> None:
    """Debezium sends changes again after it was stopped."""
    found = signed(
        [CHANGES[0], CHANGES[0], CHANGES[2], CHANGES[2], envelope("d", row(1, 11)), envelope("d", row(1, 11))],
        FromDebezium(Order, key=["id"]),
    )
    assert [(+1, Order(1, 10), 5), (-1, Order(1, 10), 5), (+1, Order(1, 11), 5), (-1, Order(1, 11), 5)] == found


def test_with_a_key_an_unchanged_value_that_was_not_logged_is_the_one_in_state() -> None:
    """Without an earlier row it is an error."""
    unavailable = {"id": 1, "text": "__debezium_unavailable_value", "n": 2}
    first = envelope("c", None, {"id": 1, "text": "long", "n": 1})
    found = signed([first, envelope("u", None, unavailable)], FromDebezium(key="id"))
    assert beam.Row(id=1, text="long", n=2) == found[-1][1]
    with pytest.raises(SourceError, match="expected an earlier row of the key .*, with the unchanged 'text'"):
        signed([envelope("u", None, unavailable)], FromDebezium(key="id"))


def test_with_a_key_each_row_has_a_value_for_it() -> None:
    """And an update changes no key."""
    with pytest.raises(SourceError, match="has no value for 'number' of the key"):
        signed(CHANGES, FromDebezium(key="number"))
    with pytest.raises(SourceError, match="changed the key 'price'.*name the whole primary key"):
        signed(CHANGES, FromDebezium(key="price"))
