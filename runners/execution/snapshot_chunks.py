"""Chunks: what a snapshot is made of, and their bytes.

A chunk belongs to a step, by its label, and maybe to a key group; so another pipeline, or other subtasks, can
find what is theirs.  In a file each chunk has a header and a body.  The header is a MessagePack array: the tag of the
chunk's kind, the version of its body, the kind, the label and the key group.  The body is columns of plain data
(`column_codec`).  Only columns of values that users put there may be pickled.  The format is described in
docs/checkpoint_format.md.

>>> chunk = Chunk("Sum", CLOCKS, None, (5, 7))
>>> list(chunks_of(records_of([chunk])))
[Chunk(label='Sum', kind='clocks', group=None, data=(5, 7))]
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

import attrs
import msgspec

from ...sdk.errors import CorruptSnapshotError, SerializationError
from ...sdk.serialization import dumps
from ...stored import UnknownTypeError
from . import state_shapes
from .column_codec import Loads, decode_column, decode_columns, encode_column, encode_columns
from .fusion import Plan
from .keyed_state import ChangeKind
from .output_memory import MemoryChanges
from .records import unknown_format, unknown_type
from .side_input_contents import ViewChangeKind
from .source_identities import PartitionPosition
from .state_shapes import Mismatch
from .unpickling import UnreadableData, cant_be_read
from .window_snapshots import WindowColumns, WindowRecord

# Kinds of chunks that are chained.
WINDOWS, STATE, TIMERS, MEMORY, VIEW = "windows", "state", "set timers", "outputs", "side input"
CHAINED = frozenset({WINDOWS, STATE, TIMERS, MEMORY, VIEW})
# Kinds of which the newest counts.
CLOCKS, KEPT, LEFT, WITHIN, FOLDED, ON_ITS_WAY, BY_KEY, TO_ALL, NEWS, POSITIONS, SCRIPT = (
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

# About how many bytes of chunks are one record of a snapshot file.
_RECORD = 1 << 20

# In front of a chunk: the lengths of its header and its body.
_LENGTHS = struct.Struct(">IQ")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, int, str, str, int | None]).decode


class Chunk(NamedTuple):
    """A part of a snapshot.

    Attributes:
      label: the step's; of a VIEW the side input's producer's.
      group: the key group, of what is kept by key.
    """

    label: str
    kind: str
    group: int | None
    data: Any


# --- Bodies


@attrs.frozen
class Body:
    """How the data of a kind of chunks becomes bytes.

    Attributes:
      version: the version that `encode` writes.
      readers: for each version that can be read, what makes the data of the bytes.
    """

    version: int
    encode: Callable[[Any], bytes]
    readers: Mapping[int, Callable[[memoryview, Loads], Any]]


_bodies: dict[str, Body] = {}


def register_body(tag: str, body: Body) -> None:
    """Have chunks of a kind written and read; a kind is its tag, or its tag followed by " from " and a name."""
    assert tag not in _bodies, tag
    _bodies[tag] = body


def _encode_value(data: Any) -> bytes:
    return encode_column([data])


def _decode_value(body: memoryview, loads: Loads) -> Any:
    (data,) = decode_column(body, loads)
    return data


def _encode_rows(rows: Iterable[Any]) -> bytes:
    return encode_columns(list(zip(*rows, strict=True)))


def _decode_rows(body: memoryview, loads: Loads) -> list[Any]:
    return list(zip(*decode_columns(body, loads), strict=True))


ONE_VALUE = Body(1, _encode_value, {1: _decode_value})
_ROWS = Body(1, _encode_rows, {1: _decode_rows})
_BLOCKS = Body(1, encode_column, {1: decode_column})

_code_of = attrgetter("_value_")


def _with_codes(codes: Mapping[str, Any], place: int) -> Body:
    """Return the body of rows that have an entry of an enumeration at a place."""

    def encode(rows: list[Any]) -> bytes:
        columns: list[Any] = list(zip(*rows, strict=True))
        if columns:
            columns[place] = list(map(_code_of, columns[place]))
        return encode_columns(columns)

    def decode(body: memoryview, loads: Loads) -> list[Any]:
        columns: list[Any] = decode_columns(body, loads)
        if columns:
            columns[place] = list(map(codes.__getitem__, columns[place]))
        return list(zip(*columns, strict=True))

    return Body(1, encode, {1: decode})


def _encode_windows(records: Any) -> bytes:
    if type(records) is WindowColumns:
        return b"c" + records.encode()
    return b"r" + _encode_rows(map(tuple, records))


def _decode_windows(body: memoryview, loads: Loads) -> Any:
    if body[0] == ord("c"):
        return WindowColumns.decode(body[1:], loads)
    return [WindowRecord(*row) for row in _decode_rows(body[1:], loads)]


def _encode_memory(memories: list[tuple[int, MemoryChanges]]) -> bytes:
    return _encode_rows((place, *outputs) for place, outputs in memories)


def _decode_memory(body: memoryview, loads: Loads) -> list[tuple[int, MemoryChanges]]:
    return [(place, MemoryChanges(*outputs)) for place, *outputs in _decode_rows(body, loads)]


def _decode_positions(body: memoryview, loads: Loads) -> list[PartitionPosition]:
    return [PartitionPosition(*row) for row in _decode_rows(body, loads)]


register_body(WINDOWS, Body(1, _encode_windows, {1: _decode_windows}))
register_body(STATE, _with_codes({kind.value: kind for kind in ChangeKind}, 3))
register_body(TIMERS, _ROWS)
register_body(VIEW, _with_codes({kind.value: kind for kind in ViewChangeKind}, 1))
register_body(MEMORY, Body(1, _encode_memory, {1: _decode_memory}))
register_body(POSITIONS, Body(1, _encode_rows, {1: _decode_positions}))
for _kind in (KEPT, LEFT, FOLDED):
    register_body(_kind, _ROWS)
for _kind in (ON_ITS_WAY, BY_KEY, TO_ALL):
    register_body(_kind, _BLOCKS)
for _kind in (CLOCKS, WITHIN, SCRIPT):
    register_body(_kind, ONE_VALUE)


# --- Records


def labels_of(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """The steps that something is kept of."""
    return tuple(dict.fromkeys(chunk.label for chunk in chunks if chunk.kind != CLOCKS))


def records_of(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Chunks as the records of a snapshot file, each of one chunk or more."""
    gathered: list[bytes] = []
    size = 0
    for label, kind, group, data in chunks:
        tag = kind.partition(" from ")[0]
        codec = _bodies[tag]
        try:
            body = codec.encode(data)
        except SerializationError:
            # The error names the step.
            dumps((data,), label, advice="What is kept in a snapshot has to be data.")
            raise
        header = _encode((tag, codec.version, kind, label, group))
        gathered += (_LENGTHS.pack(len(header), len(body)), header, body)
        size += len(header) + len(body)
        if size >= _RECORD:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


