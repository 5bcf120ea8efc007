"""Entries of checkpoints, compared with what a restore finds in the same files."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from golden.archives import unpacked
from golden.pipelines import GOLDEN, Golden
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.checkpoints.manifest import PartReference
from penstock.runners.execution.checkpoints.reader import SnapshotReader
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.inspection import entries as entries_module
from penstock.runners.execution.inspection.entries import CELL, TIMER, WINDOW, StateEntry, StateReader
from penstock.runners.execution.inspection.export import json_lines
from penstock.runners.execution.inspection.json_values import text_of
from penstock.runners.execution.inspection.keys import entries_of_key, named_keys
from penstock.runners.execution.state.keyed_state import KeyedState
from penstock.runners.execution.state.timers import Timers
from penstock.runners.execution.streaming.snapshot_chunks import RUNS, STATE, TIMERS, WINDOWS, Chunk, Origin, chunks_of
from penstock.runners.execution.streaming.tables import StoredTables
from penstock.runners.execution.windows.snapshots import WindowRecord, state_of
from penstock.sdk.coders.key_encoding import KEY_GROUPS
from penstock.sdk.errors import CorruptSnapshotError, SnapshotError, StateNotFoundError, UntrustedSnapshotError

WITHOUT = ("state, ended", "state, productions", "windows, productions")
WITH_CHECKPOINTS = [golden for golden in GOLDEN if golden.name not in WITHOUT]


def reader_of(directory: pathlib.Path) -> StateReader:
    store = SnapshotReader(LocalDisk(), str(directory))
    return StateReader(store, store.select())


def chunks_in(reader: StateReader, part: PartReference) -> Iterator[Chunk]:
    """Of its files, and of its tables."""
    for _, records in reader.store.read_part(part):
        yield from chunks_of(records)
    if part.tables:
        with StoredTables(reader.store, part, Origin("here")).opened() as tables:
            yield from tables.decoded(range(KEY_GROUPS))


def restored(reader: StateReader) -> Iterator[tuple[str, str, str, str, str]]:
    """What the operators' own restore makes of the parts: label, kind, name, key and value."""
    for part in reader.parts():
        chained: dict[tuple[str, str], list[Any]] = {}
        for label, kind, group, data in chunks_in(reader, part):
            if group is not None and kind in (STATE, TIMERS, WINDOWS, RUNS):
                chained.setdefault((label, kind), []).extend(data)
        for (label, kind), records in chained.items():
            if kind == STATE:
                state = KeyedState()
                state.restore(records)
                for namespace in state.namespaces():
                    for key in {text_of(record[1]): record[1] for record in records}.values():
                        for name, value in state.of_key(namespace, key).items():
                            yield label, CELL, name, text_of(key), sizes(value)
            elif kind == TIMERS:
                timers = Timers()
                timers.restore(records)
                for timer in timers.snapshot():
                    yield label, TIMER, timer.family, text_of(timer.key), str(timer.fire)
            else:
                # Of runs each counts.
                last: dict[Any, WindowRecord] = {(r.key, r.window): r for r in records}
                for record in records if kind == RUNS else last.values():
                    for row in record.states:
                        window = state_of(record.key, row)
                        yield label, WINDOW, "", text_of(record.key), f"{window.window} {text_of(window.accumulator)}"


def sizes(value: Any) -> str:
    """A value without the classes in it, which the reader doesn't import."""
    return str(len(list(value))) if hasattr(value, "__iter__") else text_of(value)


def of_entry(entry: StateEntry) -> tuple[str, str, str, str, str]:
    if entry.timer is not None:
        value = str(entry.timer.fire)
    elif entry.window_state is not None:
        value = f"{entry.window} {text_of(entry.value)}"
    else:
        value = sizes(entry.stored)
    return entry.step, entry.kind, entry.name, text_of(entry.key), value


