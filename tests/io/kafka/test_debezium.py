"""Changes that Debezium has written to a topic, on a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kafka.topics import BEGIN, Topic
from recording import record

import penstock as beam
from penstock.io import FromDebezium, ReadFromKafka, WriteToKafka
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