@attrs.frozen
class Origin:
    """The snapshot that chunks are read from, and what of it is dropped.

    Attributes:
      where: the checkpoint, for errors.
      labels: those of the pipeline's transforms; chunks of others are dropped. None to keep all.
      dropped: state that isn't as its step keeps it now, and is dropped.
      file: the path of the file, for errors; "" where it isn't known.
    """

    where: str
    labels: frozenset[str] | None = None
    dropped: frozenset[tuple[str, str]] = frozenset()
    file: str = ""

    @classmethod
    def of(cls, where: str, plan: Plan | None, dropped: Iterable[Mismatch] = ()) -> Origin:
        """Return how a pipeline reads a snapshot."""
        labels = None if plan is None else frozenset(transform.label for transform in plan.graph.transforms)
        return cls(where, labels, frozenset((each.label, each.name) for each in dropped))

    def of_file(self, path: str) -> Origin:
        """Return the same for one of the files of the snapshot."""
        return attrs.evolve(self, file=path)


_A_SNAPSHOT = Origin("the snapshot")


def chunks_of(records: Iterable[bytes], origin: Origin = _A_SNAPSHOT) -> Iterator[Chunk]:
    """Yield the chunks that `records_of` made records of.

    Raises `CheckpointMismatchError` for one that has a class in it that can't be had, unless it is dropped, and
    `UnknownFormatError` for a kind, or a version of one, that isn't known.
    """
    for record in records:
        view, start = memoryview(record), 0
        while start < len(view):
            try:
                header_length, length = _LENGTHS.unpack_from(view, start)
                start += _LENGTHS.size
                tag, version, kind, label, group = _decode(view[start : start + header_length])
            except (struct.error, msgspec.DecodeError):
                raise CorruptSnapshotError(origin.file or origin.where, f"{record[:16]!r} ...", "a chunk") from None
            start += header_length
            body = view[start : start + length]
            start += length
            codec = _bodies.get(tag)
            if codec is None or version not in codec.readers:
                known = {tag: sorted(body.readers) for tag, body in sorted(_bodies.items())}
                raise unknown_format(origin.file or origin.where, "chunk", tag, version, known)
            yield _chunk_of(label, kind, group, body, codec.readers[version], origin)


def _chunk_of(
    label: str,
    kind: str,
    group: int | None,
    body: memoryview,
    decode: Callable[[memoryview, Loads], Any],
    origin: Origin,
) -> Chunk:
    try:
        return Chunk(label, kind, group, decode(body, pickle.loads))
    except Exception as error:  # whatever a class raises, or importing it
        if origin.labels is not None and label.partition("[")[0] not in origin.labels:
            return Chunk(label, kind, group, [])
        if isinstance(error, UnknownTypeError):
            raise unknown_type(origin.file or origin.where, error) from error
        found = UnreadableData(lambda loads: decode(body, loads))
        return Chunk(label, kind, group, _readable_of(label, kind, found, origin, error))


def _readable_of(label: str, kind: str, found: UnreadableData, origin: Origin, error: Exception) -> list[Any]:
    """Return the data of a chunk without state that is dropped.

    Raises `CheckpointMismatchError` if what can't be read isn't dropped.
    """
    readable, unreadable = found.records() if kind in (WINDOWS, STATE, TIMERS) else ([], [])
    prefix = state_shapes.STATE if kind == STATE else state_shapes.TIMER
    named = kind in (STATE, TIMERS)
    names = dict.fromkeys(f"{prefix}{record[2]}" for record in unreadable) if named else {state_shapes.WINDOWS: None}
    if unreadable and all((label, name) in origin.dropped for name in names):
        return readable
    shown = [f"{what} {name!r}" for what, _space, name in (name.partition(" ") for name in names)]
    what = " and ".join(shown) if named and shown else kind
    raise cant_be_read(f"{label}: its {what}", origin.where, found.classes, error) from error
