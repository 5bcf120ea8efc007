"""The next start with the same checkpoints: of a run that has ended, side by side otherwise, or of another pipeline."""

from __future__ import annotations

import pathlib
import sqlite3
from typing import Any

import pytest
from support.runners.restartable_streams import Crash, Stream, sums

import penstock as beam
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.local.job.job import Job
from penstock.sdk.errors import CheckpointMismatchError, SinkError
from penstock.sdk.runner import PipelineState
from penstock.sdk.sources.bounded import ValuesSource


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Stream:
    """A stream of a test's own."""
    return Stream(tmp_path)


# --- A run that has ended


def test_a_run_that_has_ended_is_not_run_again(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    """The next start says so, is done, and touches neither table nor checkpoints."""
    first = stream.job()
    first.run()
    rows = stream.rows()
    connection = sqlite3.connect(stream.directory / "out.db")
    connection.execute("DELETE FROM sums WHERE key = 0")
    connection.commit()
    manifests = [path.name for path in stream.manifests()]
    again = stream.job()
    again.run()

    assert (PipelineState.DONE, 1, stream.expected()) == (again.state, stream.starts, rows)
    assert [row for row in rows if row[1] != 0] == stream.rows()
    assert manifests == [path.name for path in stream.manifests()]
    assert "has ended (DONE" in caplog.text
    assert "give another --checkpoint_dir" in caplog.text


def test_a_drained_run_has_ended_too(stream: Stream) -> None:
    """Its windows have fired as if no more were to come."""
    job = stream.job()
    stream.disk.before = lambda path: job.drain() if job.checkpoints_completed == 2 else None
    job.run()
    again = stream.job()
    again.run()

    assert (PipelineState.DRAINED, PipelineState.DRAINED, 1) == (job.state, again.state, stream.starts)


def test_a_crash_before_the_last_commit_leaves_that_to_the_next_start(stream: Stream) -> None:
    """The last checkpoint says that the run has ended; what it has staged is published, and nothing is run."""
    job = stream.job()

    def before(path: str) -> None:
        # When all is written down, the names of the transactions that are open yet are.
        if "transactions" in path and any(b'"ended"' in m.read_bytes() for m in stream.manifests()):
            raise Crash

    stream.disk.before = before
    with pytest.raises(Crash):
        job.run()
    again = stream.job()
    again.run()

    assert (PipelineState.DONE, 1) == (again.state, stream.starts)
    assert stream.expected() == stream.rows()


# --- Side by side otherwise


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_crashed_stream_goes_on_with_more_subtasks_and_then_with_one(stream: Stream, unaligned: bool) -> None:
    """From 2 to 3 to 1: state moves to the owner of its key group, each partition of a source to one reader."""
    stream.crash_after(2, parallelism=2, unaligned=unaligned)
    stream.crash_after(2, parallelism=3, unaligned=unaligned)
    job = stream.job(parallelism=1, unaligned=unaligned)
    job.run()

    assert PipelineState.DONE == job.state
    assert stream.expected() == stream.rows()


def test_a_savepoint_is_gone_on_from_with_another_number_of_subtasks(stream: Stream) -> None:
    """And kept, however many checkpoints come after it."""
    for parallelism in (2, 3):
        job = stream.job(parallelism)
        stream.disk.before = lambda path, job=job: job.stop_with_savepoint() if job.checkpoints_completed == 1 else None  # type: ignore[misc]
        job.run()
        assert PipelineState.CANCELLED == job.state
    stream.job(parallelism=1).run()

    assert stream.expected() == stream.rows()
    assert 2 == len(list(stream.checkpoints.glob("*.savepoint")))


# --- Another pipeline


def test_state_of_a_step_that_is_gone_is_refused_by_name(stream: Stream) -> None:
    """Unless dropping it is allowed; nothing has been changed by the refusal."""
    stream.crash_after(2)
    rows = stream.rows()
    with pytest.raises(CheckpointMismatchError, match=r"state of 'Sum'.*--allow_dropped_state"):
        stream.job(pipeline=stream.pipeline("Total")).run()
    assert rows == stream.rows()

    stream.job(pipeline=stream.pipeline("Total"), allow_dropped_state=True).run()
    assert set(stream.rows()) != set(stream.expected())
    assert stream.expected()[-4:] == stream.rows()[-4:]


def test_another_pipeline_is_refused_before_it_ends_the_job_that_runs_there(stream: Stream) -> None:
    """A directory given by mistake doesn't disturb its job."""
    stream.crash_after(2)
    owner = SnapshotStore(disk_of(stream.checkpoints), str(stream.checkpoints))
    owner.take_over()
    with pytest.raises(CheckpointMismatchError, match="state of 'Sum'"):
        stream.job(pipeline=stream.pipeline("Total")).run()
    epoch = owner.checkpoints()[0].epoch + 1
    owner.begin(epoch)
    assert epoch == owner.commit(epoch, ()).epoch


def test_what_a_sink_that_is_gone_has_staged_is_refused_by_name(stream: Stream) -> None:
    """It would never be published, nor removed."""
    job = stream.job()

    def before(path: str) -> None:
        # The manifest is there, and nothing of it is committed.
        if job.context.status.last_checkpoint is not None and job.context.status.last_checkpoint.epoch == 3:
            raise Crash

    commit = job.context.committer.commit

    def dying(*given: Any) -> Any:
        if job.context.status.last_checkpoint is not None and job.context.status.last_checkpoint.epoch == 3:
            stream.disk.is_gone = True
            raise Crash
        return commit(*given)

    job.context.committer.commit = dying  # type: ignore[method-assign]
    stream.disk.before = before
    with pytest.raises(Crash):
        job.run()
    without = beam.Pipeline()
    _ = sums(without)
    with pytest.raises(CheckpointMismatchError, match="'Write/Write"):
        stream.job(pipeline=without).run()
    stream.job().run()

    assert stream.expected() == stream.rows()


# --- What is bounded


class ManyBundles(ValuesSource):
    """Gives ten values at a time, so that checkpoints come in between."""

    def read_bundles(self, split: Any) -> Any:
        for bundle in super().read_bundles(split):
            for start in range(0, len(bundle), 10):
                yield bundle.part(start, min(start + 10, len(bundle)))


def lines(stream: Stream) -> beam.Pipeline:
    """Numbers into files."""
    p = beam.Pipeline()
    _ = p | beam.io.Read(ManyBundles(range(3000))) | beam.io.WriteToText(stream.directory / "out", ".txt")
    return p


def found(stream: Stream) -> list[int]:
    return sorted(int(line) for path in stream.directory.glob("out-*") for line in path.read_text().split())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_bounded_pipeline_publishes_its_files_once_at_its_end(stream: Stream, parallelism: int) -> None:
    """After any checkpoints on the way.  Files of later ones used to replace those of earlier ones."""
    job = stream.job(parallelism, pipeline=lines(stream))
    seen: list[int] = []
    stream.disk.before = lambda path: seen.extend(found(stream) if "manifest-" in path else [])
    job.run()

    assert ([], True) == (seen, job.checkpoints_completed > 2)
    assert list(range(3000)) == found(stream)
    names = sorted(path.name for path in stream.directory.glob("out-*"))
    assert [f"out-{i:05d}-of-{len(names):05d}.txt" for i in range(len(names))] == names


def test_a_bounded_pipeline_goes_on_with_what_it_had_staged_before_a_crash(stream: Stream) -> None:
    """Also twice, and with other numbers of subtasks."""
    for parallelism in (2, 3):
        stream.crash_after(2, parallelism=parallelism, pipeline=lines(stream))
        assert [] == found(stream)
    stream.job(1, pipeline=lines(stream)).run()

    assert list(range(3000)) == found(stream)
    assert [] == list(stream.directory.glob(".out*"))


def test_a_cancelled_bounded_pipeline_can_be_gone_on_with(stream: Stream) -> None:
    """The staged output of its newest checkpoint is kept."""
    job = stream.job(2, pipeline=lines(stream))
    stream.disk.before = lambda path: job.cancel() if job.checkpoints_completed == 2 else None
    job.run()
    assert (PipelineState.CANCELLED, []) == (job.state, found(stream))
    stream.job(2, pipeline=lines(stream)).run()

    assert list(range(3000)) == found(stream)


# --- Readers that take published files away


@pytest.mark.parametrize("error", [Crash, SinkError], ids=["a killed process", "a failed attempt"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_reader_may_take_files_away_before_a_restart(
    stream: Stream, parallelism: int, error: type[BaseException]
) -> None:
    """They were published, so that no restart publishes them again, or misses them."""
    taken: list[str] = []

    def take() -> None:
        for path in stream.directory.glob("totals-*"):
            taken.extend(path.read_text().splitlines())
            path.unlink()

    def job() -> Job:
        p = beam.Pipeline()
        _ = (
            sums(p)
            | beam.MapTuple(lambda key, total: f"{key} {total}")
            | beam.io.WriteToText(stream.directory / "totals")
        )
        return stream.job(parallelism, p, restarts=1)

    first = job()
    checkpointed = first.context.status.checkpointed

    def failing(*given: Any) -> None:
        checkpointed(*given)
        if list(stream.directory.glob("totals-*")) and not taken:
            take()
            raise error

    first.context.status.checkpointed = failing  # type: ignore[method-assign]
    if error is Crash:
        with pytest.raises(Crash):
            first.run()
        job().run()
    else:
        first.run()
    take()
    assert sorted(f"{key} {total}" for _, key, total in stream.expected()) == sorted(taken)
