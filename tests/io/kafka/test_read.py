"""ReadFromKafka, on a real broker: each record once, by its offset, at its time."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.broker import KafkaBroker, Record
from kafka.registry import Registry
from kafka.topics import BEGIN, Topic
from support.pipelines.recording import Recording, record
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io import KafkaHeader, KafkaRecord, ReadFromKafka, SchemaRegistry, WriteToKafka
from penstock.io.kafka.source import KafkaReader
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import expanded
from penstock.sdk.errors import MissingExtraError, SinkError, SourceError
from penstock.sdk.runner import PipelineState
from penstock.sdk.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import Timestamp

NOW = Timestamp(BEGIN + 1_000_000)


def source_of(read: Any, streams: bool = True) -> Any:
    """The source of a transform, as a pipeline on a streaming or a batch runner has it."""
    from penstock.runners.spark import SparkBatchRunner

    p = beam.Pipeline("local" if streams else SparkBatchRunner(None))
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def values(reader: KafkaReader, count: int) -> list[Any]:
    """The next elements of a reader, waited for."""
    found: list[Any] = []
    for _ in range(100_000):
        bundle = reader.poll(1000, NOW)
        found += bundle.values if bundle is not None else []
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} elements came")


def test_pairs_of_a_bounded_read_on_each_runner(topic: Topic, make_pipeline: Any) -> None:
    """All that is there, in whatever partition, decoded."""
    topic.write(range(2500))
    read = ReadFromKafka(
        topic.config, topic.name, "org.apache.kafka.common.serialization.StringDeserializer", int, bounded=True
    )
    with make_pipeline() as p:
        assert_that(p | read, equal_to([(str(n % 10), n) for n in range(2500)]))


def test_records_have_all_that_a_topic_knows(topic: Topic) -> None:
    """At the times of their producer, to the millisecond."""
    topic.write(range(3))
    read = ReadFromKafka(topic.config, [topic.name], with_metadata=True, timestamp_policy="CreateTime", bounded=True)
    source = source_of(read)
    bundles = [bundle for split in source.split(1) for bundle in source.read_bundles(split)]
    found = [
        (value, micros)
        for bundle in bundles
        for value, micros in zip(bundle.values, expanded(bundle.timestamps, len(bundle)), strict=True)
    ]
    assert sorted(
        (
            KafkaRecord(
                topic.name, n % 2, n // 2, (BEGIN + n) * 1000, str(n).encode(), str(n).encode(), [], 0, "CreateTime"
            ),
            (BEGIN + n) * 1_000_000,
        )
        for n in range(3)
    ) == sorted(found)


def test_a_reader_resumes_at_each_offset(topic: Topic) -> None:
    """Polls, replays, and micro-batches give the same."""
    topic.write(range(41))
    source = source_of(ReadFromKafka(topic.config, topic.name, timestamp_policy="CreateTime"))
    partition = source.partitions()[0]
    reader = source.open(partition, None)
    first = values(reader, 21)
    assert [str(n).encode() for n in range(0, 41, 2)] == [value for _, value in first]
    assert 21 == reader.offset()
    assert 0 == reader.backlog()
    reader.close()
    for offset in (0, 7, 20):
        again = source.open(partition, offset)
        wait_until(lambda reader=again: reader.poll(1, NOW) is not None, "a record came")
        assert 20 - offset == again.backlog()
        again.close()
        again = source.open(partition, offset)
        assert first[offset:] == values(again, 21 - offset)
        again.close()
    planner, start, batches = source.open(partition, None), 0, []
    while (end := planner.admit(4, None, NOW)) != start:
        worker = source.open(partition, start)
        batches.append([value for bundle in worker.read_to(end, NOW) for value in bundle.values])
        assert end == worker.offset()
        worker.close()
        start = end
    planner.close()
    assert first == [value for batch in batches for value in batch]
    assert 4 == max(map(len, batches))


def test_where_reading_begins(topic: Topic) -> None:
    """At the first or the last record, at a time, at an offset, or where the group has been."""
    topic.write(range(10))
    latest = {"bootstrap.servers": topic.broker.address}

    def starts(config: Any = topic.config, **options: Any) -> list[int]:
        source = source_of(ReadFromKafka(config, topic.name, **options))
        readers = [source.open(partition, None) for partition in source.partitions()]
        try:
            return [reader.offset() for reader in readers]
        finally:
            for reader in readers:
                reader.close()

    assert [0, 0] == starts()
    assert [5, 5] == starts(latest)
    assert [3, 2] == starts(start_read_time=(BEGIN + 5) * 1000)
    assert [5, 5] == starts(start_read_time=Timestamp(BEGIN + 100))
    assert [4, 0] == starts(start_offsets={(topic.name, 0): 4})
    source = source_of(
        ReadFromKafka(topic.config | {"group.id": topic.name}, topic.name, commit_offset_in_finalize=True)
    )
    reader = source.open(source.partitions()[0], None)
    reader.acknowledge(3)
    for _ in range(200):
        if starts(latest | {"group.id": topic.name}) == [3, 5]:
            break
    assert [3, 5] == starts(latest | {"group.id": topic.name})
    reader.close()


def test_a_partition_has_a_watermark_of_its_own(topic: Topic, broker: KafkaBroker) -> None:
    """By the time of the producer, of the broker, of reading, or of a function; held back by what may be late."""
    at = (0, 30, 20)
    broker.write(topic.name, [Record(0, None, b"%d" % n, (BEGIN + n) * 1000) for n in at])
    appended = Topic(broker, 1, **{"message.timestamp.type": "LogAppendTime"})
    broker.write(appended.name, [Record(0, None, b"%d" % n, (BEGIN + n) * 1000) for n in at])
    late = BoundedOutOfOrdernessWatermarkEstimator(15)

    def read(of: Topic = topic, **options: Any) -> tuple[list[int], int, list[bool]]:
        """The event times, the watermark, and whether the partition is idle, at once and after a minute."""
        source = source_of(ReadFromKafka(of.config, of.name, **options))
        reader = source.open(source.partitions()[0], None)
        try:
            found: list[int] = []
            wait_until(lambda: found.extend(_micros(reader.poll(1000, NOW))) or len(found) == 3, "three records came")
            idle = [reader.is_idle(NOW), reader.is_idle(NOW + 60)]
            return found, reader.watermark(NOW), idle
        finally:
            reader.close()

    created = [(BEGIN + n) * 1_000_000 for n in at]
    disordered = {"watermark_estimator": late, "idle_after": 60}
    assert (created, (BEGIN + 15) * 1_000_000, [False, True]) == read(timestamp_policy="CreateTime", **disordered)
    of_value = {"timestamp_fn": lambda pair: BEGIN + 2 * int(pair[1]), "value_deserializer": int}
    assert [(BEGIN + 2 * n) * 1_000_000 for n in at] == read(watermark_estimator=late, **of_value)[0]
    assert (3 * [NOW.micros], NOW.micros, [False, False]) == read()
    times, watermark, _ = read(appended, timestamp_policy="LogAppendTime")
    assert times == sorted(times)
    assert max(created) < times[0] <= watermark <= time.time_ns() // 1000
    for of, policy, said in (
        (topic, "LogAppendTime", "expected records with a LogAppendTime, found one with CreateTime at offset 0"),
        (appended, "CreateTime", "expected records with a CreateTime, found one with LogAppendTime at offset 0"),
    ):
        with pytest.raises(SourceError, match=said):
            read(of, timestamp_policy=policy)
    with pytest.raises(ValueError, match="if timestamps may go back, give a bound"):
        read(timestamp_policy="CreateTime")
    bounded = source_of(ReadFromKafka(topic.config, topic.name, timestamp_policy="CreateTime", bounded=True))
    bundles = [bundle for split in bounded.split(1) for bundle in bounded.read_bundles(split)]
    assert created == [micros for bundle in bundles for micros in _micros(bundle)]


def _micros(bundle: Any) -> list[int]:
    return [] if bundle is None else expanded(bundle.timestamps, len(bundle))


def test_records_of_open_and_aborted_transactions_are_not_read(topic: Topic, broker: KafkaBroker) -> None:
    """Unless the settings say it."""
    from confluent_kafka import Producer

    for end in ("commit_transaction", "abort_transaction"):
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"{topic.name}-{end}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic.name, end.encode(), partition=0)
        producer.flush(60)
        getattr(producer, end)(60)

    def found(**settings: str) -> list[bytes]:
        source = source_of(ReadFromKafka(topic.config | settings, topic.name, bounded=True))
        bundles = [bundle for split in source.split(1) for bundle in source.read_bundles(split)]
        return sorted(value for bundle in bundles for _, value in bundle.values)

    assert [b"commit_transaction"] == found()
    assert [b"abort_transaction", b"commit_transaction"] == found(**{"isolation.level": "read_uncommitted"})


def test_a_stream_resumes_from_its_checkpoint(topic: Topic, tmp_path: Path) -> None:
    """Each record counts once, whatever came meanwhile; a new partition is read from its first record."""

    def run(until: int) -> list[int]:
        sink = Recording()
        options = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), checkpoint_interval=0.05)
        p = beam.Pipeline("local", options=options)
        config = {"bootstrap.servers": topic.broker.address, "auto.offset.reset": "earliest"}
        read = ReadFromKafka(config, topic.name, dynamic_read_poll_interval_seconds=0.2)
        _ = p | read | beam.Map(lambda pair: int(pair[1])) | beam.io.Write(sink)
        result = p.run()
        for _ in range(200):
            if len(sink.changes) >= until:
                break
            result.wait_until_finish(100)
        result.cancel()
        return [change.value for change in sink.changes]

    topic.write(range(100))
    first = run(100)
    topic.write(range(100, 150))
    topic.broker.add_partitions(topic.name, 3)
    topic.partitions = 3
    topic.write(range(150, 300))
    second = run(200)
    assert list(range(100)) == sorted(first)
    assert list(range(100, 300)) == sorted(second)


@pytest.mark.parametrize("runner_name", ["local", "spark-microbatch"])
def test_offsets_of_checkpoints_are_committed_to_the_group(
    topic: Topic, runner: Any, runner_name: str, tmp_path: Path
) -> None:
    """For others to see."""
    from confluent_kafka import Consumer, TopicPartition

    topic.write(range(10))
    config = topic.config | {"group.id": topic.name}
    flags = {"checkpoint_interval": 0.05} if runner_name == "local" else {}
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **flags))
    read = ReadFromKafka(config, topic.name, timestamp_policy="CreateTime", commit_offset_in_finalize=True)
    _ = p | read | beam.io.Write(Recording())
    result = p.run()
    with closing(Consumer(topic.producer_config | {"group.id": topic.name})) as others:
        places = [TopicPartition(topic.name, number) for number in range(2)]

        def committed() -> list[int]:
            result.wait_until_finish(100)
            return [found.offset for found in others.committed(places, timeout=10)]

        try:
            wait_until(lambda: committed() == [5, 5], "the group has the offsets")
        finally:
            result.cancel()


@pytest.mark.parametrize("runner_name", ["local", "spark-microbatch"])
def test_new_partitions_are_found_while_a_stream_runs(
    topic: Topic, runner: Any, runner_name: str, tmp_path: Path
) -> None:
    """And are read from their first record, though others begin at their end."""
    sink = Recording()
    flags = {"checkpoint_interval": 0.05} if runner_name == "local" else {}
    p = beam.Pipeline(runner, options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"), **flags))
    read = ReadFromKafka(topic.producer_config, topic.name, dynamic_read_poll_interval_seconds=0.2)
    _ = p | read | beam.Map(lambda pair: int(pair[1])) | beam.io.Write(sink)
    topic.write(range(10))
    result = p.run()
    try:
        numbers = itertools.count(10)

        def arrives() -> bool:
            """Whether reading has begun: at the end, which may be behind some of the first numbers."""
            topic.write(range(n := next(numbers), n + 1))
            result.wait_until_finish(300)
            return len(sink.changes) > 0

        wait_until(arrives, "reading has begun")
        topic.broker.add_partitions(topic.name, 3)
        new = [Record(2, None, b"%d" % n, BEGIN * 1000) for n in range(1000, 1020)]
        topic.broker.write(topic.name, new)

        def found() -> list[int]:
            result.wait_until_finish(100)
            return sorted(change.value for change in sink.changes if change.value >= 1000)

        wait_until(lambda: len(found()) >= 20, "the new partition is read")
    finally:
        result.cancel()
    assert list(range(1000, 1020)) == sorted(change.value for change in sink.changes if change.value >= 1000)
    assert min(change.value for change in sink.changes) >= 10


def test_the_fields_of_records_are_known_on_each_runner(topic: Topic, make_pipeline: Any) -> None:
    """As those of a Row: topic, partition, offset, time and headers."""
    rows = [beam.Row(key=b"%d" % n, value=b"%d" % n, headers=[("trace", b"t"), ("none", None)]) for n in range(40)]
    with make_pipeline() as p:
        _ = p | beam.Create(rows) | WriteToKafka(topic.producer_config, topic.name, with_headers=True)
    with make_pipeline() as p:
        records = p | ReadFromKafka(topic.config, topic.name, with_metadata=True, value_deserializer=int, bounded=True)
        counts = records | beam.GroupBy("topic", "partition").aggregate_field("value", sum, "sum")
        in_all = counts | beam.Map(lambda row: (row.topic, row.sum)) | beam.CombinePerKey(sum)
        assert_that(in_all, equal_to([(topic.name, sum(range(40)))]), label="sums")
        headers = records | beam.Map(lambda record: (record.key, record.headers))
        expected = [(row.key, [KafkaHeader(*header) for header in row.headers]) for row in rows]
        assert_that(headers, equal_to(expected), label="headers")
    for options in ({}, {"value_deserializer": int}):
        read = ReadFromKafka(topic.config, topic.name, with_metadata=True, **options)
        with pytest.raises(ValueError, match="there is no field 'partitions'; the elements have topic, partition, off"):
            _ = beam.Pipeline() | read | beam.Select("partitions")


def test_a_stream_on_spark_from_topic_to_topic(
    topic: Topic, other_topic: Topic, registry: Registry, spark: Any, tmp_path: Path
) -> None:
    """In micro-batches, from where the batch before ended; each record is written once, with a schema in a registry."""
    from penstock.runners.spark import SparkMicroBatchRunner

    schemas = SchemaRegistry({"url": registry.url})
    number = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}

    def write(numbers: range) -> None:
        with TestPipeline() as p:
            rows = p | beam.Create([(None, beam.Row(n=n)) for n in numbers])
            _ = rows | WriteToKafka(topic.producer_config, topic.name, value_serializer=schemas.avro(number))

    def run() -> list[int]:
        options = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=options)
        read = ReadFromKafka(topic.config, topic.name, timestamp_policy="CreateTime", value_deserializer=schemas.avro())
        doubled = p | read | beam.MapTuple(lambda key, row: (key, beam.Row(n=2 * row.n)))
        _ = doubled | WriteToKafka(topic.producer_config, other_topic.name, value_serializer=schemas.avro(number))
        assert PipelineState.DONE == p.run().wait_until_finish()
        with TestPipeline() as p:
            copied = ReadFromKafka(topic.config, other_topic.name, value_deserializer=schemas.avro(), bounded=True)
            found = record(p | copied | beam.Values())
        return sorted(change.value.n for change in found.changes)

    write(range(100))
    assert list(range(0, 200, 2)) == run()
    write(range(100, 150))
    assert list(range(0, 300, 2)) == run()


def test_what_can_not_be_decoded_is_an_error_or_a_dead_letter(topic: Topic, make_pipeline: Any) -> None:
    """The error names the record's transform and says what to do."""
    topic.broker.write(topic.name, [topic.record(1), topic.record(2)])
    topic.write_values(b"[3]", b"{")
    read = ReadFromKafka(topic.config, topic.name, value_deserializer=json.loads, bounded=True)
    with (
        pytest.raises(
            SourceError,
            match=rf"Read: the value at offset 2 of partition 0 of topic '{topic.name}', of 1 bytes, can't be decoded "
            r"\(JSONDecodeError",
        ),
        make_pipeline() as p,
    ):
        _ = p | "Read" >> read
    with make_pipeline() as p:
        good, bad = p | "Read" >> read.with_exception_handling()
        assert_that(good | beam.Values(), equal_to([1, 2, [3]]), label="good")
        assert_that(bad | beam.Map(lambda letter: letter[0]), equal_to([(None, b"{")]), label="bad")
    with make_pipeline() as p:
        with beam.ErrorHandler(beam.combiners.Count.Globally()) as handler:
            good = p | "Read" >> read.with_exception_handling(error_handler=handler)
        assert_that(good | beam.Values(), equal_to([1, 2, [3]]), label="good")
        assert_that(handler.output(), equal_to([1]), label="bad")


