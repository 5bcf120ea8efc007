"""The snapshot of a subtask: writes the state of its task as chunks, and restores it.

A snapshot is a list of chunks.  A chunk belongs to a step, by its label, and maybe to a key group; so another pipeline,
or other subtasks, can find theirs.  State that may be large (windows, keyed state, timers, side inputs and recorded
outputs) is written as a chain: a whole snapshot, then changes.  Of all other state the newest chunk is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS, key_groups
from ....sdk.elements.bundle import Bundle
from ..plan.execution_graph import label_of
from ..plan.fusion import Head, Keyed, Plan, Stage
from ..plan.source_identities import Identities
from ..shuffle.partitioner import owner
from ..stages.recorded_outputs import MemoryChanges, OutputMemory
from ..stages.side_inputs import SideInputContents, freed_through
from ..state import schema as state_shapes
from ..state.key_types import KeyType, KeyTypes, types_of
from ..state.keyed_state import ColumnOfState
from ..state.schema import Mismatch
from ..state.timers import TimerChange
from ..windows import snapshots as window_snapshots
from ..windows.snapshots import Records, WindowColumns
from .snapshot_chunks import (
    CHAINED,
    CLOCKS,
    FOLDED,
    IN_FLIGHT,
    IN_FLIGHT_BROADCAST,
    IN_FLIGHT_BY_KEY,
    KEPT,
    LEFT,
    MEMORY,
    NEWS,
    POSITIONS,
    RUNS,
    SCRIPT,
    STATE,
    TIMERS,
    VIEW,
    WINDOWS,
    WITHIN,
    Chunk,
)
from .state_backend import StateBackend
from .tables import StoredTables
from .task_program import TaskProgram

# Chained kinds of keyed state.
_BY_KEY = frozenset({WINDOWS, RUNS, STATE, TIMERS})


def snapshot(execution: TaskProgram, is_whole: bool) -> list[Chunk]:
    """Return the state of a task: all of it, or of the large parts the changes since the last snapshot."""
    chunks, later = snapshot_in_parts(execution, is_whole)
    return [*chunks, *later]


def snapshot_in_parts(execution: TaskProgram, is_whole: bool) -> tuple[list[Chunk], Iterator[Chunk]]:
    """Return a snapshot in two parts: chunks to serialize before the next step, and those of what stays as it is.

    These are the state of now also if they are asked for later, and in another thread: values of keyed state are never
    changed in place, but replaced by changed copies, and so are accumulators that are numbers, text and the like.
    """
    later: list[Iterator[Chunk]] = []
    chunks: list[Chunk] = []
    for label, grouping in execution.groupings.items():
        windows = grouping.windows
        assert windows is not None
        chunks.append(Chunk(label, CLOCKS, None, windows.clocks()))
        own, fixed = window_snapshots.in_parts(windows.table, is_whole)
        chunks += [Chunk(label, WINDOWS, *of_group) for of_group in own]
        later.append(_of_windows(label, fixed))
    for label, keyed in execution.keyed.items():
        executor = keyed.executor
        chunks.append(Chunk(label, CLOCKS, None, (executor.watermark, executor.processing_time)))
        state, timers = executor.state, executor.timers
        later.append(_of_columns(label, state.columns() if is_whole else state.changed_columns(), is_whole))
        later.append(_of_timers(label, timers.snapshot() if is_whole else timers.changes()))
    for step in execution.task.steps:
        if not isinstance(step, (Stage, Keyed)):
            continue
        run = execution.dataflow.stages[step.id]
        chunks += _kept(label_of(step), run.kept(), isinstance(step, Keyed))
        for index, memory in run.executor.memories.items():
            outputs = memory.snapshot() if is_whole else memory.changes()
            if outputs.removed or outputs.added:
                chunks.append(Chunk(label_of(step), MEMORY, None, [(index, outputs)]))
    chunks += _pending(execution)
    for pcollection in sorted(execution.side_inputs):
        contents = execution.views.contents(pcollection)
        view = contents.snapshot() if is_whole else contents.changes()
        if view:
            chunks.append(Chunk(_name(execution, pcollection), VIEW, None, list(map(tuple, view))))
    unchanged = _unchanged(execution, {chunk.label for chunk in chunks if chunk.kind != CLOCKS})
    return [*chunks, *unchanged], chain.from_iterable(later)


def _of_windows(label: str, records: Iterable[tuple[int, Records]]) -> Iterator[Chunk]:
    """Yield the chunks of windows."""
    for of_group in records:
        yield Chunk(label, WINDOWS, *of_group)


def _of_columns(label: str, columns: Iterable[ColumnOfState], is_whole: bool) -> Iterator[Chunk]:
    """Yield the chunks of keyed state."""
    for column in columns:
        places: dict[int, list[int]] = {}
        for place, group in enumerate(key_groups(column.keys)):
            places.setdefault(group, []).append(place)
        of_places = column.values_at if is_whole else column.changes_at
        for group, own in places.items():
            # Plain tuples are pickled in a sixth of the time of named ones.
            yield Chunk(label, STATE, group, list(map(tuple, of_places(own))))


def _of_timers(label: str, timers: Sequence[TimerChange]) -> Iterator[Chunk]:
    """Yield the chunks of timers."""
    yield from _grouped(label, TIMERS, list(map(tuple, timers)), itemgetter(0))


def _kept(label: str, bundles: Iterable[Bundle], is_keyed: bool, kind: str = KEPT) -> list[Chunk]:
    """Return the elements that wait in front of a step, as chunks."""
    rows = [row for bundle in bundles for row in bundle.rows()]
    if is_keyed:
        # If a key is invalid, the step reports it when it processes the element.
        with suppress(Exception):
            return _grouped(label, kind, rows, lambda row: row[0][0])
    return [Chunk(label, kind, None, rows)] if rows else []


def _pending(execution: TaskProgram) -> Iterator[Chunk]:
    """Yield the elements that wait for their turn at a step: what async calls or unfinished restrictions hold up."""
    for step, run in execution.stages():
        label, pending = label_of(step), run.pending_elements()
        bundles = [bundle for index, bundle in pending if not index]
        yield from _kept(label, bundles, isinstance(step, Keyed), LEFT)
        within = [(index, list(bundle.rows())) for index, bundle in pending if index]
        if within:
            yield Chunk(label, WITHIN, None, within)
    for label, waiting in execution.loops.waiting():
        yield from _kept(label, waiting, False, LEFT)


def _unchanged(execution: TaskProgram, labels: set[str]) -> Iterator[Chunk]:
    """Yield empty chunks for other steps with state, so that a snapshot of changes names each step with state."""
    kept: list[tuple[str, str, int]] = []
    kept += ((label, WINDOWS, len(run.windows.table)) for label, run in execution.groupings.items() if run.windows)
    for label, keyed in execution.keyed.items():
        kept.append((label, STATE, len(keyed.executor.state) + len(keyed.executor.timers)))
    for step in execution.task.steps:
        if isinstance(step, (Stage, Keyed)):
            memories = execution.dataflow.stages[step.id].executor.memories.values()
            kept.append((label_of(step), MEMORY, sum(map(len, memories))))
    for pcollection in sorted(execution.side_inputs):
        kept.append((_name(execution, pcollection), VIEW, execution.views.contents(pcollection).number_of_windows))
    return (Chunk(label, kind, None, []) for label, kind, number in kept if number and label not in labels)


def weight(execution: TaskProgram, is_whole: bool) -> int:
    """Return the approximate number of entries of a snapshot."""
    entries = 0
    for grouping in execution.groupings.values():
        if grouping.windows is not None:
            table = grouping.windows.table
            entries += len(table) if is_whole else table.number_changed
    for keyed in execution.keyed.values():
        executor = keyed.executor
        entries += len(executor.state) + len(executor.timers) if is_whole else executor.number_changed
    for kept in _kept_besides(execution):
        entries += len(kept) if is_whole else kept.number_changed
    return entries


def _kept_besides(execution: TaskProgram) -> Iterator[OutputMemory | SideInputContents]:
    """Yield other state that may be large and has a log of changes."""
    for run in execution.dataflow.stages.values():
        yield from run.executor.memories.values()
    for pcollection in sorted(execution.side_inputs):
        yield execution.views.contents(pcollection)


def forget_changes(execution: TaskProgram) -> list[dict[Any, None]]:
    """Start anew with the log of changes, while a forked child writes the snapshot.

    Returns the former logs.  Freeing a million entries takes long, and longer while a forked child shares their memory.
    """
    forgotten: list[dict[Any, None]] = []
    for grouping in execution.groupings.values():
        if grouping.windows is not None:
            forgotten += grouping.windows.table.forget_changes()
    for keyed in execution.keyed.values():
        forgotten += keyed.executor.forget_changes()
    for kept in _kept_besides(execution):
        forgotten += kept.forget_changes()
    return forgotten


def _grouped(label: str, kind: str, records: Sequence[Any], key: Callable[[Any], Any]) -> list[Chunk]:
    by_group: dict[int, list[Any]] = {}
    for group, record in zip(key_groups([key(record) for record in records]), records, strict=True):
        by_group.setdefault(group, []).append(record)
    return [Chunk(label, kind, group, own) for group, own in by_group.items()]


def _name(execution: TaskProgram, pcollection: int) -> str:
    return name_of(execution.plan, pcollection)


def name_of(plan: Plan, pcollection: int) -> str:
    """Return the name of a PCollection in a snapshot."""
    node = plan.graph.pcollections[pcollection]
    return node.producer if node.tag is None else f"{node.producer}[{node.tag}]"


def _keys_of(kind: str, records: Any) -> list[Any]:
    """Return the keys of keyed state."""
    if isinstance(records, WindowColumns):
        return records.keys
    # The namespace is the first field of a state's record.
    index = 1 if kind == STATE else 0
    return [record[index] for record in records]


def _bundle_of(rows: Iterable[Any]) -> Bundle:
    return Bundle(*map(list, zip(*rows, strict=True)))


class Restored:
    """The chunks of a snapshot for one subtask.

    Attributes:
      index, parallelism: the subtask's number, and the number of subtasks.
      is_base: whether changes may follow the snapshot: its tables are those of the backend.
      sources: the identities of the sources in the snapshot, by label.

    Args:
      dropped: state to drop, because its step now keeps it otherwise.
      compares_keys: True to compare keys with those of the snapshot, which another program may have written.
      backend: takes the windows and the keyed state, a chunk at a time; None keeps all of them until `into`.
    """

    def __init__(
        self,
        index: int,
        parallelism: int,
        dropped: Iterable[Mismatch] = (),
        compares_keys: bool = True,
        backend: StateBackend | None = None,
    ) -> None:
        self.index = index
        self.parallelism = parallelism
        self.sources: Identities = {}
        self._compares_keys = compares_keys
        self._backend = backend
        # By label, over all subtasks.
        self._key_types: dict[str, set[KeyType]] = {}
        self._dropped = {(each.label, each.name) for each in dropped}
        self._chained: dict[tuple[str, str], list[Any]] = {}
        self._newest: dict[tuple[str, str], list[Any]] = {}
        # By label and part, the recorded outputs of non-deterministic operations, by their index in the stage.
        self._memories: dict[str, dict[int, list[tuple[int, MemoryChanges]]]] = {}
        # By the producer of a side input and kind, the view or the in-flight records of each part.
        self._broadcast: dict[tuple[str, str], dict[int, list[Any]]] = {}
        self._parts = 0
        self.is_base = True
        # With the subtask that each is of.
        self._tables: list[tuple[StoredTables, int, int]] = []

    def add(
        self, chain: Sequence[Iterable[Chunk]], index: int, parallelism: int, tables: StoredTables | None = None
    ) -> None:
        """Add the snapshot of subtask `index` of `parallelism`: a whole snapshot, then changes, oldest first.

        Args:
          tables: what it has besides.
        """
        self._parts += 1
        if tables is not None:
            self._tables.append((tables, index, parallelism))
        if self._backend is not None:
            self._backend.awaits_tables = tables is not None
        for i, chunks in enumerate(chain):
            is_newest = i == len(chain) - 1
            for label, kind, group, data in self.noting_keys(chunks):
                if group is None:
                    is_mine = self._takes(kind, index, parallelism)
                else:
                    is_mine = owner(group, self.parallelism) == self.index
                if kind == CLOCKS and self._backend is not None:
                    # They precede the windows in each file; in the end the step has those of all subtasks.
                    self._backend.set_clocks(label, data)
                if is_mine and (kind == VIEW or (kind == IN_FLIGHT_BROADCAST and is_newest)):
                    of_part = self._broadcast.setdefault((label, kind), {}).setdefault(self._parts, [])
                    of_part.extend(data if kind == VIEW else [data])
                elif is_mine and kind == MEMORY:
                    # Its numbers are unique within a part only.
                    self._memories.setdefault(label, {}).setdefault(self._parts, []).extend(data)
                elif is_mine and kind in CHAINED:
                    kept = self._kept(label, kind, data)
                    if group is None or self._backend is None or not self._backend.restore(label, kind, kept):
                        self._chained.setdefault((label, kind), []).extend(kept)
                elif is_mine and is_newest:
                    self._newest.setdefault((label, kind), []).append(data)

    def _kept(self, label: str, kind: str, records: Iterable[Any]) -> Iterable[Any]:
        """Return the records that are not dropped."""
        if not self._dropped or kind not in _BY_KEY:
            return records
        if kind in (WINDOWS, RUNS):
            return [] if (label, state_shapes.WINDOWS) in self._dropped else records
        # The third field is the name of the cell or timer.
        prefix = state_shapes.STATE if kind == STATE else state_shapes.TIMER
        return [record for record in records if (label, f"{prefix}{record[2]}") not in self._dropped]

    def _takes(self, kind: str, index: int, parallelism: int) -> bool:
        """Return True if this subtask restores unkeyed state of subtask `index` of `parallelism`."""
        if kind not in (MEMORY, KEPT, LEFT, FOLDED, WITHIN, NEWS, VIEW, IN_FLIGHT_BROADCAST) and not kind.startswith(
            (IN_FLIGHT, IN_FLIGHT_BY_KEY)
        ):
            return True
        if parallelism == self.parallelism:
            return index == self.index
        if kind in (VIEW, IN_FLIGHT_BROADCAST) or kind.startswith(IN_FLIGHT_BY_KEY):
            return True
        if kind == NEWS:
            return index == 0
        # Waiting elements may resume in any subtask.  A retraction may arrive in any, so all restore recorded outputs.
        return kind == MEMORY or self.index == 0

    def _add_tables(self, labels: set[str]) -> None:
        """Add what the tables of all parts have of these steps, whose entries none of the chunks has."""
        if self._backend is not None:
            self._backend.awaits_tables = False
        groups = {group for group in range(KEY_GROUPS) if owner(group, self.parallelism) == self.index}
        for tables, index, parallelism in self._tables:
            of_part = {group for group in groups if owner(group, parallelism) == index}
            if not of_part or not tables.may_have(labels):
                continue
            is_own = (index, parallelism) == (self.index, self.parallelism)
            self.is_base = self.is_base and is_own and self._backend is not None and not self._dropped
            if self._backend is not None and not self._dropped:
                for step in self._backend.restore_tables(tables, of_part, is_own):
                    if self._compares_keys:
                        self._key_types.setdefault(step.label, set()).update(step.types)
                continue
            with tables.opened(directory=None if self._backend is None else self._backend.directory) as opened:
                for chunk in self.noting_keys(opened.decoded(of_part, labels)):
                    kept = self._kept(*chunk[:2], chunk.data)
                    if self._backend is None or not self._backend.restore(*chunk[:2], kept):
                        self._chained.setdefault(chunk[:2], []).extend(kept)

    def into(self, execution: TaskProgram) -> None:
        """Restore the state of each step, before the first element arrives."""
        self._add_tables(execution.groupings.keys() | execution.keyed.keys())
        for label, grouping in execution.groupings.items():
            windows = grouping.windows
            assert windows is not None
            clocks = self.newest(label, CLOCKS)
            if clocks:
                # At one barrier all subtasks know the same input watermarks, and downstream has the least output
                # watermark.
                known, output_watermark = min(clocks, key=lambda known: known[0]), min(known[-1] for known in clocks)
                windows.set_clocks((*known[:-1], output_watermark))
            window_snapshots.restore(windows.table, self.chained(label, WINDOWS))
            window_snapshots.merge_runs(windows.table, self.chained(label, RUNS), grouping.fold.merged)
        for label, keyed in execution.keyed.items():
            executor = keyed.executor
            clocks = self.newest(label, CLOCKS)
            if clocks:
                executor.watermark, executor.processing_time = min(clocks)
            executor.restore(self.chained(label, STATE), self.chained(label, TIMERS))
        for pcollection in sorted(execution.side_inputs):
            execution.views.restore(pcollection, self.chained(_name(execution, pcollection), VIEW))
        for step in execution.task.steps:
            if isinstance(step, (Stage, Keyed)):
                self._into_stage(execution, step)
            if isinstance(step, Head):
                for bundle in self.bundles(step.transform.label, LEFT):
                    execution.loops.restore(step.transform.label, bundle)
        for step, run in execution.stages():
            label = label_of(step)
            for within in self.newest(label, WITHIN):
                for index, rows in within:
                    run.put_off(_bundle_of(rows), index)
            for bundle in self.bundles(label, LEFT):
                run.put_off(bundle)
        execution.look_at_restored()

    def bundles(self, label: str, kind: str) -> Iterator[Bundle]:
        """Yield the elements that waited in front of a step."""
        for rows in self.newest(label, kind):
            if rows:
                yield _bundle_of(rows)

    def noting_keys(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks, noting the types of their keys."""
        for chunk in chunks:
            if self._compares_keys and chunk.group is not None and chunk.kind in _BY_KEY:
                self._key_types.setdefault(chunk.label, set()).update(types_of(_keys_of(chunk.kind, chunk.data)))
            yield chunk

    def watch_keys(self, execution: TaskProgram, elements: int = 1) -> None:
        """Have the steps compare the keys of new elements with those of the snapshot.

        Called after in-flight records have been processed; where they may arrive again, `elements` more are compared.
        """
        if not execution.plan.compares_keys:
            return
        for label, types in self._key_types.items():
            known = KeyTypes(label, frozenset(types), elements)
            if label in execution.groupings:
                execution.groupings[label].key_types = known
            elif label in execution.keyed:
                execution.keyed[label].executor.key_types = known

    def _into_stage(self, execution: TaskProgram, step: Stage | Keyed) -> None:
        run = execution.dataflow.stages[step.id]
        parts = self.memories(label_of(step))
        for index in dict.fromkeys(index for part in parts for index, _ in part):
            of_index = [[outputs for other, outputs in part if other == index] for part in parts]
            run.executor.memory(index).restore([part for part in of_index if part])
        for rows in self.newest(label_of(step), KEPT):
            run.keep([_bundle_of(rows)])

    def drop_positions(self, labels: Iterable[str]) -> None:
        """Drop the positions of these sources."""
        for label in labels:
            for kind in (POSITIONS, SCRIPT):
                self._newest.pop((label, kind), None)

    def newest(self, label: str, kind: str) -> list[Any]:
        """Return the subtasks' newest data of a kind."""
        if kind == IN_FLIGHT_BROADCAST:
            return self._of_view(label, kind)
        return self._newest.get((label, kind), [])

    def chained(self, label: str, kind: str) -> list[Any]:
        """Return the subtasks' records of a chained kind, oldest first."""
        if kind == VIEW:
            return self._of_view(label, kind)
        return self._chained.get((label, kind), [])

    def _of_view(self, label: str, kind: str) -> list[Any]:
        """Return what a part has of a side input.

        Each subtask had the whole view, but for windows that its elements can't reach: that with most of them is
        restored, with the same subtask's in-flight records.
        """
        views = self._broadcast.get((label, VIEW), {})
        parts = sorted({*views, *self._broadcast.get((label, IN_FLIGHT_BROADCAST), {})})
        if len(parts) > 1:
            parts.sort(key=lambda part: freed_through(views.get(part, ())))
        part = parts[0] if parts else 0
        return self._broadcast.get((label, kind), {}).get(part, [])

    def memories(self, label: str) -> list[list[tuple[int, MemoryChanges]]]:
        """Return the recorded outputs of a stage by part, oldest first, each with the operation's index."""
        return list(self._memories.get(label, {}).values())

    @property
    def labels(self) -> set[str]:
        """Return the labels of steps with state."""
        return {label for label, _ in (*self._chained, *self._newest, *self._broadcast)} | set(self._memories)
