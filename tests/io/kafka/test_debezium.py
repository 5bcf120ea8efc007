"""Changes that Debezium has written to a topic, on a real broker."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kafka.registry import Registry
from kafka.topics import BEGIN, Topic
from support.pipelines.recording import record

import penstock as beam
from penstock.io import FromDebezium, ReadFromKafka, SchemaRegistry, WriteToKafka
from penstock.sdk.watermark_estimators import MonotonicWatermarkEstimator
from penstock.testing import TestPipeline

CHANGES: list[Any] = [
    {"op": "c", "before": None, "after": {"id": 1, "price": 10}, "source": {"ts_ms": BEGIN * 1000}},
    {"op": "u", "before": {"id": 1, "price": 10}, "after": {"id": 1, "price": 11}, "source": {"ts_ms": BEGIN * 1000}},
    {"op": "d", "before": {"id": 1, "price": 11}, "after": None, "source": {"ts_ms": BEGIN * 1000 + 5}},
    # The tombstone that follows a delete.
    None,
]


@pytest.mark.parametrize("with_metadata", [False, True])
def test_a_topic_of_changes_becomes_rows_with_signs(topic: Topic, with_metadata: bool) -> None:
    """At the times of their commits; a tombstone becomes nothing."""
    messages = [(b"1", None if change is None else json.dumps(change).encode()) for change in CHANGES]
    with beam.Pipeline() as p:
        _ = p | beam.Create(messages) | WriteToKafka(topic.config, topic.name)
    read = ReadFromKafka(topic.config, topic.name, bounded=True, with_metadata=with_metadata)
    with TestPipeline() as p:
        changes = record(p | read | FromDebezium())
    expected = [(+1, 10, 0), (-1, 10, 0), (+1, 11, 0), (-1, 11, 5_000)]
    assert expected == [
        (change.sign, change.value.price, change.micros - BEGIN * 1_000_000) for change in changes.changes
    ]
    timed = ReadFromKafka(
        topic.config,
        topic.name,
        max_num_records=3,
        timestamp_fn=FromDebezium.event_time,
        watermark_estimator=MonotonicWatermarkEstimator,
        start_offsets={(topic.name, partition): 0 for partition in range(2)},
    )
    with TestPipeline() as p:
        records = record(p | timed)
    assert [0, 0, 5_000] == [change.micros - BEGIN * 1_000_000 for change in records.changes]


UNCHANGED = "__debezium_unavailable_value"
FORMER = {"id": 1, "n": 1, "text": "long", "data": b"\x01", "texts": ["a"], "numbers": [1, 2], "tags": {"a": "1"}}
UPDATED = {
    "id": 1,
    "n": 2,
    "text": UNCHANGED,
    "data": UNCHANGED.encode(),
    "texts": [UNCHANGED],
    "numbers": list(UNCHANGED.encode()),
    "tags": {UNCHANGED: UNCHANGED},
}
AVRO: dict[str, Any] = {
    "id": "long",
    "n": "long",
    "text": "string",
    "data": "bytes",
    "texts": {"type": "array", "items": "string"},
    "numbers": {"type": "array", "items": "int"},
    "tags": {"type": "map", "values": "string"},
}
ROW = {"type": "record", "name": "Value", "fields": [{"name": name, "type": kind} for name, kind in AVRO.items()]}
OF_ENVELOPE: dict[str, Any] = {"op": "string", "before": ["null", ROW], "after": ["null", "Value"], "ts_ms": "long"}
AVRO_SCHEMA = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.orders",
    "fields": [{"name": name, "type": kind} for name, kind in OF_ENVELOPE.items()],
}
JSON_SCHEMA = {"title": "Envelope", "type": "object", "properties": {name: {} for name in OF_ENVELOPE}}
# What a connector's converters write, by the method of the registry.
CONVERTERS = {"avro": AVRO_SCHEMA, "json_schema": JSON_SCHEMA}


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("converter", CONVERTERS)
def test_unchanged_values_are_those_of_former_rows_in_each_format(
    topic: Topic, registry: Registry, converter: str, key: str | None
) -> None:
    """Of the envelope, or of the state."""
    schemas = SchemaRegistry({"url": registry.url})
    update = {"op": "u", "before": None if key else FORMER, "after": UPDATED, "ts_ms": 2}
    changes: list[Any] = [{"op": "c", "before": None, "after": FORMER, "ts_ms": 1}, update]
    form = getattr(schemas, converter)(CONVERTERS[converter])
    given = as_json(changes) if converter == "json_schema" else changes
    with beam.Pipeline() as p:
        messages = p | beam.Create([(b"1", change) for change in given])
        _ = messages | WriteToKafka(topic.producer_config, topic.name, value_serializer=form)
    read = ReadFromKafka(topic.config, topic.name, bounded=True, value_deserializer=form)
    with TestPipeline() as p:
        found = record(p | read | FromDebezium(key=key))
    expected = as_json(FORMER) if converter == "json_schema" else FORMER
    assert [(+1, expected), (-1, expected), (+1, expected | {"n": 2})] == [
        (change.sign, change.value._asdict()) for change in found.changes
    ]
