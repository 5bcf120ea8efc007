"""A batch that is committed: what the driver has to know of it, and how its checkpoint keeps that.

The plan of the batch that runs next, written down before it does: a small file beside the manifests.

There is one at a time: the plan of batch n + 1 replaces that of n, which has been committed by then.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import attrs
import cloudpickle

from ....sdk.errors import SnapshotError, UntrustedSnapshotError
from ....sdk.serialization import local_modules_by_value
from ....windowing.timestamp import MIN_MICROS
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint, PartReference, sealed, unsealed
from ...execution.checkpoints.store import SnapshotStore, fresh_token
from ...execution.plan.execution_graph import ExecutionGraph, label_of
from ...execution.serialization.records import RecordType, unpickled
from ...execution.sinks.committer import Staged
from .exchange import TaskId, TaskResult
from .plan import PlannedBatch
from .subtask import StatePart, part_name

# The part of a checkpoint that the driver writes.
DRIVER = "driver"


@attrs.frozen
class Committed:
    """What the driver has to know of the newest batch that is committed.

    Attributes:
      staged: by sink label, the tokens of what it has staged, pickled.
      watermarks: of sources' PCollections, in microseconds.
      next_time: when something will be due by the clock, in microseconds.
      next_event_times: when by the watermark, of each step the next; the least of all where any change may be news.
      newest: of streaming DataFrames, the greatest event time that was in it, by label.
      levels: of each level, the labels of its steps.
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
    levels: Sequence[Sequence[str]] = ()

    @classmethod
    def of(cls, batch: PlannedBatch, results: Sequence[TaskResult], graph: ExecutionGraph) -> Committed:
        """What there is to know when all tasks of a batch are done."""
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
            levels_of(graph),
        )

    def is_due(self, watermarks: Mapping[int, int]) -> bool:
        """Whether anything waits for a source's watermark to be as far as it is now, and not yet as it was.

        A step whose time has not come waits for one of its sources that isn't there yet; that others go on is nothing
        to it.
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
        """Whether there is anything to publish."""
        return any(self.staged.values())

    @property
    def tokens(self) -> Staged:
        """What was staged, as a `SinkCommitter` takes it."""
        return {
            label: [(self.transaction, cloudpickle.loads(token)) for token in tokens]
            for label, tokens in self.staged.items()
        }

    def write(self, store: SnapshotStore) -> PartReference:
        """Write it into its checkpoint, which has begun."""
        record = _COMMITTED.encode(
            self.number,
            self.now,
            self.transaction,
            [(label, list(tokens)) for label, tokens in self.staged.items()],
            cloudpickle.dumps(self.positions, protocol=5),
            list(self.watermarks.items()),
            self.next_time,
            sorted(self.next_event_times),
            self.is_last,
            self.is_complete,
            dict(self.newest),
            self.levels,
        )
        return store.write_part(self.number, DRIVER, [record])

    @staticmethod
    def read(store: SnapshotStore, checkpoint: Checkpoint) -> Committed:
        """Return what `write` has written.

        Raises `UnknownFormatError` for a record of another version, and `CheckpointMismatchError` if the class of a
        position can't be had.
        """
        part = checkpoint.part(DRIVER)
        ((_, records),) = store.read_part(part)
        fields = _COMMITTED.decode(b"".join(records), path_of(store.directory, part.files[-1]))
        where = f"batch {checkpoint.epoch} in {store.directory}"
        return _committed_of(where, *fields)


def _committed_of(
    where: str,
    number: int,
    now: int,
    transaction: str,
    staged: list[Any],
    positions: bytes,
    watermarks: list[Any],
    next_time: int | None,
    next_event_times: list[int],
    is_last: bool,
    is_complete: bool,
    newest: dict[str, int],
    levels: list[list[str]],
) -> Committed:
    return Committed(
        number,
        now,
        transaction,
        dict(staged),
        unpickled(positions, "The position of a source", where),
        dict(watermarks),
        next_time,
        frozenset(next_event_times),
        is_last,
        is_complete,
        newest,
        levels,
    )


_COMMITTED: RecordType[tuple[Any, ...]] = RecordType("committed batch", 1, {1: lambda *fields: fields})


def state_of(results: Iterable[TaskResult], shards: int) -> dict[TaskId, Sequence[StatePart]]:
    """What the state of each task is in, after a batch."""
    return {r.id: [StatePart(r.part, r.id.shard, shards)] for r in results if r.part is not None}


def described(results: Iterable[TaskResult], shards: int) -> Mapping[str, Any]:
    """What a manifest says of its parts, for whoever restores them."""
    parts = {
        part_name(result.id, shards): {
            "level": result.id.level,
            "shard": result.id.shard,
            "of": shards,
            "labels": list(result.labels),
        }
        for result in results
    }
    return {"parts": parts}


def levels_of(graph: ExecutionGraph) -> Sequence[Sequence[str]]:
    """The labels of the steps of each level."""
    return [[label_of(step) for step in task.steps] for task in graph.tasks]


def restored_state(
    checkpoint: Checkpoint, committed: Committed, graph: ExecutionGraph
) -> dict[TaskId, Sequence[StatePart]]:
    """What the state of each task is in; it may have been written for other shards, or by steps at other levels."""
    shards = graph.parallelism
    written = {part.name for part in checkpoint.parts}
    parts = {
        TaskId(d["level"], d["shard"]): StatePart(checkpoint.part(name), d["shard"], d["of"])
        for name, d in checkpoint.metadata["parts"].items()
        if name in written
    }
    if committed.levels == levels_of(graph) and all(part.of == shards for part in parts.values()):
        return {id: [part] for id, part in parts.items()}
    # Each task finds in all of them what is its own.
    everything = list(parts.values())
    return {TaskId(task.id, shard): everything for task in graph.tasks for shard in range(shards)}


PLANNED = "planned"


@attrs.frozen
class _Written:
    name: str
    batch: str


class WriteAhead:
    """Writes and reads plans.

    Attributes:
      name: in the names of transactions: of two runs with other checkpoints no transaction is the same.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self.name = fresh_token()
        self._store = store
        self._path = f"{store.directory}/{PLANNED}"

    def write(self, batch: PlannedBatch) -> None:
        """Write a batch down.  Raises `SnapshotError` where the disk fails."""
        with local_modules_by_value():
            data = base64.b64encode(batch.record()).decode()
        try:
            self._store.disk.write_atomically(self._path, sealed("penstock plan", _Written(self.name, data)))
        except OSError as error:
            raise SnapshotError(f"{self._path} can't be written: {error}") from error

    def read(self) -> PlannedBatch | None:
        """The batch that was planned last; None if none was.

        Raises `CorruptSnapshotError` if it isn't as it was written, `UntrustedSnapshotError` if somebody else
        could have written it.
        """
        disk = self._store.disk
        if not disk.exists(self._path):
            return None
        if not self._store.allow_untrusted and (why := disk.why_untrusted(self._path)):
            raise UntrustedSnapshotError(f"{self._path} isn't read, because {why}")
        written = unsealed(self._path, disk.read(self._path), "penstock plan", _Written)
        return PlannedBatch.of_record(base64.b64decode(written.batch), self._path)
