"""`penstock state DIR`, and `penstock checkpoints diff|migrate`."""

from __future__ import annotations

import json
import pathlib
import shutil
import uuid
from collections.abc import Callable
from typing import TypeAlias

import fsspec
import pyarrow.parquet as parquet
import pytest
from click.testing import CliRunner, Result
from golden.archives import unpacked
from golden.pipelines import GOLDEN

from penstock.__main__ import main

Command: TypeAlias = Callable[..., Result]

BY_NAME = {golden.name: golden for golden in GOLDEN}

STEPS = """\
checkpoint 2, committed 2026-11-23 00:19:18Z, parallelism 2
step      keeps
Read      (no keyed state)
Remember  state bag: BagStateSpec
          state set: SetStateSpec
          state map: MapStateSpec
          state mean: CombiningValueStateSpec of MeanCombineFn
          state list: OrderedListStateSpec
          state last: ReadModifyWriteStateSpec
          timer end: WATERMARK
source Read: 0 at its end
source Read: 1 at 52
"""


@pytest.fixture
def command() -> Command:
    """`penstock ...`, in this process."""
    return lambda *arguments: CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> pathlib.Path:
    """The checkpoints of a pipeline with state of each kind."""
    unpacked(BY_NAME["state, aligned"], tmp_path)
    return tmp_path / "kept"


@pytest.fixture
def windows(tmp_path: pathlib.Path) -> pathlib.Path:
    """The checkpoints of a pipeline with windows."""
    unpacked(BY_NAME["windows, aligned"], tmp_path)
    return tmp_path / "kept"


def test_the_steps_are_listed(kept: pathlib.Path, command: Command) -> None:
    """With what they keep, and the positions of the sources."""
    ran = command("state", f"{kept}/")
    assert (0, STEPS) == (ran.exit_code, ran.output)


def test_checkpoints_in_an_object_store_are_read(kept: pathlib.Path, command: Command) -> None:
    """By their URL."""
    url = f"memory://{uuid.uuid4().hex}"
    fsspec.filesystem("memory").put(str(kept), url, recursive=True)
    assert (0, STEPS) == ((ran := command("state", url)).exit_code, ran.output)
    assert 35 == len(command("state", url, "--step=Remember").output.splitlines())


def test_an_export_as_json_is_read_back(kept: pathlib.Path, tmp_path: pathlib.Path, command: Command) -> None:
    """One object a line; a file has its name once it is complete."""
    out = tmp_path / "out.jsonl"
    ran = command("state", kept, "--step=Remember", "--format=json", f"--output={out}")

    assert (0, f"{out}: 35 entries of 'Remember' in checkpoint 2\n") == (ran.exit_code, ran.output)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    (last,) = (row for row in rows if (row["key"], row["name"]) == ("key 1", "last"))
    assert {
        "step": "Remember",
        "kind": "state",
        "name": "last",
        "key": "key 1",
        "window": None,
        "value": [156, {"$type": "duration", "seconds": 5.0}],
    } == last
    (bag,) = (row["value"] for row in rows if (row["key"], row["name"]) == ("key 1", "bag"))
    assert {
        "$type": "golden.pipelines.Note",
        "opaque": True,
        "fields": {"text": "number 1", "at": {"$type": "timestamp", "value": "1970-01-01T00:00:00Z"}},
    } == bag[0]
    assert not out.with_name("out.jsonl.unfinished").exists()


def test_classes_are_imported_where_the_owner_says_so(kept: pathlib.Path, command: Command) -> None:
    """Their instances are then no longer opaque."""
    ran = command("state", kept, "--step=Remember", "--format=json", "--key=key 1", "--unpickle")
    (bag,) = (row["value"] for row in map(json.loads, ran.output.splitlines()) if row.get("name") == "bag")
    assert ("golden.pipelines.Note", False) == (bag[0]["$type"], "opaque" in bag[0])


def test_an_export_as_parquet_is_read_back(windows: pathlib.Path, tmp_path: pathlib.Path, command: Command) -> None:
    """With the times of windows as timestamps."""
    out = tmp_path / "out.parquet"
    assert 0 == command("state", windows, "--step=Sum", "--format=parquet", f"--output={out}").exit_code

    rows = sorted(parquet.read_table(out).to_pylist(), key=lambda row: row["key"])
    assert ['"key 0"', '"key 1"', '"key 2"', '"key 3"', '"key 4"'] == [row["key"] for row in rows]
    assert ["205", "270", "213", "232", "221"] == [row["value"] for row in rows]
    assert {20} == {row["window_start"].second for row in rows}


