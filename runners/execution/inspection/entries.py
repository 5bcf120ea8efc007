"""The entries of a checkpoint: state cells, windows and timers by step and key, streamed from its files.

A part of a checkpoint is a full snapshot and the changes since then.  The changes are read first, and then the full
snapshot chunk by chunk, so that memory holds one chunk and the changes.  If these are large, they are read by ranges of
key groups, one pass over the files for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import attrs

from ....frozen import frozen
from ....sdk.coders.coded_key import plain
from ....sdk.coders.key_encoding import KEY_GROUPS, CodedKey
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from ....sdk.user_code.error_text import text_of as error_text
from ....sdk.userstate.bag import Chunks
from ....sdk.userstate.combining_value import Accumulator
from ....sdk.userstate.ordered_list import Timeline
from ....windowing import GLOBAL_WINDOW, BoundedWindow, IntervalWindow, Timestamp
from ..checkpoints.catalog import path_of
from ..checkpoints.manifest import Checkpoint, PartReference
from ..checkpoints.reader import SnapshotReader
from ..shuffle.partitioner import owner
from ..sinks.checkpoint_commits import PREVIOUS
from ..state import schema
from ..state.expiring import expiring_state
from ..state.keyed_state import ChangeKind
from ..state.timers import TimerChange
from ..streaming.snapshot_chunks import RUNS, STATE, TIMERS, WINDOWS, Chunk, Origin, RawChunk, raw_chunks_of
from ..streaming.tables import StoredTables, TableChunk
from ..windows.snapshots import WindowRecord, state_of
from ..windows.window_state import WindowState
from .json_values import text_of
from .stored_objects import loads_plain

# Kinds of entries.
CELL, WINDOW, TIMER = "state", "window", "timer"
_OF_WINDOWS = frozenset({WINDOWS, RUNS})
_ENTRIES = frozenset({STATE, *_OF_WINDOWS, TIMERS})

# Bytes of changes that are held at once; the objects take several times as much.
_CHANGES_AT_ONCE = 16 << 20

# Called with a number of bytes that were read.
Advance = Callable[[int], None]


@frozen
class StateEntry:
    """One entry of a step's state.

    Attributes:
      step: the label of the step.
      kind: "state" for a state cell, "window" for a window of a grouping, or "timer".
      name: the name of the state or of the timer's family; "" for a window.
      key, window: those it belongs to.
      value: the content of the cell, as its `read` returns it, or the accumulator of the window; None for a timer.
      group: the key group.
      timer: the timer; None for other entries.
      window_state: the window's panes and due times; None for other entries.
      stored: the value as it is stored, such as the accumulator of a cell.
    """

    step: str
    kind: str
    name: str
    key: Any
    window: Any
    value: Any
    group: int = 0
    timer: TimerChange | None = None
    window_state: WindowState | None = None
    stored: Any = attrs.field(default=None, repr=False)

    def with_value(self, value: Any) -> StateEntry:
        """Return the entry with another value, for a migration."""
        return attrs.evolve(self, value=value)


class StoredRecord(NamedTuple):
    """A record of a chunk, with the label, the kind and the key group of the chunk."""

    label: str
    kind: str
    group: int
    record: Any


@frozen
class StateReader:
    """Reads the entries of one checkpoint.

    Attributes:
      store: the store of the checkpoint.
      checkpoint: the checkpoint.
      loads: reads a pickle; by default plain data only, and no class of users is imported.
      advance: called with the number of bytes that were read.
    """

    store: SnapshotReader
    checkpoint: Checkpoint
    loads: Callable[[Any], Any] = loads_plain
    advance: Advance = lambda size: None

    def steps(self) -> dict[str, dict[str, str]]:
        """Return, by the label of each step with state, what it keeps: the kind of each state by its name.

        What a step keeps besides state, windows and timers isn't recorded in the manifest, and is empty here.
        """
        shapes = self.checkpoint.metadata.get("state", {})
        labels = [label for part in self._described().values() for label in part.get("labels", ())]
        return {label: dict(shapes.get(label, {})) for label in dict.fromkeys([*labels, *shapes])}

    def size(self) -> int:
        """Return the number of bytes that `entries` reads."""
        files = sum(file.length * self._passes(part) for part in self.parts() for file in part.files)
        return files + sum(table.file.length for part in self.parts() for table in part.tables)

    def entries(
        self, step: str | None = None, groups: Container[int] | None = None, kinds: Container[str] = _ENTRIES
    ) -> Iterator[StateEntry]:
        """Yield the entries: of one step or all, in some key groups or all."""
        for found in self.stored_records(step, groups, kinds):
            yield from self.entries_of(found)

    def stored_records(
        self, step: str | None = None, groups: Container[int] | None = None, kinds: Container[str] = _ENTRIES
    ) -> Iterator[StoredRecord]:
        """Yield the records of the entries, as they are stored."""
        for part in self.parts():
            if groups is not None and not any(group in groups for group in self._groups_of(part)):
                continue
            passes = self._passes(part)
            for i in range(passes):

                def is_wanted(chunk: RawChunk | TableChunk, i: int = i, passes: int = passes) -> bool:
                    group = chunk.group
                    return (
                        chunk.kind in kinds
                        and group is not None
                        and (step is None or chunk.label == step)
                        and (groups is None or group in groups)
                        and group % passes == i
                    )

                yield from self.records(part, is_wanted)

    def _groups_of(self, part: PartReference) -> Iterator[int]:
        """Yield the key groups of a part."""
        described = self._described()[part.name]
        # Micro-batches call a subtask a shard in their manifests.
        index = described["subtask"] if "subtask" in described else described["shard"]
        return (group for group in range(KEY_GROUPS) if owner(group, described["of"]) == index)

    def parts(self) -> list[PartReference]:
        """Return the parts that have the state of subtasks."""
        described = self._described()
        return [part for part in self.checkpoint.parts if part.name in described]

    def raw_chunks(self, part: PartReference) -> Iterator[tuple[int, RawChunk]]:
        """Yield the chunks of a part's files, each with the index of its file."""
        with self._reading():
            for i, (file, (_, records)) in enumerate(zip(part.files, self.store.read_part(part), strict=True)):
                origin = self._origin.of_file(path_of(self.store.directory, file))
                for chunk in raw_chunks_of(self._counted(records), origin):
                    yield i, chunk

    def table_chunks(
        self, part: PartReference, is_wanted: Callable[[TableChunk], bool] = lambda chunk: True
    ) -> Iterator[TableChunk]:
        """Yield the chunks of a part's tables, whose entries none of its files has.

        Args:
          is_wanted: selects chunks by their label, kind and group.
        """
        if not part.tables:
            return
        with self._reading(), StoredTables(self.store, part, self._origin).opened(self.loads) as tables:
            for chunk in tables.chunks(is_wanted):
                self.advance(chunk.size)
                yield chunk

    @property
    def _origin(self) -> Origin:
        return Origin(f"checkpoint {self.checkpoint.epoch}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except SnapshotError as error:
            if not any(each.name == self.checkpoint.name() for each in self.store.found()):
                raise SnapshotError(
                    f"{self.store.directory}: checkpoint {self.checkpoint.epoch} was removed while it was read, since "
                    f"its job has completed newer ones. Read a savepoint, which stays: `penstock checkpoints savepoint "
                    f"{self.store.directory}`, and then --epoch with its number"
                ) from error
            raise

    def decoded(self, chunk: RawChunk | TableChunk, part: PartReference) -> Chunk:
        """Return a chunk with its data.  Raises `CorruptSnapshotError` for a body that can't be read."""
        try:
            return chunk.decoded(self.loads)
        except (Exception, MemoryError, RecursionError) as error:
            raise CorruptSnapshotError(
                f"{self.store.directory}: part {part.name!r} of checkpoint {self.checkpoint.epoch}",
                f"{chunk.label}: its {chunk.kind} can't be read ({type(error).__name__}: {error_text(error)})",
                "a pickle of its data",
            ) from error

    def _counted(self, records: Iterable[bytes]) -> Iterator[bytes]:
        for record in records:
            self.advance(len(record))
            yield record

    def _described(self) -> dict[str, Any]:
        found: dict[str, Any] = self.checkpoint.metadata.get("parts", {})
        return found

    def records(
        self, part: PartReference, is_wanted: Callable[[RawChunk | TableChunk], bool]
    ) -> Iterator[StoredRecord]:
        """Yield the records of state, windows and timers of a part as they are after all changes.

        Args:
          is_wanted: selects chunks of a key group; the changes in them are held in memory.
        """
        chain = _Chain()
        full, changes = self._full_and_changes(part)
        for _, chunk in self.raw_chunks(changes):
            if is_wanted(chunk):
                chain.change(self.decoded(chunk, part))
        for _, chunk in self.raw_chunks(full):
            if is_wanted(chunk):
                yield from chain.unchanged(self.decoded(chunk, part))
        yield from chain.rest()
        for table in self.table_chunks(part, is_wanted):
            label, kind, group, data = self.decoded(table, part)
            assert group is not None
            yield from (StoredRecord(label, kind, group, record) for record in data)

    def _passes(self, part: PartReference) -> int:
        """Return the number of passes over a part."""
        changes = sum(file.length for file in self._full_and_changes(part)[1].files)
        return max(1, min(KEY_GROUPS, math.ceil(changes / _CHANGES_AT_ONCE)))

    def _full_and_changes(self, part: PartReference) -> tuple[PartReference, PartReference]:
        """Return the file in which each entry is there once, if there is one, and the files whose order counts."""
        # A savepoint of --delivery=strong has the changes of the logs in its full file.
        split = 1 if PREVIOUS in self.checkpoint.metadata else 0
        return attrs.evolve(part, files=part.files[:split]), attrs.evolve(part, files=part.files[split:])

    def entries_of(self, found: StoredRecord) -> Iterator[StateEntry]:
        """Yield the entries of a record: several of a key's windows."""
        if found.kind == STATE:
            yield self.entry_of_cell(found)
        elif found.kind == TIMERS:
            timer = TimerChange(*found.record)
            key = plain(timer.key)
            yield StateEntry(found.label, TIMER, timer.family, key, timer.window, None, found.group, timer)
        else:
            for state in self.window_states(found.record):
                yield self.entry_of_window(found, state)

    def entry_of_cell(self, found: StoredRecord) -> StateEntry:
        """Return the entry of a record of a state cell."""
        window, key, name, _, stored = found.record
        value = self._value_of(found.label, name, stored)
        if (expiring := expiring_state(name)) is not None:
            name, value = f"{expiring} expires", Timestamp.of_micros(stored)
        return StateEntry(found.label, CELL, name, plain(key), window, value, found.group, stored=stored)

    def window_states(self, record: WindowRecord) -> list[WindowState]:
        """Return the windows of a record."""
        return [state_of(record.key, row) for row in record.states]

    def entry_of_window(self, found: StoredRecord, state: WindowState) -> StateEntry:
        """Return the entry of a window."""
        value, key = state.accumulator, plain(state.key)
        return StateEntry(
            found.label, WINDOW, "", key, state.window, value, found.group, window_state=state, stored=value
        )

    def kind_of(self, entry: StateEntry) -> str:
        """Return the kind of a state cell, such as "SetStateSpec"; "" where the manifest doesn't say."""
        return self._kind_of(entry.step, entry.name)

    def _kind_of(self, label: str, name: str) -> str:
        kind: str = self.checkpoint.metadata.get("state", {}).get(label, {}).get(f"{schema.STATE}{name}", "")
        return kind

    def _value_of(self, label: str, name: str, stored: Any) -> Any:
        """Return the content of a state cell as its `read` returns it."""
        if type(stored) is Chunks:
            return list(stored)
        if type(stored) is Accumulator:
            return stored.value
        if type(stored) is Timeline:
            return [(Timestamp.of_micros(m), v) for m, v in zip(stored.times, stored.values, strict=True)]
        if type(stored) is dict:
            own = {plain(member): value for member, value in stored.items()} if _is_coded(stored) else stored
            return list(own) if self._kind_of(label, name) == "SetStateSpec" else dict(own)
        return stored


def _is_coded(stored: dict[Any, Any]) -> bool:
    return any(type(member) is CodedKey for member in stored)


class _Chain:
    """The changes of a part since its full snapshot.

    Of each state cell it has the appended values, or the new value.
    """

    def __init__(self) -> None:
        # By kind and identity; None for a removed entry.
        self._last: dict[tuple[Any, ...], tuple[int, str, Any] | None] = {}

    def change(self, chunk: Chunk) -> None:
        """Add the changes of a chunk."""
        label, kind, group, data = chunk
        assert group is not None
        for record in data:
            name = label, kind, *_identity(kind, record)
            found = self._applied(kind, self._last.pop(name, _UNKNOWN), record)
            self._last[name] = None if found is None else (group, label, found)

    def _applied(self, kind: str, before: Any, record: Any) -> Any:
        """Return a record as it is after a change; None if it is removed."""
        if kind in _OF_WINDOWS:
            return record if record.states else None
        if kind == TIMERS:
            return record if record[4] is not None else None
        window, key, name, change, value = record
        if change is ChangeKind.REMOVE:
            return None
        if change is ChangeKind.APPEND:
            if before is None:
                return window, key, name, ChangeKind.PUT, Chunks(value)
            if before is not _UNKNOWN:
                earlier = before[2]
                return window, key, name, earlier[3], Chunks([*earlier[4], *value])
        return record

    def unchanged(self, chunk: Chunk) -> Iterator[StoredRecord]:
        """Yield the records of a chunk of the full snapshot that have not changed; append values to others."""
        label, kind, group, data = chunk
        assert group is not None
        for record in data:
            if self._last:
                name = label, kind, *_identity(kind, record)
                if name in self._last:
                    changed = self._last[name]
                    if changed is not None and kind == STATE and changed[2][3] is ChangeKind.APPEND:
                        *place, _, values = record
                        appended = (*place, ChangeKind.PUT, Chunks([*values, *changed[2][4]]))
                        self._last[name] = changed[0], label, appended
                    continue
            if self._applied(kind, _UNKNOWN, record) is not None:
                yield StoredRecord(label, kind, group, record)

    def rest(self) -> Iterator[StoredRecord]:
        """Yield the changed records."""
        for (_, kind, *_), changed in self._last.items():
            if changed is not None:
                group, label, record = changed
                yield StoredRecord(label, kind, group, record)


_UNKNOWN: Any = object()

_ATOMS = frozenset({type(None), bool, int, float, str, bytes, CodedKey, IntervalWindow, type(GLOBAL_WINDOW)})


def identity_of(value: Any) -> Any:
    """Return a value that is hashable, and equal for equal keys or windows."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return tuple(map(identity_of, value))
    return "$", text_of(value)


def _identity(kind: str, record: Any) -> Sequence[Any]:
    """Return the fields of a record that later records of the same entry share."""
    if kind in _OF_WINDOWS:
        window: BoundedWindow | None = record.window
        return identity_of(record.key), identity_of(window)
    if kind == TIMERS:
        key, window, family, tag = record[:4]
        return identity_of(key), identity_of(window), family, tag
    return identity_of(record[0]), identity_of(record[1]), record[2]
