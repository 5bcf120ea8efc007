"""`penstock checkpoints list|show|verify DIR`."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TypeAlias

import pytest
from click.testing import CliRunner, Result
from support.programs.command_line import Penstock

from penstock.__main__ import main
from penstock.runners.execution.checkpoints.manifest import CheckpointKind
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore, Tables

Command: TypeAlias = Callable[..., Result]


@pytest.fixture
def store(tmp_path: pathlib.Path) -> SnapshotStore:
    """A full checkpoint, a delta on it, and a savepoint."""
    moments = iter([60.0, 120.0, 86_400.0])
    numbers = iter(range(100))
    directory = f"{tmp_path}/store"
    store = SnapshotStore(
        disk_of(directory), directory, token=lambda: f"{next(numbers):02x}", now=lambda: next(moments)
    )
    store.take_over()
    store.begin(1)
    full = store.write_part(1, "sum/0", [b"x" * 2000, b"y"])
    store.commit(1, [full], {"offset": 10})
    store.begin(2)
    delta = store.write_part(2, "sum/0", [b"z"], base=full)
    store.commit(2, [delta], {"offset": 20})
    store.begin(3)
    store.commit(3, [delta], {"offset": 20}, kind=CheckpointKind.SAVEPOINT)
    return store


@pytest.fixture
def command() -> Command:
    """`penstock checkpoints ...`, in this process."""
    return lambda *arguments: CliRunner().invoke(main, ["checkpoints", *arguments])


def damage(store: SnapshotStore, name: str) -> str:
    """Cut off the last byte of the one file that has this in its name; the path."""
    (path,) = pathlib.Path(store.directory).rglob(f"*{name}*")
    path.write_bytes(path.read_bytes()[:-1])
    return str(path)


def test_checkpoints_are_listed(store: SnapshotStore, command: Command) -> None:
    """The newest first, in columns."""
    ran = command("list", f"{store.directory}/")

    expected = """\
epoch  kind        committed             parts  files  size
3      savepoint   1970-01-02 00:00:00Z  1      2      2.1 kB
2      checkpoint  1970-01-01 00:02:00Z  1      2      2.1 kB
1      checkpoint  1970-01-01 00:01:00Z  1      1      2.0 kB
"""
    assert (0, expected) == (ran.exit_code, ran.output)


def test_a_checkpoint_is_shown(store: SnapshotStore, command: Command) -> None:
    """The newest, or that of an epoch: its parts, and the files of each."""
    full, delta = (f"{file.crc32:08x}" for file in store.open(2).files())
    expected = f"""\
epoch      2
kind       checkpoint
owner      00000001-00
committed  1970-01-01 00:02:00Z
metadata   {{"offset": 20}}
part       sum/0
  full   000000000001-00000001-00-01.full  2 records, 2.0 kB, crc {full}
  delta  000000000002-00000001-00-02.delta  1 record, 37 B, crc {delta}
"""
    ran = command("show", store.directory, "2")

    assert (0, expected) == (ran.exit_code, ran.output)
    assert "epoch      3\nkind       savepoint\n" in command("show", store.directory).output


def test_the_state_of_steps_is_shown(tmp_path: pathlib.Path, command: Command) -> None:
    """Of all subtasks, in memory and on disk."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "000004.sst").write_bytes(b"x" * 3_000)
    (tmp_path / "links" / "CURRENT").write_bytes(b"y")
    store = SnapshotStore(disk_of(str(tmp_path / "kept")), str(tmp_path / "kept"))
    store.take_over()
    store.begin(1)
    own = [store.write_part(1, f"sum/{i}", [b"x"], None, Tables(str(tmp_path / "links"), "ab")) for i in range(2)]
    parts = {part.name: {"entries": {"Sum": 700 + i, "Once": i}} for i, part in enumerate(own)}
    store.commit(1, own, {"parts": parts})
    shown = command("show", store.directory).output
    assert "state      Sum: 1,401 entries\nstate      Once: 1 entry\n" in shown
    assert 2 == shown.count("  tables 2 files of RocksDB, 3.0 kB\n")
    assert "epoch 1: whole\n" == command("verify", store.directory).output


