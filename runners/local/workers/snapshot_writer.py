"""Parts of checkpoints: what a slot writes of its subtasks' snapshots, by a thread or by children, and reads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....sdk.errors import SnapshotError
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint, PartReference
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.execution_graph import SubtaskId
from ...execution.plan.fusion import Plan
from ...execution.state.schema import mismatches, shapes_of
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import Chunk, Origin, chunks_of, labels_of, records_of
from ..subtask.reports import Snapshot
from .protocol import Acknowledged, Declined, Report
from .snapshot_fork import ForkedSnapshots
from .snapshot_thread import WrittenBehind

# What of a checkpoint belongs to the whole run, and to no subtask.
SINKS = "sinks"

# In a manifest's metadata, the latest processing time of any subtask at the checkpoint, in microseconds.
PROCESSING_TIME = "processing_time"

# In the metadata of the checkpoint that ends a bounded run, the transaction that it publishes.
PUBLISHED = "published"

# How many entries are let go at a time: two milliseconds' worth, and more than a bundle can change.  As many for each
# snapshot that there is more, or at full speed they would pile up.
_LET_GO = 20_000


def part_name(id: SubtaskId, parallelism: int) -> str:
    """What a subtask's part of a checkpoint is called.

    >>> part_name(SubtaskId(2, 0), 4)
    'task 2, subtask 0 of 4'
    """
    return f"task {id.task}, subtask {id.index} of {parallelism}"


class SnapshotParts:
    """Writes the snapshots of a slot's subtasks.

    Args:
      store: where they go; None if the run keeps none.
      parallelism: how many subtasks each task has.
      report: called when one is written, or can't be.
      forget_changes: has a subtask begin anew with what changes, and gives what had changed before.

    Attributes:
      waits: whether processing waits until a small one is durable.
    """

    def __init__(
        self,
        store: SnapshotStore | None,
        parallelism: int,
        report: Callable[[Report], None],
        forget_changes: Callable[[SubtaskId], list[dict[Any, None]]],
    ) -> None:
        self._store = store
        self._parallelism = parallelism
        self._report = report
        self._forget_changes = forget_changes
        # The part that each has written last.  A barrier asks for changes only if that is in a checkpoint
        # which was committed; it may come here before the news of that do.
        self._written: dict[SubtaskId, PartReference] = {}
        self._forks = ForkedSnapshots()
        self.waits = True
        self._behind = WrittenBehind()
        # The epoch of the last snapshot that each has taken.
        self._epochs: dict[SubtaskId, int] = {}
        # What had changed before the snapshots that children have taken.
        self._forgotten: list[dict[Any, None]] = []
        # The steps that something is kept of in each subtask's part.
        self._labels: dict[SubtaskId, dict[str, None]] = {}

    def may_fork(self) -> bool:
        """Whether children can write large ones, safely."""
        return self._forks.may_fork()

    @property
    def is_writing(self) -> bool:
        """Whether a child or the thread is, of which `look` tells when it is done."""
        return self._forks.is_busy or self._behind.is_busy

    def taken(self, id: SubtaskId, snapshot: Snapshot) -> None:
        """A subtask has taken a snapshot: write it, and report."""
        self._epochs[id] = snapshot.epoch
        copied = snapshot if snapshot.uncopied is None else self._forked(id, snapshot, snapshot.uncopied)
        if copied is None:
            return
        if self._store is None:
            self._report((id, Acknowledged(snapshot.epoch, None, snapshot.staged, (), snapshot.tally, snapshot.now)))
        elif self.waits:
            self._report((id, self._acknowledgement(id, copied)))
        else:
            self._write_behind(id, copied)

    def look(self) -> None:
        """Hear what has been written meanwhile, and let go of what only children shared."""
        if self._behind.is_busy:
            self._behind.poll()
        if self._forks.is_busy:
            self._forks.poll()
        elif self._forgotten:
            self._let_go()

    def abandon(self) -> None:
        """What is being written is for nobody."""
        self._forks.abandon()
        self._behind.abandon()

    def _acknowledgement(self, id: SubtaskId, snapshot: Snapshot) -> Acknowledged | Declined:
        """Write a subtask's snapshot."""
        try:
            part = self._write(id, snapshot, self._base(id, snapshot))
        except SnapshotError as error:
            return Declined(snapshot.epoch, str(error))
        return self._has_written(id, snapshot, part)

    def _write_behind(self, id: SubtaskId, snapshot: Snapshot) -> None:
        """Have a thread write a subtask's snapshot, which is serialised before anything changes."""
        serialised, base = snapshot._replace(records=list(snapshot.records)), self._base(id, snapshot)

        def done(part: PartReference | None, error: BaseException | None) -> None:
            if isinstance(error, SnapshotError):
                self._report((id, Declined(snapshot.epoch, str(error))))
            elif error is not None:
                raise error
            elif snapshot.epoch == self._epochs[id]:
                assert part is not None
                self._report((id, self._has_written(id, snapshot, part)))

        self._behind.begin(lambda: self._write(id, serialised, base), done)

    def _base(self, id: SubtaskId, snapshot: Snapshot) -> PartReference | None:
        """What a snapshot is the changes of."""
        return None if snapshot.is_whole else self._written[id]

    def _write(self, id: SubtaskId, snapshot: Snapshot, base: PartReference | None) -> PartReference:
        assert self._store is not None
        return self._store.write_part(snapshot.epoch, part_name(id, self._parallelism), snapshot.records, base)

    def _has_written(self, id: SubtaskId, snapshot: Snapshot, part: PartReference) -> Acknowledged:
        self._written[id] = part
        if snapshot.is_whole:
            self._labels[id] = {}
        labels = self._labels[id]
        labels.update(dict.fromkeys(snapshot.labels))
        return Acknowledged(
            snapshot.epoch, part, snapshot.staged, tuple(labels), snapshot.tally, snapshot.now, snapshot.offsets
        )

    def _forked(self, id: SubtaskId, snapshot: Snapshot, copy: Callable[[], list[Chunk]]) -> Snapshot | None:
        """Have a child copy and write a snapshot; where there can't be one, the snapshot, copied."""

        def work() -> tuple[PartReference, tuple[str, ...]]:
            copied = _copied(snapshot, copy())
            return self._write(id, copied, self._base(id, copied)), copied.labels

        def done(written: tuple[PartReference, tuple[str, ...]] | None, why: str | None) -> None:
            if written is None:
                self._report((id, Declined(snapshot.epoch, str(why))))
                return
            part, labels = written
            self._report((id, self._has_written(id, snapshot._replace(labels=labels), part)))

        if self._store is not None and self._forks.may_fork():
            try:
                self._forks.begin(id, work, done)
            except OSError:
                # There is no memory, or no process number, for a child.
                pass
            else:
                self._forgotten += self._forget_changes(id)
                return None
        return _copied(snapshot, copy())

    def _let_go(self) -> None:
        """Let go of some of what had changed before a snapshot, now that no child shares the memory."""
        last = self._forgotten[-1]
        for _ in range(min(len(last), _LET_GO * len(self._forgotten))):
            last.popitem()
        if not last:
            self._forgotten.pop()


