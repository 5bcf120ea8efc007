"""The backend of a task's state: windows and keyed state that are larger than memory.

With `--state_backend=memory` windows and keyed state are Python objects.  With `--state_backend=rocksdb` they are in
memory up to a limit; beyond it the least recently used part is in RocksDB on the local disk until it is needed again
(docs/decisions/013-state-larger-than-memory.md).  Results are the same.

A snapshot has what is in memory, and links to the files of RocksDB.

The size is measured on a hundred entries of each step: the sizes of all objects that an entry refers to, and of its
places in dictionaries.  It is an estimate, which is too large where entries share objects, and may be too small where a
few entries are far larger than all others.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ..checkpoints.manifest import PartReference
from ..checkpoints.store import Tables
from ..operators.grouping import GroupingRun
from ..operators.keyed import KeyedRun
from ..spilling.rocksdb import SpillDatabase, SpilledEntries
from ..spilling.spilled_step import NumberedWindows, SpillContext
from ..state.key_types import SpilledTypes
from ..state.spilled_state import SpilledState
from ..state.spilled_timers import SpilledTimers
from ..user_errors import guarded
from ..windows.spilled_cells import SpilledCells
from ..windows.spilled_windows import SpilledWindows
from .snapshot_chunks import RUNS, STATE, TIMERS, WINDOWS, Chunk
from .state_settings import BUFFERS, StateSettings
from .tables import NotedStep, StoredTables, note_of, steps_of

# The share of the limit that stays in memory after spilling.
_LEFT = 0.8

# How many times as much may be in memory while a snapshot is restored: what it adds may precede what it removes.
_RESTORED = 2.5


class StateBackend:
    """Windows and keyed state of a task, in memory up to a limit and else in RocksDB.

    Args:
      groupings, keyed: the task's steps with windows and with keyed state, by label.

    Attributes:
      awaits_tables: True while chunks are restored that tables follow.
    """

    def __init__(
        self, settings: StateSettings, groupings: Mapping[str, GroupingRun], keyed: Mapping[str, KeyedRun]
    ) -> None:
        # A limit that has no room for the buffers is a test's.
        self._limit = max(settings.memory - BUFFERS * settings.buffer, settings.memory // 2)
        self._database = SpillDatabase(settings.directory, settings.buffer)
        self._groupings = groupings
        self.awaits_tables = False
        self._steps: dict[tuple[str, str], SpilledWindows | SpilledCells | SpilledState | SpilledTimers] = {}
        self._types: dict[tuple[str, str], SpilledTypes] = {}
        # The part of a checkpoint whose tables the database began with.
        self._origin: PartReference | None = None
        for label, grouping in groupings.items():
            assert grouping.windows is not None
            table = grouping.windows.table
            windows = SpilledWindows(table, self._context(label, WINDOWS))
            self._steps[label, WINDOWS] = windows
            if not table.is_merging:
                context = self._context(label, RUNS)
                self._steps[label, RUNS] = SpilledCells(table, grouping.fold, windows.note_gone, context)
        for label, run in keyed.items():
            executor = run.executor
            executor.spilled = SpilledState(executor.state, self._context(label, STATE))
            self._steps[label, STATE] = executor.spilled
            if executor.domains:
                self._steps[label, TIMERS] = SpilledTimers(executor.timers, self._context(label, TIMERS))

    def _context(self, label: str, kind: str) -> SpillContext:
        types = self._types[label, kind] = SpilledTypes()
        entries = SpilledEntries(self._database, len(self._steps))
        of_step = [(label, WINDOWS), (label, RUNS)] if kind == WINDOWS else [(label, kind)]
        if kind == TIMERS:
            of_step = [(label, STATE), (label, TIMERS)]
        return SpillContext(label, entries, partial(self._spill_excess, of_step), types.add)

    def spill_excess(self) -> None:
        """Spill the state beyond the limit; called between bundles."""
        self._spill_excess(self._steps)

    def _spill_excess(self, steps: Iterable[tuple[str, str]]) -> None:
        """Spill only state of these steps, because others may be processing."""
        memory = sum(step.memory() for step in self._steps.values())
        # Those chunks are of what was in memory, and what is spilled would precede the tables.
        if memory > self._limit * (_RESTORED if self.awaits_tables else 1):
            for name in filter(self._steps.__contains__, steps):
                guarded(name[0], partial(self._steps[name].spill, 1 - _LEFT * self._limit / memory))

    def remeasure(self) -> None:
        """Measure again, and spill the state beyond the limit; called before a snapshot is taken."""
        for step in self._steps.values():
            step.prepare_snapshot()
            step.measure()
        self.spill_excess()

    @property
    def spilled(self) -> dict[str, int]:
        """The number of entries that aren't in memory, by the labels of steps that have any."""
        numbers = Counter[str]()
        for (label, _), step in self._steps.items():
            numbers[label] += step.number_spilled
        return {label: number for label, number in numbers.items() if number}

    def snapshot(self, is_whole: bool) -> tuple[Iterator[Chunk], Tables | None]:
        """Return chunks of what isn't in memory any more, and the files with it.

        The chunks are those of now, however late they are asked for, and in whichever thread.

        Args:
          is_whole: False for the changes since the last snapshot.
        """
        marks = self._marks()
        removed = [(label, kind, step.removed()) for (label, kind), step in self._steps.items()]
        if is_whole:
            removed.clear()
        chunks = chain(marks, (Chunk(label, kind, *own) for label, kind, by_group in removed for own in by_group))
        if not any(step.number_spilled for step in self._steps.values()):
            return chunks, None
        noted = [
            NotedStep(label, kind, *step.noted(), self._types[label, kind].types)
            for (label, kind), step in self._steps.items()
        ]
        links = self._database.links(note_of(noted))
        return chunks, Tables(links.path, self._database.id, self._origin, links=links)

    def whole_chunks(self) -> Iterator[Chunk]:
        """Return an iterator over the spilled part of a savepoint.

        What it yields is the state of now, however late it is asked for, and in whichever thread.
        """
        marks = self._marks()
        records = [(label, kind, step.records()) for (label, kind), step in self._steps.items()]

        def chunks() -> Iterator[Chunk]:
            yield from marks
            for label, kind, of_step in records:
                for group, own in of_step:
                    yield Chunk(label, kind, group, own)

        return chunks()

    def _marks(self) -> list[Chunk]:
        """Return empty chunks, which mark steps as some with state, also if none has changed."""
        return [Chunk(label, kind, None, []) for (label, kind), step in self._steps.items() if step.number_spilled]

    # Restoring

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

    @property
    def directory(self) -> str | None:
        """The parent of the database's temporary directory; None for that of other temporary files."""
        return self._database.directory

    def restore_tables(self, stored: StoredTables, groups: Container[int], is_own: bool) -> list[NotedStep]:
        """Restore the spilled entries of a part; return its steps.

        Args:
          groups: the key groups to restore.
          is_own: whether these are all that the part has.

        Others than those of the steps are not read.
        """
        if is_own and not self._database.is_open:
            noted = steps_of(self._database.open(stored.fetch), pickle.loads, stored.origin.where)
            self._adopt(noted, stored)
            return noted
        with stored.opened(directory=self._database.directory) as tables:
            for found in tables.steps:
                step = self._steps.get(found[:2])
                if step is not None:
                    windows = NumberedWindows.of(found.windows)
                    for _, entries in tables.entries(found, groups):
                        step.take_over(entries, windows)
                    self._types[found[:2]].types.update(found.types)
            return tables.steps

    def _adopt(self, noted: Sequence[NotedStep], stored: StoredTables) -> None:
        """Have the steps go on with the entries of the database."""
        self._origin = stored.part
        used = {step.number for step in noted}
        free = (number for number in range(255) if number not in used)
        for name, step in self._steps.items():
            found = next((each for each in noted if each[:2] == name), None)
            if found is None:
                step.adopt(next(free), 0, NumberedWindows())
            else:
                step.adopt(found.number, found.size, NumberedWindows.of(found.windows))
                self._types[name].types.update(found.types)
        for each in noted:
            if each[:2] not in self._steps:
                self._database.remove_operator(each.number)

    def close(self) -> None:
        """Remove what is on the disk."""
        self._database.close()