def test_checkpoints_are_verified(store: SnapshotStore, command: Command) -> None:
    """Status 1 if one is damaged, and the file is named."""
    ran = command("verify", store.directory)
    assert (0, "epoch 3: whole\nepoch 2: whole\nepoch 1: whole\n") == (ran.exit_code, ran.output)

    path = damage(store, ".delta")
    ran = command("verify", store.directory)
    says = f"damaged: {path}: found its end after 36 bytes, expected a checksum"
    assert (1, f"epoch 3: {says}\nepoch 2: {says}\nepoch 1: whole\n") == (ran.exit_code, ran.output)
    assert (0, "epoch 1: whole\n") == ((ran := command("verify", store.directory, "1")).exit_code, ran.output)


def test_a_damaged_manifest_is_listed_as_such(store: SnapshotStore, command: Command) -> None:
    """The others are listed all the same."""
    path = damage(store, "manifest-000000000002")

    lines = command("list", store.directory).output.splitlines()
    assert ["3", "2", "1"] == [line.split()[0] for line in lines[1:]]
    assert f"damaged: {path}: found " in lines[2]
    assert 1 == command("show", store.directory, "2").exit_code
    assert f"epoch 2 is damaged: {path}: found " in command("show", store.directory, "2").output


@pytest.mark.parametrize("name", ["list", "show", "verify"])
def test_a_directory_without_checkpoints_is_an_error(name: str, tmp_path: pathlib.Path, command: Command) -> None:
    """Perhaps it is misspelt."""
    ran = command(name, str(tmp_path))

    assert (1, f"{tmp_path}: no checkpoints\n") == (ran.exit_code, ran.output)


@pytest.mark.parametrize("name", ["show", "verify"])
def test_an_epoch_that_is_not_there_is_an_error(name: str, store: SnapshotStore, command: Command) -> None:
    """It is named."""
    ran = command(name, store.directory, "9")

    assert (1, f"{store.directory}: no checkpoint of epoch 9\n") == (ran.exit_code, ran.output)


def test_a_place_that_cannot_be_reached_is_an_error_in_a_line(penstock: Penstock) -> None:
    """By the command itself."""
    ran = penstock("checkpoints", "list", "carrier://pigeon")

    assert 1 == ran.returncode
    assert ran.stderr.startswith("SnapshotError: 'carrier://pigeon' can't be reached: ")
    assert 1 == len(ran.stderr.splitlines())


@pytest.mark.parametrize("name", ["list", "show", "verify"])
def test_logs_of_productions_are_told_from_a_directory_with_nothing_in_it(
    name: str, tmp_path: pathlib.Path, command: Command
) -> None:
    """A stream with --delivery=strong has no checkpoints, but it isn't nothing."""
    (tmp_path / "productions.json").write_text("{}")
    ran = command(name, str(tmp_path))

    assert 1 == ran.exit_code
    assert f"{tmp_path}: the logs of a stream with --delivery=strong or weak, which has no checkpoints" in ran.output
    assert f"its savepoints are in {tmp_path}/savepoints" in ran.output


@pytest.mark.parametrize("name", ["savepoint", "drain", "cancel"])
def test_a_place_where_nothing_can_be_asked_is_an_error_in_a_line(
    name: str, tmp_path: pathlib.Path, command: Command
) -> None:
    """Such as a file; it was a traceback."""
    (tmp_path / "file").write_text("")
    ran = command(name, f"{tmp_path}/file")

    assert 1 == ran.exit_code
    assert ran.output.startswith(f"PenstockError: {tmp_path}/file: no request can be written there: [Errno 20] Not a")
    assert 1 == len(ran.output.splitlines())
