"""What only the brokers decide about a record, on a real one: it is known before a checkpoint is complete."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from kafka.broker import KafkaBroker
from kafka.topics import Topic
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import WriteToKafka
from penstock.io.kafka.limits import size_of
from penstock.io.kafka.staging import StagedRecord
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import RejectedRecordError
from penstock.sdk.sink import LabelledSink

TRANSACTION = f"00000001-{uuid.uuid4().hex[:16]}"


def stage(sink: LabelledSink, *values: Any) -> Any:
    sink.prepare(TRANSACTION)
    writer = sink.sink.open_writer(sink.context(TRANSACTION, uuid.uuid4().hex))
    writer.write(Bundle(list(values)))
    return writer.stage()


def test_headers_count(topic: Topic) -> None:
    """1.2 MB of them, on a value of one byte."""
    sink = LabelledSink(WriteToKafka(topic.producer_config, topic.name, with_headers=True).sink, "WriteToKafka")
    row = beam.Row(key=None, value=b"x", headers={"h": b"y" * 1_200_000})
    with pytest.raises(RejectedRecordError, match=r"a record of 1200\d+ bytes is .* permits 1048588; the record"):
        stage(sink, row)


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing-topic", "has no topic 'missing-topic'; create it"),
        ("", "'' can't be the name of a topic"),
        ("a b/c", "'a b/c' can't be the name of a topic"),
        (None, "None can't be the name of a topic"),
    ],
)
def test_a_topic_that_a_function_gives_wrongly_is_found_before_the_commit(
    topic: Topic, make_pipeline: Any, name: Any, said: str
) -> None:
    """The error names the record, and nothing is published."""
    wanted = {b"good": topic.name, b"bad": name}
    p = make_pipeline()
    elements = p | beam.Create([(b"good", b"1"), (b"bad", b"2")])
    _ = elements | "Writes" >> WriteToKafka(topic.producer_config, lambda pair: wanted[pair[0]])
    with pytest.raises(RejectedRecordError, match=rf"Writes: .*{re.escape(said)}.*the record: "):
        p.run()
    assert [] == topic.values()


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
def test_records_up_to_the_limit_of_their_topic_are_written(broker: KafkaBroker, make_pipeline: Any) -> None:
    """Several megabytes, through a staging topic with the limit of brokers; keys and small records keep their order."""
    large = Topic(broker, partitions=1, **{"max.message.bytes": "5000000"})
    values = [b"a" * 10, b"b" * 3_000_000, b"c" * 200_000, b"d" * 1_500_000, b"e"]
    with make_pipeline() as p:
        _ = p | beam.Create([values]) | beam.FlatMap(pairs_of) | WriteToKafka(large.producer_config, large.name)
    assert values == [message.value() for message in large.found()]


def pairs_of(values: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"k", value) for value in values]


def test_many_records_of_a_topic_with_a_small_limit_are_written(broker: KafkaBroker) -> None:
    """The client joins records up to the topic's limit."""
    small = Topic(broker, partitions=1, **{"max.message.bytes": "20000"})
    sink = LabelledSink(WriteToKafka(small.producer_config, small.name).sink, "WriteToKafka")
    values = [(b"k", b"%04d" % n + b"." * 1000) for n in range(500)]
    sink.commit(TRANSACTION, [stage(sink, *values)])
    sink.close()
    assert [value for _, value in values] == [message.value() for message in small.found()]


def test_the_size_of_a_record_is_that_of_the_broker(broker: KafkaBroker) -> None:
    """The largest record that fits is accepted by both, and one byte more is refused."""
    limit = 20_000
    small = Topic(broker, partitions=1, **{"max.message.bytes": str(limit)})
    sink = LabelledSink(WriteToKafka(small.producer_config, small.name, with_headers=True).sink, "WriteToKafka")
    headers = [("h", b"x" * 300), ("none", None)]
    rest = size_of(StagedRecord(small.name, b"k", b"v" * 10_000, headers)) - 10_000
    fits = b"v" * (limit - rest)
    with pytest.raises(RejectedRecordError, match=f"a record of {limit + 1} bytes"):
        stage(sink, beam.Row(key=b"k", value=fits + b"v", headers=headers))
    sink = LabelledSink(sink.sink, "Fits")
    sink.commit(TRANSACTION, [stage(sink, beam.Row(key=b"k", value=fits, headers=headers))])
    sink.close()
    assert [fits] == [message.value() for message in small.found()]


def test_a_topic_that_is_deleted_or_changed_is_found_before_the_checkpoint_is_complete(broker: KafkaBroker) -> None:
    """The limits are asked again when a transaction is checked."""
    from confluent_kafka.admin import AdminClient

    topic = Topic(broker)
    sink = LabelledSink(WriteToKafka(topic.producer_config, topic.name).sink, "WriteToKafka")
    tokens = [stage(sink, (b"k", b"v"))]
    sink.precommit({TRANSACTION: tokens})
    admin = AdminClient(topic.producer_config)
    admin.delete_topics([topic.name])[topic.name].result(20)
    with pytest.raises(RejectedRecordError, match=f"has no topic '{topic.name}'; create it"):
        sink.precommit({TRANSACTION: tokens})
