"""Values with declared fields are born as columns where the operations behind them understand columns."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from kafka.broker import Record
from kafka.registry import Registry
from kafka.topics import BEGIN, Topic
from support.pipelines.column_twins import ENDS, Case, Step, cases, counted, outcome
from support.pipelines.recording import Recording, recorded
from support.pipelines.strategies import some

import penstock as beam
from penstock.io import ReadFromKafka, SchemaRegistry
from penstock.io.kafka.columns import DecodingToColumns
from penstock.io.kafka.registry.avro_blocks import AvroBlocks
from penstock.io.kafka.registry.protobuf import ProtobufFormat
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.fusion import Stage, fuse
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import SourceError
from penstock.sdk.runner import PipelineState
from penstock.testing import TestPipeline, assert_that, equal_to

col = beam.col

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "count", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDER_OF_JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
}
WITH_TAGS = ORDER | {"fields": [*ORDER["fields"], {"name": "tags", "type": {"type": "array", "items": "string"}}]}

_FIELD = descriptor_pb2.FieldDescriptorProto

# What columns hold as it is: of each kind, the types in Avro, in JSON and in Protobuf.
KINDS = {
    "int64": ("long", "integer", _FIELD.TYPE_INT64),
    "bool": ("boolean", "boolean", _FIELD.TYPE_BOOL),
    "text": ("string", "string", _FIELD.TYPE_STRING),
    "quarter": ("double", "number", _FIELD.TYPE_DOUBLE),
}


class Order(NamedTuple):
    item: str
    count: int
    note: str | None = None


class OrderStruct(msgspec.Struct):
    item: str
    count: int
    note: str | None = None


def order_of(data: bytes) -> Order:
    return Order(**json.loads(data))


def struct_of(data: bytes) -> OrderStruct:
    return msgspec.json.decode(data, type=OrderStruct)


@pytest.fixture
def schemas(registry: Registry) -> SchemaRegistry:
    return SchemaRegistry({"url": registry.url})


@pytest.fixture
def shop() -> Any:
    """Generated classes of messages, of a module that workers on Spark can't import."""
    from kafka import shop_pb2

    return shop_pb2


def form_of(schemas: SchemaRegistry, name: str, table: pa.Table) -> Any:
    """The format of Avro, of JSON or of Protobuf for the rows of a table."""
    kinds = [(field.name, _NAMES[str(field.type)]) for field in table.schema]
    if name == "avro":
        fields = [{"name": field, "type": ["null", KINDS[kind][0]]} for field, kind in kinds]
        return schemas.avro({"type": "record", "name": "Record", "fields": fields})
    if name == "protobuf":
        subject = f"records-{next(_numbers)}"
        schemas.protobuf(_message(kinds), subject=subject).writer("value", "Write").prepare("")
        # By its name: a class that is made here isn't known to the workers.
        return schemas.protobuf("Record", subject=subject)
    properties = {field: {"type": [KINDS[kind][1], "null"]} for field, kind in kinds}
    return schemas.json_schema({"title": "Record", "type": "object", "properties": properties})


def _message(kinds: list[tuple[str, str]]) -> Any:
    """A class of messages with fields that can be unset."""
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", syntax="proto3")
    record = file.message_type.add(name="Record")
    for i, (name, kind) in enumerate(kinds):
        record.field.add(
            name=name,
            number=i + 1,
            type=KINDS[kind][2],
            label=_FIELD.LABEL_OPTIONAL,
            proto3_optional=True,
            oneof_index=i,
        )
        record.oneof_decl.add(name=f"_{name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Record"))


_NAMES = {"int64": "int64", "int32": "int64", "bool": "bool", "string": "text", "double": "quarter"}
_NAMES["dictionary<values=string, indices=int32, ordered=0>"] = "text"


def written(topic: Topic, form: Any, rows: list[Any], last: int | None = None) -> None:
    """Write rows, a second after the other; and one at another time into each partition."""
    write = form.writer("value", "Write")
    records = [Record(i % 2, b"%d" % i, write(row, topic.name), (BEGIN + i) * 1000) for i, row in enumerate(rows)]
    if last is not None:
        records += [Record(i, None, write(rows[0], topic.name), (BEGIN + last) * 1000) for i in range(2)]
    topic.broker.write(topic.name, records)


def read(topic: Topic, form: Any, **options: Any) -> ReadFromKafka:
    return ReadFromKafka(topic.config, topic.name, value_deserializer=form, timestamp_policy="CreateTime", **options)


