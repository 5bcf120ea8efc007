"""Tables: the files of RocksDB in a checkpoint, with the windows and the keyed state that weren't in memory.

A part of a checkpoint has the entries in memory as chunks, and links to the files of a RocksDB with the others: an
entry is in one of them, and never in both.  A note in the database says which steps have entries in it.  So the entries
can be read as chunks, or the files become another subtask's database without being read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Container, Iterator, Sequence, Set
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ....frozen import frozen
from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.errors import CorruptSnapshotError
from ....sdk.user_code.error_text import text_or_class
from ..checkpoints.manifest import PartReference
from ..checkpoints.reader import SnapshotReader
from ..serialization.records import pickled
from ..spilling.rocksdb import Times, check_rocksdb, entries_of, noted_in, opened_to_read
from ..spilling.spilled_step import Numbered, NumberedWindows
from ..spilling.watched_directories import watch, watch_no_more
from ..state import spilled_state, spilled_timers
from ..state.key_types import KeyType, plain_types, types_in
from ..windows import spilled_cells, spilled_windows
from .snapshot_chunks import (
    RUNS,
    STATE,
    TIMERS,
    WINDOWS,
    Chunk,
    Origin,
    RawChunk,
    raw_chunks_of,
    read_chunk,
    records_of,
)

# The first version had no timers.
_VERSION = 2
_VERSIONS = frozenset({1, 2})

# By kind of chunk, what makes records of entries.
_RECORDS: dict[str, Callable[..., Any]] = {
    WINDOWS: spilled_windows.records_in,
    RUNS: spilled_cells.records_in,
    STATE: spilled_state.records_in,
    TIMERS: spilled_timers.records_in,
}


class NotedStep(NamedTuple):
    """A step with entries in a database.

    Attributes:
      label, kind: the step's, and WINDOWS, RUNS, STATE or TIMERS.
      number: the number that its entries begin with.
      size: how many there are.
      windows: see `NumberedWindows.plain`.
      types: the types of the keys that were ever spilled.
    """

    label: str
    kind: str
    number: int
    size: int
    windows: list[Numbered]
    types: Collection[KeyType]


def note_of(steps: Sequence[NotedStep]) -> bytes:
    """Return steps as bytes."""
    plain = [(*step[:5], plain_types(step.types)) for step in steps]
    return pickled((_VERSION, plain), steps[0].label, "A window has to be data.")


def steps_of(note: bytes, loads: Callable[[Any], Any], where: str) -> list[NotedStep]:
    """Return the steps of a note.

    Args:
      loads: reads a pickle.
      where: the checkpoint, for errors.
    """
    version, plain = loads(note)
    if version not in _VERSIONS:
        raise CorruptSnapshotError(where, f"tables of version {version}", f"version {_VERSION}")
    return [
        NotedStep(label, kind, number, size, windows, types_in(types))
        for label, kind, number, size, windows, types in plain
    ]


@frozen
class TableChunk:
    """Spilled entries of a step and key group, as a chunk whose body is not unpickled.

    Attributes:
      kind, label, group: those of the chunk.
    """

    kind: str
    label: str
    group: int
    _entries: list[tuple[bytes, Times, bytes]]
    _windows: NumberedWindows

    @property
    def size(self) -> int:
        """The bytes of the data of all entries."""
        return sum(len(data) for _, _, data in self._entries)

    def data(self, loads: Callable[[Any], Any]) -> Any:
        """Return the data of the chunk, with its entries read by `loads`."""
        return _RECORDS[self.kind]([(id, data) for id, _, data in self._entries], self._windows, loads)

    def decoded(self, loads: Callable[[Any], Any]) -> Chunk:
        """Return the chunk, with its data."""
        return Chunk(self.label, self.kind, self.group, self.data(loads))

    def raw(self, loads: Callable[[Any], Any]) -> RawChunk:
        """Return the chunk as one of a snapshot's file."""
        (chunk,) = raw_chunks_of(records_of([self.decoded(loads)]))
        return chunk


class OpenTables:
    """The tables of a part, in a directory of the local disk.

    Args:
      path: the directory.
      origin: the checkpoint, for errors.
      loads: reads the pickles of windows.
    """

    def __init__(self, path: str, origin: Origin, loads: Callable[[Any], Any] = pickle.loads) -> None:
        self._database = opened_to_read(path)
        self._origin = origin
        self.steps = steps_of(noted_in(self._database), loads, origin.where)

    def entries(
        self, step: NotedStep, groups: Container[int]
    ) -> Iterator[tuple[int, list[tuple[bytes, Times, bytes]]]]:
        """Yield the entries of a step in some key groups, in portions by group.

        Raises `CorruptSnapshotError` for a block that RocksDB can't read.
        """
        found = entries_of(self._database, step.number, groups)
        while True:
            try:
                portion = next(found, None)
            except Exception as error:
                raise CorruptSnapshotError(
                    self._origin.where, f"a table that RocksDB can't read ({text_or_class(error)})", "a whole one"
                ) from error
            if portion is None:
                return
            yield portion

    def chunks(self, is_wanted: Callable[[TableChunk], bool]) -> Iterator[TableChunk]:
        """Yield the chunks that are wanted; by their kind, label and key group only."""
        for step in self.steps:
            windows = NumberedWindows.of(step.windows)
            empty = {group: TableChunk(step.kind, step.label, group, [], windows) for group in range(KEY_GROUPS)}
            groups = {group for group, chunk in empty.items() if is_wanted(chunk)}
            for group, entries in self.entries(step, groups):
                yield TableChunk(step.kind, step.label, group, entries, windows)

    def decoded(self, groups: Container[int], labels: Container[str] | None = None) -> Iterator[Chunk]:
        """Yield the chunks of some key groups, with their data; those of all steps, or of some.

        Raises `CheckpointMismatchError` for a class that can't be imported, unless its state is dropped.
        """
        for chunk in self.chunks(lambda chunk: chunk.group in groups and (labels is None or chunk.label in labels)):
            yield read_chunk(chunk.label, chunk.kind, chunk.group, chunk.data, self._origin)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


@frozen
class StoredTables:
    """The tables of a part of a checkpoint, in the store.

    Attributes:
      store: the store.
      part: the part, which has tables.
      origin: the checkpoint, for errors.
      labels: the labels of the steps that the part has state of; None where that isn't known.
    """

    store: SnapshotReader
    part: PartReference
    origin: Origin
    labels: frozenset[str] | None = None

    def may_have(self, labels: Set[str]) -> bool:
        """Return False if no step of these labels has entries in the tables."""
        return bool(labels) and (self.labels is None or not self.labels.isdisjoint(labels))

    def fetch(self, directory: str) -> None:
        """Put the files into an empty directory, and verify them."""
        self.store.fetch_tables(self.part, directory)

    @contextmanager
    def opened(self, loads: Callable[[Any], Any] = pickle.loads, directory: str | None = None) -> Iterator[OpenTables]:
        """Open the tables to read them.

        Args:
          loads: reads the pickles of windows.
          directory: the parent of a temporary directory for the files; by default that of other temporary files.
        """
        check_rocksdb(f"Reading state of --state_backend=rocksdb in {self.origin.where}")
        with TemporaryDirectory(prefix="penstock-tables-", dir=directory) as files:
            watch(files)
            try:
                self.store.fetch_tables(self.part, files, verifies=False)
                tables = OpenTables(files, self.origin, loads)
                try:
                    yield tables
                finally:
                    tables.close()
            finally:
                watch_no_more(files)