def _copied(snapshot: Snapshot, chunks: list[Chunk]) -> Snapshot:
    return snapshot._replace(records=records_of(chunks), labels=labels_of(chunks), uncopied=None)


def restored_from(
    store: SnapshotStore, checkpoint: Checkpoint, id: SubtaskId, parallelism: int, plan: Plan | None = None
) -> Restored:
    """What a checkpoint has for a subtask, but for what the pipeline doesn't keep as it was kept then."""
    before = checkpoint.metadata.get("state", {})
    dropped = () if plan is None else mismatches(before, shapes_of(plan))
    is_anothers = not all(map(store.has_written, checkpoint.parts))
    restored = Restored(id.index, parallelism, dropped, compares_keys=is_anothers)
    restored.sources = checkpoint.metadata.get("sources", {})
    origin = Origin.of(f"checkpoint {checkpoint.epoch} in {store.directory}", plan, dropped)
    for part in checkpoint.parts:
        written = checkpoint.metadata["parts"].get(part.name)
        if written is not None:
            paths = [path_of(store.directory, file) for file in part.files]
            files = zip(paths, store.read_part(part), strict=True)
            chain = [list(chunks_of(records, origin.of_file(path))) for path, (_, records) in files]
            restored.add(chain, written["subtask"], written["of"])
    return restored
