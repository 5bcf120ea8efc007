"""(h) Records of a Kafka topic, summed by key and minute, against a loop over the client's `consume()`; and latency.

CPU time of both, without the broker's.  Ours is a bounded read, without its start: the time that a pipeline of an empty
topic takes.  Then it is a stream, with checkpoints every second; the loop by hand closes minutes by a watermark, too,
and saves its state and offsets as often.

Latency is that of a stream from topic to topic at 1,000 records a second, with a checkpoint every 200 ms: the time from
its production until a reader of committed records sees a record.

Needs Java, for a broker from Maven Central, and the extras kafka and spark.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.inputs import events
from harness.keeping_sink import KeepingSink
from harness.streams import CollectingSink, options, percentile
from harness.timing import Quantity, Ratio, compare

import penstock as beam
from penstock.io import ReadFromKafka, WriteToKafka
from penstock.sdk.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator

EVENTS = int(os.environ.get("PENSTOCK_BENCHMARK_EVENTS", "500000"))
SECONDS = int(os.environ.get("PENSTOCK_BENCHMARK_SECONDS", "10"))
MINUTES = 30
RATE = 1_000
PARTITIONS = 2
# Of 10,000 keys each sum has 1.7 records.
KEYS = (100, 10_000)
RUNS = 3

# Seconds: how late records are at most, and how much later than all others the last record of a partition is.
LATE, AFTER = 600, 7200

Sums = dict[tuple[str, int], int]


@contextmanager
def _broker() -> Iterator[Any]:
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from kafka.broker import KafkaBroker
    from kafka.packages import why_there_is_no_broker

    if reason := why_there_is_no_broker():
        raise RuntimeError(reason)
    with KafkaBroker.running() as broker:
        yield broker


def _cpu() -> float:
    """CPU seconds of this process, and of its children that have ended: the broker is none of them."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _new_topic(broker: Any) -> str:
    name = f"benchmark-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, PARTITIONS)
    return name


def _settings(broker: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.address, "auto.offset.reset": "earliest"}


def pipeline(broker: Any, topic: str) -> KeepingSink:
    """Sums by key and minute."""
    sink = KeepingSink()
    with beam.Pipeline() as p:
        _ = (
            p
            | ReadFromKafka(_settings(broker), topic, bytes.decode, int, timestamp_policy="CreateTime", bounded=True)
            | beam.WindowInto(beam.window.FixedWindows(60))
            | beam.CombinePerKey(sum)
            | beam.io.Write(sink)
        )
    return sink


def stream(broker: Any, topic: str, count: int) -> Sums:
    """Sums by key and minute of a stream, until there are so many."""
    sink = CollectingSink()
    with tempfile.TemporaryDirectory() as directory:
        p = beam.Pipeline("local", options(checkpoint_dir=directory, checkpoint_interval=1))
        read = ReadFromKafka(
            _settings(broker),
            topic,
            bytes.decode,
            int,
            timestamp_policy="CreateTime",
            watermark_estimator=BoundedOutOfOrdernessWatermarkEstimator(LATE),
        )
        sums = p | read | beam.WindowInto(beam.window.FixedWindows(60)) | beam.CombinePerKey(sum)
        _ = sums | beam.Map(_with_minute) | beam.io.Write(sink)
        result = p.run()
        while len(sink.values) < count:
            result.wait_until_finish(50)
        result.cancel()
    return dict(sink.values)


