"""A sink that is renamed or removed between two starts loses no output that a checkpoint has decided."""

from __future__ import annotations

import pathlib
import sqlite3
from random import Random
from typing import Any

import pytest
from support.runners.micro_batches import RunnerInThisProcess
from support.runners.restartable_streams import Crash, Stream, sums

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.sinks.rollback import roll_back
from penstock.runners.spark.micro_batch.sources import Admission
from penstock.sdk.errors import CheckpointMismatchError, SnapshotError
from penstock.windowing import FixedWindows

NUMBERS = 100


def write_of(directory: pathlib.Path, table: str = "sums") -> beam.PTransform:
    key = ["key", "window_start"]
    return beam.io.WriteToSQLite(directory / "out.db", table, key, columns=["key", "sum"], with_window=True)


def tables(directory: pathlib.Path) -> list[str]:
    connection = sqlite3.connect(directory / "out.db")
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [name for (name,) in found]
    finally:
        connection.close()


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Stream:
    return Stream(tmp_path)


def renamed(stream: Stream, *labels: str, table: str = "sums") -> beam.Pipeline:
    """The stream with sinks of these labels."""
    p = beam.Pipeline()
    totals = sums(p)
    for number, label in enumerate(labels):
        _ = totals | label >> write_of(stream.directory, table if number == 0 else f"other{number}")
    return p


def die_before_the_commit(stream: Stream, parallelism: int) -> None:
    """Behind a manifest: its output is decided, and none of it is published."""
    job = stream.job(parallelism)
    commit = job.context.committer.commit

    def dying(staged: Any, *given: Any) -> Any:
        if job.checkpoints_completed > 2 and any(staged.values()):
            stream.disk.is_gone = True
            raise Crash
        return commit(staged, *given)

    job.context.committer.commit = dying  # type: ignore[method-assign]
    with pytest.raises(Crash):
        job.run()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("labels", [["Renamed"], ["Renamed", "New"]], ids=["alone", "beside a new one"])
def test_a_renamed_sink_commits_and_removes_what_it_has_staged(
    stream: Stream, parallelism: int, labels: list[str]
) -> None:
    """The checkpoints know its target; nothing that was staged is left."""
    die_before_the_commit(stream, parallelism)
    stream.job(parallelism, renamed(stream, *labels), allow_dropped_state=True).run()
    assert stream.expected() == stream.rows()
    assert {"_penstock_transactions", "sums"} == set(tables(stream.directory)) - {"other1"}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "labels", [[], ["Other"], ["First", "Second"]], ids=["removed", "another target", "two with its target"]
)
def test_output_of_a_sink_that_is_gone_is_refused_by_name(stream: Stream, parallelism: int, labels: list[str]) -> None:
    """Nothing is dropped, and the first pipeline goes on as if nothing had been."""
    die_before_the_commit(stream, parallelism)
    rows = stream.rows()
    p = beam.Pipeline()
    totals = sums(p)
    for label in labels:
        _ = totals | label >> write_of(stream.directory, "other" if label == "Other" else "sums")
    with pytest.raises(
        CheckpointMismatchError, match=r"checkpoint \d+ has output of 'Write/.*Start the pipeline once with the sink"
    ):
        stream.job(parallelism, p, allow_dropped_state=True).run()
    assert rows == stream.rows()
    stream.job(parallelism).run()
    assert stream.expected() == stream.rows()
    assert ["_penstock_transactions", "sums"] == tables(stream.directory)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_output_of_a_sink_that_has_another_target_is_refused_by_name(stream: Stream, parallelism: int) -> None:
    """A rollback would repeat output that was published at the former one, so the error doesn't lead there."""
    die_before_the_commit(stream, parallelism)
    rows = stream.rows()
    p = beam.Pipeline()
    _ = sums(p) | "Write" >> write_of(stream.directory, "other")
    with pytest.raises(
        CheckpointMismatchError,
        match=r"output of 'Write/.*' for sums in .*, which may be unpublished, but the sink writes to other in .* now",
    ):
        stream.job(parallelism, p).run()
    with pytest.raises(SnapshotError, match="give --allow_repeated_results"):
        roll_back(SnapshotStore(stream.disk, str(stream.checkpoints)))
    assert rows == stream.rows()
    stream.job(parallelism).run()
    assert stream.expected() == stream.rows()
    assert ["_penstock_transactions", "sums"] == tables(stream.directory)


