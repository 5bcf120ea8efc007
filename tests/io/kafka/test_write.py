"""WriteToKafka, on a real broker: what readers of committed records see, once and as a whole."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import msgspec
import pytest
from kafka.broker import KafkaBroker
from kafka.topics import Topic
from support.programs.running_program import wait_until
from support.runners.local_variants import EVERY_RUNNER

import penstock as beam
from penstock.io import WriteToKafka
from penstock.io.kafka.client import timed_out
from penstock.io.kafka.publisher import Publisher, Series
from penstock.io.kafka.sink import KafkaSink, NetRecords
from penstock.io.kafka.staging import BLOCK_BYTES, StagedRecord, token_of
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import RejectedRecordError, SinkError, UnsupportedError
from penstock.sdk.sink import LabelledSink
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark

NO_PLACE = (0, 0, 0)


def sink_of(topic: Topic, label: str = "WriteToKafka", **options: Any) -> LabelledSink:
    """A sink as another process has it."""
    sink = pickle.loads(pickle.dumps(WriteToKafka(topic.producer_config, topic.name, **options).sink))
    return LabelledSink(sink, label)


def pairs(*numbers: int) -> list[tuple[bytes, bytes]]:
    return [(str(n % 10).encode(), str(n).encode()) for n in numbers]


def stage(sink: LabelledSink, transaction: str, values: list[Any]) -> Any:
    sink.prepare(transaction)
    writer = sink.sink.open_writer(sink.context(transaction, uuid.uuid4().hex))
    writer.write(Bundle(values))
    return writer.stage()


def names(count: int) -> list[str]:
    """Names of transactions of a series of their own, as a stream has them."""
    series = uuid.uuid4().hex[:16]
    return [f"{number:08}-{series}" for number in range(count)]


def test_a_pipeline_on_each_runner_writes_each_record_once(topic: Topic, make_pipeline: Any) -> None:
    """More than a token holds, so that some are staged in a topic."""
    with make_pipeline() as p:
        numbers = p | beam.Create(range(20_000)) | beam.Map(lambda n: (str(n % 10), n))
        string = "org.apache.kafka.common.serialization.StringSerializer"
        _ = numbers | WriteToKafka(topic.producer_config, topic.name, string, lambda n: b"%d" % n)
    assert list(range(20_000)) == topic.values()
    assert {int(message.value()) % 10 for message in topic.found()} == {int(message.key()) for message in topic.found()}


def by_number(topic: Topic) -> Any:
    """A function to the topic's name, as a topic of functions has it."""
    return partial(_constantly, topic.name)


def _constantly(name: str, _element: Any) -> str:
    return name


@pytest.mark.parametrize("runner_name", EVERY_RUNNER)
@pytest.mark.parametrize("by_function", [False, True])
def test_two_writes_into_one_topic_lose_nothing(topic: Topic, make_pipeline: Any, by_function: bool) -> None:
    """Also with topics of functions; and with tokens in topics of their own."""
    wanted = by_number(topic) if by_function else topic.name
    config = topic.producer_config
    with make_pipeline() as p:
        evens, odds = (p | f"From{n}" >> beam.Create(pairs(*range(n, 100, 2))) for n in (0, 1))
        tens = p | "Tens" >> beam.Create(pairs(*range(100, 110)))
        _ = evens | "Evens" >> WriteToKafka(config, wanted)
        _ = odds | "Odds" >> WriteToKafka(config, wanted)
        _ = tens | "OwnTokens" >> WriteToKafka(config, wanted, control_topic=f"{topic.name}-tokens")
    assert list(range(110)) == topic.values()


def test_two_sinks_of_a_stream_dont_fence_each_other(topic: Topic) -> None:
    """Their transactions have the same names, and other producers."""
    first, second = names(2)
    writes = [
        sink_of(topic, "Write0"),
        sink_of(topic, "Write1", control_topic=f"{topic.name}-tokens"),
        sink_of(topic, "Write2"),
    ]
    for transaction, numbers in ((first, (1, 2, 3)), (second, (4, 5, 6))):
        tokens = [stage(sink, transaction, pairs(n)) for sink, n in zip(writes, numbers, strict=True)]
        for sink, token in zip(writes, tokens, strict=True):
            sink.commit(transaction, [token])
    assert [1, 2, 3, 4, 5, 6] == topic.values()


