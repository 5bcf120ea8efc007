"""One snapshot file: records of bytes, each of which is verified before it is handed out.

The format is described in docs/checkpoints.md.  There is one running CRC32 over the header and the records.
It stands behind each record, so a flipped bit, or a record that is missing or in the wrong place, is noticed
before anybody unpickles what follows; and its last value identifies the file.

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

import attrs

from ....sdk.errors import CorruptSnapshotError, SnapshotError
from .storage import Disk

MAGIC = b"PENSTOCK"
VERSION = 1

_HEADER = struct.Struct(">8sHH")
_LENGTH = struct.Struct(">I")
_CRC = struct.Struct(">I")
_COUNT = struct.Struct(">Q")

# Stands where a record's length would, after the last one.
_END = 0xFFFFFFFF
# A length that was corrupted must not make us ask for gigabytes at once.
_PIECE = 1 << 20


class SnapshotKind(Enum):
    """What a file's records say: all that there is, or what has changed since the file before it."""

    FULL = "full"
    DELTA = "delta"


_CODES = {SnapshotKind.FULL: 1, SnapshotKind.DELTA: 2}
_KINDS = {code: kind for kind, code in _CODES.items()}


@attrs.frozen
class FileReference:
    """A snapshot file as it was written, which is how it must be found.

    Attributes:
      file: its name, in the store's directory of files.
      kind: whether it is full or a delta.
      length: in bytes, all of the file.
      crc32: the last value of its running checksum.
      records: how many there are.
    """

    file: str
    kind: SnapshotKind
    length: int
    crc32: int
    records: int


def write_snapshot_file(disk: Disk, path: str, kind: SnapshotKind, records: Iterable[bytes]) -> FileReference:
    """Write a file, atomically, of records that are taken one at a time.

    A record may have 0 to 2**32 - 2 bytes; about a megabyte is a good size.  Raises `OSError` where the disk does.
    The reference has the path's last part for its name.
    """
    file = _Writing()
    disk.write_atomically(path, file.content(kind, records))
    return FileReference(path.rpartition("/")[2], kind, file.length, file.crc, file.records)


class _Writing:
    """What is known of a file when its last byte has been produced."""

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
    """The records of a file, one at a time, each verified when it is given out.

    Args:
      expected: the file as it was written, if that is known: another one in its place, though whole, is refused.

    Raises `CorruptSnapshotError` if the file is missing or is not as it was written.  That may be after
    some of its records: whoever must not use half a file calls `verify_snapshot_file` first.
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
    """Read a file to its end; raises `CorruptSnapshotError` as `read_snapshot_file` does."""
    for _ in read_snapshot_file(disk, path, expected):
        pass


def _described(file: FileReference | None) -> str:
    if file is None:
        return "a snapshot file"
    records = "1 record" if file.records == 1 else f"{file.records} records"
    return f"a {file.kind.value} snapshot of {records}, {file.length} bytes, checksum {file.crc32:08x}"


class _Reading:
    """A file being read from its first byte on.

    Attributes:
      crc: the running checksum.
      position: how many bytes have been read.
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
            raise self._corrupt(f"{records} records", f"the {count} that its end tells of")
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
