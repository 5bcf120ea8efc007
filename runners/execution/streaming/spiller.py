"""Spilling of a task's keyed state that is larger than its memory.

The windows of groupings and the keyed state of stateful ParDos are in memory up to a limit.  Beyond it the least
recently used part is spilled to RocksDB on the local disk until it is needed again
(docs/decisions/013-state-larger-than-memory.md).  Results are the same as without.

The size is measured on a hundred entries of each step: the sizes of all objects that an entry refers to, and of its
places in dictionaries.  It is an estimate, which is too large where entries share objects, and may be too small where a
few entries are far larger than all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ..shuffle.partitioner import owner
from ..spilling.rocksdb import SpillDatabase, SpilledEntries
from ..state.spilled_state import SpilledState
from ..windows.spilled_windows import SpilledWindows
from .snapshot_chunks import STATE, WINDOWS, Chunk
from .task_program import TaskProgram

# The share of the limit that stays in memory after spilling.
_LEFT = 0.8


class Spiller:
    """Spills the keyed state of a task.

    Args:
      execution: the task at work.
      limit: the bytes of state that may be in memory, approximately.
      directory: the parent of the database's temporary directory; by default that of other temporary files.
    """

    def __init__(self, execution: TaskProgram, limit: int, directory: str | None = None) -> None:
        self._limit = limit
        self._database = SpillDatabase(directory)
        self._steps: dict[tuple[str, str], SpilledWindows | SpilledState] = {}
        for label, grouping in execution.groupings.items():
            spill_excess = partial(self._spill_excess, [(label, WINDOWS)])
            self._steps[label, WINDOWS] = SpilledWindows(grouping.windows.table, label, self._entries(), spill_excess)
        for label, keyed in execution.keyed.items():
            spill_excess = partial(self._spill_excess, [(label, STATE)])
            executor = keyed.executor
            executor.spilled = SpilledState(executor.state, label, self._entries(), spill_excess)
            self._steps[label, STATE] = executor.spilled

    def _entries(self) -> SpilledEntries:
        return SpilledEntries(self._database, len(self._steps))

    def spill_excess(self) -> None:
        """Spill the state beyond the limit; called between bundles."""
        self._spill_excess(self._steps)

    def _spill_excess(self, steps: Iterable[tuple[str, str]]) -> None:
        """Spill only state of these steps, because others may be processing."""
        memory = sum(step.memory() for step in self._steps.values())
        if memory > self._limit:
            for name in steps:
                self._steps[name].spill(1 - _LEFT * self._limit / memory)

    def remeasure(self) -> None:
        """Measure again, and spill the state beyond the limit; called at the end of a batch, before its snapshot."""
        for step in self._steps.values():
            step.measure()
        self.spill_excess()

    def chunks(self, is_whole: bool) -> Iterator[Chunk]:
        """Yield the spilled part of a snapshot, which follows the part in memory."""
        for (label, kind), step in self._steps.items():
            if step.number_spilled:
                # An empty chunk marks the step as one with state, also if none has changed.
                yield Chunk(label, kind, None, [])
            for group, records in step.records(is_whole):
                yield Chunk(label, kind, group, records)

    def restoring(self, chunks: Iterable[Chunk], index: int, parallelism: int) -> Iterator[Chunk]:
        """Restore the chunks of spilling steps for one of `parallelism` subtasks; yield the other chunks."""
        for chunk in chunks:
            step = self._steps.get((chunk.label, chunk.kind))
            if step is None or chunk.group is None:
                yield chunk
            elif owner(chunk.group, parallelism) == index:
                step.restore(chunk.data)

    def close(self) -> None:
        """Remove the spilled state."""
        self._database.close()
