"""Parking: a task whose keyed state may be larger than the memory that it is given.

What its groupings keep of windows, and its stateful ParDos of keys, is in memory as long as it takes no more
than that.  If it takes more, the least recently used part of it is parked in RocksDB on this machine's disk, until
it is needed again (docs/decisions/013-shards-larger-than-memory.md).  Results are the same as without.

How much it takes is measured on a hundred entries of each step: the sizes of all objects that an entry
refers to, and what its places in dictionaries take.  It is an estimate, which is too large where entries share objects,
and can be too small where a few entries are far larger than all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ..shuffle.partitioner import owner
from ..spilling.rocksdb import SpillDatabase, SpilledEntries
from ..state.spilled_state import SpilledState
from ..windows.spilled_windows import SpilledWindows
from .snapshot_chunks import STATE, WINDOWS, Chunk
from .task_execution import TaskExecution

# What is left in memory when something was parked.
_LEFT = 0.8


class Spiller:
    """What parks the keyed state of a task.

    Args:
      execution: the task at work.
      limit: how many bytes may be in memory, about.
      directory: where to make a temporary one; else where temporary files go.
    """

    def __init__(self, execution: TaskExecution, limit: int, directory: str | None = None) -> None:
        self._limit = limit
        self._database = SpillDatabase(directory)
        self._steps: dict[tuple[str, str], SpilledWindows | SpilledState] = {}
        for label, grouping in execution.groupings.items():
            spill_excess = partial(self._spill_excess, [(label, WINDOWS)])
            self._steps[label, WINDOWS] = SpilledWindows(grouping.windows.table, label, self._entries(), spill_excess)
        for label, keyed in execution.keyed.items():
            spill_excess = partial(self._spill_excess, [(label, STATE)])
            executor = keyed.executor
            executor.spilled = SpilledState(executor.state, executor.state_names, label, self._entries(), spill_excess)
            self._steps[label, STATE] = executor.spilled

    def _entries(self) -> SpilledEntries:
        return SpilledEntries(self._database, len(self._steps))

    def spill_excess(self) -> None:
        """Park what there is too much of; between bundles."""
        self._spill_excess(self._steps)

    def _spill_excess(self, steps: Iterable[tuple[str, str]]) -> None:
        """The same of some steps only: others may be at work meanwhile."""
        memory = sum(step.memory() for step in self._steps.values())
        if memory > self._limit:
            for name in steps:
                self._steps[name].spill(1 - _LEFT * self._limit / memory)

    def remeasure(self) -> None:
        """Measure anew, and park what there is too much of; at the end of a batch, before its snapshot."""
        for step in self._steps.values():
            step.measure()
        self.spill_excess()

    def chunks(self, is_whole: bool) -> Iterator[Chunk]:
        """What a snapshot says of what is parked, to be put behind what it says of the rest."""
        for (label, kind), step in self._steps.items():
            if step.number_spilled:
                # That it is kept of this step, also where nothing has changed.
                yield Chunk(label, kind, None, [])
            for group, records in step.records(is_whole):
                yield Chunk(label, kind, group, records)

    def restoring(self, chunks: Iterable[Chunk], index: int, parallelism: int) -> Iterator[Chunk]:
        """Take over what it keeps from the chunks of a snapshot, for one of so many subtasks; the others."""
        for chunk in chunks:
            step = self._steps.get((chunk.label, chunk.kind))
            if step is None or chunk.group is None:
                yield chunk
            elif owner(chunk.group, parallelism) == index:
                step.restore(chunk.data)

    def close(self) -> None:
        """Remove what is parked."""
        self._database.close()