def test_a_number_of_records_and_a_span_of_time_end_a_read(topic: Topic) -> None:
    """The first ones, and those that come meanwhile."""
    topic.write(range(10))
    with beam.Pipeline() as p:
        some = p | ReadFromKafka(topic.config, topic.name, max_num_records=3)
        assert_that(some | beam.combiners.Count.Globally(), equal_to([3]))
    with beam.Pipeline() as p:
        all_of_them = p | ReadFromKafka(topic.config, topic.name, max_read_time=2)
        assert_that(all_of_them | beam.combiners.Count.Globally(), equal_to([10]))


class LosesItsBroker:
    """A consumer whose first question to a broker ends with the client's error for a connection that is replaced."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.asked = 0

    def get_watermark_offsets(self, *arguments: Any, **options: Any) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        self.asked += 1
        if self.asked == 1:
            raise KafkaException(KafkaError(KafkaError._DESTROY_BROKER))
        return self._consumer.get_watermark_offsets(*arguments, **options)


def test_a_broker_that_starts_again_while_it_is_asked_is_asked_again(topic: Topic) -> None:
    """As kills of a broker found: a stream of micro-batches ended with the client's error."""
    topic.write(range(10))
    source = source_of(ReadFromKafka(topic.config, topic.name))
    partition = source.partitions()[0]
    with closing(source.open(partition, None)) as reader:
        consumer = LosesItsBroker(reader._consumer)
        assert (0, 5) == source.reading.bounds(consumer, partition)
        assert 2 == consumer.asked


