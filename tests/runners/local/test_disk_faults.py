"""Streams whose checkpoints can't be written, or are damaged: whole jobs on real files."""

from __future__ import annotations

import errno
import pathlib
from collections.abc import Callable

import pytest
from support.runners.restartable_streams import Stream

from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import CorruptSnapshotError
from penstock.sdk.runner import PipelineState


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Stream:
    """A stream of a test's own."""
    return Stream(tmp_path)


def cut_off(path: pathlib.Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize(
    ("kind", "parallelism"), [("/files/", 1), ("/files/", 2), ("manifest-", 2), ("/transactions", 2)]
)
def test_while_the_disk_is_full_or_read_only_checkpoints_fail_and_the_stream_goes_on(
    stream: Stream, parallelism: int, kind: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With the same workers; when there is room again the next one succeeds, and each failure was logged."""
    job = stream.job(parallelism)
    failed: list[str] = []

    def before(path: str) -> None:
        if kind in path and job.checkpoints_completed == 2 and len(failed) < 2:
            failed.append(path)
            raise OSError(number, "the disk is as it is")

    stream.disk.before = before
    job.run()

    assert (2, 1, True) == (len(failed), stream.starts, job.checkpoints_completed > 3)
    assert stream.expected() == stream.rows()
    logged = [record.getMessage() for record in caplog.records if "failed" in record.getMessage()]
    assert logged
    assert all("the disk is as it is" in message for message in logged)


def test_a_file_that_is_half_written_is_no_part_of_anything(stream: Stream) -> None:
    """The disk is full in the midst of it, and nothing of it stays."""
    job = stream.job()
    failed: list[str] = []

    def midway(path: str) -> None:
        if "/files/" in path and job.checkpoints_completed == 2 and not failed:
            failed.append(path)
            raise OSError(errno.ENOSPC, "No space left on device")

    stream.disk.midway = midway
    job.run()

    assert 1 == len(failed)
    assert [] == list(stream.checkpoints.glob("**/*.unfinished"))
    assert stream.expected() == stream.rows()


@pytest.mark.parametrize("damage", [cut_off, flip, empty, pathlib.Path.unlink])
@pytest.mark.parametrize("what", ["file", "manifest"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_restored(
    stream: Stream, what: str, damage: Callable[[pathlib.Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the damaged one is; and what it had published comes again, which is said too."""
    stream.crash_after(3)
    path = stream.files()[0] if what == "file" else stream.manifests()[0]
    damage(path)
    job = stream.job(pipeline=stream.pipeline())
    job.run()

    assert PipelineState.DONE == job.state
    assert stream.expected() == stream.rows()
    text = caplog.text
    assert "epoch 3 is skipped" in text
    is_removed = damage is pathlib.Path.unlink
    assert ("no manifest" if is_removed and what == "manifest" else path.name) in text
    if what == "file" or not is_removed:
        assert "resuming from epoch 2. The published output of epoch 3 stays, and is published again" in text


def test_if_no_checkpoint_is_whole_nothing_is_begun_anew_and_nothing_is_changed(stream: Stream) -> None:
    """Neither the table, nor what is staged for it, nor the checkpoints: that is for the user to decide."""
    stream.crash_after(3)
    for path in stream.checkpoints.glob("files/*"):
        flip(path)
    before = stream.rows(), sorted(path.name for path in stream.checkpoints.glob("**/manifest-*"))
    job = stream.job()
    with pytest.raises(CorruptSnapshotError, match="no undamaged checkpoint"):
        job.run()

    assert (PipelineState.FAILED, 1) == (job.state, stream.starts)
    assert before == (stream.rows(), sorted(path.name for path in stream.checkpoints.glob("**/manifest-*")))


def test_a_commit_in_doubt_is_decided_by_a_new_owner_and_nothing_is_aborted_before(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The manifest is there, its directory could not be synced: the job starts again from what is found."""
    job = stream.job(restarts=3)
    write = type(stream.disk).write_atomically
    doubtful: list[str] = []

    def write_atomically(disk: object, path: str, content: object) -> None:
        write(disk, path, content)  # type: ignore[arg-type]
        if "manifest-" in path and job.checkpoints_completed == 2 and not doubtful:
            doubtful.append(path)
            raise OSError(errno.EIO, "the directory can't be synced")

    monkeypatch.setattr(type(stream.disk), "write_atomically", write_atomically)
    job.run()

    assert (1, 2) == (len(doubtful), stream.starts)
    assert "it is not known whether epoch 3 was committed" in caplog.text
    assert stream.expected() == stream.rows()
    generations = {each.name.generation for each in SnapshotStore(stream.disk, str(stream.checkpoints)).found()}
    assert all(generation.startswith("00000002") for generation in map(str, generations))
