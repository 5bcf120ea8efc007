"""Durable storage: local, through fsspec, and simulated."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
import signal
import stat
import uuid
from collections.abc import Iterator
from random import Random

import pytest

from penstock.runners.execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from penstock.runners.execution.checkpoints.storage import Disk, FsspecDisk, LocalDisk, disk_of
from penstock.sdk.errors import SnapshotError


@pytest.fixture(params=["local", "file", "memory", "simulated"])
def storage(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[Disk, str]:
    """Each kind of disk, and an empty directory on it."""
    if request.param == "simulated":
        return SimulatedDisk(Random(0)), "dir"
    directory = {
        "local": f"{tmp_path}/dir",
        "file": f"file://{tmp_path}/dir",
        "memory": f"memory://{uuid.uuid4().hex}/dir",
    }[request.param]
    disk = disk_of(directory)
    disk.make_directory(directory)
    return disk, directory


def test_what_is_written_is_read(storage: tuple[Disk, str]) -> None:
    """Whole or in pieces, and then something else under the same name."""
    disk, directory = storage

    disk.write_atomically(f"{directory}/a", b"whole")
    disk.write_atomically(f"{directory}/b", iter([b"in ", b"pieces"]))
    disk.write_atomically(f"{directory}/a", b"another")

    assert [b"another", b"in pieces"] == [disk.read(f"{directory}/{name}") for name in disk.list(directory)]
    with disk.open(f"{directory}/b") as file:
        assert [b"in", b" pie", b"ces", b""] == [file.read(2), file.read(4), file.read(100), file.read(1)]


def test_a_directory_lists_its_files_and_nothing_else(storage: tuple[Disk, str]) -> None:
    """Sorted; one that isn't there has none."""
    disk, directory = storage
    disk.make_directory(f"{directory}/below")
    for name in ("b", "a", "below/c"):
        disk.write_atomically(f"{directory}/{name}", b"")

    assert ["a", "b"] == disk.list(directory)
    assert [] == disk.list(f"{directory}/nowhere")


def test_removing_what_is_not_there_is_fine(storage: tuple[Disk, str]) -> None:
    """Together with what is."""
    disk, directory = storage
    disk.write_atomically(f"{directory}/a", b"")
    assert disk.exists(f"{directory}/a")

    disk.remove(f"{directory}/nothing", f"{directory}/a")

    assert not disk.exists(f"{directory}/a")
    assert [] == disk.list(directory)
    with pytest.raises(FileNotFoundError):
        disk.read(f"{directory}/a")


def test_content_that_fails_leaves_the_file_as_it_was(storage: tuple[Disk, str]) -> None:
    """And nothing beside it."""
    disk, directory = storage
    disk.write_atomically(f"{directory}/a", b"before")

    def content() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        disk.write_atomically(f"{directory}/a", content())

    assert ["a"] == disk.list(directory)
    assert b"before" == disk.read(f"{directory}/a")


def test_an_unknown_protocol_is_named() -> None:
    """With what fsspec says of it."""
    with pytest.raises(SnapshotError, match=r"'carrier://pigeon/a' can't be reached: .*carrier"):
        FsspecDisk().read("carrier://pigeon/a")


# --- The local disk


def test_a_local_file_is_synced_before_it_gets_its_name_and_its_directory_after(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is what makes it atomic."""
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def recorded_fsync(descriptor: int) -> None:
        steps.append("sync directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def recorded_rename(source: str, destination: str) -> None:
        steps.append("rename")
        rename(source, destination)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "rename", recorded_rename)

    LocalDisk().write_atomically(f"{tmp_path}/a", b"content")

    assert ["sync file", "rename", "sync directory"] == steps


def test_a_directory_that_is_something_else_is_named(tmp_path: pathlib.Path) -> None:
    """A file, or a symbolic link to a directory that doesn't exist."""
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "gone")

    with pytest.raises(SnapshotError, match=r"/file' is a file; expected a directory\. Remove the file"):
        LocalDisk().make_directory(f"{tmp_path}/file/dir")
    with pytest.raises(SnapshotError, match=r"/link' is a symbolic link to '.*/gone', which is no directory; .*Create"):
        LocalDisk().make_directory(f"{tmp_path}/link/dir")


