"""Missing and truncated logs: a start is refused, by the name of the log, before anything is processed."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest
from support.runners.production_streams import job_of, stopped
from support.runners.restartable_streams import Stream

from penstock.runners.local.productions.log import HEAD, read_records
from penstock.sdk.errors import CorruptSnapshotError
from penstock.sdk.runner import PipelineState

Damage = Callable[[pathlib.Path], None]


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Stream:
    """Return a stream."""
    return Stream(tmp_path)


def log_in(directory: pathlib.Path) -> pathlib.Path:
    """Return the log of the newest owner."""
    return max(directory.glob("productions-*"))


def lose_file(directory: pathlib.Path) -> None:
    log_in(directory).unlink()


def lose_directory(directory: pathlib.Path) -> None:
    shutil.rmtree(directory)


def lose_last_byte(directory: pathlib.Path) -> None:
    log = log_in(directory)
    content = log.read_bytes()
    end = HEAD + sum(24 + len(record) for record in read_records(str(log), content))
    log.write_bytes(content[: end - 1])


CASES: list[tuple[str, Damage]] = [
    ("productions/0-1", lose_file),
    ("productions/1-0", lose_directory),
    ("productions/1-0", lose_last_byte),
    ("job", lose_file),
]


@pytest.mark.parametrize(("which", "damage"), CASES)
def test_a_lost_log_is_refused_by_name_and_nothing_is_processed(
    stream: Stream, tmp_path: pathlib.Path, which: str, damage: Damage
) -> None:
    """The log of a source's subtask, of one with state, or of the job; once it is restored the stream resumes."""
    stopped(stream, 2, 3)
    rows = stream.rows()
    directory = stream.checkpoints / which
    log = log_in(directory)
    shutil.copytree(directory, tmp_path / "copy")
    damage(directory)

    with pytest.raises(CorruptSnapshotError) as error:
        job_of(stream, 2, lambda job: None).run()
    assert str(log) in str(error.value)
    assert rows == stream.rows()

    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(tmp_path / "copy", directory)
    last = job_of(stream, 2, lambda job: None)
    last.run()
    assert (PipelineState.DONE, stream.expected()) == (last.state, stream.rows())


@pytest.mark.parametrize("which", ["listed-1", "listed-job", "productions.json", "job", "productions"])
def test_the_loss_of_a_list_or_of_its_logs_is_noticed(stream: Stream, which: str) -> None:
    """Of the lists, of the owner's file, and of all logs of a list."""
    stopped(stream, 2, 1)
    rows, path = stream.rows(), stream.checkpoints / which
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    with pytest.raises(CorruptSnapshotError, match=which):
        job_of(stream, 2, lambda job: None).run()
    assert rows == stream.rows()


def test_logs_of_another_layout_are_listed_too(stream: Stream) -> None:
    """Also if the next start changes the parallelism, and reads all logs together."""
    stopped(stream, 2, 1)
    stopped(stream, 3, 1)
    assert ["listed-2", "listed-job"] == sorted(path.name for path in stream.checkpoints.glob("listed-*"))
    lose_directory(stream.checkpoints / "layout-2/productions/1-2")

    with pytest.raises(CorruptSnapshotError, match="layout-2/productions/1-2/productions-.*: found no such file"):
        job_of(stream, 2, lambda job: None).run()


def test_a_directory_with_only_its_first_files_is_begun(stream: Stream) -> None:
    """A crash before the first log has lost nothing."""
    stopped(stream, 2, 0)
    for path in ("job", "productions", "listed-1"):
        target = stream.checkpoints / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    content = (stream.checkpoints / "listed-job").read_bytes()
    (stream.checkpoints / "listed-job").write_bytes(content[:64] + bytes(64))

    last = job_of(stream, 2, lambda job: None)
    last.run()
    assert (PipelineState.DONE, stream.expected()) == (last.state, stream.rows())
