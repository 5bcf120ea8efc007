"""The log of one writer's productions: what it appends is durable, and nobody else's (MillWheel, section 5).

A production is one record: all of it is there after a crash, or nothing.  A record that a crash
has torn can only be the last one, and is cut off; anything else that isn't as it was written is an error.

**A list of the logs** says how long each is, and its checksum (`log_listing`).  It stands elsewhere: a log that has
lost its last records, or its file, or its directory, is an error as well.

**The file is longer than the log**: behind the last record are zeros, which the next ones are written over.  Where a
file keeps its length, a sync has only its bytes to write, and nothing of the file system's own: half the time.

**One writer.**  Each owner has a sequencer token, its *generation*, and a file of its own.  A new owner claims
a greater generation, and only then reads what the one before it has written; it goes on in its own file.
An owner appends, and then looks for a newer claim: if there is one, the append is refused.  Whichever
was first, one of the two sees the other: an append that was not refused had been synced before
the new claim was there, so the new owner has read it; and one that is refused was in a file that
nobody reads any more, or was read and is the new owner's to deliver.  So a zombie's late write is never applied
behind its successor's back, and the zombie delivers nothing of it.

What this doesn't do: a zombie that is not told learns of it at its next append, not before; until then it
computes in vain.  And the disk has to be one on which a process sees what others have
written before: a local one is.

>>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
>>> from random import Random
>>> disk = SimulatedDisk(Random(0))
>>> log = ProductionLog(disk, "dir")
>>> log.take_over("aa")
[]
>>> log.begin([b"whole"]); log.append(b"a change")
>>> zombie, log = log, ProductionLog(disk, "dir")
>>> log.take_over("bb")
[b'whole', b'a change']
>>> zombie.append(b"too late")
Traceback (most recent call last):
penstock.sdk.errors.StaleWriterError: dir: 00000002-bb has taken over from 00000001-aa
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from zlib import crc32

from ....sdk.errors import CorruptSnapshotError, SnapshotError, StaleWriterError
from ...execution.checkpoints.fencing import claim, newest_claim
from ...execution.checkpoints.log_listing import Listed, ListedLog
from ...execution.checkpoints.manifest import Generation
from ...execution.checkpoints.storage import UNFINISHED, Disk
from ...execution.serialization.records import unknown_format

# Behind the name the version; 4: records have tags and versions of their own.
_NAME = b"PENSTOCKLOG"
VERSION = 4
MAGIC = _NAME + bytes([VERSION])

# Behind that, how often its owner has begun the file, and the checksum of both.
_BEGUN = struct.Struct(">QI")
HEAD = len(MAGIC) + _BEGUN.size

# Length, number, and the checksum of these two; then the record, and its own.
_HEADER = struct.Struct(">QQ")
_CRC = struct.Struct(">I")
_FRAME = _HEADER.size + 2 * _CRC.size

# So much a file is longer than its log: a second or so of small productions.
AHEAD = 1 << 18

_FILE = re.compile(r"productions-(\d{8}-[0-9a-f]+)")


class ProductionLog:
    """A directory with the log of one writer after the other.

    Args:
      directory: is made if it isn't there.
      ahead: by how many bytes a file is longer than the log when it begins, and when it grows.
      listed: where the length of the log is noted; None for a log that no list is kept of.

    Attributes:
      generation: this owner's token; None until it has taken over.
      length: how many bytes the log has.
      records: how many records.
      is_broken: whether an append has failed: nothing can be appended until the log begins anew.
    """

    def __init__(self, disk: Disk, directory: str, ahead: int = AHEAD, listed: ListedLog | None = None) -> None:
        self.directory = directory
        self.generation: Generation | None = None
        self.length = 0
        self.records = 0
        self._disk = disk
        self._ahead = ahead
        self._size = 0
        self._listed = listed
        self._begun = 0
        self._crc = 0
        self.is_broken = False

    @property
    def number(self) -> int:
        """The number of this owner's generation; each one's is greater than those before."""
        assert self.generation is not None
        return int(self.generation.partition("-")[0])

    def take_over(self, token: str) -> list[bytes]:
        """Become the owner, and read what the one before has written, the oldest first.

        Args:
          token: hexadecimal digits that no other owner has.

        Raises `CorruptSnapshotError` if that isn't as it was written, and `SnapshotError` where the disk fails.
        """
        try:
            self._disk.make_directory(self.directory)
            self.generation = claim(self._disk, self.directory, token)
            return self.read()
        except FileNotFoundError as error:
            # Somebody who has taken over since has removed it.
            raise StaleWriterError(f"{self.directory}: somebody else takes over at the same time: {error}") from error
        except OSError as error:
            raise SnapshotError(f"{self.directory}: the log can't be read: {error}") from error

    def read(self) -> list[bytes]:
        """Return what the newest owner has written, the oldest first.

        Raises `OSError` where the disk fails, and `CorruptSnapshotError` if it isn't as it was written, or if some of
        it is gone.
        """
        # The list first: a former owner may still append, and the list must not be ahead of the records read.
        listed = None if self._listed is None else self._listed.entry()
        names = self._disk.list(self.directory)
        newest = max((name for name in names if _FILE.fullmatch(name)), default=None)
        if listed is not None and (newest is None or newest < f"productions-{listed.generation}"):
            raise CorruptSnapshotError(
                f"{self.directory}/productions-{listed.generation}",
                "no such file" + (f", but {newest}" if newest else ""),
                _expected(listed),
            )
        if newest is None:
            return []
        path = f"{self.directory}/{newest}"
        content = self._disk.read(path)
        if listed is not None and newest == f"productions-{listed.generation}":
            _check_against(path, content, listed)
        return read_records(path, content)

    def begin(self, records: Iterable[bytes]) -> None:
        """Begin this owner's file with these records, in place of whatever was there.

        Only then may anything be done about what `take_over` has found.  Later on it makes the log shorter.
        """
        self._begun += 1
        content = [_head(self._begun)]
        self.records = 0
        for record in records:
            content.append(self._framed(record))
        try:
            self._disk.write_atomically(self._path, [*content, bytes(self._ahead)])
            self.check()
            self.length, self._crc = sum(map(len, content)), 0
            for piece in content:
                self._crc = crc32(piece, self._crc)
            self._note()
            names = self._disk.list(self.directory)
            older = [n for n in names if _FILE.fullmatch(n) and n < self._name]
            # Of those that are being written by somebody else now, none is this one's.
            left = [n for n in names if n.endswith(UNFINISHED) and n.startswith(tuple(older))] if older else []
            self._disk.remove(*(f"{self.directory}/{name}" for name in (*older, *left)))
        except OSError as error:
            self.is_broken = True
            raise SnapshotError(f"{self._path} can't be written: {error}") from error
        self.is_broken = False
        self._size = self.length + self._ahead

    def append(self, record: bytes) -> None:
        """Make a record durable.

        Raises `StaleWriterError` if somebody has taken over, and `SnapshotError` where the disk fails: whether it
        is in the log then only the next owner knows, and this one can't append any more.
        """
        if self.is_broken:
            raise SnapshotError(f"{self._path}: an append has failed before, and what is behind it would not be read")
        framed = self._framed(record)
        end = self.length + len(framed)
        grows = end > self._size
        try:
            self._disk.write_at(self._path, self.length, framed + bytes(self._ahead) if grows else framed)
            self.check()
            self.length, self._crc = end, crc32(framed, self._crc)
            self._note()
        except FileNotFoundError as error:
            self.is_broken = True
            self.check()
            raise SnapshotError(f"{self._path} can't be written: {error}") from error
        except OSError as error:
            self.is_broken = True
            raise SnapshotError(f"{self._path} can't be written: {error}") from error
        except BaseException:
            self.is_broken = True
            raise
        self._size = end + self._ahead if grows else self._size

    def _note(self) -> None:
        """List the log as it is on the disk."""
        if self._listed is not None:
            assert self.generation is not None
            self._listed.note(Listed(self.generation, self._begun, self.length, self.records, self._crc))

    def _framed(self, record: bytes) -> bytes:
        header = _HEADER.pack(len(record), self.records)
        self.records += 1
        return b"".join([header, _CRC.pack(crc32(header)), record, _CRC.pack(crc32(record))])

    def check(self) -> None:
        """Raises `StaleWriterError` if there is a newer owner."""
        newest = newest_claim(self._disk.list(self.directory))
        if newest != self.generation:
            raise StaleWriterError(f"{self.directory}: {newest} has taken over from {self.generation}")

    @property
    def _name(self) -> str:
        assert self.generation is not None, "nobody has taken over"
        return f"productions-{self.generation}"

    @property
    def _path(self) -> str:
        return f"{self.directory}/{self._name}"


def remove_logs(disk: Disk, directory: str) -> None:
    """Remove what owners have written, but for who they were; where the disk fails some of it stays."""
    with suppress(OSError):
        disk.remove(*(f"{directory}/{name}" for name in disk.list(directory) if _FILE.match(name)))


def read_records(path: str, content: bytes) -> list[bytes]:
    """The records of a file, without one that is torn at its end.

    Raises `CorruptSnapshotError` if a record that isn't the last one is damaged.
    """
    if content.startswith(_NAME) and not content.startswith(MAGIC) and _begun(content) is not None:
        raise unknown_format(path, "file", "production log", content[len(_NAME)], {"production log": [VERSION]})
    if not content.startswith(MAGIC):
        raise CorruptSnapshotError(path, f"{content[: len(MAGIC)]!r} at its beginning", f"{MAGIC!r}")
    if _begun(content) is None:
        raise CorruptSnapshotError(path, f"the head {content[:HEAD]!r}", "one with its checksum")
    records: list[bytes] = []
    place = HEAD
    while place < len(content):
        record = _record_at(content, place, len(records))
        if record is None:
            later = _any_later(content, place, len(records))
            if later is not None:
                raise CorruptSnapshotError(
                    path, f"a damaged record {len(records)} at byte {place}", f"it to be whole, as record {later} is"
                )
            break
        records.append(record)
        place += _FRAME + len(record)
    return records


def _head(begun: int) -> bytes:
    return MAGIC + _BEGUN.pack(begun, _head_crc(MAGIC, begun))


def _head_crc(magic: bytes, begun: int) -> int:
    return crc32(magic + begun.to_bytes(8, "big"))


def _begun(content: bytes) -> int | None:
    """Return how often a file's owner has begun it; None if it has no such head, of whatever version."""
    if not content.startswith(_NAME) or len(content) < HEAD:
        return None
    begun, crc = _BEGUN.unpack_from(content, len(MAGIC))
    return begun if crc == _head_crc(content[: len(MAGIC)], begun) else None