def test_local_files_and_directories_are_for_their_owner_alone(tmp_path: pathlib.Path) -> None:
    """With any umask."""
    before = os.umask(0)
    try:
        LocalDisk().make_directory(f"{tmp_path}/above/dir")
        LocalDisk().write_atomically(f"{tmp_path}/above/dir/a", b"content")
    finally:
        os.umask(before)

    paths = [tmp_path / "above", tmp_path / "above" / "dir", tmp_path / "above" / "dir" / "a"]
    assert [0o700, 0o700, 0o600] == [stat.S_IMODE(path.stat().st_mode) for path in paths]
    assert [None, None] == [LocalDisk().why_untrusted(str(path)) for path in paths[1:]]


def _write_until_killed(path: str, piece: bytes) -> None:
    def content() -> Iterator[bytes]:
        yield piece * 10_000
        os.kill(os.getpid(), signal.SIGKILL)

    LocalDisk().write_atomically(path, content())


def test_a_process_that_is_killed_while_it_writes_leaves_the_file_as_it_was(tmp_path: pathlib.Path) -> None:
    """A real process and a real signal; what it had written is there under another name."""
    LocalDisk().write_atomically(f"{tmp_path}/a", b"before")
    child = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(f"{tmp_path}/a", b"after"))
    child.start()
    child.join()

    assert -signal.SIGKILL == child.exitcode
    assert b"before" == LocalDisk().read(f"{tmp_path}/a")
    assert [name.endswith(".unfinished") for name in LocalDisk().list(str(tmp_path))] == [False, True]


# --- The simulated disk


def history(seed: int) -> list[object]:
    """Return the outcome of a hundred writes on a disk with all kinds of faults."""
    disk = SimulatedDisk(Random(seed), failures=0.05, crashes=0.05)
    seen: list[object] = []
    for number in range(100):
        try:
            disk.write_atomically(f"dir/{number % 7}", [bytes([number])] * 3)
            disk.remove(f"dir/{(number + 3) % 7}")
        except OSError as error:
            seen.append((number, error.errno))
        except SimulatedCrash:
            disk.crash()
            seen.append((number, [(name, disk.read(f"dir/{name}")) for name in disk.list("dir")]))
    return seen


def test_a_seed_gives_one_history_of_faults() -> None:
    """The same, twice; another seed gives another."""
    assert history(1) == history(1)
    assert history(1) != history(2)


def test_whatever_happens_a_simulated_file_is_whole_and_what_was_written_last_survives() -> None:
    """Crashes and failures between any two steps: the old content, or the new."""
    torn = kept = 0
    for seed in range(300):
        disk = SimulatedDisk(Random(seed))
        disk.write_atomically("dir/a", b"before")
        disk.failures = disk.crashes = 0.15
        expected = {b"before"}
        try:
            disk.write_atomically("dir/a", [b"aft", b"er"])
            expected = {b"after"}
        except (OSError, SimulatedCrash):
            expected = {b"before", b"after"}
        disk.crash()

        content = disk.read("dir/a")
        assert content in expected
        kept += content == b"before"
        torn += len(disk.list("dir")) > 1
    # It isn't that nothing ever went wrong.
    assert kept > 20
    assert torn > 20


def test_a_simulated_removal_that_returned_is_not_undone_by_a_crash() -> None:
    """One that didn't return may be."""
    undone = 0
    for seed in range(100):
        disk = SimulatedDisk(Random(seed))
        disk.write_atomically("dir/a", b"")
        disk.write_atomically("dir/b", b"")
        disk.remove("dir/a")
        disk.crashes = 0.5
        try:
            disk.remove("dir/b")
        except SimulatedCrash:
            disk.crash()
            undone += disk.exists("dir/b")
        assert not disk.exists("dir/a")
    assert undone > 10


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_fault_lasts_until_it_is_taken_away(number: int) -> None:
    """The disk is full, or read-only; reading goes on."""
    disk = SimulatedDisk(Random(0))
    disk.write_atomically("dir/a", b"before")
    disk.fault = number
    for operation in (lambda: disk.write_atomically("dir/a", b"after"), lambda: disk.remove("dir/a")):
        with pytest.raises(OSError) as raised:
            operation()
        assert number == raised.value.errno
    assert b"before" == disk.read("dir/a")
    disk.fault = None
    disk.write_atomically("dir/a", b"after")

    assert (["a"], b"after") == (disk.list("dir"), disk.read("dir/a"))
