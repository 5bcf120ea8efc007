"""What a run of micro-batches writes to commit a batch: its plan before the job, then state, then the manifest.

The plan is a small file beside the manifests.  The plan of batch n + 1 replaces that of batch n, which is committed by
then.  The manifest names the state of each subtask and the driver's own record of the batch.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import attrs
import cloudpickle

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError, UntrustedSnapshotError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from ....sdk.user_code.pickler import pickled
from ....sdk.user_code.serialization import local_modules_by_value
from ....windowing.timestamp import MIN_MICROS
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint, PartReference, sealed, unsealed
from ...execution.checkpoints.store import SnapshotStore, fresh_token
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId, label_of
from ...execution.serialization.records import RecordType, unpickled
from ...execution.sinks.committer import Staged
from .exchange import SubtaskResult
from .plan import PlannedBatch

# The part of a checkpoint that the driver writes.
DRIVER = "driver"

# Files beside the manifests.
PLANNED = "planned"
PUBLISHED = "published"

_logger = logger_of(__name__)

# The failpoints of the driver, in their order: before and after each write.
DRIVER_POINTS = (
    "before-plan",
    "after-plan",
    "before-manifest",
    "after-manifest",
    "before-publication",
    "after-publication",
)

# The failpoints of each subtask with state, in a worker, between the driver's `after-plan` and `before-manifest`.
TASK_POINTS = ("before-state", "after-state")

# Called with a failpoint and the number of the batch, in workers a copy.  Tests raise, wait or kill the process there.
Reached: TypeAlias = Callable[[str, int], None]


@frozen
class StatePart:
    """A part of a checkpoint with a subtask's state.

    Attributes:
      index, parallelism: of the subtask that wrote it.
    """

    part: PartReference
    index: int
    parallelism: int


def part_name(id: SubtaskId, parallelism: int) -> str:
    """Return the name of a subtask's part of a checkpoint.

    >>> part_name(SubtaskId(1, 0), 4)
    'task 1, subtask 0 of 4'
    """
    return f"task {id.task}, subtask {id.index} of {parallelism}"


@frozen
class Committed:
    """The driver's record of a committed batch.

    Attributes:
      staged: the tokens of sinks, pickled, by label.
      watermarks: of the sources' PCollections, in microseconds.
      next_time: the next processing-time timer, in microseconds.
      next_event_times: the next event-time timer of each step; `MIN_MICROS` of a step that waits for any change.
      newest: the greatest event time read from each streaming DataFrame, by label.
      tasks: the labels of each task's steps.
    """

    number: int
    now: int
    transaction: str
    staged: Mapping[str, Sequence[bytes]]
    positions: Any
    watermarks: Mapping[int, int] = attrs.field(factory=dict)
    next_time: int | None = None
    next_event_times: Set[int] = frozenset()
    is_last: bool = False
    is_complete: bool = False
    newest: Mapping[str, int] = attrs.field(factory=dict)
    tasks: Sequence[Sequence[str]] = ()

    @classmethod
    def of(cls, batch: PlannedBatch, results: Sequence[SubtaskResult], graph: ExecutionGraph) -> Committed:
        """Return the record of a batch whose subtasks have finished."""
        staged: dict[str, list[bytes]] = {}
        newest: dict[str, int] = {}
        for result in results:
            for label, tokens in result.staged.items():
                staged.setdefault(label, []).extend(tokens)
            for label, micros in result.newest.items():
                newest[label] = max(micros, newest.get(label, micros))
        return cls(
            batch.number,
            batch.now,
            batch.transaction,
            staged,
            batch.positions,
            batch.watermarks,
            min((result.next_time for result in results if result.next_time is not None), default=None),
            {micros for result in results for micros in result.next_event_times},
            batch.is_last,
            all(result.is_complete for result in results),
            newest,
            labels_by_task(graph),
        )

    def is_due(self, watermarks: Mapping[int, int]) -> bool:
        """Return True if watermarks have passed an event time that a step waits for since this batch.

        A step waits for the source that is behind that time; the watermarks of other sources don't matter to it.
        """
        if watermarks == self.watermarks:
            return False
        return MIN_MICROS in self.next_event_times or any(
            self.watermarks.get(pcollection, MIN_MICROS) < micros <= moved
            for pcollection, moved in watermarks.items()
            for micros in self.next_event_times
        )

    @property
    def has_staged(self) -> bool:
        """True if sinks have staged output."""
        return any(self.staged.values())

    @property
    def tokens(self) -> Staged:
        """The staged output, as `SinkCommitter` takes it."""
        return {
            label: [(self.transaction, cloudpickle.loads(token)) for token in tokens]
            for label, tokens in self.staged.items()
        }

    def write(self, store: SnapshotStore) -> PartReference:
        """Write the record into its checkpoint, which has begun."""
        record = _COMMITTED.encode(
            self.number,
            self.now,
            self.transaction,
            [(label, list(tokens)) for label, tokens in self.staged.items()],
            pickled(self.positions),
            list(self.watermarks.items()),
            self.next_time,
            sorted(self.next_event_times),
            self.is_last,
            self.is_complete,
            dict(self.newest),
            self.tasks,
        )
        return store.write_part(self.number, DRIVER, [record])

    @staticmethod
    def read(store: SnapshotStore, checkpoint: Checkpoint) -> Committed:
        """Return the record that `write` wrote.

        Raises `UnknownFormatError` for a record of another version, and `CheckpointMismatchError` if the class of a
        position can't be imported.
        """
        part = checkpoint.part(DRIVER)
        ((_, records),) = store.read_part(part)
        fields = _COMMITTED.decode(b"".join(records), path_of(store.directory, part.files[-1]))
        number, now, transaction, staged, positions, watermarks, next_time, next_event_times, *others = fields
        return Committed(
            number,
            now,
            transaction,
            dict(staged),
            unpickled(positions, "The position of a source", f"batch {checkpoint.epoch} in {store.directory}"),
            dict(watermarks),
            next_time,
            frozenset(next_event_times),
            *others,
        )


_COMMITTED: RecordType[tuple[Any, ...]] = RecordType("committed batch", 1, {1: lambda *fields: fields})


# --- The state of subtasks


def state_of(results: Iterable[SubtaskResult], parallelism: int) -> dict[SubtaskId, Sequence[StatePart]]:
    """Return the state of each subtask after a batch."""
    return {r.id: [StatePart(r.part, r.id.index, parallelism)] for r in results if r.part is not None}


def parts_metadata(results: Iterable[SubtaskResult], parallelism: int) -> Mapping[str, Any]:
    """Return the metadata of a manifest's parts, with the keys of its format."""
    parts = {
        part_name(result.id, parallelism): {
            "level": result.id.task,
            "shard": result.id.index,
            "of": parallelism,
            "labels": list(result.labels),
            **({"entries": dict(result.kept)} if any(result.kept.values()) else {}),
        }
        for result in results
    }
    return {"parts": parts}