def test_a_sink_may_have_another_target_once_its_output_is_published(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names it, since what was staged and not committed stays at the former one."""
    job = stream.job()
    stream.disk.before = lambda path: job.stop_with_savepoint() if job.checkpoints_completed == 1 else None  # type: ignore[misc]
    job.run()
    p = beam.Pipeline()
    _ = sums(p) | "Write" >> write_of(stream.directory, "other")
    stream.job(pipeline=p).run()
    assert "the sinks 'Write/Write(TableSink)' (formerly sums in " in caplog.text
    assert "other" in tables(stream.directory)


def test_a_removed_sink_without_open_output_is_named_in_the_log(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """A savepoint has published all of it."""
    job = stream.job()
    stream.disk.before = lambda path: job.stop_with_savepoint() if job.checkpoints_completed == 1 else None  # type: ignore[misc]
    job.run()
    stream.job(pipeline=renamed(stream, "Other", table="other"), allow_dropped_state=True).run()
    assert "the sinks 'Write/Write(TableSink)'" in caplog.text
    assert "are gone. What they have staged, and not committed, stays" in caplog.text


# Micro-batches


class Died(Exception):
    """The driver has died."""


class Batches:
    """Micro-batches that write sums into a table, with checkpoints on one disk."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._disk = SimulatedDisk(Random(0))

    def run(self, label: str, dies_at: tuple[str, int] = ("", 0), table: str = "sums", **settings: Any) -> None:
        def reached(point: str, batch: int) -> None:
            if (point, batch) == dies_at:
                raise Died

        runner = RunnerInThisProcess(
            store=SnapshotStore(self._disk, "checkpoints"),
            admission=Admission(25),
            reached=reached,
            is_restartable=True,
            **settings,
        )
        p = beam.Pipeline(runner)
        numbers = p | beam.io.GenerateSequence(0, NUMBERS, 1, 1, start_time=0) | beam.WithKeys("n")
        totals = numbers | beam.WindowInto(FixedWindows(10)) | "Sum" >> beam.CombinePerKey(sum)
        _ = totals | label >> write_of(self.directory, table)
        p.run()

    def sums(self) -> list[int]:
        connection = sqlite3.connect(self.directory / "out.db")
        try:
            return [n for (n,) in connection.execute("SELECT sum FROM sums ORDER BY sum")]
        finally:
            connection.close()


EXPECTED = [sum(range(start, start + 10)) for start in range(0, NUMBERS, 10)]


@pytest.mark.parametrize("point", ["after-plan", "before-manifest", "after-manifest"])
def test_a_renamed_sink_of_micro_batches_commits_and_removes_what_it_has_staged(
    tmp_path: pathlib.Path, point: str
) -> None:
    """Wherever the driver died."""
    batches = Batches(tmp_path)
    with pytest.raises(Died):
        batches.run("Write", (point, 2))
    batches.run("Renamed", allow_dropped_state=True)
    assert EXPECTED == batches.sums()
    assert ["_penstock_transactions", "sums"] == tables(tmp_path)


def test_output_of_micro_batches_whose_sink_is_gone_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    batches = Batches(tmp_path)
    with pytest.raises(Died):
        batches.run("Write", ("after-manifest", 2))
    with pytest.raises(CheckpointMismatchError, match=r"batch 2 has output of 'Write/.*Start the pipeline once"):
        batches.run("Other", table="other", allow_dropped_state=True)
    with pytest.raises(CheckpointMismatchError, match=r"output of 'Write/.*' for sums in .* writes to other in .* now"):
        batches.run("Write", table="other")
    batches.run("Write")
    assert EXPECTED == batches.sums()
