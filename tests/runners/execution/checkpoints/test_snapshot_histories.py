"""Properties of the snapshot store, over histories of a job that crashes on a disk that fails."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.execution.snapshot_stores import commit, contents, epochs, files

from penstock.runners.execution.checkpoints.fencing import claim
from penstock.runners.execution.checkpoints.manifest import Checkpoint, CheckpointKind, PartReference
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import CorruptSnapshotError, SnapshotError, StaleWriterError, UncertainCommitError

RETAIN = 2
PARTS = ["a", "b"]


class Job:
    """A job that writes checkpoints and is restarted when it dies, and what must then be found."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = SimulatedDisk(random)
        # What every attempt at a commit would hold, in order, and which of them returned.
        self.attempts: list[tuple[str, int]] = []
        self.expected: dict[tuple[str, int], dict[str, list[tuple[str, list[bytes]]]]] = {}
        # By the last file of a part: all that the part then holds.
        self.content: dict[str, list[tuple[str, list[bytes]]]] = {}
        self.sure: list[tuple[str, int]] = []
        self.savepoints: list[tuple[str, int]] = []
        self.zombies: list[tuple[SnapshotStore, int]] = []
        self.deaths = self.failures = 0
        self.start()

    def store_of_a_new_process(self) -> SnapshotStore:
        token = f"{self.random.getrandbits(64):016x}"
        numbers = iter(range(1_000_000))
        return SnapshotStore(
            self.disk, "dir", retain=RETAIN, token=lambda: f"{token}{next(numbers):06x}", now=lambda: 0.0
        )

    # --- What a process does

    def start(self) -> None:
        """Recover; the disk misbehaves then too, but not for ever."""
        for rate in (0.05, 0.05, 0.0):
            self.disk.failures = self.disk.crashes = rate
            self.store = self.store_of_a_new_process()
            try:
                self.generation = self.store.take_over()
                self.check()
                self.store.sweep()
                break
            except SimulatedCrash:
                self.disk.crash()
            except SnapshotError:
                assert rate
        restored = self.store.newest_complete().checkpoint
        self.epoch = 0 if restored is None else restored.epoch
        self.bases = {} if restored is None else {part.name: part for part in restored.parts}
        self.disk.failures = self.disk.crashes = 0.02

    def checkpoint(self, kind: CheckpointKind, fails: bool) -> None:
        """Write a checkpoint of parts that are full, deltas, or unchanged; commit it, or abort it."""
        self.epoch += 1
        epoch, attempt = self.epoch, (self.generation, self.epoch)
        self.store.begin(epoch)
        references = [self.part(epoch, name) for name in PARTS]
        if fails:
            self.store.abort(epoch)
            return
        self.attempts.append(attempt)
        self.expected[attempt] = {part.name: self.content[part.files[-1].file] for part in references}
        try:
            self.store.commit(epoch, references, {"epoch": epoch}, kind)
        except UncertainCommitError:
            raise
        except SnapshotError:
            # It was said not to be committed, and so it must never be found.
            self.attempts.remove(attempt)
            self.store.abort(epoch)
            return
        (self.sure if kind is CheckpointKind.CHECKPOINT else self.savepoints).append(attempt)
        self.bases = {part.name: part for part in references}

    def part(self, epoch: int, name: str) -> PartReference:
        base = self.bases.get(name)
        choice = self.random.choice(["full", "delta", "unchanged"]) if base is not None else "full"
        if base is not None and choice == "unchanged":
            return base
        records = [self.random.randbytes(self.random.randrange(20)) for _ in range(self.random.randrange(3))]
        under = base if choice == "delta" else None
        part = self.store.write_part(epoch, name, records, base=under)
        before = [] if under is None else self.content[under.files[-1].file]
        self.content[part.files[-1].file] = [*before, (choice, records)]
        return part

    def leave_behind(self) -> None:
        """Begin anew while the old process is still there, in the midst of a checkpoint."""
        try:
            self.store.begin(self.epoch + 1)
            self.zombies.append((self.store, self.epoch + 1))
        finally:
            self.start()

    def wake_a_zombie(self) -> None:
        """It goes on with its checkpoint, and must not get far."""
        if not self.zombies:
            return
        store, epoch = self.zombies.pop()
        try:
            part = store.write_part(epoch, "a", [b"zombie"])
        except SnapshotError:
            return
        with pytest.raises(StaleWriterError):
            store.commit(epoch, [part])

    def act(self, action: str) -> None:
        try:
            if action == "die":
                raise SimulatedCrash
            if action == "leave behind":
                self.leave_behind()
            elif action == "zombie":
                self.wake_a_zombie()
            else:
                savepoint = action == "savepoint"
                kind = CheckpointKind.SAVEPOINT if savepoint else CheckpointKind.CHECKPOINT
                self.checkpoint(kind, fails=action == "abort")
        except SimulatedCrash:
            self.deaths += 1
            self.disk.crash()
            self.start()
        except UncertainCommitError:
            self.start()
        except StaleWriterError:
            raise
        except SnapshotError:
            # A full disk, say.  The runner aborts, and goes on.
            self.failures += 1
            if self.epoch in self.store._open:
                try:
                    self.store.abort(self.epoch)
                except SimulatedCrash:
                    self.disk.crash()
                    self.start()

    # --- What must be found

    def check(self) -> None:
        """The newest that is surely committed, or a later one that may be; all that is kept, as it was written."""
        recovery = self.store.newest_complete()
        # Nothing is damaged: what is skipped was never committed.
        assert all(each.reason.startswith("no manifest") for each in recovery.skipped)
        found = [key(checkpoint) for checkpoint in self.store.checkpoints()]
        for checkpoint in self.store.checkpoints():
            assert self.expected[key(checkpoint)] == contents(self.store, self.store.open(checkpoint.epoch))
        assert sorted(found, key=self.attempts.index, reverse=True) == found
        newest = max(self.sure + self.savepoints, key=self.attempts.index, default=None)
        if newest is not None:
            assert recovery.checkpoint is not None
            assert self.attempts.index(key(recovery.checkpoint)) >= self.attempts.index(newest)
        ordinary = [c for c in self.store.checkpoints() if c.kind is CheckpointKind.CHECKPOINT]
        assert len(ordinary) >= min(RETAIN, len(self.sure))
        assert set(self.savepoints) <= set(found)


