"""Chunks: the parts of a snapshot, and their bytes.

A chunk belongs to a step, by its label, and maybe to a key group; so another pipeline, or other subtasks, can find
theirs.  In a file each chunk has a header and a body.  The header is a MessagePack array: the tag of the chunk's kind,
the version of its body, the kind, the label and the key group.  The body is the pickle of plain data and values: of
lists, tuples, numbers and the like, of users' values, and of types that `stored` knows by tags.  It names no class of
ours (docs/decisions/019-records-by-tags.md).  The format is described in docs/checkpoint_format.md.

>>> chunk = Chunk("Sum", CLOCKS, None, (5, 7))
>>> list(chunks_of(records_of([chunk])))
[Chunk(label='Sum', kind='clocks', group=None, data=(5, 7))]
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import attrs
import msgspec

from ....frozen import frozen
from ....persistence import UnknownTypeError
from ....sdk.errors import CorruptSnapshotError
from ..plan.fusion import Plan
from ..plan.source_identities import PartitionPosition
from ..serialization.records import pickled, unknown_format, unknown_type
from ..serialization.unpickling import UnreadableData, cant_be_read
from ..stages.recorded_outputs import MemoryChanges
from ..state import schema as state_shapes
from ..state.schema import Mismatch
from ..windows.snapshots import WindowColumns, WindowRecord

# Kinds of chunks of which a chain is restored: a whole snapshot, then changes.
WINDOWS, STATE, TIMERS, MEMORY, VIEW = "windows", "state", "set timers", "outputs", "side input"
# Windows in parts, to be merged with each other, and with a record of the same key and window in WINDOWS.
RUNS = "window runs"
CHAINED = frozenset({WINDOWS, RUNS, STATE, TIMERS, MEMORY, VIEW})
# Kinds of chunks of which the newest is restored.
CLOCKS, KEPT, LEFT, WITHIN, FOLDED, IN_FLIGHT, IN_FLIGHT_BY_KEY, IN_FLIGHT_BROADCAST, NEWS, POSITIONS, SCRIPT = (
    "clocks",
    "kept",
    "left",
    "left within",
    "left accumulators",
    "on its way",
    "by key on its way",
    "to all on their way",
    "news",
    "positions",
    "script",
)

# The approximate size of a record of a snapshot file.
_RECORD = 1 << 20

# The length in front of a header, and of a body.
_HEADER, _BODY = struct.Struct(">I"), struct.Struct(">Q")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int, str, str, int | None]).decode


class Chunk(NamedTuple):
    """A part of a snapshot.

    Attributes:
      label: the step's; of a VIEW the label of the side input's producer.
      group: the key group of keyed data.
    """

    label: str
    kind: str
    group: int | None
    data: Any


# --- Bodies


@frozen
class Body:
    """Converts the data of a kind of chunks to plain data and back.

    Plain data are numbers, strings, lists and the like, and users' values.

    Attributes:
      version: the version that `plain` writes.
      plain: returns the data as plain data.
      readers: by version that can be read, returns the data of plain data.
    """

    version: int
    plain: Callable[[Any], Any]
    readers: Mapping[int, Callable[[Any], Any]]


_bodies: dict[str, Body] = {}


def register_body(tag: str, body: Body) -> None:
    """Register how chunks of a kind are written and read.

    A kind is its tag, or its tag followed by " from " and a name.
    """
    assert tag not in _bodies, tag
    _bodies[tag] = body


def bodies() -> Mapping[str, Body]:
    """Return the bodies of all kinds of chunks, by tag."""
    return _bodies


def _as_it_is(data: Any) -> Any:
    return data


# For data that is plain already.
PLAIN = Body(1, _as_it_is, {1: _as_it_is})


def _plain_windows(records: Any) -> Any:
    """Return columns as a tuple, and other records as a list of tuples."""
    return records.columns() if type(records) is WindowColumns else list(map(tuple, records))


def _windows_of(plain: Any) -> Any:
    return WindowColumns(*plain) if type(plain) is tuple else [WindowRecord(*row) for row in plain]


def _plain_memory(memories: list[tuple[int, MemoryChanges]]) -> list[tuple[Any, ...]]:
    return [(index, *outputs) for index, outputs in memories]


def _memory_of(rows: list[tuple[Any, ...]]) -> list[tuple[int, MemoryChanges]]:
    return [(index, MemoryChanges(*outputs)) for index, *outputs in rows]


def _plain_positions(positions: list[PartitionPosition]) -> list[tuple[Any, ...]]:
    return list(map(tuple, positions))


def _positions_of(rows: list[tuple[Any, ...]]) -> list[PartitionPosition]:
    return [PartitionPosition(*row) for row in rows]


register_body(WINDOWS, Body(1, _plain_windows, {1: _windows_of}))
register_body(RUNS, Body(1, _plain_windows, {1: _windows_of}))
register_body(MEMORY, Body(1, _plain_memory, {1: _memory_of}))
register_body(POSITIONS, Body(1, _plain_positions, {1: _positions_of}))
for _kind in (
    STATE,
    TIMERS,
    VIEW,
    KEPT,
    LEFT,
    FOLDED,
    WITHIN,
    CLOCKS,
    SCRIPT,
):
    register_body(_kind, PLAIN)
# Blocks, which are read as their first version was written.
for _kind in (IN_FLIGHT, IN_FLIGHT_BY_KEY, IN_FLIGHT_BROADCAST):
    register_body(_kind, Body(2, _as_it_is, {1: _as_it_is, 2: _as_it_is}))


# --- Records


def labels_of(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """Return the labels of steps with state."""
    return tuple(dict.fromkeys(chunk.label for chunk in chunks if chunk.kind != CLOCKS))


@lru_cache(maxsize=1 << 14)
def _header_of(kind: str, label: str, group: int | None) -> tuple[bytes, Callable[[Any], Any]]:
    """Return the encoded header of a chunk, and the function that makes plain data of its data."""
    tag = kind.partition(" from ")[0]
    body = _bodies[tag]
    header = _encode((tag, body.version, kind, label, group))
    return _HEADER.pack(len(header)) + header, body.plain


def records_of(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Yield chunks as the records of a snapshot file, each of one chunk or more."""
    pending: list[bytes] = []
    size = 0
    for label, kind, group, data in chunks:
        header, plain = _header_of(kind, label, group)
        body = pickled(plain(data), label, "What is kept in a snapshot has to be data.")
        pending += (header, _BODY.pack(len(body)), body)
        size += len(header) + len(body)
        if size >= _RECORD:
            yield b"".join(pending)
            pending, size = [], 0
    yield b"".join(pending)