def given(form: Any, topic: Topic, follow: Callable[[Any], Any]) -> list[dict[str, str]]:
    """The columns that a plan has records decoded to."""
    p = beam.Pipeline()
    follow(p | read(topic, form, bounded=True))
    stages = [step for step in fuse(p.graph()).steps if isinstance(step, Stage)]
    operations = [transform.column_operation for stage in stages for transform in stage.operations]
    return [operation.used for operation in operations if isinstance(operation, DecodingToColumns)]


ALL = {"item": "string", "count": "int64", "note": "string"}
WINDOWS = beam.window.FixedWindows(60)


def _two(values: Any) -> None:
    _ = values | beam.Select("item"), values | beam.Map(print)


USED: dict[str, tuple[Callable[[Any], Any], list[dict[str, str]]]] = {
    "group": (
        lambda pairs: pairs | beam.Values() | beam.GroupBy("item").aggregate_field("count", sum, "n"),
        [{"count": "int64", "item": "string"}],
    ),
    "windows": (
        lambda pairs: (
            pairs | beam.Values() | beam.WindowInto(WINDOWS) | beam.Filter(col("count") > 1) | beam.Select("note")
        ),
        [{"count": "int64", "note": "string"}],
    ),
    "whole": (lambda pairs: pairs | beam.Values() | beam.Filter(col("count") > 1) | beam.Map(print), [ALL]),
    "file": (lambda pairs: pairs | beam.Values() | beam.io.WriteToParquet("unwritten"), [ALL]),
    "several": (lambda pairs: _two(pairs | beam.Values()), [ALL]),
    "elements": (lambda pairs: pairs | beam.Values() | beam.Map(print), []),
    "windows of elements": (lambda pairs: pairs | beam.Values() | beam.WindowInto(WINDOWS) | beam.Map(print), []),
    "keys": (lambda pairs: pairs | beam.MapTuple(lambda key, row: row) | beam.Filter(col("count") > 1), []),
    "pairs": (lambda pairs: [pairs | beam.Values() | beam.Select("item"), pairs | beam.Keys()], []),
}


@pytest.mark.parametrize("kind", USED)
def test_the_fields_that_are_used_become_columns(topic: Topic, schemas: SchemaRegistry, kind: str) -> None:
    """If keys aren't needed; and none if elements are."""
    follow, used = USED[kind]
    assert used == given(schemas.avro(ORDER), topic, follow)


def test_fields_of_other_types_become_no_columns(topic: Topic, schemas: SchemaRegistry) -> None:
    """Lists stay elements, and so do all elements of which lists are needed."""
    form = schemas.avro(WITH_TAGS)
    assert [{"item": "string"}] == given(form, topic, lambda pairs: pairs | beam.Values() | beam.Select("item"))
    assert [] == given(form, topic, lambda pairs: pairs | beam.Values() | beam.Select("item", "tags"))
    assert [] == given(form, topic, lambda pairs: pairs | beam.Values() | beam.Filter(col("count") > 1))
    assert [] == given(json.loads, topic, lambda pairs: pairs | beam.Values() | beam.Select("item"))


def test_the_simple_fields_of_messages_become_columns(topic: Topic, schemas: SchemaRegistry, shop: Any) -> None:
    """Lists, maps and messages in them stay elements, and so do all elements of which these are needed."""
    form = schemas.protobuf(shop.Order)
    values = lambda pairs: pairs | beam.Values()
    used = {"count": "int64", "item": "string", "size": "string"}
    assert [used] == given(form, topic, lambda pairs: values(pairs) | beam.Select(*used))
    for name in ("most", "items", "counts"):
        assert [] == given(form, topic, lambda pairs, name=name: values(pairs) | beam.Select("item", name))
    assert [] == given(form, topic, lambda pairs: values(pairs) | beam.Filter(col("count") > 1))
    simple = {"name": "string", "count": "int64", "code": "binary"}
    form = schemas.protobuf(shop.Item)
    assert [simple] == given(form, topic, lambda pairs: values(pairs) | beam.Filter(col("count") > 1) | beam.Map(print))