def key(checkpoint: Checkpoint) -> tuple[str, int]:
    return checkpoint.generation, checkpoint.epoch


ACTIONS = st.sampled_from(
    ["checkpoint", "checkpoint", "checkpoint", "savepoint", "abort", "die", "leave behind", "zombie"]
)


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.lists(ACTIONS, max_size=25))
def test_what_was_committed_is_never_lost_and_never_changed(seed: int, actions: list[str]) -> None:
    """With any disk fault, at any crash, and with any zombie still writing."""
    job = Job(Random(seed))
    for action in actions:
        job.act(action)
    job.disk.crash()
    job.start()


def test_the_histories_have_deaths_and_failures_in_them() -> None:
    """Or the property would say little."""
    jobs = []
    for seed in range(30):
        job = Job(Random(seed))
        for _ in range(20):
            job.act("checkpoint")
        jobs.append(job)

    assert sum(job.deaths for job in jobs) > 30
    assert sum(job.failures for job in jobs) > 10
    assert sum(len(job.sure) for job in jobs) > 200
    assert len(jobs[0].attempts) >= len(jobs[0].sure)


@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["flip", "truncate", "lose"]), min_size=1, max_size=4))
def test_what_rots_is_never_given_out(seed: int, rots: list[str]) -> None:
    """Another checkpoint is, as it was written, or none and an error."""
    random = Random(seed)
    disk = SimulatedDisk(random)
    store = SnapshotStore(disk, "dir")
    store.take_over()
    for epoch in (1, 2, 3):
        commit(store, epoch)
    paths = [f"dir/{name}" for name in disk.list("dir")] + [f"dir/files/{name}" for name in files(store)]
    for rot, path in zip(rots, random.sample(paths, len(rots)), strict=True):
        {"flip": disk.flip_bit, "truncate": disk.truncate, "lose": disk.lose}[rot](path)

    reader = SnapshotStore(disk, "dir")
    try:
        restored = reader.newest_complete().checkpoint
    except CorruptSnapshotError:
        # None of the three is whole.
        assert len(rots) >= 3
        return
    if restored is None:
        # All manifests are gone.
        assert len(rots) >= 3
        return
    assert {"part": [("full", [b"of %d" % restored.epoch])]} == contents(reader, restored)


@pytest.mark.parametrize("seed", range(20))
def test_claims_that_are_interrupted_anywhere_leave_the_checkpoints(seed: int) -> None:
    """A crash between any two steps of taking over."""
    random = Random(seed)
    disk = SimulatedDisk(random)
    store = SnapshotStore(disk, "dir")
    store.take_over()
    commit(store, 1)
    disk.crashes = 0.2
    for token in tokens(random, 10):
        try:
            claim(disk, "dir", token)
        except SimulatedCrash:
            disk.crash()
    disk.crashes = 0.0
    store = SnapshotStore(disk, "dir")
    store.take_over()

    assert [1] == epochs(store)


def tokens(random: Random, count: int) -> Iterator[str]:
    """Hexadecimal digits."""
    for _ in range(count):
        yield f"{random.getrandbits(64):016x}"