def _with_minute(pair: tuple[str, int], window: Any = beam.DoFn.WindowParam) -> tuple[tuple[str, int], int]:
    return (pair[0], int(window.start) // 60), pair[1]


def by_hand(broker: Any, topic: str) -> Sums:
    """The same as the pipeline, of the client's messages."""
    sums: Sums = {}
    with _consumed(broker, topic) as batches:
        for messages in batches:
            for message in messages:
                cell = message.key().decode(), message.timestamp()[1] // 60_000
                sums[cell] = sums.get(cell, 0) + int(message.value())
    return sums


def by_hand_as_stream(broker: Any, topic: str) -> Sums:
    """The same as the stream: sums of minutes that are over, and all that a restart needs each second."""
    sums: Sums = {}
    by_minute: dict[int, dict[str, int]] = {}
    latest = dict.fromkeys(range(PARTITIONS), 0)
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    saved = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, _consumed(broker, topic) as batches:
        for messages in batches:
            for message in messages:
                milliseconds, partition, key = message.timestamp()[1], message.partition(), message.key().decode()
                own = by_minute.setdefault(milliseconds // 60_000, {})
                own[key] = own.get(key, 0) + int(message.value())
                latest[partition] = max(latest[partition], milliseconds)
                offsets[partition] = message.offset() + 1
            watermark = min(latest.values()) - LATE * 1000
            for minute in [minute for minute in by_minute if (minute + 1) * 60_000 <= watermark]:
                sums.update({(key, minute): total for key, total in by_minute.pop(minute).items()})
            if time.monotonic() > saved + 1:
                saved = time.monotonic()
                _save(Path(directory), (offsets, latest, by_minute))
    for minute, own in by_minute.items():
        sums.update({(key, minute): total for key, total in own.items()})
    return sums


def _save(directory: Path, state: Any) -> None:
    with open(directory / "new", "wb") as file:
        pickle.dump(state, file, protocol=5)
        file.flush()
        os.fsync(file.fileno())
    (directory / "new").rename(directory / "state")


@contextmanager
def _consumed(broker: Any, topic: str) -> Iterator[Iterator[list[Any]]]:
    """Yield all messages of a topic, those of each call in a list."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        _settings(broker) | {"group.id": "by-hand", "enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    left = sum(consumer.get_watermark_offsets(place)[1] for place in places)
    consumer.assign(places)

    def batches() -> Iterator[list[Any]]:
        found = 0
        while found < left:
            messages = consumer.consume(10_000, 1.0)
            found += len(messages)
            yield messages

    yield batches()
    consumer.close()


def latencies(broker: Any) -> list[float]:
    """Milliseconds of each record from the producer to a reader, without those of the first two seconds."""
    source, target = _new_topic(broker), _new_topic(broker)
    found: list[float] = []
    is_over = threading.Event()
    looking = threading.Thread(target=_look, args=(broker, target, found, is_over))
    with tempfile.TemporaryDirectory() as directory:
        p = beam.Pipeline("local", options(checkpoint_dir=directory, checkpoint_interval=0.2))
        read = ReadFromKafka(_settings(broker), source)
        _ = p | read | WriteToKafka({"bootstrap.servers": broker.address}, target)
        result = p.run()
        looking.start()
        try:
            _produce(broker, source)
            until = time.monotonic() + 60
            while len(found) < RATE * SECONDS and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            is_over.set()
            looking.join()
            result.cancel()
    assert len(found) == RATE * SECONDS
    return found[2 * RATE :]


def _produce(broker: Any, topic: str) -> None:
    """Write records at a rate; the value is the time in nanoseconds."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 1})
    began = time.perf_counter()
    for number in range(RATE * SECONDS):
        if (early := began + number / RATE - time.perf_counter()) > 0:
            time.sleep(early)
        producer.produce(topic, b"%d" % time.time_ns(), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()


def _look(broker: Any, topic: str, found: list[float], is_over: threading.Event) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(_settings(broker) | {"group.id": "look", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    while not is_over.is_set():
        for message in consumer.consume(1000, 0.01):
            found.append((time.time_ns() - int(message.value())) / 1e6)
    consumer.close()


def sums_of(broker: Any, keys: int) -> list[Ratio]:
    """Compare the CPU time of both, for a bounded read and for a stream."""
    from kafka.broker import Record

    topic, empty = _new_topic(broker), _new_topic(broker)
    known = events(EVENTS, keys, MINUTES)
    last = max(seconds for _, seconds, _ in known) + AFTER
    broker.write(
        topic,
        [
            *(
                Record(number % PARTITIONS, key.encode(), b"%d" % value, seconds * 1000)
                for number, (key, seconds, value) in enumerate(known)
            ),
            *(Record(number, b"last", b"0", last * 1000) for number in range(PARTITIONS)),
        ],
    )
    count = len({(key, seconds // 60) for key, seconds, _ in known})
    name = f"(h) Kafka: sums of {keys:,} keys by minute"
    return [
        compare(
            name,
            lambda: pipeline(broker, topic),
            lambda: by_hand(broker, topic),
            1.5,
            result=_sums_of,
            of_both=True,
            clock=_cpu,
            start_up=lambda: pipeline(broker, empty),
            warm_up=1,
            runs=RUNS,
        ),
        compare(
            f"{name}, as a stream",
            lambda: stream(broker, topic, count),
            lambda: by_hand_as_stream(broker, topic),
            1.5,
            result=_sums_of,
            of_both=True,
            clock=_cpu,
            warm_up=1,
            runs=RUNS,
        ),
    ]


def _sums_of(outcome: Any) -> Sums:
    """Return sums without those of the last records."""
    sums = outcome
    if isinstance(outcome, KeepingSink):
        sums = {(key, int(window.start) // 60): total for (key, window), total in outcome.by_key_and_window().items()}
    return {cell: total for cell, total in sums.items() if cell[0] != "last"}


def run() -> list[Any]:
    with _broker() as broker:
        found: list[Any] = [ratio for keys in KEYS for ratio in sums_of(broker, keys)]
        own = latencies(broker)
    found.append(Quantity("(h) Kafka: topic to topic, p50", percentile(own, 0.5), 300, "ms"))
    found.append(Quantity("(h) Kafka: topic to topic, p99", percentile(own, 0.99), 1000, "ms"))
    return found
