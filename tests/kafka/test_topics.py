"""Topics of a real broker, read by Spark: the records, their times, their sums, and what comes late."""

from __future__ import annotations

import datetime
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from kafka.broker import KafkaBroker, Record
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.errors import RunnerError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineState
from penstock.triggers import AccumulationMode
from penstock.windowing import FixedWindows

PARTITIONS = 3
WINDOW = 20

# Seconds: the producer takes a time of 0 for none.
BEGIN = 1_700_000_000


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """A topic of each test's own, with several partitions."""
    name = request.node.name.replace("[", "-").rstrip("]")
    broker.create_topic(name, PARTITIONS)
    return name


@pytest.fixture
def start(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """`start(build, **options)` starts a pipeline, with checkpoints always in the same directory."""

    def start(build: Callable[[Any], Any], **options: Any) -> Any:
        given = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), **options)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=given)
        build(p)
        return p.run()

    return start


def read(broker: KafkaBroker, topics: str, watermark: float = 0, **options: Any) -> Any:
    """All records of some topics, from their beginnings."""

    def frame(session: Any) -> Any:
        stream = session.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
        return stream.option("subscribe", topics).options(startingOffsets="earliest", **options).load()

    return beam.io.FromSparkStream(frame, timestamp="timestamp", watermark=watermark)


def number(n: int) -> Record:
    """A number, which has its last digit as its key, and itself for its time."""
    return Record(n % PARTITIONS, str(n % 10).encode(), str(n).encode(), (BEGIN + n) * 1000)


def sums_into(path: Path, read: Any, **windowing: Any) -> Callable[[Any], Any]:
    """The sums of each last digit in windows of twenty seconds; in the table, one row of each."""

    def build(p: Any) -> None:
        key = ["digit", "window_start"]
        _ = (
            p
            | "numbers" >> read
            | beam.Map(lambda row: (int(row.key), int(row.value)))
            | beam.WindowInto(FixedWindows(WINDOW), **windowing)
            | "sum" >> beam.CombinePerKey(sum)
            | beam.io.WriteToSQLite(path, "sums", key, columns=["digit", "total"], with_window=True)
        )

    return build


def table(path: Path) -> list[tuple[int, ...]]:
    with sqlite3.connect(path) as database:
        return sorted(database.execute("SELECT digit, window_start / 1000000 - ?, total FROM sums", [BEGIN]))


def expected(numbers: Iterable[int]) -> list[tuple[int, ...]]:
    sums: Counter[tuple[int, int]] = Counter()
    for n in numbers:
        sums[n % 10, n // WINDOW * WINDOW] += n
    return sorted((*of, total) for of, total in sums.items())


def test_records_come_as_rows_at_their_times(broker: KafkaBroker, topic: str, start: Callable[..., Any]) -> None:
    """Keys and values are bytes; the event time is the record's, to the millisecond."""
    records = [Record(2, b"a", b"1", BEGIN * 1000), Record(0, b"", b"\xff", BEGIN * 1000 + 1)]
    broker.write(topic, records)
    sink = Recording()
    result = start(lambda p: p | read(broker, topic) | beam.io.Write(sink), available_now=True)

    assert PipelineState.DONE == result.wait_until_finish()
    found = {(change.value.partition, change.micros): change.value for change in sink.changes}
    assert {(r.partition, r.timestamp * 1000): (r.key, r.value, topic, 0) for r in records} == {
        at: (row.key, row.value, row.topic, row.offset) for at, row in found.items()
    }
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert {micros: epoch + datetime.timedelta(microseconds=micros) for _, micros in found} == {
        micros: row.timestamp for (_, micros), row in found.items()
    }


def test_sums_of_two_topics_go_on_where_they_were(
    broker: KafkaBroker, topic: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    """Started three times, each time with more to read, a few records in a batch; then the input ends."""
    other = f"{topic}-2"
    broker.create_topic(other, 1)
    build = sums_into(tmp_path / "out.db", read(broker, f"{topic},{other}", maxOffsetsPerTrigger=30))
    for numbers in (range(100), range(100, 150), range(150, 155)):
        broker.write(topic, [number(n) for n in numbers if n % 4])
        broker.write(other, [attrs.evolve(number(n), partition=0) for n in numbers if n % 4 == 0])
        assert PipelineState.DONE == start(build, available_now=True).wait_until_finish()

    assert PipelineState.DRAINED == start(build).drain()
    assert expected(range(155)) == table(tmp_path / "out.db")


def test_what_is_late_corrects_a_sum_and_what_is_too_late_is_dropped(
    broker: KafkaBroker, topic: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    """Behind the greatest time of all earlier batches by the delay, and then by the allowed lateness."""
    source = read(broker, topic, watermark=10)
    corrected = {"allowed_lateness": 50, "accumulation_mode": AccumulationMode.RETRACTING}
    build = sums_into(tmp_path / "out.db", source, trigger=beam.trigger.DefaultTrigger(), **corrected)

    def run(*records: Record) -> list[tuple[int, ...]]:
        broker.write(topic, records)
        assert PipelineState.DONE == start(build, available_now=True).wait_until_finish()
        return table(tmp_path / "out.db")

    # One batch: nothing in it is late, in whatever order.  The watermark is at 85 after it.
    assert [(1, 0, 11), (1, 20, 31)] == run(number(95), number(11), number(31))
    # [0, 20) is gone since 70, [20, 40) isn't, and [80, 100) is still to end.
    assert [(1, 0, 11), (1, 20, 31 + 21)] == run(number(1), number(21), number(85))
    assert PipelineState.DRAINED == start(build).drain()
    assert [(1, 0, 11), (1, 20, 31 + 21), (5, 80, 95 + 85)] == table(tmp_path / "out.db")


def test_records_that_are_gone_from_the_topic_make_the_run_fail(
    broker: KafkaBroker, topic: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    """The next records are deleted meanwhile: a run that went on would lose them."""
    build = sums_into(tmp_path / "out.db", read(broker, topic))
    broker.write(topic, [number(n) for n in range(50)])
    start(build, available_now=True).wait_until_finish()
    broker.write(topic, [number(n) for n in range(50, 100)])
    broker.delete_all(topic, PARTITIONS)
    broker.write(topic, [number(n) for n in range(100, 150)])

    with pytest.raises(RunnerError, match=r"Some data may have been lost.* for topic partition"):
        start(build, available_now=True).wait_until_finish()
