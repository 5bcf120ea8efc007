"""Keys and values with schemas in a registry, on a real registry and a real broker."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kafka.registry import PASSWORD, USER, Registry
from kafka.topics import Topic

import penstock as beam
from penstock.io import ReadFromKafka, SchemaRegistry, WriteToKafka
from penstock.sdk.errors import MissingExtraError, SinkError, SourceError
from penstock.sdk.typehints.schema import schemas_of
from penstock.testing import TestPipeline, assert_that, equal_to

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "count", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
NEWER = ORDER | {"fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 1.5}]}
OTHER = ORDER | {"fields": [{"name": "count", "type": "string"}]}

ORDER_OF_JSON: dict[str, Any] = {
    "title": "Order",
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["item"],
}


class Order(NamedTuple):
    item: str
    count: int
    note: str | None = None


@pytest.fixture
def schemas(registry: Registry) -> SchemaRegistry:
    return SchemaRegistry({"url": registry.url})


AVRO: Callable[[SchemaRegistry], Any] = lambda schemas: schemas.avro(ORDER)
JSON: Callable[[SchemaRegistry], Any] = lambda schemas: schemas.json_schema(ORDER_OF_JSON)


@pytest.mark.parametrize(("write", "read"), [(AVRO, "avro"), (JSON, "json_schema")], ids=["avro", "json"])
def test_rows_of_each_runner_come_back(
    topic: Topic, schemas: SchemaRegistry, make_pipeline: Any, write: Any, read: str
) -> None:
    """Written with a schema that is registered by the write, and read with the latest one; other records as well."""
    rows = [beam.Row(item="tea", count=2, note=None), beam.Row(item="milk", count=1, note="cold")]
    others = [Order("tea", 3), {"item": "jam", "count": 1, "note": None}]
    with make_pipeline() as p:
        pairs = p | beam.Create([(None, each) for each in [*rows, *others]])
        _ = pairs | WriteToKafka(topic.producer_config, topic.name, value_serializer=write(schemas))
    with make_pipeline() as p:
        form = getattr(schemas, read)()
        values = p | ReadFromKafka(topic.config, topic.name, value_deserializer=form, bounded=True) | beam.Values()
        assert ["item: string, count: int64, note: string"] == [str(s) for _, s in schemas_of(values.hint)]
        assert_that(values, equal_to([*rows, beam.Row(item="tea", count=3, note=None), beam.Row(**others[1])]))
        # Its columns are grouped.
        sums = values | beam.GroupBy("item").aggregate_field("count", sum, "sum")
        by_item = sums | beam.Map(lambda row: (row.item, row.sum))
        assert_that(by_item, equal_to([("tea", 5), ("milk", 1), ("jam", 1)]), label="sums")


# An order as `shop_pb2.Order` has it: lists, maps, enums, and what isn't set.
WHOLE: dict[str, Any] = {
    "item": "tea",
    "count": 2,
    "size": "LARGE",
    "most": {"name": "x", "count": None, "code": b"\0"},
    "items": [{"name": "y", "count": 0, "code": b""}],
    "counts": {"a": 1},
    "by_name": {"b": {"name": "z", "count": 3, "code": b""}},
    "sizes": ["SMALL", "LARGE"],
    "at": {"seconds": 5, "nanos": 7},
}
EMPTY = dict.fromkeys(WHOLE) | {
    "item": "milk",
    "count": 0,
    "size": "SMALL",
    "items": [],
    "counts": {},
    "by_name": {},
    "sizes": [],
}


@pytest.mark.parametrize("by_class", [True, False], ids=["class", "registry"])
def test_messages_of_protobuf_are_rows(
    topic: Topic, schemas: SchemaRegistry, make_pipeline: Any, by_class: bool
) -> None:
    """By their generated class, or by what the registry knows of them.  They are written as messages, or as records."""
    from kafka import shop_pb2

    with make_pipeline() as p:
        write = WriteToKafka(topic.producer_config, topic.name, value_serializer=schemas.protobuf(shop_pb2.Order))
        _ = p | beam.Create([(None, beam.Row(**WHOLE))]) | write
    # The schema is registered now.
    form = schemas.protobuf(shop_pb2.Order) if by_class else schemas.protobuf("shop.Order")
    with make_pipeline() as p:
        milk = p | beam.Create(["milk"]) | beam.Map(lambda item: (None, {"item": item} if item else None))
        _ = milk | WriteToKafka(topic.producer_config, topic.name, value_serializer=form)
    with make_pipeline() as p:
        read = ReadFromKafka(topic.config, topic.name, value_deserializer=form, bounded=True)
        found = p | read | beam.Values()
        ((_, schema),) = schemas_of(found.hint)
        assert "item: string, count: int64, size: string, most, items" == str(schema).partition(", counts")[0]
        assert_that(found, equal_to([beam.Row(**WHOLE), beam.Row(**EMPTY)]))


def test_what_is_no_message_is_said(topic: Topic, registry: Registry, schemas: SchemaRegistry) -> None:
    from kafka import shop_pb2

    writer = schemas.protobuf(shop_pb2.Order).writer("value", "Write")
    assert writer(shop_pb2.Order(item="tea"), topic.name) == writer({"item": "tea"}, topic.name)
    for wrong, said in (
        ({"itm": "tea"}, "the message shop.Order has no field 'itm'; it has item, count"),
        ({"size": "HUGE"}, "shop.Order.size has no value 'HUGE'; it has SMALL, LARGE"),
        (7, "expected a record or a message, got int"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            writer(wrong, topic.name)
    with pytest.raises(SourceError, match="the schema has no message 'shop.Orders'; it has shop.Item, shop.Order"):
        schemas.protobuf("shop.Orders").reader("value", [topic.name], "Read")
    registry.register("text-value", 'syntax = "proto3"; message Text { string item = 1; }', "PROTOBUF")
    with pytest.raises(SourceError, match="returns a Protobuf schema as text, .* give the generated class"):
        schemas.protobuf().reader("value", ["text"], "Read")
    with pytest.raises(TypeError, match="expected a generated class or a message's name, got 7"):
        schemas.protobuf(7)


def test_keys_and_values_of_simple_types(topic: Topic, schemas: SchemaRegistry) -> None:
    """Are themselves, and their types are known."""
    text, number = schemas.avro('"string"'), schemas.avro('"long"')
    with TestPipeline() as p:
        _ = p | beam.Create([("a", 1), ("b", None)]) | WriteToKafka(topic.producer_config, topic.name, text, number)
    with TestPipeline() as p:
        pairs = p | ReadFromKafka(topic.config, topic.name, schemas.avro(), schemas.avro(), bounded=True)
        assert tuple[str, int] == pairs.element_type
        assert_that(pairs, equal_to([("a", 1), ("b", None)]))


def test_all_records_are_read_with_one_schema(topic: Topic, schemas: SchemaRegistry) -> None:
    """Whichever they were written with; the latest one, unless another one is given."""

    def write(schema: Any, **fields: Any) -> None:
        with TestPipeline() as p:
            row = beam.Row(item="tea", count=1, note=None, **fields)
            serializer = schemas.avro(schema)
            _ = (
                p
                | beam.Create([(None, row)])
                | WriteToKafka(topic.producer_config, topic.name, value_serializer=serializer)
            )

    write(ORDER)
    write(NEWER, price=2.5)
    with TestPipeline() as p:
        values = p | ReadFromKafka(topic.config, topic.name, value_deserializer=schemas.avro(), bounded=True)
        assert_that(
            values | beam.Values(),
            equal_to([beam.Row(item="tea", count=1, note=None, price=price) for price in (1.5, 2.5)]),
        )
    with TestPipeline() as p:
        values = p | ReadFromKafka(topic.config, topic.name, value_deserializer=schemas.avro(ORDER), bounded=True)
        assert_that(values | beam.Values(), equal_to(2 * [beam.Row(item="tea", count=1, note=None)]))


def test_what_no_schema_fits_is_an_error_or_a_dead_letter(
    topic: Topic, registry: Registry, schemas: SchemaRegistry, make_pipeline: Any
) -> None:
    """Other bytes, a schema that the registry doesn't have, and one that can't be resolved to the reader's."""
    good = schemas.avro(ORDER).writer("value", "Write")
    bad = schemas.avro(OTHER, subject="another").writer("value", "Write")
    poison = [b"{}", b"no magic byte", b"\0\0\0\xff\xff.", bad({"count": "many"}, topic.name)]
    topic.write_values(good({"item": "tea", "count": 2}, topic.name), *poison)
    read = ReadFromKafka(topic.config, topic.name, value_deserializer=schemas.avro(ORDER), bounded=True)
    with (
        pytest.raises(SourceError, match=rf"Orders: the value at offset 1 of partition 0 of topic '{topic.name}'"),
        make_pipeline() as p,
    ):
        _ = p | "Orders" >> read
    with make_pipeline() as p:
        rows, letters = p | "Orders" >> read.with_exception_handling()
        assert_that(rows | beam.Values(), equal_to([beam.Row(item="tea", count=2, note=None)]))
        assert_that(letters | beam.Map(lambda letter: letter[0][1]), equal_to(poison), label="poison")
        said = letters | beam.Map(lambda letter: letter[1][1]) | beam.combiners.ToList()

        def check(both: list[list[str]]) -> None:
            for found, words in zip(
                sorted(both[0]),
                ("total data size is 2", "magic byte", "not found|No artifact|No content", "SchemaRes"),
                strict=True,
            ):
                assert any(word in found for word in words.split("|")), (words, found)

        assert_that(said, check, label="said")