@frozen
class Origin:
    """The snapshot that chunks are read from, and the state in it to drop.

    Attributes:
      where: the checkpoint, for errors.
      labels: the labels of the pipeline's transforms; chunks of others are dropped.  None keeps all.
      dropped: state to drop, because its step now keeps it otherwise.
      file: the path of the file, for errors; "" where it isn't known.
    """

    where: str
    labels: frozenset[str] | None = None
    dropped: frozenset[tuple[str, str]] = frozenset()
    file: str = ""

    @classmethod
    def of(cls, where: str, plan: Plan | None, dropped: Iterable[Mismatch] = ()) -> Origin:
        """Return the origin for a pipeline that reads a snapshot."""
        labels = None if plan is None else frozenset(transform.label for transform in plan.graph.transforms)
        return cls(where, labels, frozenset((each.label, each.name) for each in dropped))

    def of_file(self, path: str) -> Origin:
        """Return the origin for one of the snapshot's files."""
        return attrs.evolve(self, file=path)


_A_SNAPSHOT = Origin("the snapshot")


class RawChunk(NamedTuple):
    """A chunk whose body is not unpickled.

    Attributes:
      tag, version: of the body.
      kind, label, group: those of the chunk.
      body: the pickled body.
      content: the whole chunk, with its header.
    """

    tag: str
    version: int
    kind: str
    label: str
    group: int | None
    body: memoryview
    content: memoryview

    @property
    def size(self) -> int:
        """The bytes of the body."""
        return len(self.body)

    def decoded(self, loads: Callable[[Any], Any]) -> Chunk:
        """Return the chunk, with its body read by `loads`."""
        return Chunk(self.label, self.kind, self.group, _bodies[self.tag].readers[self.version](loads(self.body)))


