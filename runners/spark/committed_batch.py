"""A batch that is committed: what the driver has to know of it, and how its checkpoint keeps that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import cloudpickle

from ..execution.manifest import Checkpoint, PartReference
from ..execution.snapshot_store import SnapshotStore
from .parcels import TaskId, TaskResult
from .planned_batch import PlannedBatch
from .shard import StatePart, part_name

# The part of a checkpoint that the driver writes.
DRIVER = "driver"


@attrs.frozen
class Committed:
    """What the driver has to know of the newest batch that is committed.

    Attributes:
      staged: by sink label, the tokens of what it has staged, pickled.
      watermarks: of sources' PCollections, in microseconds.
      next_time, next_event_time: when something will be due, in microseconds.
      newest: of streaming DataFrames, the greatest event time that was in it, by label.
    """

    number: int
    now: int
    transaction: str
    staged: Mapping[str, Sequence[bytes]]
    positions: Any
    watermarks: Mapping[int, int] = attrs.field(factory=dict)
    next_time: int | None = None
    next_event_time: int | None = None
    is_last: bool = False
    is_complete: bool = False
    newest: Mapping[str, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, batch: PlannedBatch, results: Sequence[TaskResult]) -> Committed:
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
            _least(result.next_time for result in results),
            _least(result.next_event_time for result in results),
            batch.is_last,
            all(result.is_complete for result in results),
            newest,
        )

    @property
    def has_staged(self) -> bool:
        """Whether there is anything to publish."""
        return any(self.staged.values())

    def write(self, store: SnapshotStore) -> PartReference:
        """Write it into its checkpoint, which has begun."""
        return store.write_part(self.number, DRIVER, [cloudpickle.dumps(self, protocol=5)])

    @staticmethod
    def read(store: SnapshotStore, checkpoint: Checkpoint) -> Committed:
        """What `write` has written."""
        ((_, records),) = store.read_part(checkpoint.part(DRIVER))
        committed: Committed = cloudpickle.loads(b"".join(records))
        return committed


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


def restored_state(checkpoint: Checkpoint, tasks: Iterable[int], shards: int) -> dict[TaskId, Sequence[StatePart]]:
    """What the state of each task is in, as a manifest says it; it may have been written for other shards.

    Args:
      tasks: all levels that there are.
    """
    written = {part.name for part in checkpoint.parts}
    parts = {
        TaskId(d["level"], d["shard"]): StatePart(checkpoint.part(name), d["shard"], d["of"])
        for name, d in checkpoint.metadata["parts"].items()
        if name in written
    }
    if all(part.of == shards for part in parts.values()):
        return {id: [part] for id, part in parts.items()}
    # Each task finds in all of them what is its own.
    everything = list(parts.values())
    return {TaskId(task, shard): everything for task in tasks for shard in range(shards)}


def _least(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)
