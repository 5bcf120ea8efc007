"""Snapshot files: records of bytes, each of which is verified before it is returned.

The format is described in docs/checkpoints.md.  A running CRC32 over the header and the records follows each
record.  So a flipped bit, or a missing or misplaced record, is detected before it is unpickled; and the last checksum
identifies the file.

>>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
>>> from random import Random
>>> disk = SimulatedDisk(Random(0))
>>> written = write_snapshot_file(disk, "a", SnapshotKind.FULL, [b"one", b"two"])
>>> written.length, written.records
(50, 2)
>>> list(read_snapshot_file(disk, "a", written))
[b'one', b'two']
>>> disk.truncate("a")
>>> list(read_snapshot_file(disk, "a", written))
Traceback (most recent call last):
penstock.sdk.errors.CorruptSnapshotError: a: found ..., expected ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import BinaryIO
from zlib import crc32

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from .storage import Disk

# The suffix of RocksDB's files of sorted entries, which are never changed, and whose names never come back.
SORTED = ".sst"

MAGIC = b"PENSTOCK"
VERSION = 1

_HEADER = struct.Struct(">8sHH")
_LENGTH = struct.Struct(">I")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">Q")

# The end mark, in place of a record's length.
_END = 0xFFFFFFFF
# The most bytes that are read at once: a corrupted length must not allocate gigabytes.
_PIECE = 1 << 20


class SnapshotKind(Enum):
    """The kind of a file: records of all state or of the changes since the file before it; or a file of RocksDB."""

    FULL = "full"
    DELTA = "delta"
    TABLE = "table"


_CODES = {SnapshotKind.FULL: 1, SnapshotKind.DELTA: 2}
_KINDS = {code: kind for kind, code in _CODES.items()}


@frozen
class FileReference:
    """A written snapshot file, as it has to be found.

    Attributes:
      file: its name, in the store's directory of files.
      kind: full, delta or table.
      length: the bytes of the whole file.
      crc32: the last value of its running checksum; of a table that of all bytes.
      records: the number of records; of a table 0.
    """

    file: str
    kind: SnapshotKind
    length: int
    crc32: int
    records: int


def write_snapshot_file(disk: Disk, path: str, kind: SnapshotKind, records: Iterable[bytes]) -> FileReference:
    """Write a file atomically, of records that are taken one at a time.

    A record may have 0 to 2**32 - 2 bytes; about a megabyte is a good size.  Raises the disk's `OSError`.  The
    reference has the last part of the path as its name.
    """
    file = _Writing()
    disk.write_atomically(path, file.content(kind, records))
    return FileReference(path.rpartition("/")[2], kind, file.length, file.crc, file.records)


class _Writing:
    """The length, checksum and number of records of a file being written."""

    def __init__(self) -> None:
        self.crc = self.length = self.records = 0

    def content(self, kind: SnapshotKind, records: Iterable[bytes]) -> Iterator[bytes]:
        yield self._summed(_HEADER.pack(MAGIC, VERSION, _CODES[kind]))
        for record in records:
            if len(record) >= _END:
                raise SnapshotError(f"a record of a snapshot has {len(record)} bytes, and may have {_END - 1} at most")
            yield self._summed(_LENGTH.pack(len(record)))
            yield self._summed(record)
            yield self._checksum()
            self.records += 1
        yield self._summed(_LENGTH.pack(_END) + _COUNT.pack(self.records))
        yield self._checksum()

    def _summed(self, data: bytes) -> bytes:
        self.crc = crc32(data, self.crc)
        self.length += len(data)
        return data

    def _checksum(self) -> bytes:
        self.length += _CRC.size
        return _CRC.pack(self.crc)


def read_snapshot_file(disk: Disk, path: str, expected: FileReference | None = None) -> Iterator[bytes]:
    """Yield the records of a file one at a time, each verified.

    Args:
      expected: the reference of the written file, if it is known: another one in its place, though whole, is refused.

    Raises `CorruptSnapshotError` if the file is missing or damaged.  That may be after some of its records; call
    `verify_snapshot_file` first where half a file must not be used.
    """
    try:
        file = disk.open(path)
    except FileNotFoundError:
        raise CorruptSnapshotError(path, "no such file", _described(expected)) from None
    with file:
        reading = _Reading(file, path)
        kind = reading.header()
        records = 0
        while (length := reading.length()) != _END:
            record = reading.summed(length, "the rest of a record")
            reading.checksum()
            records += 1
            yield record
        reading.end(records)
        found = FileReference(path.rpartition("/")[2], kind, reading.position, reading.crc, records)
        if expected is not None and found != expected:
            raise CorruptSnapshotError(path, _described(found), _described(expected))


def verify_snapshot_file(disk: Disk, path: str, expected: FileReference | None = None) -> None:
    """Read a file to its end; raise `CorruptSnapshotError` as `read_snapshot_file` does."""
    if expected is not None and expected.kind is SnapshotKind.TABLE:
        verify_table(disk, path, expected)
        return
    for _ in read_snapshot_file(disk, path, expected):
        pass


def write_table(disk: Disk, path: str, source: str) -> FileReference:
    """Take a finished file of the local disk in, as a table.  Raises the disk's `OSError`, and that of the source."""
    with open(source, "rb") as file:
        length, crc = _summed_up(file)
    disk.take_in(source, path)
    return FileReference(path.rpartition("/")[2], SnapshotKind.TABLE, length, crc, 0)