def raw_chunks_of(records: Iterable[bytes], origin: Origin = _A_SNAPSHOT) -> Iterator[RawChunk]:
    """Yield the chunks of records that `records_of` wrote, and unpickle nothing.

    Raises `UnknownFormatError` for an unknown kind, or version of a kind, and `CorruptSnapshotError` for other bytes.
    """
    for record in records:
        view, start = memoryview(record), 0
        while start < len(view):
            begin = start
            try:
                (length,) = _HEADER.unpack_from(view, start)
                start += _HEADER.size
                tag, version, kind, label, group = _decode(view[start : start + length])
                start += length
                (length,) = _BODY.unpack_from(view, start)
                start += _BODY.size
            except (struct.error, msgspec.DecodeError):
                raise CorruptSnapshotError(origin.file or origin.where, f"{record[:16]!r} ...", "a chunk") from None
            body = view[start : start + length]
            start += length
            known_body = _bodies.get(tag)
            if known_body is None or version not in known_body.readers:
                known = {tag: sorted(body.readers) for tag, body in sorted(_bodies.items())}
                raise unknown_format(origin.file or origin.where, "chunk", tag, version, known)
            yield RawChunk(tag, version, kind, label, group, body, view[begin:start])


def chunks_of(records: Iterable[bytes], origin: Origin = _A_SNAPSHOT) -> Iterator[Chunk]:
    """Yield the chunks of records that `records_of` wrote.

    Raises `CheckpointMismatchError` for a class that can't be imported, unless its state is dropped, and
    `UnknownFormatError` for an unknown kind, or version of a kind.
    """
    for tag, version, kind, label, group, body, _ in raw_chunks_of(records, origin):
        yield read_chunk(label, kind, group, partial(_read, _bodies[tag].readers[version], body), origin)


def _read(data_of: Callable[[Any], Any], body: memoryview, loads: Callable[[Any], Any]) -> Any:
    return data_of(loads(body))


def read_chunk(
    label: str,
    kind: str,
    group: int | None,
    data_of: Callable[[Callable[[Any], Any]], Any],
    origin: Origin = _A_SNAPSHOT,
) -> Chunk:
    """Return a chunk with its data.

    Args:
      data_of: returns the data, given what reads a pickle.

    Raises what `chunks_of` does.
    """
    try:
        return Chunk(label, kind, group, data_of(pickle.loads))
    except Exception as error:  # any error of a class, or of its import
        if origin.labels is not None and label.partition("[")[0] not in origin.labels:
            return Chunk(label, kind, group, [])
        if isinstance(error, UnknownTypeError):
            raise unknown_type(origin.file or origin.where, error) from error
        found = UnreadableData(data_of)
        return Chunk(label, kind, group, _readable_of(label, kind, found, origin, error))


def _readable_of(label: str, kind: str, found: UnreadableData, origin: Origin, error: Exception) -> list[Any]:
    """Return the data of a chunk without state that is dropped.

    Raises `CheckpointMismatchError` if unreadable state isn't dropped.
    """
    readable, unreadable = found.records() if kind in (WINDOWS, RUNS, STATE, TIMERS) else ([], [])
    prefix = state_shapes.STATE if kind == STATE else state_shapes.TIMER
    named = kind in (STATE, TIMERS)
    names = dict.fromkeys(f"{prefix}{record[2]}" for record in unreadable) if named else {state_shapes.WINDOWS: None}
    if unreadable and all((label, name) in origin.dropped for name in names):
        return readable
    shown = [f"{what} {name!r}" for what, _space, name in (name.partition(" ") for name in names)]
    what = " and ".join(shown) if named and shown else kind
    raise cant_be_read(f"{label}: its {what}", origin.where, found.classes, error) from error
