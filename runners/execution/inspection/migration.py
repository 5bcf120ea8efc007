"""Migration of state: a new savepoint with the values of a checkpoint, converted by a function.

The checkpoint is copied part by part.  State cells and windows of the converted steps are read as plain data, so that
the classes of the former version aren't needed, and written with the instances that the function returns.  Everything
else is copied byte by byte.  The manifest is written last: before it, a start resumes from the original checkpoint;
after it, from the savepoint.  The original is never changed.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

import attrs

from ....frozen import frozen
from ....sdk.coders.coded_key import coded
from ....sdk.errors import CheckpointMismatchError, PenstockError, SnapshotError
from ....sdk.user_code.error_text import text_of as error_text
from ....sdk.userstate.bag import Chunks
from ....sdk.userstate.combining_value import Accumulator
from ....sdk.userstate.ordered_list import Timeline
from ....windowing import Timestamp
from ..checkpoints.manifest import CheckpointKind, PartReference
from ..checkpoints.store import SnapshotStore
from ..sinks.checkpoint_commits import PREVIOUS
from ..state.expiring import expiring_state
from ..streaming.snapshot_chunks import (
    CHAINED,
    IN_FLIGHT,
    IN_FLIGHT_BROADCAST,
    IN_FLIGHT_BY_KEY,
    RUNS,
    STATE,
    TIMERS,
    WINDOWS,
    Chunk,
    RawChunk,
    raw_chunks_of,
    records_of,
)
from ..streaming.tables import TableChunk
from ..windows.snapshots import row_of
from ..windows.window_state import WindowState
from .entries import StateEntry, StateReader, StoredRecord
from .json_values import text_of
from .keys import check_step
from .stored_objects import PlainUnpickler, StoredObject

# Returns an entry with its new value, or None to remove it.
Convert: TypeAlias = Callable[[StateEntry], StateEntry | None]

# The kind of an entry with the value of a pane that was emitted, and would be retracted.
PANE = "pane"

_CONVERTED = frozenset({STATE, WINDOWS, RUNS})
_IN_FLIGHT = (IN_FLIGHT, IN_FLIGHT_BY_KEY, IN_FLIGHT_BROADCAST)

# Bytes of chunks that are copied as one record, and records that are converted as one chunk.
_RECORD, _CHUNK = 1 << 20, 1_000

# All checkpoints of the directory stay.
_ALL = 1 << 30


@frozen
class Migrated:
    """The result of a migration.

    Attributes:
      epoch: the epoch of the savepoint.
      changed, removed, kept: the number of entries.
    """

    epoch: int
    changed: int
    removed: int
    kept: int


def migration_of(name: str) -> Convert:
    """Return the function of a name such as "module:function".

    Raises `PenstockError` if it can't be imported.
    """
    module, colon, function = name.partition(":")
    if not colon or not function:
        raise PenstockError(f"--with={name}: expected a module and a function, such as migrations:to_version_2")
    try:
        found = attrgetter(function)(import_module(module))
    except Exception as error:  # any error of the user's module
        raise PenstockError(f"--with={name} can't be imported: {type(error).__name__}: {error_text(error)}") from error
    if not callable(found):
        raise PenstockError(f"--with={name}: expected a function, found {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def migrate(reader: StateReader, convert: Convert, name: str, steps: Collection[str] = ()) -> Migrated:
    """Write and publish a savepoint with converted state.  A job that runs there can't commit afterwards.

    Args:
      reader: reads the original checkpoint.
      convert: converts an entry.
      name: the name of the function, for the manifest and for errors.
      steps: the labels of the steps to convert; none means all.

    Raises:
      CheckpointMismatchError: the new state can't be read, or records that can't be converted hold a converted class.
      StateNotFoundError: a step has no state.
      PenstockError: the function failed; nothing was published.
    """
    for step in steps:
        check_step(reader, step)
    checkpoint = reader.checkpoint
    if "ended" in checkpoint.metadata:
        raise SnapshotError(
            f"{reader.store.directory}: the run of checkpoint {checkpoint.epoch} has ended "
            f"({checkpoint.metadata['ended']}), so no start resumes from it, and there is nothing to migrate"
        )
    store = SnapshotStore(
        reader.store.disk, reader.store.directory, retain=_ALL, allow_untrusted=reader.store.allow_untrusted
    )
    store.take_over()
    epoch = max(each.name.epoch for each in store.found()) + 1
    store.begin(epoch)
    work = _Migration(reader, store, epoch, convert, name, frozenset(steps))
    try:
        parts = [work.part(part) for part in checkpoint.parts]
        work.check_copied()
    except BaseException:
        store.abort(epoch)
        raise
    metadata = {**checkpoint.metadata, "migrated": {"from": checkpoint.epoch, "with": name}}
    if PREVIOUS in metadata:
        metadata[PREVIOUS] = checkpoint.epoch
    store.commit(epoch, parts, metadata, CheckpointKind.SAVEPOINT)
    counts = work.counts
    return Migrated(epoch, counts["changed"], counts["removed"], counts["kept"])


class _Migration:
    """The migration of one checkpoint."""

    def __init__(
        self,
        reader: StateReader,
        store: SnapshotStore,
        epoch: int,
        convert: Convert,
        name: str,
        steps: frozenset[str],
    ) -> None:
        self._reader = reader
        self._store = store
        self._epoch = epoch
        self._convert = convert
        self._name = name
        self._steps = steps
        self.counts: Counter[str] = Counter()
        # The classes of the converted values, and by the description of records that are copied, their classes.
        self._classes: set[str] = set()
        self._copied: dict[str, set[str]] = {}

    def part(self, part: PartReference) -> PartReference:
        """Return the new part; the part itself if it has no state of subtasks."""
        if part not in self._reader.parts():
            return part
        written: PartReference | None = None
        for i in range(len(part.files)):
            written = self._store.write_part(self._epoch, part.name, self._records(part, i), written)
        assert written is not None
        self._verify(written)
        return written

    def _records(self, part: PartReference, index: int) -> Iterator[bytes]:
        """Yield the records of a file of the new part; the first one has the converted state."""
        pending: list[bytes] = []
        size = 0
        is_newest = index == len(part.files) - 1
        file = attrs.evolve(part, files=part.files[index : index + 1])
        chunks = (chunk for _, chunk in self._reader.raw_chunks(file))
        # The new part has no tables.
        for chunk in chain(chunks, self._table_chunks(part) if is_newest else ()):
            if self._is_converted(chunk):
                continue
            if chunk.kind in CHAINED or is_newest:
                self._note(chunk, part)
            pending.append(bytes(chunk.content))
            size += len(chunk.content)
            if size >= _RECORD:
                yield b"".join(pending)
                pending, size = [], 0
        yield b"".join(pending)
        if not index:
            yield from records_of(self._chunks(part))

    def _table_chunks(self, part: PartReference) -> Iterator[RawChunk]:
        """Yield the chunks of a part's tables that aren't converted."""
        for chunk in self._reader.table_chunks(part, lambda chunk: not self._is_converted(chunk)):
            yield chunk.raw(self._reader.loads)

    def _is_converted(self, chunk: RawChunk | TableChunk) -> bool:
        return chunk.kind in _CONVERTED and chunk.group is not None and self._is_chosen(chunk.label)

    def _is_chosen(self, label: str) -> bool:
        return not self._steps or label in self._steps

    def _chunks(self, part: PartReference) -> Iterator[Chunk]:
        """Yield the converted state, by key group."""
        pending: dict[tuple[str, str, int], list[Any]] = {}
        for stored in self._reader.records(part, self._is_converted):
            record = self._converted(stored)
            if record is None:
                continue
            identity = stored.label, stored.kind, stored.group
            own = pending.setdefault(identity, [])
            own.append(record)
            if len(own) >= _CHUNK:
                yield Chunk(*identity, pending.pop(identity))
        for identity, records in pending.items():
            yield Chunk(*identity, records)

    def _converted(self, stored: StoredRecord) -> Any:
        """Return a converted record; None if nothing of it is left."""
        record = stored.record
        if stored.kind == STATE and expiring_state(record[2]) is not None:
            # When a value expires isn't the user's.
            return record
        if stored.kind == STATE:
            entry = self._reader.entry_of_cell(stored)
            new = self._called(entry)
            if new is None:
                return None
            window, key, name, change, value = record
            return window, key, name, change, value if new is entry else self._as_stored(entry, new.value)
        rows = [row for state in self._reader.window_states(record) for row in self._row(stored, state)]
        return type(record)(record.key, record.window, tuple(rows)) if rows else None

    def _row(self, stored: StoredRecord, state: WindowState) -> Iterator[tuple[Any, ...]]:
        entry = self._reader.entry_of_window(stored, state)
        new = self._called(entry)
        if new is None:
            return
        state.accumulator = new.value
        if state.pane is not None:
            state.pair = self._pane(entry, state.pair)
        state.replaced = tuple((self._pane(entry, pair), *others) for pair, *others in state.replaced)
        yield row_of(state)

    def _pane(self, entry: StateEntry, pair: Any) -> Any:
        """Return the key and value of an emitted pane with its value converted."""
        pane = attrs.evolve(entry, kind=PANE, value=pair[1], window_state=None)
        new = self._called(pane)
        if new is None:
            raise PenstockError(
                f"--with={self._name} removed a pane of {self._shown(entry)}, which was emitted, and has to be "
                "retracted: return it with its new value, or remove its window"
            )
        return pair if new is pane else (pair[0], new.value)

    def _called(self, entry: StateEntry) -> StateEntry | None:
        try:
            new = self._convert(entry)
        except Exception as error:
            raise PenstockError(
                f"--with={self._name} failed on {self._shown(entry)}: {type(error).__name__}: {error_text(error)}. "
                "Nothing was published"
            ) from error
        if new is None:
            self.counts["removed"] += 1
            return None
        if new is entry:
            self.counts["kept"] += 1
            return entry
        if not isinstance(new, StateEntry):
            raise PenstockError(
                f"--with={self._name} returned {type(new).__name__} for {self._shown(entry)}; expected the entry, "
                "entry.with_value(new value), or None to remove it"
            )
        if attrs.evolve(new, value=None, stored=None) != attrs.evolve(entry, value=None, stored=None):
            raise PenstockError(
                f"--with={self._name} changed more than the value of {self._shown(entry)}; a migration keeps steps, "
                "names, keys and windows"
            )
        self.counts["changed"] += 1
        self._classes |= _classes_in(entry.value)
        return new

    def _shown(self, entry: StateEntry) -> str:
        return f"{entry.step}: {entry.kind} {entry.name}".rstrip() + f" of the key {text_of(entry.key)[:80]}"

    def _as_stored(self, entry: StateEntry, value: Any) -> Any:
        """Return the content of a state cell as it is stored."""
        before = type(entry.stored)
        try:
            if before is Chunks:
                return Chunks(value)
            if before is Accumulator:
                return Accumulator(value)
            if before is Timeline:
                timeline = Timeline()
                for at, own in value:
                    timeline.add(Timestamp.of(at).micros, own)
                return timeline
            if before is dict and self._reader.kind_of(entry) == "SetStateSpec":
                return dict.fromkeys(map(coded, value))
            if before is dict:
                return {coded(name): own for name, own in dict(value).items()}
        except (TypeError, ValueError) as error:
            raise PenstockError(
                f"--with={self._name} returned {text_of(value)[:80]} for {self._shown(entry)}, which isn't the content "
                f"of a {self._reader.kind_of(entry)}: {error_text(error)}"
            ) from error
        return value

    # What is copied

    def _note(self, chunk: RawChunk, part: PartReference) -> None:
        """Note the classes in records of a converted step that can't be converted."""
        if not self._is_chosen(chunk.label) or chunk.kind == TIMERS:
            return
        what = f"the {chunk.kind} of {chunk.label}"
        if chunk.tag in _IN_FLIGHT:
            raise CheckpointMismatchError(
                f"{self._reader.store.directory}: checkpoint {self._reader.checkpoint.epoch} has records in flight to "
                f"{chunk.label}, which can't be converted. Migrate a savepoint, which has none: "
                "`penstock checkpoints savepoint DIR --stop`"
            )
        classes: set[str] = set()

        def loads(data: Any) -> Any:
            unpickler = PlainUnpickler(data)
            found = unpickler.load()
            classes.update(unpickler.classes)
            return found

        attrs.evolve(self._reader, loads=loads).decoded(chunk, part)
        self._copied.setdefault(what, set()).update(classes)

    def check_copied(self) -> None:
        """Raise `CheckpointMismatchError` if copied records hold a class whose instances were converted."""
        for what, classes in self._copied.items():
            if found := sorted(classes & self._classes):
                raise CheckpointMismatchError(
                    f"{self._reader.store.directory}: {what} has instances of {', '.join(found)}, which a migration "
                    "can't convert. Let the new class accept the former attributes (__setstate__), or drain the job"
                )

    def _verify(self, part: PartReference) -> None:
        """Read the converted state as a start will."""
        for _, records in self._store.read_part(part):
            for chunk in raw_chunks_of(records):
                if not self._is_converted(chunk):
                    continue
                try:
                    chunk.decoded(pickle.loads)
                except Exception as error:  # any error of a class
                    raise CheckpointMismatchError(
                        f"{chunk.label}: its converted {chunk.kind} can't be read back: {type(error).__name__}: "
                        f"{error_text(error)}. Nothing was published"
                    ) from error


def _classes_in(value: Any) -> set[str]:
    """Return the classes of the stored objects in a value."""
    classes: set[str] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, StoredObject):
            classes.add(one.type_name)
            pending += [*one.args, *one.fields.values(), *one.items]
        elif isinstance(one, dict):
            pending += [*one, *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            pending += one
    return classes