def test_what_is_wrong_with_a_schema_is_said_before_the_run(
    topic: Topic, other_topic: Topic, registry: Registry, schemas: SchemaRegistry
) -> None:
    """While the pipeline is built, for a read; before it starts, for a write."""

    def read(form: Any, topics: Any = topic.name) -> None:
        _ = beam.Pipeline() | "Orders" >> ReadFromKafka(topic.config, topics, value_deserializer=form)

    subject = f"{topic.name}-value"
    with pytest.raises(
        SourceError, match=rf"Orders: the schema of subject '{subject}' can't be read: .* 404.*register it"
    ):
        read(schemas.avro())
    registry.register(subject, json.dumps(ORDER))
    with pytest.raises(
        SourceError, match=r"to have a schema of the format JSON, found AVRO; use SchemaRegistry.avro\(\)"
    ):
        read(schemas.json_schema())
    registry.register(f"{other_topic.name}-value", json.dumps(OTHER))
    with pytest.raises(SourceError, match="differ; give the schema to read all records with"):
        read(schemas.avro(), [topic.name, other_topic.name])
    with pytest.raises(ValueError, match="the schema isn't JSON"):
        schemas.avro("{")
    with pytest.raises(SourceError, match="Orders: the schema of values can't be read"):
        read(schemas.avro({"type": "record", "name": "Order"}))

    def write(form: Any, **fields: Any) -> None:
        p = beam.Pipeline()
        writing = WriteToKafka(topic.producer_config, topic.name, value_serializer=form)
        _ = p | beam.Create([(None, beam.Row(**fields))]) | "Orders" >> writing
        p.run().wait_until_finish()

    registry.client.set_compatibility(subject, "BACKWARD")
    with pytest.raises(SinkError, match="Orders: the schema of subject .* is the schema compatible with the subject's"):
        write(schemas.avro(OTHER), count="many")
    with pytest.raises(SinkError, match="Orders: the schema of subject 'nosuch' can't be registered, or isn't there"):
        write(schemas.avro(subject="nosuch"), count=1)
    for fields, said in (
        ({"item": "tea"}, "can't be encoded: .*count.*the schema has to fit"),
        ({"item": "tea", "count": "many"}, "Orders: the value Row.item='tea', count='many'. can't be encoded"),
        ({"item": "tea", "count": 1, "size": 2}, "can't be encoded: .*size"),
    ):
        with pytest.raises(SinkError, match=said):
            write(schemas.avro(ORDER), **fields)
    assert [] == topic.found()