def test_a_transaction_that_an_earlier_version_has_staged_is_published_once(topic: Topic) -> None:
    """That version named the series by the topic; its token says nothing of the series."""
    first, second = names(2)
    sink = sink_of(topic)
    old = [encoded_as_before(stage(sink, transaction, pairs(n))) for n, transaction in enumerate((first, second))]
    before = Publisher(sink.sink.writing.connection, "penstock-commits", Series(f"{first[9:]}-{topic.name}"))
    before.publish(first, [StagedRecord(topic.name, b"0", b"0")])
    before.close()
    for transaction, token in zip((first, second), old, strict=True):
        sink.commit(transaction, [token])
    assert [0, 1] == topic.values()


def encoded_as_before(token: bytes) -> bytes:
    """A token as version 0.17 and earlier ones have written it."""
    encoded: bytes = msgspec.msgpack.encode(msgspec.msgpack.decode(token)[:3])
    return encoded


def test_a_commit_is_published_once_and_by_whoever_comes_to_it(topic: Topic) -> None:
    """The same transaction again, by a process that knows nothing of the first commit, changes nothing."""
    first, second = names(2)
    sink = sink_of(topic)
    tokens = [stage(sink, first, pairs(1, 2)), stage(sink, first, pairs(3))]
    assert [] == topic.values()
    for each in (sink, sink, sink_of(topic), sink_of(topic)):
        each.commit(first, tokens)
        assert [1, 2, 3] == topic.values()
    later = sink_of(topic)
    later.commit(second, [stage(later, second, pairs(4))])
    later.commit(first, tokens)
    assert [1, 2, 3, 4] == topic.values()