def test_lost_records_are_never_skipped_silently(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    """They were removed before they were read; or the topic is another one."""
    topic.write(range(20))
    topic.broker.delete_all(topic.name, 2)
    topic.write(range(20, 30))

    def read(offset: int, **options: Any) -> list[int]:
        source = source_of(ReadFromKafka(topic.config, topic.name, **options))
        reader = source.open(source.partitions()[0], offset)
        try:
            return [int(value) for _, value in values(reader, 5)]
        finally:
            reader.close()

    with pytest.raises(
        SourceError, match="to have offset 2, but the records before 10 were removed, 8 of them or fewer"
    ):
        read(2)
    with pytest.raises(SourceError, match="to have offset 99, but its last offset is 15: was the topic deleted"):
        read(99)
    with caplog.at_level(logging.ERROR):
        assert [20, 22, 24, 26, 28] == read(2, on_lost_offsets="earliest")
    assert "the records before 10 were removed" in caplog.text
    assert "reading goes on at 10 (on_lost_offsets='earliest')" in caplog.text
    source = source_of(ReadFromKafka(topic.config, topic.name, on_lost_offsets="latest"))
    reader = source.open(source.partitions()[0], 2)
    wait_until(lambda: reader.poll(1000, NOW) is None and reader.offset() == 15, "it has found the end")
    topic.write(range(30, 31))
    assert [b"30"] == [value for _, value in values(reader, 1)]
    reader.close()


def test_what_is_wrong_is_said_by_name(topic: Topic, known_at_once: None) -> None:
    """Settings when the pipeline is built; topics and servers before it runs."""
    servers = {"bootstrap.servers": topic.broker.address}
    for wrong, said in (
        ({}, r"consumer_config needs 'bootstrap.servers'"),
        (servers | {"nosuch": 1}, r'No such configuration property: "nosuch"'),
        (servers | {"enable.auto.commit": True}, r"can't have 'enable.auto.commit': offsets are in the checkpoints"),
        (servers | {"auto.offset.reset": "none"}, "must be 'earliest', 'latest' or 'error', got 'none'|refuses"),
    ):
        with pytest.raises(ValueError, match=said):
            ReadFromKafka(wrong, topic.name)
    for options, said in (
        ({"key_deserializer": "com.example.Avro"}, "key_deserializer='com.example.Avro' is a class of Java's"),
        ({"timestamp_policy": "EventTime"}, "timestamp_policy must be one of 'ProcessingTime'"),
        ({"on_lost_offsets": "skip"}, "on_lost_offsets must be 'fail'"),
        ({"max_num_records": 0}, "max_num_records must be more than 0"),
        ({"start_read_time": -5}, "start_read_time must not be before 1970, got -5"),
        ({"start_offsets": {("a", 3): -1}}, "start_offsets must be 0 or more, got -1 for partition 3"),
        ({"commit_offset_in_finalize": True}, "needs 'group.id'"),
    ):
        with pytest.raises(ValueError, match=said):
            ReadFromKafka(servers, topic.name, **options)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="topic 'nosuch' of Kafka at .* can't be read: .*Unknown topic"):
        source_of(ReadFromKafka(servers, "nosuch")).partitions()