def test_one_key_is_shown_on_the_terminal(windows: pathlib.Path, command: Command) -> None:
    """A line for each window."""
    ran = command("state", windows, "--step=Sum", "--key=key 1")
    assert 'window\t"key 1"\t[1970-01-01T00:00:20Z, 1970-01-01T00:00:40Z)\t270\n' == ran.output


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["--step=Rememer"], 1, "StateNotFoundError: checkpoint 2 has no state of a step 'Rememer'; did you mean"),
        (["--step=Remember", "--key=7"], 1, "Remember: no state of the key '7' or 7 in checkpoint 2. Keys are, for"),
        (["--epoch=9"], 1, "no checkpoint of epoch 9; there are: 2, 1"),
        (["--step=Remember", "--format=json", "--output=/none/a"], 1, "/none/a can't be written: No such file"),
        (["--step=Remember", "--format=parquet", "--output=/none/a"], 1, "/none/a can't be written: "),
        (["--key=7"], 2, "need --step"),
        (["--step=Remember", "--format=parquet"], 2, "--format=parquet needs --output FILE"),
    ],
)
def test_what_there_is_not_is_named(
    arguments: list[str], status: int, why: str, kept: pathlib.Path, command: Command
) -> None:
    """An error of usage exits with status 2, any other with 1."""
    ran = command("state", kept, *arguments)
    assert status == ran.exit_code
    assert why in ran.output


def test_a_directory_without_checkpoints_is_named(tmp_path: pathlib.Path, command: Command) -> None:
    """And one that other users can write to is refused, unless it is allowed."""
    assert (1, f"{tmp_path}: no checkpoints\n") == ((ran := command("state", tmp_path)).exit_code, ran.output)


def test_an_untrusted_directory_is_refused_and_shown_without_running_code_when_allowed(
    kept: pathlib.Path, command: Command
) -> None:
    """By --allow_untrusted_checkpoints."""
    kept.chmod(0o777)
    refused = command("state", kept, "--step=Remember")
    assert (1, True) == (refused.exit_code, "UntrustedSnapshotError" in refused.output)
    allowed = command("state", kept, "--step=Remember", "--allow_untrusted_checkpoints")
    assert (0, 35) == (allowed.exit_code, len(allowed.output.splitlines()))


def test_a_damaged_file_is_named(kept: pathlib.Path, command: Command) -> None:
    """Instead of showing half of the state."""
    for path in (kept / "files").iterdir():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    ran = command("state", kept, "--step=Remember")
    assert (1, True) == (ran.exit_code, "CorruptSnapshotError" in ran.output)


# --- Differences


def test_differences_are_shown_by_step_and_key(windows: pathlib.Path, command: Command) -> None:
    """And the positions of sources."""
    ran = command("checkpoints", "diff", f"{windows}@3", windows, "--keys=1")

    lines = ran.output.splitlines()
    assert [
        "A: checkpoint 3, committed 2026-11-23 00:19:08Z",
        "B: checkpoint 4, committed 2026-11-23 00:19:08Z",
    ] == lines[:2]
    at = lines.index("step Sum: 3,942 bytes -> 5,568 bytes")
    assert "  window: 10 -> 5 entries, 5 removed, 5 changed" == lines[at + 1]
    assert ["source Read: 0 at 14 -> 24", "source Read: 1 at 32 -> 37"] == lines[-2:]


def test_a_checkpoint_does_not_differ_from_itself(kept: pathlib.Path, tmp_path: pathlib.Path, command: Command) -> None:
    """Nor from a copy elsewhere."""
    shutil.copytree(kept, tmp_path / "copy")
    ran = command("checkpoints", "diff", kept, tmp_path / "copy")
    assert (0, "no differences") == (ran.exit_code, ran.output.splitlines()[-1])


def test_differences_are_data_in_json(kept: pathlib.Path, command: Command) -> None:
    """Each kind of entry with its counts."""
    ran = command("checkpoints", "diff", f"{kept}@1", f"{kept}@2", "--format=json", "--keys=0")
    found = json.loads(ran.output)
    (bag,) = (entry for entry in found["entries"] if entry["name"] == "state bag")
    assert ("Remember", 5, 5, 0, 0, 5) == tuple(
        bag[name] for name in ("step", "before", "after", "added", "removed", "changed")
    )
    assert {"Read"} == {source["source"] for source in found["sources"]}


# --- Migration

MIGRATION = """\
from golden.pipelines import Note

def to_version_2(entry):
    if entry.name != "bag":
        return entry
    return entry.with_value([Note(note.text.upper(), note.at) for note in entry.value])
"""


def test_state_is_migrated_by_a_module_in_the_working_directory(
    kept: pathlib.Path, tmp_path: pathlib.Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes a savepoint; the checkpoint stays."""
    (tmp_path / "to_version_2.py").write_text(MIGRATION)
    monkeypatch.chdir(tmp_path)

    ran = command("checkpoints", "migrate", kept, "--with=to_version_2:to_version_2")

    assert (
        f"{kept}: savepoint 3 has the state of checkpoint 2: 5 entries changed, 0 removed, 25 as they were. "
        in ran.output
    )
    assert '"NUMBER 1"' in command("state", kept, "--step=Remember", "--key=key 1").output
    assert '"number 1"' in command("state", kept, "--step=Remember", "--key=key 1", "--epoch=2").output


def test_a_running_job_is_not_migrated(kept: pathlib.Path, command: Command) -> None:
    """It would end."""
    import os
    import socket

    (kept / "run").write_text(json.dumps({"id": "a", "host": socket.gethostname(), "pid": os.getpid()}))
    ran = command("checkpoints", "migrate", kept, "--with=golden.pipelines:row")
    assert (1, True) == (ran.exit_code, f"the job runs in process {os.getpid()}" in ran.output)