@pytest.mark.parametrize("at_once", [16 << 20, 2_000], ids=["one pass", "passes by key groups"])
@pytest.mark.parametrize("golden", WITH_CHECKPOINTS, ids=lambda golden: golden.name)
def test_the_entries_are_those_that_a_restore_finds(
    golden: Golden, at_once: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of checkpoints with changes, savepoints, spilled state, and micro-batches."""
    monkeypatch.setattr(entries_module, "_CHANGES_AT_ONCE", at_once)
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")

    assert sorted(restored(reader)) == sorted(map(of_entry, reader.entries()))


def test_the_changes_are_read_in_passes_that_hold_few_of_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pass decodes the chunks of its own key groups."""
    (golden,) = (each for each in GOLDEN if each.name == "windows, aligned")
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")
    once = reader.size()
    monkeypatch.setattr(entries_module, "_CHANGES_AT_ONCE", 2_000)
    assert reader.size() > 3 * once


def test_a_key_is_found_by_its_value_or_as_json(tmp_path: pathlib.Path) -> None:
    """And an unknown one is named, with some that there are."""
    (golden,) = (each for each in GOLDEN if each.name == "state, aligned")
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")

    found = entries_of_key(reader, "Remember", named_keys("key 1"))

    assert ["bag", "end", "last", "list", "map", "mean", "set"] == sorted(entry.name for entry in found)
    assert len(found) == len(entries_of_key(reader, "Remember", named_keys('"key 1"')))
    with pytest.raises(StateNotFoundError, match=r"Remember: no state of the key '5' or 5 .*for example, \"key \d\""):
        entries_of_key(reader, "Remember", named_keys("5"))


def test_an_entry_names_its_window_and_panes(tmp_path: pathlib.Path) -> None:
    """Of a grouping that retracts, the current pane."""
    (golden,) = (each for each in GOLDEN if each.name == "windows, aligned")
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")

    records = [json.loads(line) for line in json_lines(entries_of_key(reader, "Sum", ["key 1"]))]

    expected = {
        "step": "Sum",
        "kind": "window",
        "key": "key 1",
        "window": {"$type": "interval", "start": "1970-01-01T00:00:20Z", "end": "1970-01-01T00:00:40Z"},
        "value": 270,
        "panes": 1,
        "has_new": True,
        "expires": "1970-01-01T00:00:40.000001Z",
        "due_event_time": "1970-01-01T00:00:40Z",
        "due_processing_time": None,
        "standing": [153],
    }
    assert [expected] == records


def test_a_directory_of_another_user_is_refused_before_anything_is_read(tmp_path: pathlib.Path) -> None:
    """Unless it is allowed."""
    (golden,) = (each for each in GOLDEN if each.name == "state, aligned")
    unpacked(golden, tmp_path)
    (tmp_path / "kept").chmod(0o777)
    store = SnapshotReader(LocalDisk(), str(tmp_path / "kept"))
    with pytest.raises(UntrustedSnapshotError, match="--allow_untrusted_checkpoints"):
        store.select()
    allowed = SnapshotReader(LocalDisk(), str(tmp_path / "kept"), allow_untrusted=True)
    assert list(StateReader(allowed, allowed.select()).entries())


def test_a_body_that_is_no_pickle_is_an_error_that_names_the_step(tmp_path: pathlib.Path) -> None:
    """The checksums are right, so another program wrote it."""
    (golden,) = (each for each in GOLDEN if each.name == "state, aligned")
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")
    (part, *_) = [part for part in reader.parts() if any(c.kind == STATE for _, c in reader.raw_chunks(part))]
    chunk = next(c for _, c in reader.raw_chunks(part) if c.kind == STATE)
    with pytest.raises(CorruptSnapshotError, match="Remember: its state can't be read"):
        reader.decoded(chunk._replace(body=memoryview(b"\x80\x05nonsense")), part)


@given(st.recursive(st.integers() | st.text() | st.booleans() | st.none(), st.lists, max_leaves=5))
def test_a_key_in_json_is_one_of_the_keys_it_may_mean(value: Any) -> None:
    """With arrays as tuples."""

    def tuples(part: Any) -> Any:
        return tuple(map(tuples, part)) if isinstance(part, list) else part

    assert tuples(value) in named_keys(json.dumps(value))


def test_a_checkpoint_that_its_job_removes_meanwhile_is_named_with_the_way_out(tmp_path: pathlib.Path) -> None:
    """A savepoint stays."""
    (golden,) = (each for each in GOLDEN if each.name == "state, aligned")
    unpacked(golden, tmp_path)
    reader = reader_of(tmp_path / "kept")
    shutil.rmtree(tmp_path / "kept" / "files")
    (tmp_path / "kept" / str(reader.checkpoint.name())).unlink()
    with pytest.raises(SnapshotError, match="checkpoint 2 was removed while it was read, .* Read a savepoint"):
        list(reader.entries())
