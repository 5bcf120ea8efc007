"""The backend of a task's state: windows and keyed state that are larger than memory.

With `--state_backend=memory` windows and keyed state are Python objects.  With `--state_backend=rocksdb` they are in
memory up to a limit; beyond it the least recently used part is in RocksDB on the local disk until it is needed again
(docs/decisions/013-state-larger-than-memory.md).  Results are the same.

The size is measured on a hundred entries of each step: the sizes of all objects that an entry refers to, and of its
places in dictionaries.  It is an estimate, which is too large where entries share objects, and may be too small where a
few entries are far larger than all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ..operators.grouping import GroupingRun
from ..operators.keyed import KeyedRun
from ..spilling.rocksdb import SpillDatabase, SpilledEntries
from ..state.spilled_state import SpilledState
from ..user_errors import guarded
from ..windows.spilled_windows import SpilledWindows
from .snapshot_chunks import STATE, WINDOWS, Chunk
from .state_settings import BUFFERS, StateSettings

# The share of the limit that stays in memory after spilling.
_LEFT = 0.8


class StateBackend:
    """Windows and keyed state of a task, in memory up to a limit and else in RocksDB.

    Args:
      groupings, keyed: the task's steps with windows and with keyed state, by label.
    """

    def __init__(
        self, settings: StateSettings, groupings: Mapping[str, GroupingRun], keyed: Mapping[str, KeyedRun]
    ) -> None:
        # A limit that has no room for the buffers is a test's.
        self._limit = max(settings.memory - BUFFERS * settings.buffer, settings.memory // 2)
        self._database = SpillDatabase(settings.directory, settings.buffer)
        self._groupings = groupings
        self._steps: dict[tuple[str, str], SpilledWindows | SpilledState] = {}
        for label, grouping in groupings.items():
            assert grouping.windows is not None
            spill_excess = partial(self._spill_excess, [(label, WINDOWS)])
            self._steps[label, WINDOWS] = SpilledWindows(grouping.windows.table, label, self._entries(), spill_excess)
        for label, run in keyed.items():
            spill_excess = partial(self._spill_excess, [(label, STATE)])
            executor = run.executor
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
                guarded(name[0], partial(self._steps[name].spill, 1 - _LEFT * self._limit / memory))

    def remeasure(self) -> None:
        """Measure again, and spill the state beyond the limit; called before a snapshot is taken."""
        for step in self._steps.values():
            step.measure()
        self.spill_excess()

    @property
    def spilled(self) -> dict[str, int]:
        """The number of entries that aren't in memory, by the labels of steps that have any."""
        return {label: step.number_spilled for (label, _), step in self._steps.items() if step.number_spilled}

    def chunks(self, is_whole: bool) -> Iterator[Chunk]:
        """Return an iterator over the spilled part of a snapshot, which follows the part in memory.

        What it yields is the state of now, however late it is asked for, and in whichever thread.
        """
        # An empty chunk marks a step as one with state, also if none has changed.
        marks = [Chunk(label, kind, None, []) for (label, kind), step in self._steps.items() if step.number_spilled]
        records = [(label, kind, step.records(is_whole)) for (label, kind), step in self._steps.items()]

        def chunks() -> Iterator[Chunk]:
            yield from marks
            for label, kind, of_step in records:
                for group, own in of_step:
                    yield Chunk(label, kind, group, own)

        return chunks()

    def set_clocks(self, label: str, clocks: Any) -> None:
        """Set the clocks of a step with windows to those of a snapshot, since windows are restored by them."""
        grouping = self._groupings.get(label)
        if grouping is not None:
            grouping.windows.set_clocks(clocks)

    def restore(self, label: str, kind: str, records: Any) -> bool:
        """Restore the records of a chunk, or return False: they aren't of one of these steps."""
        step = self._steps.get((label, kind))
        if step is not None:
            step.restore(records)
        return step is not None

    def close(self) -> None:
        """Remove what is on the disk."""
        self._database.close()
