"""Streaming DataFrames in micro-batches: reading, restarts, idleness, draining, and refusals."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.recording import Recording
from support.runners.drivers import Died, leave_open_transactions

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.errors import CheckpointMismatchError, RunnerError, SourceError, UnsupportedError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineState
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, Timestamp

COLUMNS = ["digit", "total", "since"]


class Dying:
    """Kills the driver at a failpoint of a batch."""

    def __init__(self, point: str = "", batch: int = 0) -> None:
        self.at = point, batch

    def __call__(self, point: str, batch: int) -> None:
        if (point, batch) == self.at:
            raise Died


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


@pytest.fixture
def run(spark: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`run(build, dying=..., **options)` starts a pipeline with checkpoints in one directory."""

    def run(build: Callable[[Any], Any], dying: Dying | None = None, **options: Any) -> Any:
        given = PipelineOptions([], checkpoint_dir=str(place / "checkpoints"), **options)
        p = beam.Pipeline(SparkMicroBatchRunner(spark, dying or Dying()), options=given)
        build(p)
        return p.run()

    # A dead driver cleans nothing up.
    leave_open_transactions(monkeypatch)
    return run


def wait_for(result: Any, holds: Callable[[], object]) -> None:
    """Wait for a condition while a stream runs; the end of the stream is a failure."""
    deadline = time.monotonic() + 240
    while not holds():
        assert PipelineState.RUNNING == result.state
        assert time.monotonic() < deadline
        time.sleep(0.01)


def add(place: Path, name: str, numbers: range) -> None:
    """Write a file of numbers with event times atomically; files with smaller numbers are older."""
    lines = "".join(json.dumps({"n": n, "at": n}) + "\n" for n in numbers)
    unfinished = place / f"{name}.unfinished"
    unfinished.write_text(lines)
    # Spark reads the oldest file first.
    changed = 1_700_000_000 + numbers.start
    os.utime(unfinished, (changed, changed))
    unfinished.rename(place / "in" / name)


def numbers_in(place: Path, watermark: Any = 0) -> Any:
    """Read the numbers in the files, one file in each of Spark's batches."""

    def frame(session: Any) -> Any:
        stream = session.readStream.schema("n bigint, at bigint").option("maxFilesPerTrigger", 1)
        return stream.json(str(place / "in"))

    return beam.io.FromSparkStream(frame, timestamp="at", watermark=watermark)


def sums(p: Any, place: Path, watermark: Any = 0) -> Any:
    """Sums of each last digit in windows of twenty seconds."""
    return (
        p
        | "numbers" >> numbers_in(place, watermark)
        | beam.Map(lambda row: (row.n % 10, row.n))
        | beam.WindowInto(FixedWindows(20))
        | "sum" >> beam.CombinePerKey(sum)
        | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (*pair, int(window.start)))
    )


def into_table(place: Path, watermark: Any = 0) -> Callable[[Any], Any]:
    def build(p: Any) -> None:
        sink = beam.io.WriteToSQLite(place / "out.db", "sums", columns=COLUMNS, count_column="copies")
        _ = sums(p, place, watermark) | sink

    return build


def table(place: Path) -> list[tuple[int, ...]]:
    if not (place / "out.db").exists():
        return []
    with sqlite3.connect(place / "out.db") as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchall():
            return []
        return sorted(database.execute("SELECT digit, total, since, copies FROM sums"))


