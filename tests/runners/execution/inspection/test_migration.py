"""Migration of state: converted values, and a process that dies at any step of it."""

from __future__ import annotations

import pathlib
from collections import Counter
from random import Random
from typing import Any

import pytest
from golden.archives import unpacked
from golden.pipelines import GOLDEN, Golden, Note, results

from penstock.runners.execution.checkpoints.manifest import CheckpointKind
from penstock.runners.execution.checkpoints.reader import SnapshotReader
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.inspection.entries import StateEntry, StateReader
from penstock.runners.execution.inspection.json_values import text_of
from penstock.runners.execution.inspection.migration import PANE, Migrated, migrate, migration_of
from penstock.sdk.errors import CheckpointMismatchError, PenstockError, SnapshotError, StateNotFoundError

(STATE,) = (golden for golden in GOLDEN if golden.name == "state, aligned")
(BATCHES,) = (golden for golden in GOLDEN if golden.name == "state, batches")
(WINDOWS,) = (golden for golden in GOLDEN if golden.name == "windows, aligned")
TABLES = [golden for golden in GOLDEN if golden.name.endswith(", tables")]
(UNALIGNED,) = (golden for golden in GOLDEN if golden.name == "windows, unaligned")


def reader_of(directory: pathlib.Path, epoch: int | None = None) -> StateReader:
    store = SnapshotReader(LocalDisk(), str(directory / "kept"))
    return StateReader(store, store.select(epoch))


def shown(reader: StateReader) -> Counter[str]:
    """Every entry as text."""
    return Counter(
        text_of([e.step, e.kind, e.name, e.key, e.value, e.timer and e.timer.fire]) for e in reader.entries()
    )


def unchanged(entry: StateEntry) -> StateEntry:
    return entry


def louder(entry: StateEntry) -> StateEntry:
    """Make new notes of the stored ones."""
    if entry.name != "bag":
        return entry
    return entry.with_value([Note(note.text.replace("number", "NUMBER"), note.at) for note in entry.value])


@pytest.mark.parametrize("golden", [STATE, BATCHES, WINDOWS, *TABLES], ids=lambda golden: golden.name)
def test_a_pipeline_goes_on_from_a_savepoint_of_unchanged_values(golden: Golden, tmp_path: pathlib.Path) -> None:
    """With the results that it had without the migration."""
    expected = unpacked(golden, tmp_path)
    before = shown(reader_of(tmp_path))

    done = migrate(reader_of(tmp_path), unchanged, "tests:unchanged")

    reader = reader_of(tmp_path)
    assert (done.epoch, CheckpointKind.SAVEPOINT) == (reader.checkpoint.epoch, reader.checkpoint.kind)
    assert (0, 0) == (done.changed, done.removed)
    assert before == shown(reader)
    golden.run(tmp_path)
    assert expected == results(tmp_path)


def test_a_pipeline_goes_on_with_converted_values(tmp_path: pathlib.Path) -> None:
    """The notes of before have the new text, and those since then the old one."""
    unpacked(STATE, tmp_path)
    assert migrate(reader_of(tmp_path), louder, "tests:louder", ["Remember"]).changed == 5

    STATE.run(tmp_path)

    texts = "".join(value for _, _, value, *_ in results(tmp_path))
    assert "NUMBER" in texts
    assert "number" in texts
    assert 160 == texts.count("NUMBER ") + texts.count("number ")


def test_accumulators_and_panes_are_converted(tmp_path: pathlib.Path) -> None:
    """The panes that will be retracted among them."""
    unpacked(WINDOWS, tmp_path)

    def negated(entry: StateEntry) -> StateEntry:
        return entry.with_value(-entry.value) if entry.step == "Sum" else entry

    kinds: Counter[str] = Counter()

    def counted(entry: StateEntry) -> StateEntry:
        kinds[entry.kind] += entry.step == "Sum"
        return negated(entry)

    migrate(reader_of(tmp_path), counted, "tests:negated")

    assert Counter({"window": 5, PANE: 5}) == kinds
    states = [entry.window_state for entry in reader_of(tmp_path).entries("Sum")]
    assert all(state is not None and state.accumulator < 0 and state.pair[1] < 0 for state in states)


def test_an_entry_for_which_the_function_returns_none_is_removed(tmp_path: pathlib.Path) -> None:
    """The original has it still."""
    unpacked(STATE, tmp_path)
    original = reader_of(tmp_path).checkpoint.epoch

    done = migrate(reader_of(tmp_path), lambda e: None if e.key == "key 1" else e, "tests:drop", ["Remember"])

    assert (6, done.removed) == (6, 6)
    assert 1 == sum(entry.key == "key 1" for entry in reader_of(tmp_path).entries())  # the timer
    assert 7 == sum(entry.key == "key 1" for entry in reader_of(tmp_path, original).entries())


class DiskThatDies(SimulatedDisk):
    """A disk on which the process dies at the step of a number."""

    def __init__(self, seed: int, dies_at: int) -> None:
        super().__init__(Random(seed))
        self.steps = 0
        self.dies_at = dies_at

    def _step(self, path: str) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            raise SimulatedCrash
        super()._step(path)