@pytest.mark.parametrize(
    ("runner_name", "decode"), [("local", order_of), ("local", struct_of), ("spark-batch", order_of)]
)
def test_a_function_may_declare_the_fields(topic: Topic, make_pipeline: Any, runner_name: str, decode: Any) -> None:
    """By its annotation; then they are known when the pipeline is built."""
    orders = [{"item": "tea", "count": n} for n in range(10)] + [{"item": "jam", "count": 1, "note": "red"}]
    topic.write_values(*(json.dumps(order).encode() for order in orders))
    with pytest.raises(ValueError, match="there is no field 'itm'; the elements have item, count, note"):
        _ = beam.Pipeline() | read(topic, decode, bounded=True) | beam.Values() | beam.GroupBy("itm")

    def sums(pairs: Any) -> Any:
        return pairs | beam.Values() | beam.GroupBy("item").aggregate_field("count", sum, "n")

    assert [{"count": "int64", "item": "string"}] == given(decode, topic, sums)
    with make_pipeline() as p:
        found = sums(p | read(topic, decode, bounded=True)) | beam.Map(lambda row: (row.item, row.n))
        assert_that(found, equal_to([("tea", 45), ("jam", 1)]))


@cache
def _without_errors(number: int) -> list[Case]:
    """For each end, cases that have elements as their results."""
    found = [case for end in ENDS for case in some(cases([end], kinds=tuple(KINDS)), number, are_random=False)]
    return [case for case in found if case.table.rows and isinstance(outcome(recorded, case.of_rows), Counter)]


@pytest.mark.parametrize(
    ("runner_name", "name"),
    [("local", "avro"), ("local", "json"), ("local", "protobuf")],
)
def test_columns_give_what_rows_give(
    topic: Topic, schemas: SchemaRegistry, runner: Any, runner_name: str, name: str
) -> None:
    """The same elements, timestamps and windows, whatever operations are behind them."""
    found = _without_errors(2)
    assert len(found) > 3
    sinks = [(Recording(), Recording()) for _ in found]
    with TestPipeline(runner) as p:
        for i, (case, both) in enumerate(zip(found, sinks, strict=True)):
            own, form = Topic(topic.broker), form_of(schemas, name, case.table.arrow)
            # A bundle of fewer records is one of elements.
            written(own, form, 16 * case.table.rows)
            for are_columns, sink in zip((True, False), both, strict=True):
                pairs = p | f"read {i} {are_columns}" >> read(own, form, bounded=True)
                rows = pairs | f"values {i} {are_columns}" >> beam.Values()
                rows = rows | f"{i} {are_columns}" >> Step(lambda rows, c=case, a=are_columns: c.behind(rows, a))
                _ = rows | f"sink {i} {are_columns}" >> beam.io.Write(sink)
    for case, (of_columns, of_rows) in zip(found, sinks, strict=True):
        assert counted(of_rows) == counted(of_columns), case