@pytest.mark.parametrize("writes", [False, True], ids=["read", "write"])
def test_a_missing_topic_is_an_error_of_the_run(
    topic: Topic, make_pipeline: Any, writes: bool, known_at_once: None
) -> None:
    """Which names the transform, the topic and the servers."""
    if writes:
        said = r"Here: Kafka at 127.0.0.1:\d+ has no topic 'nosuch'; create it"
        start, end = beam.Create([(b"a", b"b")]), WriteToKafka(topic.producer_config, "nosuch")
    else:
        said = r"Here: topic 'nosuch' of Kafka at 127.0.0.1:\d+ can't be read: .*Unknown topic"
        start, end = ReadFromKafka(topic.config, "nosuch", bounded=True), beam.Map(print)
    with pytest.raises((SourceError, SinkError), match=said), make_pipeline() as p:
        _ = p | ("Start" if writes else "Here") >> start | ("Here" if writes else "End") >> end


def test_without_the_extra_it_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtraError, match=r"ReadFromKafka needs .*pip install 'penstock\[kafka\]'"):
        ReadFromKafka({"bootstrap.servers": "localhost"}, "a")


def test_a_batch_runner_reads_up_to_the_ends(topic: Topic, spark: Any) -> None:
    """From the first record, unless something else is said."""
    from penstock.runners.spark import SparkBatchRunner

    topic.write(range(10))
    with beam.Pipeline(SparkBatchRunner(spark)) as p:
        read = ReadFromKafka({"bootstrap.servers": topic.broker.address}, topic.name)
        assert_that(p | read | beam.combiners.Count.Globally(), equal_to([10]))