def labels_by_task(graph: ExecutionGraph) -> Sequence[Sequence[str]]:
    """Return the labels of each task's steps."""
    return [[label_of(step) for step in task.steps] for task in graph.tasks]


def restored_state(
    checkpoint: Checkpoint, committed: Committed, graph: ExecutionGraph
) -> dict[SubtaskId, Sequence[StatePart]]:
    """Return the parts that each subtask restores.

    After a change of the parallelism or of the tasks, that is all parts: each subtask finds its keys in them.
    """
    parallelism = graph.parallelism
    written = {part.name for part in checkpoint.parts}
    parts = {
        SubtaskId(d["level"], d["shard"]): StatePart(checkpoint.part(name), d["shard"], d["of"])
        for name, d in checkpoint.metadata["parts"].items()
        if name in written
    }
    if committed.tasks == labels_by_task(graph) and all(part.parallelism == parallelism for part in parts.values()):
        return {id: [part] for id, part in parts.items()}
    everything = list(parts.values())
    return {SubtaskId(task.id, index): everything for task in graph.tasks for index in range(parallelism)}


# --- The plan of the next batch


@frozen
class _Written:
    name: str
    batch: str


class Publication:
    """The file that names the transaction that was published last.

    Readers may take published files away, so the next start had better not publish them again.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._path = f"{store.directory}/{PUBLISHED}"

    def write(self, transaction: str) -> None:
        """Write the name of a transaction, if the disk takes it."""
        try:
            self._store.disk.write_atomically(self._path, sealed("penstock publication", transaction))
        except OSError as error:
            _logger.warning("%s can't be written: %s", self._path, text_or_class(error))

    def read(self) -> str | None:
        """Return the name; None if no transaction is known to be published."""
        disk = self._store.disk
        try:
            return unsealed(self._path, disk.read(self._path), "penstock publication", str)
        except (FileNotFoundError, CorruptSnapshotError):
            # A commit that is repeated changes nothing.
            return None


class WriteAhead:
    """The write-ahead log: a file with the plan of the next batch.

    Attributes:
      name: part of the names of transactions, so that no two runs share one.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self.name = fresh_token()
        self._store = store
        self._path = f"{store.directory}/{PLANNED}"

    def write(self, batch: PlannedBatch) -> None:
        """Write a batch's plan.  Raises `SnapshotError` if the disk fails."""
        with local_modules_by_value():
            data = base64.b64encode(batch.record()).decode()
        try:
            self._store.disk.write_atomically(self._path, sealed("penstock plan", _Written(self.name, data)))
        except OSError as error:
            raise SnapshotError(f"{self._path} can't be written: {text_or_class(error)}") from error

    def read(self) -> PlannedBatch | None:
        """Return the batch that was planned last, or None.

        Raises `CorruptSnapshotError` if the file is damaged, and `UntrustedSnapshotError` if another user could have
        written it.
        """
        disk = self._store.disk
        if not disk.exists(self._path):
            return None
        if not self._store.allow_untrusted and (why := disk.why_untrusted(self._path)):
            raise UntrustedSnapshotError(f"{self._path} isn't read, because {why}")
        written = unsealed(self._path, disk.read(self._path), "penstock plan", _Written)
        return PlannedBatch.of_record(base64.b64decode(written.batch), self._path)