def test_records_beyond_a_block_are_staged_in_their_topic(topic: Topic) -> None:
    """In their order; the token has offsets instead of records."""
    (name,) = names(1)
    sink = sink_of(topic)
    values = [(b"k", b"%d" % n + b"." * 1000) for n in range(3 * BLOCK_BYTES // 1000)]
    token = stage(sink, name, values)
    assert token_of(token).offsets
    assert len(token) < BLOCK_BYTES + 2000
    sink.commit(name, [token])
    assert values == [(message.key(), message.value()) for message in topic.found()]


def test_an_aborted_transaction_and_a_discarded_writer_leave_nothing(topic: Topic) -> None:
    first, second = names(2)
    sink = sink_of(topic)
    stage(sink, first, pairs(1))
    sink.abort(first)
    writer = sink.sink.open_writer(sink.context(second, "unit"))
    writer.write(Bundle(pairs(2)))
    writer.discard()
    sink.commit(second, [])
    assert [] == topic.found("read_uncommitted")


def test_a_fenced_process_publishes_nothing_more(topic: Topic) -> None:
    """It went on while the pipeline was started again, which committed its transactions."""
    first, second, third = names(3)
    old = sink_of(topic)
    old.commit(first, [stage(old, first, pairs(1))])
    tokens = [stage(old, second, pairs(2))]
    new = sink_of(topic)
    new.commit(second, tokens)
    with pytest.raises(SinkError, match="another process publishes as 'penstock-"):
        old.commit(third, [stage(old, third, pairs(3))])
    assert [1, 2] == topic.values()


class LosesErrors:
    """A producer that raises a fatal error as the client does while it has deliveries to report: without a cause."""

    def __init__(self, producer: Any, loses: str) -> None:
        self._producer = producer
        self._loses = loses

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._producer, name)
        return self._lossy(name, call) if name == self._loses else call

    def _lossy(self, name: str, call: Any) -> Any:
        def lossy(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except Exception:
                raise SystemError(f"<method '{name}'> returned NULL without setting an exception") from None

        return lossy


@pytest.mark.parametrize("loses", ["flush", "commit_transaction"])
def test_a_fenced_process_whose_client_loses_the_error(topic: Topic, loses: str) -> None:
    """Whichever call reports it."""
    first, second, third = names(3)
    old, new = sink_of(topic), sink_of(topic)
    old.commit(first, [stage(old, first, pairs(1))])
    new.commit(second, [stage(new, second, pairs(2))])
    producer = old.sink.opened(old.context(first))._publisher._producer
    producer.client = LosesErrors(producer.client, loses)
    with pytest.raises(SinkError, match="another process publishes as 'penstock-"):
        old.commit(third, [stage(old, third, pairs(3))])
    assert [1, 2] == topic.values()


class LosesAnswers:
    """A producer whose first commit ends with an error that leaves open whether it was carried out.

    Args:
      carries_out: whether it was.
    """

    def __init__(self, producer: Any, carries_out: bool) -> None:
        self._producer = producer
        self._carries_out = carries_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        if self._carries_out:
            self._producer.commit_transaction(seconds)
        raise timed_out()


@pytest.mark.parametrize("carries_out", [True, False])
def test_a_commit_with_an_open_outcome_is_finished_by_a_new_producer(
    topic: Topic, caplog: pytest.LogCaptureFixture, carries_out: bool
) -> None:
    """It finds out whether the records are there, and writes them only if they aren't."""
    first, second = names(2)
    sink = sink_of(topic)
    sink.commit(first, [stage(sink, first, pairs(1))])
    publishing = sink.sink.opened(sink.context(first))
    producer = publishing._publisher._producer
    producer.client = LosesAnswers(producer.client, carries_out)
    sink.commit(second, [stage(sink, second, pairs(2, 3))])
    assert [1, 2, 3] == topic.values()
    assert producer is not publishing._publisher._producer
    assert f"the outcome of transaction {second!r} is open (_TIMED_OUT); a new producer finds it out" in caplog.text


def test_a_producer_that_delivers_nothing_is_replaced(
    topic: Topic, broker: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has had no answer for a while; a new one publishes the transaction, once."""
    monkeypatch.setattr("penstock.io.kafka.publisher._ENDED_WITHIN", 2.0)
    first, second = names(2)
    with broker.behind_a_proxy() as (address, proxy), ThreadPoolExecutor() as pool:
        sink = LabelledSink(WriteToKafka({"bootstrap.servers": address}, topic.name).sink, "Write")
        publishing = sink.sink.opened(sink.context(first))
        sink.commit(first, [stage(sink, first, pairs(1))])
        token = stage(sink, second, pairs(2, 3))
        producer = publishing._publisher._producer
        proxy.mute()
        committed = pool.submit(sink.commit, second, [token])
        wait_until(lambda: f"transaction {second!r} is open" in caplog.text, "the producer is given up")
        assert [1] == topic.values()
        proxy.sever()
        proxy.join()
        committed.result(60)
    assert [1, 2, 3] == topic.values()
    assert producer is not publishing._publisher._producer
    assert f"the outcome of transaction {second!r} is open (_TIMED_OUT); a new producer finds it out" in caplog.text


def test_a_closed_sink_has_readers_that_find_all(topic: Topic, broker: KafkaBroker) -> None:
    """Every time: about half of the answered commits aren't known to their partitions yet."""
    from confluent_kafka import TopicPartition

    partitions = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    for count in range(1, 8):
        (name,) = names(1)
        sink = sink_of(topic)
        sink.commit(name, [stage(sink, name, pairs(*range(10)))])
        sink.close()
        ends = broker.ends(partitions, committed=True)
        assert broker.ends(partitions, committed=False) == ends
        assert sum(ends) > 10 * count
    assert Counter(7 * list(range(10))) == Counter(topic.values())


def test_staged_blocks_that_were_removed_are_missed(topic: Topic, broker: KafkaBroker) -> None:
    """The commit fails with their offset, and writes nothing."""
    (name,) = names(1)
    sink = sink_of(topic, staging_topic=f"{topic.name}-staged")
    token = stage(sink, name, [(b"k", b"%d" % n + b"." * 1000) for n in range(2 * BLOCK_BYTES // 1000)])
    broker.delete_all(f"{topic.name}-staged", 1)
    said = f"expected staged output at offset 0 of topic '{topic.name}-staged' .* removed before its commit"
    with pytest.raises(SinkError, match=said):
        sink.commit(name, [token])
    assert [] == topic.found()


def test_a_process_that_died_within_a_commit(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had begun is ended by the next one, before that publishes it."""
    (name,) = names(1)
    dying, other = sink_of(topic), sink_of(topic)
    tokens = [stage(dying, name, pairs(1, 2))]
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_raise_refused", lambda self, transaction: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr(Publisher, "close", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            dying.commit(name, tokens)
    assert [] == topic.values()
    other.commit(name, tokens)
    assert [1, 2] == topic.values()


def test_a_reader_never_sees_a_part_of_a_commit(topic: Topic) -> None:
    """It looks all the time."""
    sink, seen, is_over = sink_of(topic), set[tuple[int, int]](), threading.Event()

    def counts() -> Counter[int]:
        return Counter(message.partition() for message in topic.found())

    def look() -> None:
        while not is_over.is_set():
            seen.update(counts().items())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for name in names(5):
            sink.commit(name, [stage(sink, name, pairs(*range(100)))])
    finally:
        is_over.set()
        looking.join()
    found = counts()
    assert 500 == found.total()
    # A reader of two partitions may see the mark of a commit in one of them first; each commit has as many records.
    assert all(count % (found[partition] // 5) == 0 for partition, count in seen), (seen, found)


def test_headers_tombstones_and_topics_by_element(topic: Topic, other_topic: Topic) -> None:
    (name,) = names(1)
    sink = sink_of(topic, with_headers=True)
    rows = [beam.Row(key=b"a", value=None, headers={"x": b"1"}), beam.Row(key=None, value=b"2")]
    sink.commit(name, [stage(sink, name, rows)])
    assert {(b"a", None, (("x", b"1"),)), (None, b"2", ())} == {
        (message.key(), message.value(), tuple(message.headers() or ())) for message in topic.found()
    }
    odd, even = topic.name, other_topic.name
    chosen = WriteToKafka(topic.producer_config, lambda pair: odd if int(pair[1]) % 2 else even)
    with beam.Pipeline() as p:
        _ = p | beam.Create(pairs(*range(10))) | chosen
    assert [0, 2, 4, 6, 8] == other_topic.values()


def test_a_refusal_of_retractions_names_the_parameter() -> None:
    """When the pipeline is built, which needs no broker."""
    p = TestPipeline()
    window = beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=AfterWatermark(early=AfterCount(1)),
        accumulation_mode=AccumulationMode.RETRACTING,
    )
    sums = p | beam.Create([(b"a", b"1")]) | window | "Greatest" >> beam.CombinePerKey(max)
    said = (
        r"^Publish/Write\(KafkaSink\): KafkaSink only appends, but Greatest may retract its input; give "
        r"retractions='upsert', .* tombstone, or retractions='changelog', .* header, or use AccumulationMode.ACC"
    )
    with pytest.raises(UnsupportedError, match=said):
        _ = sums | "Publish" >> WriteToKafka({"bootstrap.servers": "localhost:9092"}, "sums")


def test_retractions_become_tombstones_or_a_changelog(topic: Topic, other_topic: Topic) -> None:
    """Sessions that merge take back their former sums."""

    def run(**options: Any) -> None:
        script = (
            TestStream()
            .add_elements([beam.window.TimestampedValue(("a", 1), 0), beam.window.TimestampedValue(("a", 2), 30)])
            .advance_processing_time(1)
            .add_elements([beam.window.TimestampedValue(("a", 4), 15)])
            .advance_watermark_to_infinity()
        )
        with TestPipeline() as p:
            _ = (
                p
                | script
                | beam.WindowInto(
                    beam.window.Sessions(20),
                    trigger=AfterWatermark(early=AfterCount(1)),
                    accumulation_mode=AccumulationMode.RETRACTING,
                )
                | beam.CombinePerKey(sum)
                | beam.Map(lambda pair: (pair[0].encode(), b"%d" % pair[1]))
                | WriteToKafka(topic.producer_config, **options)
            )

    run(topic=topic.name, retractions="upsert")
    assert [(b"a", b"7")] == [(message.key(), message.value()) for message in topic.found()][-1:]
    run(topic=other_topic.name, retractions="changelog")
    signed = [(message.value(), dict(message.headers())["penstock-sign"]) for message in other_topic.found()]
    assert 7 == sum(int(value) * int(sign) for value, sign in signed)
    assert b"-1" in {sign for _, sign in signed}


def test_the_net_effect_of_changes() -> None:
    """The latest value that is left; a tombstone where nothing is; nothing where nothing changed."""

    def change(key: bytes, value: bytes, sign: int, version: int = 0) -> StagedRecord:
        return StagedRecord("t", key, value, sign=sign, version=(version, 0, 0))

    changes = [
        change(b"a", b"1", -1),
        change(b"a", b"2", 1),
        change(b"b", b"1", -1),
        change(b"c", b"1", 1),
        change(b"c", b"1", -1),
        change(b"d", b"2", 1, version=2),
        change(b"d", b"1", 1, version=1),
    ]
    found = [(record.key, record.value) for record in NetRecords(changes)]
    assert [(b"a", b"2"), (b"b", None), (b"d", b"2")] == found


def test_at_least_once_writes_at_once(topic: Topic) -> None:
    sink = sink_of(topic, delivery="at_least_once")
    (name,) = names(1)
    assert b"" == stage(sink, name, pairs(1, 2))
    assert [1, 2] == topic.values()
    sink.commit(name, [b""])
    assert [1, 2] == topic.values()


def test_what_can_not_be_written_is_said(topic: Topic, broker: KafkaBroker, known_at_once: None) -> None:
    """Before the pipeline runs, or with the element."""
    (name,) = names(1)
    missing = attrs.evolve(sink_of(topic).sink.writing, topic="nosuch")
    with pytest.raises(SinkError, match="has no topic 'nosuch'; create it"):
        LabelledSink(KafkaSink(missing), "Write").prepare(name)
    sink = sink_of(topic)
    for element, said in (
        (7, "expected pairs of a key and a value, got 7"),
        (("a", b""), "the key 'a' can't be encoded"),
    ):
        with pytest.raises(SinkError, match=said):
            stage(sink, name, [element])
    with pytest.raises(RejectedRecordError, match=r"a record of 20000\d\d bytes is larger than topic .* accepts"):
        stage(sink, name, [(b"k", b"." * 2_000_000)])
    small = Topic(broker, 1, **{"max.message.bytes": "2000"})
    strict = sink_of(small)
    with pytest.raises(RejectedRecordError, match=r"a record of 30\d\d bytes is larger than topic"):
        stage(strict, name, [(b"k", b"." * 3000)])
    for wrong, said in (
        ({"transactional.id": "mine"}, "can't have 'transactional.id'"),
        ({"acks": 0}, "the client refuses producer_config: .*acks.* must be set to .*all"),
        ({"nosuch": "1"}, 'No such configuration property: "nosuch"'),
    ):
        with pytest.raises(ValueError, match=said):
            WriteToKafka(topic.producer_config | wrong, topic.name)
    for options, said in (
        ({"retractions": "delete"}, "retractions must be 'upsert' or 'changelog'"),
        ({"delivery": "exactly"}, "delivery must be 'exactly_once' or 'at_least_once'"),
        ({"delivery": "at_least_once", "retractions": "upsert"}, "needs delivery='exactly_once'"),
    ):
        with pytest.raises(ValueError, match=said):
            WriteToKafka(topic.producer_config, topic.name, **options)