def test_a_registry_that_does_not_answer_is_waited_for(
    registry: Registry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so; records aren't dead letters for it.  A wrong password is refused at once."""
    with registry.behind_a_login() as server:
        schemas = SchemaRegistry({"url": server.url, "basic.auth.user.info": f"{USER}:{PASSWORD}"})
        data = schemas.avro(ORDER).writer("value", "Write")(Order("tea", 1), "topic")
        # Of another client, which has no schema yet.
        others = SchemaRegistry({"url": server.url, "basic.auth.user.info": f"{USER}:{PASSWORD}", "timeout": 9})
        reader = pickle.loads(pickle.dumps(others.avro(ORDER).reader("value", ["topic"], "Read")))
        server.refuses = True
        found: list[Any] = []
        reading = threading.Thread(target=lambda: found.append(reader(data)))
        reading.start()
        for _ in range(1000):
            if "waiting for it" in caplog.text:
                break
            time.sleep(0.01)
        server.refuses = False
        reading.join()
        assert [beam.Row(item="tea", count=1, note=None)] == found
        assert "Read: the schema registry at http://127.0.0.1" in caplog.text
        assert "answers again" in caplog.text
        server.refuses = True
        monkeypatch.setattr("penstock.io.kafka.registry.client.REACHED_WITHIN", 0.2)
        with pytest.raises(SourceError, match="Read: the schema of subject .* out of service .* is a registry running"):
            schemas.avro().reader("value", ["topic"], "Read")
        server.refuses = False
        wrong = SchemaRegistry({"url": server.url, "basic.auth.user.info": f"{USER}:guessed-at-the-barn"})
        before = server.requests
        with pytest.raises(SourceError, match=r"are the credentials \('basic.auth.user.info'\) right") as raised:
            wrong.avro().reader("value", ["topic"], "Read")
        assert before + 1 == server.requests
        assert "guessed-at-the-barn" not in str(raised.value)


def test_a_password_shows_nowhere(topic: Topic, registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    """In the URL, or as a setting: not in what a pipeline shows, in its log, its errors, or on its way to workers."""
    caplog.set_level(logging.DEBUG)
    with registry.behind_a_login() as server:
        of_url = server.url.replace("http://", f"http://{USER}:{PASSWORD}@")
        for settings in ({"url": of_url}, {"url": server.url, "basic.auth.user.info": f"{USER}:{PASSWORD}"}):
            schemas = SchemaRegistry(settings)
            write = WriteToKafka(topic.producer_config, topic.name, value_serializer=schemas.avro(ORDER))
            p = beam.Pipeline()
            _ = p | beam.Create([(None, Order("tea", 1))]) | write
            shown = [repr(p), str(p.graph()), f"{schemas!r} {schemas.avro(ORDER)!r} {write.display_data()}"]
            p.run().wait_until_finish()
            read = ReadFromKafka(topic.config, topic.name, value_deserializer=schemas.avro(), bounded=True)
            p = beam.Pipeline()
            _ = p | read | beam.Map(print)
            shown += [repr(p), str(p.graph()), f"{read.display_data()} {vars(read)} {vars(write.sink)}"]
            p.run().wait_until_finish()
            assert PASSWORD not in "".join(shown) + caplog.text
    with pytest.raises(ValueError, match="refuses the settings") as raised:
        SchemaRegistry({"url": "http://localhost", "basic.auth.user.info": PASSWORD, "nosuch": PASSWORD})
    assert PASSWORD not in str(raised.value)
    with pytest.raises(ValueError, match="need 'url'"):
        SchemaRegistry({})


def test_without_the_extra_it_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(MissingExtraError, match=r"SchemaRegistry needs .*pip install 'penstock\[kafka-registry\]'"):
        SchemaRegistry({"url": "http://localhost:8081"})