def _check_against(path: str, content: bytes, listed: Listed) -> None:
    """Raise `CorruptSnapshotError` if a file of the owner that is listed has less than is listed."""
    begun = _begun(content)
    if begun is None or begun > listed.begun:
        # Of a file without a head, `read_records` says what is there instead.
        return
    if begun < listed.begun or len(content) < listed.length:
        raise CorruptSnapshotError(path, f"{len(content)} bytes, as begun {begun} times", _expected(listed))
    found = crc32(content[: listed.length])
    if found != listed.crc32:
        # If a record within the log is damaged its own checksum tells which.
        read_records(path, content)
        raise CorruptSnapshotError(path, f"the checksum {found:08x} of these", _expected(listed))


def _expected(listed: Listed) -> str:
    return (
        f"a log of {listed.records} productions in {listed.length} bytes with the checksum {listed.crc32:08x}, begun "
        f"{listed.begun} times, according to the list of the logs. The lost records were acknowledged and can't be "
        "computed again: restore the directory from a copy, or start from the beginning with another --checkpoint_dir"
    )


def _record_at(content: bytes, place: int, number: int) -> bytes | None:
    """The record that begins there; None if there is no whole one of that number."""
    start = place + _HEADER.size + _CRC.size
    if start > len(content):
        return None
    length, found = _HEADER.unpack_from(content, place)
    (crc,) = _CRC.unpack_from(content, place + _HEADER.size)
    if crc != crc32(content[place : place + _HEADER.size]) or found != number:
        return None
    stop = start + length
    if stop + _CRC.size > len(content):
        return None
    record = content[start:stop]
    (crc,) = _CRC.unpack_from(content, stop)
    return record if crc == crc32(record) else None


def _any_later(content: bytes, place: int, number: int) -> int | None:
    """The number of a whole record behind a place: an append begins when the one before it is durable."""
    for later in range(number + 1, number + 3):
        # The upper half of a number is zeros, so the search stops only where one may be.
        wanted = struct.pack(">Q", later)
        found = content.find(wanted, place)
        while found >= 0:
            begin = found - 8
            if begin >= place and _record_at(content, begin, later) is not None:
                return later
            found = content.find(wanted, found + 1)
    return None