def verify_table(disk: Disk, path: str, expected: FileReference) -> None:
    """Read a table to its end; raise `CorruptSnapshotError` if it is missing or isn't the one that was written."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        raise CorruptSnapshotError(path, "no such file", _described(expected)) from None
    with file:
        _check_table(file, path, expected)


def fetch_table(disk: Disk, path: str, target: str, expected: FileReference, verifies: bool) -> None:
    """Create a file of the local disk that is a table; verify it as `verify_table` does, if that is wanted."""
    try:
        # RocksDB replaces or extends its other files.
        disk.give_out(path, target, is_shared=target.endswith(SORTED))
    except FileNotFoundError:
        raise CorruptSnapshotError(path, "no such file", _described(expected)) from None
    if verifies:
        with open(target, "rb") as file:
            _check_table(file, path, expected)


def _check_table(file: BinaryIO, path: str, expected: FileReference) -> None:
    length, crc = _summed_up(file)
    found = FileReference(expected.file, SnapshotKind.TABLE, length, crc, 0)
    if found != expected:
        raise CorruptSnapshotError(path, _described(found), _described(expected))


def _summed_up(file: BinaryIO) -> tuple[int, int]:
    """Return the length and the checksum of the rest of a file."""
    length = crc = 0
    while piece := file.read(_PIECE):
        length, crc = length + len(piece), crc32(piece, crc)
    return length, crc


def _described(file: FileReference | None) -> str:
    if file is None:
        return "a snapshot file"
    if file.kind is SnapshotKind.TABLE:
        return f"a table of {file.length} bytes, checksum {file.crc32:08x}"
    records = "1 record" if file.records == 1 else f"{file.records} records"
    return f"a {file.kind.value} snapshot of {records}, {file.length} bytes, checksum {file.crc32:08x}"


class _Reading:
    """A file being read from its first byte on.

    Attributes:
      crc: the running checksum.
      position: the number of bytes read.
    """

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file = file
        self._path = path
        self.crc = self.position = 0

    def header(self) -> SnapshotKind:
        magic, version, code = _HEADER.unpack(self.summed(_HEADER.size, "the header of a snapshot file"))
        if magic != MAGIC:
            raise self._corrupt(f"{magic!r} at its beginning", f"{MAGIC!r}")
        if version != VERSION:
            raise self._corrupt(f"version {version} of the format", f"version {VERSION}")
        if code not in _KINDS:
            raise self._corrupt(f"{code} for its kind", "1 (full) or 2 (delta)")
        return _KINDS[code]

    def length(self) -> int:
        return int(_LENGTH.unpack(self.summed(_LENGTH.size, "the length of a record, or the end mark"))[0])

    def end(self, records: int) -> None:
        (count,) = _COUNT.unpack(self.summed(_COUNT.size, "the number of records"))
        self.checksum()
        if count != records:
            raise self._corrupt(f"{records} records", f"{count}, the number at its end")
        if self._file.read(1):
            raise self._corrupt(f"more after byte {self.position}", "the end of the file there")

    def checksum(self) -> None:
        (expected,) = _CRC.unpack(self._taken(_CRC.size, "a checksum"))
        if self.crc != expected:
            raise self._corrupt(f"the checksum {self.crc:08x} up to byte {self.position}", f"{expected:08x}")

    def summed(self, size: int, what: str) -> bytes:
        data = self._taken(size, what)
        self.crc = crc32(data, self.crc)
        return data

    def _taken(self, size: int, what: str) -> bytes:
        pieces: list[bytes] = []
        missing = size
        while missing:
            piece = self._file.read(min(missing, _PIECE))
            if not piece:
                raise self._corrupt(f"its end after {self.position + size - missing} bytes", what)
            pieces.append(piece)
            missing -= len(piece)
        self.position += size
        return b"".join(pieces)

    def _corrupt(self, found: str, expected: str) -> CorruptSnapshotError:
        return CorruptSnapshotError(self._path, found, expected)