@pytest.mark.parametrize(
    ("runner_name", "name"), [("local", "avro"), ("local", "protobuf"), ("spark-microbatch", "avro")]
)
def test_sums_of_a_stream_are_those_of_its_rows(
    topic: Topic, schemas: SchemaRegistry, shop: Any, runner: Any, runner_name: str, name: str, tmp_path: Path
) -> None:
    """In the windows of their own times, when the watermark of each partition has passed."""
    form = schemas.avro(ORDER) if name == "avro" else schemas.protobuf(shop.Order)
    others = {"note": None} if name == "avro" else {"size": "LARGE"}
    rows = [Row(item="tea" if i % 3 else "jam", count=i, **others) for i in range(5000)]
    written(topic, form, rows, last=10_000)
    sinks = Recording(), Recording()
    options = {"checkpoint_interval": 0.1} if runner_name == "local" else {"available_now": True}
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **options))
    for by, sink in zip(("item", lambda row: row.item), sinks, strict=True):
        values = p | f"read {by}" >> read(topic, form) | f"values {by}" >> beam.Values()
        if not isinstance(by, str):
            values = values | beam.Map(lambda row: row)
        windowed = values | f"windows {by}" >> beam.WindowInto(WINDOWS)
        grouped = windowed | f"sums {by}" >> beam.GroupBy(item=by).aggregate_field("count", sum, "n")
        _ = grouped | f"plain {by}" >> beam.Map(tuple) | f"sink {by}" >> beam.io.Write(sink)
    result = p.run()
    expected = len({(row.item, (BEGIN + i) // 60) for i, row in enumerate(rows)})
    if runner_name == "local":
        for _ in range(600):
            if min(len(sink.changes) for sink in sinks) >= expected:
                break
            result.wait_until_finish(100)
        result.cancel()
    else:
        assert PipelineState.DONE == result.wait_until_finish()
    assert counted(sinks[1]) == counted(sinks[0])
    assert expected == len(sinks[0].changes)


@attrs.frozen
class Noted(ProtobufFormat):
    """Messages, whose fields leave a mark when they become columns."""

    mark: Path = Path()

    def field_values(self, records: list[Any], name: str) -> list[Any]:
        self.mark.touch()
        return ProtobufFormat.field_values(self, records, name)


@pytest.mark.parametrize("by_class", [True, False], ids=["class", "registry"])
@pytest.mark.parametrize("runner_name", ["local", "spark-batch", "spark-microbatch"])
def test_messages_become_columns_in_each_process(
    topic: Topic, schemas: SchemaRegistry, shop: Any, runner: Any, runner_name: str, by_class: bool, tmp_path: Path
) -> None:
    """By a generated class that workers can't import, or by what the registry knows of it."""
    orders = [shop.Order(item="tea" if i % 3 else "jam", count=i, size=i % 2) for i in range(3000)]
    form = schemas.protobuf(shop.Order if by_class else "shop.Order")
    streams = runner_name == "spark-microbatch"
    # Each partition has a record that is later than all windows.
    written(topic, schemas.protobuf(shop.Order), orders, last=10_000 if streams else None)
    form = Noted(**attrs.asdict(form, recurse=False), mark=tmp_path / "mark")
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "available_now": True} if streams else {}
    sink = Recording()
    with beam.Pipeline(runner, options=PipelineOptions([], **flags)) as p:
        values = p | read(topic, form, bounded=not streams) | beam.Values()
        windowed = values | beam.WindowInto(WINDOWS) | beam.Filter(col("count") > 1)
        sums = windowed | beam.GroupBy("item", "size").aggregate_field("count", sum, "n")
        _ = sums | beam.Map(tuple) | beam.io.Write(sink)
    expected: Counter[tuple[int, str, str]] = Counter()
    for i, order in enumerate(orders):
        if order.count > 1:
            expected[(BEGIN + i) // 60, order.item, shop.Size.Name(order.size)] += order.count
    found = {
        (change.windows[0].start_micros // 60_000_000, *change.value[:2]): change.value[2] for change in sink.changes
    }
    assert dict(expected) == found
    assert (tmp_path / "mark").exists()


def test_poison_among_columns_is_a_dead_letter(topic: Topic, schemas: SchemaRegistry, make_pipeline: Any) -> None:
    """Or the error of its own record; the others are counted."""
    good = schemas.avro(ORDER).writer("value", "Write")
    rows = [Row(item="tea", count=i, note=None) for i in range(20)]
    data = [good(row, topic.name) for row in rows]
    # A record that is cut short would take its end from the next one, and one that is too long would give it some.
    poison = [b"{}", b"no magic byte", data[3][:-2]]
    topic.write_values(*data[:10], *poison, *data[10:19], data[19] + b"more")
    sums = beam.GroupBy("item").aggregate_field("count", sum, "n")
    said = f"the value at offset 10 of partition 0 of topic '{topic.name}'"
    with pytest.raises(SourceError, match=said), make_pipeline() as p:
        _ = p | read(topic, schemas.avro(ORDER), bounded=True) | beam.Values() | sums
    with make_pipeline() as p:
        pairs, letters = p | read(topic, schemas.avro(ORDER), bounded=True).with_exception_handling()
        found = pairs | beam.Values() | sums | beam.Map(tuple)
        assert_that(found, equal_to([("tea", sum(range(20)))]))
        assert_that(letters | beam.Map(lambda letter: letter[0][1]), equal_to(poison), label="poison")


def test_values_that_columns_would_change_stay_elements(topic: Topic, schemas: SchemaRegistry) -> None:
    """Numbers of more than 64 bits, whole numbers for fractions, and those with a point for whole ones."""
    properties = {"whole": {"type": "integer"}, "number": {"type": "number"}}
    form = schemas.json_schema({"title": "Numbers", "type": "object", "properties": properties})
    rows = [{"whole": 2**70, "number": 1}, {"whole": 1.0, "number": 0.5}, *({"whole": n} for n in range(3, 20))]
    topic.write_values(*(form.writer("value", "Write")(row, topic.name) for row in rows))
    with TestPipeline() as p:
        values = p | read(topic, form, bounded=True) | beam.Values() | beam.Map(repr)
        assert_that(values, equal_to([repr(Row(**{"whole": None, "number": None} | row)) for row in rows]))
    with TestPipeline() as p:
        count = beam.combiners.CountCombineFn()
        values = p | read(topic, form, bounded=True) | beam.Values()
        counts = values | beam.GroupBy("whole").aggregate_field("number", count, "n")
        assert_that(
            counts | beam.Map(lambda row: repr(row.whole)), equal_to([str(2**70), "1.0", *map(str, range(3, 20))])
        )


def test_fields_of_messages_have_the_values_of_rows(topic: Topic, schemas: SchemaRegistry, shop: Any) -> None:
    """None where a field with presence isn't set; what is no message is a dead letter."""
    items = [shop.Item(name=f"n{i}", count=i % 3 if i % 2 else None, code=bytes(i % 4)) for i in range(20)]
    form = schemas.protobuf(shop.Item)
    data = [form.writer("value", "Write")(item, topic.name) for item in items]
    poison = [b"{}", b"no magic byte", data[5][:-1]]
    topic.write_values(*data[:10], *poison, *data[10:])
    with TestPipeline() as p:
        pairs, letters = p | read(topic, form, bounded=True).with_exception_handling()
        rows = pairs | beam.Values() | beam.Filter(col("name") != "n2") | beam.Map(repr)
        kept = [Row(name=f"n{i}", count=i % 3 if i % 2 else None, code=bytes(i % 4)) for i in range(20) if i != 2]
        assert_that(rows, equal_to([repr(row) for row in kept]), label="kept")
        assert_that(letters | beam.Map(lambda letter: letter[0][1]), equal_to(poison), label="poison")


@pytest.mark.parametrize("newer", [{}, {7: 5}], ids=["known", "newer"])
def test_enums_are_grouped_by_their_names(
    topic: Topic, schemas: SchemaRegistry, shop: Any, newer: dict[int, int]
) -> None:
    """Or by the number to which only a newer schema gives a name: then they stay elements."""
    form = schemas.protobuf(shop.Order)
    write = form.writer("value", "Write")
    sizes = [(i % 2, i) for i in range(20)] + [*newer.items()]
    topic.write_values(*(write(shop.Order(size=size, count=n), topic.name) for size, n in sizes))
    with TestPipeline() as p:
        values = p | read(topic, form, bounded=True) | beam.Values()
        by_size = values | beam.GroupBy("size").aggregate_field("count", sum, "n") | beam.Map(tuple)
        assert_that(by_size, equal_to([("SMALL", 90), ("LARGE", 100), *newer.items()]))


@pytest.mark.parametrize("name", ["avro", "json_schema", "protobuf"])
def test_a_value_that_is_none_stays_none(topic: Topic, schemas: SchemaRegistry, shop: Any, name: str) -> None:
    """A tombstone has no fields."""
    form = getattr(schemas, name)({"avro": ORDER, "json_schema": ORDER_OF_JSON, "protobuf": shop.Order}[name])
    write, order = form.writer("value", "Write"), {"item": "tea", "count": 1}
    topic.broker.write(
        topic.name,
        [
            *10 * [Record(0, b"a", write(order, topic.name), BEGIN * 1000)],
            Record(0, b"a", None, BEGIN * 1000),
        ],
    )
    with TestPipeline() as p:
        values = p | read(topic, form, bounded=True) | beam.Values()
        known = values | beam.Filter(lambda row: row is not None)
        sums = known | beam.GroupBy("item").aggregate_field("count", sum, "n")
        assert_that(sums | beam.Map(tuple), equal_to([("tea", 10)]))


def test_records_of_several_schemas_are_read_at_once(registry: Registry, schemas: SchemaRegistry) -> None:
    """In their order, each from the schema that it was written with, with the result of the client's deserializer."""
    topic = f"blocks-{next(_numbers)}"
    newer = ORDER | {"fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 1.5}]}
    writers = [schemas.avro(schema).writer("value", "Write") for schema in (ORDER, newer)]
    rows = [Row(item="é" * (i % 90), count=i - 5, note=None if i % 3 else "n") for i in range(200)]
    data = [
        writers[i % 2](Row(**row.as_dict(), **({"price": i / 2} if i % 2 else {})), topic) for i, row in enumerate(rows)
    ]
    for schema in (ORDER, newer):
        reader = schemas.avro(schema).reader("value", [topic], "Read")
        blocks = AvroBlocks(registry.client, f"{topic}-value", reader.schema)
        assert [reader(each).as_dict() for each in data] == blocks(data)


_numbers = itertools.count()