def disk_with(directory: pathlib.Path, seed: int, dies_at: int) -> DiskThatDies:
    disk = DiskThatDies(seed, -1)
    for path in sorted((directory / "kept").rglob("*")):
        if path.is_file():
            disk.write_atomically(f"kept/{path.relative_to(directory / 'kept')}", path.read_bytes())
    disk.steps, disk.dies_at = 0, dies_at
    return disk


def test_a_migration_that_dies_at_any_step_leaves_the_original_or_the_whole_savepoint(tmp_path: pathlib.Path) -> None:
    """Each step of the disk in turn; what a start would restore is whole, and the original is always there."""
    unpacked(STATE, tmp_path)
    before = shown(reader_of(tmp_path))
    migrated_values: Counter[str] | None = None
    outcomes: Counter[str] = Counter()
    step = 0
    while True:
        step += 1
        disk = disk_with(tmp_path, seed=step, dies_at=step)
        store = SnapshotReader(disk, "kept")
        original = store.select()
        try:
            migrate(StateReader(store, original), louder, "tests:louder")
            died = False
        except SimulatedCrash:
            died = True
            disk.dies_at = -1
            disk.crash()
        found = store.newest_complete().checkpoint
        assert found is not None
        values = shown(StateReader(store, found))
        assert before == shown(StateReader(store, store.open(original.epoch)))
        if found.epoch == original.epoch:
            assert before == values
            outcomes["original"] += 1
        else:
            migrated_values = migrated_values or values
            assert before != values == migrated_values
            outcomes["savepoint"] += 1
        if not died:
            break
    assert outcomes["original"] > 20
    assert outcomes["savepoint"] >= 1


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (lambda entry: 7, "returned int for .*expected the entry"),
        (lambda entry: 1 / 0, "failed on Remember: state .*ZeroDivisionError"),
        (lambda entry: entry.with_value(5) if entry.name == "bag" else entry, "isn't the content of a BagStateSpec"),
        (lambda entry: entry.with_value(lambda: 0) if entry.name == "no" else _other_key(entry), "changed more than"),
    ],
)
def test_a_wrong_function_publishes_nothing(returned: Any, why: str, tmp_path: pathlib.Path) -> None:
    """The error names the entry, and no file of the attempt is left."""
    unpacked(STATE, tmp_path)
    files = set((tmp_path / "kept" / "files").iterdir())
    epoch = reader_of(tmp_path).checkpoint.epoch

    with pytest.raises(PenstockError, match=why):
        migrate(reader_of(tmp_path), returned, "tests:wrong")

    assert epoch == reader_of(tmp_path).checkpoint.epoch
    assert files == set((tmp_path / "kept" / "files").iterdir())


def _other_key(entry: StateEntry) -> Any:
    import attrs

    return attrs.evolve(entry, key="another")


class Unreadable:
    """Can be pickled, and not be read back."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_values_that_can_not_be_read_back_are_refused(tmp_path: pathlib.Path) -> None:
    """Before anything is published."""
    unpacked(STATE, tmp_path)
    with pytest.raises(CheckpointMismatchError, match="Remember: its converted state can't be read back"):
        migrate(
            reader_of(tmp_path), lambda entry: entry.with_value(Unreadable()) if entry.name == "last" else entry, "f"
        )


def test_records_in_flight_are_refused(tmp_path: pathlib.Path) -> None:
    """They can't be converted, and a savepoint has none."""
    unpacked(UNALIGNED, tmp_path)
    with pytest.raises(
        CheckpointMismatchError, match=r"in flight to \w+, which can't be converted. Migrate a savepoint"
    ):
        migrate(reader_of(tmp_path), unchanged, "tests:unchanged")


def test_an_unknown_step_is_named_before_anything_is_written(tmp_path: pathlib.Path) -> None:
    """And the job that owns the checkpoints isn't fenced."""
    unpacked(STATE, tmp_path)
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    with pytest.raises(StateNotFoundError, match="no state of a step 'Rememer'; did you mean 'Remember'"):
        migrate(reader_of(tmp_path), unchanged, "tests:unchanged", ["Rememer"])
    assert names == {path.name for path in (tmp_path / "kept").iterdir()}


def test_a_run_that_has_ended_is_not_migrated(tmp_path: pathlib.Path) -> None:
    """No start resumes from it."""
    STATE.run(tmp_path)
    with pytest.raises(SnapshotError, match=r"has ended \(DONE\)"):
        migrate(reader_of(tmp_path), unchanged, "tests:unchanged")


@pytest.mark.parametrize(
    "name", ["golden.pipelines", "golden.pipelines:nope", "no_such_module:f", "golden.pipelines:GOLDEN"]
)
def test_a_function_that_is_none_is_named(name: str) -> None:
    """As it was given."""
    with pytest.raises(PenstockError, match=f"--with={name}"):
        migration_of(name)


def test_the_manifest_says_what_was_migrated(tmp_path: pathlib.Path) -> None:
    """From which epoch, and with what."""
    unpacked(STATE, tmp_path)
    original = reader_of(tmp_path).checkpoint
    done: Migrated = migrate(reader_of(tmp_path), unchanged, "tests:unchanged")
    metadata = reader_of(tmp_path).checkpoint.metadata
    assert {"from": original.epoch, "with": "tests:unchanged"} == metadata["migrated"]
    assert (original.epoch + 1, original.epoch) == (done.epoch, metadata["previous"])