def expected(numbers: range) -> list[tuple[int, ...]]:
    """The table at the end: one sum for each digit and window."""
    keys = sorted({(n % 10, n // 20 * 20) for n in numbers})
    return [
        (digit, sum(n for n in numbers if n % 10 == digit and n // 20 * 20 == since), since, 1) for digit, since in keys
    ]


class Counting(Dying):
    """Counts the batches that are planned."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def __call__(self, point: str, batch: int) -> None:
        if point == "after-plan":
            self.batches.append(batch)


def test_a_backlog_takes_one_batch_for_each_of_sparks(run: Callable[..., Any], place: Path) -> None:
    """None runs without data while Spark has more of it; one at the end closes the windows that are due."""
    for i in range(6):
        add(place, f"{i}.json", range(i * 20, i * 20 + 20))
    counting = Counting()
    run(into_table(place), counting, available_now=True).wait_until_finish()

    assert expected(range(100)) == table(place)
    assert [1, 2, 3, 4, 5, 6, 7] == counting.batches


def test_a_backlog_of_a_stream_that_goes_on_takes_few_empty_batches(run: Callable[..., Any], place: Path) -> None:
    """Spark tells that it plans a batch, except for a moment."""
    for i in range(6):
        add(place, f"{i}.json", range(i * 20, i * 20 + 20))
    counting = Counting()
    result = run(into_table(place), counting)
    wait_for(result, lambda: expected(range(100)) == table(place))
    result.cancel()

    assert len(counting.batches) < 10


@pytest.mark.parametrize("point", ["after-plan", "before-manifest", "before-publication"])
def test_a_restarted_driver_continues_in_the_middle_of_sparks_stream(
    run: Callable[..., Any], place: Path, point: str
) -> None:
    """Wherever the first batch that publishes fails, each file counts once, and each sum is in the table once."""
    for i in range(3):
        add(place, f"{i}.json", range(i * 20, i * 20 + 20))
    with pytest.raises(Died):
        run(into_table(place), Dying(point, 3), available_now=True).wait_until_finish()
    add(place, "3.json", range(60, 80))

    assert PipelineState.DONE == run(into_table(place), available_now=True).wait_until_finish()
    # The watermark is at 79, so the last window stays open.
    assert expected(range(60)) == table(place)


def test_windows_close_without_more_data(run: Callable[..., Any], place: Path) -> None:
    """A watermark function advances without input; draining the stream outputs the rest."""
    seen: list[Timestamp] = []

    def watermark(newest: Timestamp, now: Timestamp) -> Timestamp:
        seen.append(newest)
        return Timestamp(20) if newest >= 20 else newest

    add(place, "0.json", range(20))
    result = run(into_table(place, watermark))
    add(place, "1.json", range(20, 30))
    wait_for(result, lambda: table(place) == expected(range(20)))

    assert PipelineState.DRAINED == result.drain()
    assert expected(range(30)) == table(place)
    assert {Timestamp(19), Timestamp(29)} == set(seen)


def test_a_timer_fires_without_input(run: Callable[..., Any], place: Path) -> None:
    """Batches run between Spark's batches: a processing-time trigger needs no data."""
    sink = Recording()

    def build(p: Any) -> None:
        trigger = beam.trigger.Repeatedly(beam.trigger.AfterProcessingTime(0.5))
        counts = (
            p
            | numbers_in(place, watermark=1000)
            | beam.Map(lambda row: ("all", 1))
            | beam.WindowInto(FixedWindows(1000), trigger, accumulation_mode=beam.trigger.AccumulationMode.DISCARDING)
            | beam.CombinePerKey(sum)
        )
        _ = counts | beam.io.Write(sink)

    add(place, "0.json", range(20))
    result = run(build)
    wait_for(result, lambda: sink.changes)

    assert PipelineState.CANCELLED == result.cancel()
    assert [("all", 20)] == [change.value for change in sink.changes]


def test_a_rate_stream_is_stopped_and_resumed(spark: Any, run: Callable[..., Any], place: Path) -> None:
    """No number is lost or repeated by cancellations, with other sources of all kinds in the pipeline."""
    sink = Recording()

    def build(p: Any) -> None:
        rate = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 3).load()
        numbers = p | "rate" >> beam.io.FromSparkStream(rate, timestamp="timestamp") | beam.Map(lambda row: row.value)
        others = p | "files" >> numbers_in(place) | "negative" >> beam.Map(lambda row: -1 - row.n)
        known = p | beam.io.FromSpark(spark.range(-1000, -990)) | beam.Map(lambda row: row.id)
        sequence = beam.io.GenerateSequence(0, stop=10, elements_per_period=10, period=1, start_time=0)
        ours = p | sequence | "ours" >> beam.Map(lambda n: n - 2000)
        _ = (numbers, others, known, ours) | beam.Flatten() | beam.io.Write(sink)

    def values() -> list[int]:
        return sorted(change.value for change in sink.changes)

    add(place, "0.json", range(5))
    result = run(build, batch_interval=0.2)
    wait_for(result, lambda: len(values()) > 30)
    result.cancel()
    before = len(values())
    result = run(build, batch_interval=0.2)
    wait_for(result, lambda: len(values()) > before + 30)
    result.drain()

    found = values()
    assert [*range(-2000, -1990), *range(-1000, -990), *range(-5, 0), *range(len(found) - 25)] == found


def test_spark_shows_stages_by_the_labels_of_transforms(spark: Any, run: Callable[..., Any], place: Path) -> None:
    """A job is a batch, and a stage has the transforms between two shuffles."""
    add(place, "0.json", range(20))
    result = run(into_table(place), available_now=True)
    result.wait_until_finish()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(id) for id in tracker.getJobIdsForGroup(f"penstock-{result._query._batches.run_name}")]
    names = {tracker.getStageInfo(stage).name for job in jobs for stage in job.stageIds}

    assert any(name.startswith("numbers") for name in names), names
    assert any(name.startswith("sum") for name in names), names


def test_a_batch_that_spark_cannot_deliver_again_is_refused(run: Callable[..., Any], place: Path) -> None:
    """The query's checkpoint is missing while ours exists, so it is unknown what was read."""
    add(place, "0.json", range(20))
    run(into_table(place), available_now=True).wait_until_finish()
    shutil.rmtree(place / "checkpoints" / "spark-streams")

    with pytest.raises(CheckpointMismatchError, match=r"numbers: the last batch of Spark's .* number 0, but there"):
        run(into_table(place), available_now=True).wait_until_finish()


def test_a_failure_of_sparks_query_fails_the_run(run: Callable[..., Any], spark: Any) -> None:
    """With the transform's label and Spark's message."""
    failing = spark.readStream.format("rate").load().selectExpr("timestamp", "raise_error('no good') as x")

    def build(p: Any) -> None:
        _ = p | "rate" >> beam.io.FromSparkStream(failing, timestamp="timestamp") | beam.io.Write(Recording())

    with pytest.raises(RunnerError, match="no good"):
        run(build).wait_until_finish()


def test_a_stream_whose_package_spark_lacks_is_refused(run: Callable[..., Any]) -> None:
    """PySpark doesn't include Kafka's source; the message names the package."""

    def kafka(session: Any) -> Any:
        return session.readStream.format("kafka").option("subscribe", "t").load()

    def build(p: Any) -> None:
        _ = p | "clicks" >> beam.io.FromSparkStream(kafka, timestamp="timestamp") | beam.io.Write(Recording())

    with pytest.raises(SourceError, match=r"clicks: Spark has no data source 'kafka'.*spark-sql-kafka-0-10_2\.13:4"):
        run(build).wait_until_finish()


def test_a_stream_that_spark_has_grouped_is_refused(run: Callable[..., Any], place: Path) -> None:
    """Its state would be in the query and not in our checkpoints; the error has the label once."""

    def grouped(session: Any) -> Any:
        stream = session.readStream.schema("n bigint, at bigint").json(str(place / "in"))
        return stream.groupBy("n").count().selectExpr("n", "n as at")

    def build(p: Any) -> None:
        _ = p | "counts" >> beam.io.FromSparkStream(grouped, timestamp="at") | beam.io.Write(Recording())

    with pytest.raises(SourceError, match=r"^counts: Spark can't stream this DataFrame: .*in the pipeline instead$"):
        run(build).wait_until_finish()


def test_streams_and_scripts_do_not_mix(run: Callable[..., Any], spark: Any) -> None:
    """A script controls the clock, and a stream uses the real one; and a stream isn't a bounded DataFrame."""
    rate = spark.readStream.format("rate").load()

    def build(p: Any) -> None:
        numbers = p | "rate" >> beam.io.FromSparkStream(rate, timestamp="timestamp")
        _ = (numbers, p | "script" >> TestStream()) | beam.Flatten() | beam.io.Write(Recording())

    with pytest.raises(UnsupportedError, match="rate: .* but script controls the clock"):
        run(build)
    with pytest.raises(UnsupportedError, match="FromSpark: the DataFrame is a stream; read it by FromSparkStream"):
        beam.io.FromSpark(rate)
    with pytest.raises(UnsupportedError, match="FromSparkStream: the DataFrame isn't a stream"):
        beam.io.FromSparkStream(spark.range(1), timestamp="id")


def test_a_removed_stream_is_refused(run: Callable[..., Any], place: Path) -> None:
    """Under another label it would be read from the beginning, and its input processed twice."""
    add(place, "0.json", range(20))

    def renamed(p: Any) -> None:
        _ = p | "others" >> numbers_in(place) | beam.io.Write(Recording())

    run(lambda p: p | numbers_in(place) | beam.io.Write(Recording()), available_now=True).wait_until_finish()
    with pytest.raises(CheckpointMismatchError, match=r"batch 1 has read from 'FromSparkStream', which the pipeline"):
        run(renamed, available_now=True).wait_until_finish()


def test_a_query_that_reads_something_else_is_refused(run: Callable[..., Any], spark: Any) -> None:
    """Its offsets are those of another rate; Spark itself would resume from them."""

    def rate(per_second: int) -> Callable[[Any], Any]:
        frame = spark.readStream.format("rate").option("rowsPerSecond", per_second).load()

        def build(p: Any) -> None:
            _ = p | "rate" >> beam.io.FromSparkStream(frame, timestamp="timestamp") | beam.io.Write(Recording())

        return build

    run(rate(50), available_now=True).wait_until_finish()
    changed = r"rate: Spark's .*: source 0 \(then: rate\(rowsPerSecond=50\); now: rate\(rowsPerSecond=10\)\)"
    with pytest.raises(CheckpointMismatchError, match=changed):
        run(rate(10), available_now=True).wait_until_finish()
    run(rate(10), available_now=True, allow_changed_sources=True).wait_until_finish()


def test_a_directory_that_is_read_instead_of_another_is_refused(run: Callable[..., Any], place: Path) -> None:
    """The offsets of the one mean nothing for the other."""
    (place / "other" / "in").mkdir(parents=True)
    add(place, "0.json", range(20))
    run(lambda p: p | numbers_in(place) | beam.io.Write(Recording()), available_now=True).wait_until_finish()

    other = place / "other"
    with pytest.raises(CheckpointMismatchError, match=r"FromSparkStream: Spark's .*path=.*/in\); now: .*other/in"):
        run(lambda p: p | numbers_in(other) | beam.io.Write(Recording()), available_now=True).wait_until_finish()
