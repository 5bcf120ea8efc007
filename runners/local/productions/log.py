"""The log of a subtask's productions: appends are durable, and fenced (MillWheel, section 5).

A production is one record, which a crash leaves whole or not at all.  A torn record can only be the last one, and is
cut off; any other damage is an error.

**A list of the logs** has the length and the checksum of each (`log_listing`).  It is stored elsewhere, so a log that
has lost its last records, its file or its directory is an error as well.

**The file is longer than the log**: zeros behind the last record are overwritten by the next ones.  While the length of
a file doesn't change, a sync doesn't write the file system's metadata, which takes half the time.

**One writer.**  Each owner has a sequencer token, its *generation*, and a file of its own.  A new owner claims
a greater generation, then reads the file of the owner before it, and continues in its own file.  An owner appends, and
then looks for a newer claim, which refuses the append.  One of the two always sees the other: an append that was not
refused was durable before the new claim, so the new owner has read it; one that was refused is in a file that is read
no more, or was read and is delivered by the new owner.  So a zombie's late append changes nothing, and the zombie
delivers nothing of it.

Limits: a zombie notices the new owner at its next append only.  The disk must show a process what others have written
before, as a local one does.

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
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.fencing import claim, newest_claim
from ...execution.checkpoints.log_listing import Listed, ListedLog
from ...execution.checkpoints.manifest import Generation
from ...execution.checkpoints.storage import UNFINISHED, Disk
from ...execution.serialization.records import unknown_format

# The name is followed by the version.  Version 4: records have tags and versions of their own.
_NAME = b"PENSTOCKLOG"
VERSION = 4
MAGIC = _NAME + bytes([VERSION])

# Then follow how often the owner has begun the file, and the checksum of all that.
_BEGUN = struct.Struct(">QI")
HEAD = len(MAGIC) + _BEGUN.size

# The length and number of a record, and their checksum; then the record, and its checksum.
_HEADER = struct.Struct(">QQ")
_CRC = struct.Struct(">I")
_FRAME = _HEADER.size + 2 * _CRC.size

# The bytes that are allocated behind a log: about a second of small productions.
AHEAD = 1 << 18

_FILE = re.compile(r"productions-(\d{8}-[0-9a-f]+)")


class ProductionLog:
    """A directory with the log of one owner after the other.

    Args:
      directory: created if it doesn't exist.
      ahead: the number of bytes that are allocated behind the log when its file begins, and when it grows.
      listed: the entry of the log in the list of logs; None for a log that isn't listed.

    Attributes:
      generation: this owner's token; None until it has taken over.
      length: the length of the log in bytes.
      records: the number of records.
      is_broken: an append has failed, and nothing can be appended until the log begins anew.
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
        """The number of this owner's generation; it is greater than those of earlier owners."""
        assert self.generation is not None
        return int(self.generation.partition("-")[0])

    def take_over(self, token: str) -> list[bytes]:
        """Become the owner, and return the records of the owner before, the oldest first.

        Args:
          token: hexadecimal digits that no other owner has.

        Raises `CorruptSnapshotError` for a damaged log, and `SnapshotError` if the disk fails.
        """
        try:
            self._disk.make_directory(self.directory)
            self.generation = claim(self._disk, self.directory, token)
            return self.read()
        except FileNotFoundError as error:
            # A newer owner has removed it.
            raise StaleWriterError(
                f"{self.directory}: another process takes over at the same time: {text_or_class(error)}"
            ) from error
        except OSError as error:
            raise SnapshotError(f"{self.directory}: the log can't be read: {text_or_class(error)}") from error

    def read(self) -> list[bytes]:
        """Return the records of the newest owner, the oldest first.

        Raises `OSError` if the disk fails, and `CorruptSnapshotError` for a log that is damaged or incomplete.
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
        """Replace the log by these records, in this owner's file.

        The owner must not act on the records that `take_over` has returned before.  Later calls compact the log.
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
            # Unfinished files of other owners only: this one's are written.
            unfinished = [n for n in names if n.endswith(UNFINISHED) and n.startswith(tuple(older))] if older else []
            self._disk.remove(*(f"{self.directory}/{name}" for name in (*older, *unfinished)))
        except OSError as error:
            self.is_broken = True
            raise SnapshotError(f"{self._path} can't be written: {text_or_class(error)}") from error
        self.is_broken = False
        self._size = self.length + self._ahead

    def append(self, record: bytes) -> None:
        """Make a record durable.

        Raises `StaleWriterError` if there is a newer owner, and `SnapshotError` if the disk fails: then only the next
        owner finds out whether the record is in the log, and this one can't append any more.
        """
        if self.is_broken:
            raise SnapshotError(f"{self._path}: an append has failed before, so records behind it would not be read")
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
            raise SnapshotError(f"{self._path} can't be written: {text_or_class(error)}") from error
        except OSError as error:
            self.is_broken = True
            raise SnapshotError(f"{self._path} can't be written: {text_or_class(error)}") from error
        except BaseException:
            self.is_broken = True
            raise
        self._size = end + self._ahead if grows else self._size

    def _note(self) -> None:
        """Record the state of the log in the list of logs."""
        if self._listed is not None:
            assert self.generation is not None
            self._listed.note(Listed(self.generation, self._begun, self.length, self.records, self._crc))

    def _framed(self, record: bytes) -> bytes:
        header = _HEADER.pack(len(record), self.records)
        self.records += 1
        return b"".join([header, _CRC.pack(crc32(header)), record, _CRC.pack(crc32(record))])

    def check(self) -> None:
        """Raise `StaleWriterError` if there is a newer owner."""
        newest = newest_claim(self._disk.list(self.directory))
        if newest != self.generation:
            raise StaleWriterError(f"{self.directory}: {newest} has taken over from {self.generation}")

    @property
    def _name(self) -> str:
        assert self.generation is not None, "the log has not been taken over"
        return f"productions-{self.generation}"

    @property
    def _path(self) -> str:
        return f"{self.directory}/{self._name}"


def remove_logs(disk: Disk, directory: str) -> None:
    """Remove the files of all owners, except their claims; if the disk fails, some stay."""
    with suppress(OSError):
        disk.remove(*(f"{directory}/{name}" for name in disk.list(directory) if _FILE.match(name)))


def read_records(path: str, content: bytes) -> list[bytes]:
    """Return the records of a file, without a torn one at its end.

    Raises `CorruptSnapshotError` if a record that isn't the last one is damaged.
    """
    if content.startswith(_NAME) and not content.startswith(MAGIC) and _begun(content) is not None:
        raise unknown_format(path, "file", "production log", content[len(_NAME)], {"production log": [VERSION]})
    if not content.startswith(MAGIC):
        raise CorruptSnapshotError(path, f"{content[: len(MAGIC)]!r} at its beginning", f"{MAGIC!r}")
    if _begun(content) is None:
        raise CorruptSnapshotError(path, f"the head {content[:HEAD]!r}", "one with its checksum")
    records: list[bytes] = []
    offset = HEAD
    while offset < len(content):
        record = _record_at(content, offset, len(records))
        if record is None:
            later = _any_later(content, offset, len(records))
            if later is not None:
                raise CorruptSnapshotError(
                    path, f"a damaged record {len(records)} at byte {offset}", f"it to be whole, as record {later} is"
                )
            break
        records.append(record)
        offset += _FRAME + len(record)
    return records


def _head(begun: int) -> bytes:
    return MAGIC + _BEGUN.pack(begun, _head_crc(MAGIC, begun))


def _head_crc(magic: bytes, begun: int) -> int:
    return crc32(magic + begun.to_bytes(8, "big"))


def _begun(content: bytes) -> int | None:
    """Return how often a file's owner has begun it; None if it has no head of any version."""
    if not content.startswith(_NAME) or len(content) < HEAD:
        return None
    begun, crc = _BEGUN.unpack_from(content, len(MAGIC))
    return begun if crc == _head_crc(content[: len(MAGIC)], begun) else None


def _check_against(path: str, content: bytes, listed: Listed) -> None:
    """Raise `CorruptSnapshotError` if the file of the listed owner is incomplete."""
    begun = _begun(content)
    if begun is None or begun > listed.begun:
        # `read_records` raises an error for a file without a head.
        return
    if begun < listed.begun or len(content) < listed.length:
        raise CorruptSnapshotError(path, f"{len(content)} bytes, as begun {begun} times", _expected(listed))
    found = crc32(content[: listed.length])
    if found != listed.crc32:
        # The checksum of a damaged record tells which one it is.
        read_records(path, content)
        raise CorruptSnapshotError(path, f"the checksum {found:08x} of these", _expected(listed))


def _expected(listed: Listed) -> str:
    return (
        f"a log of {listed.records} productions in {listed.length} bytes with the checksum {listed.crc32:08x}, begun "
        f"{listed.begun} times, according to the list of the logs. The lost records were acknowledged and can't be "
        "computed again: restore the directory from a copy, or start from the beginning with another --checkpoint_dir"
    )


def _record_at(content: bytes, offset: int, number: int) -> bytes | None:
    """Return the record at an offset, or None if there is no whole one with this number."""
    start = offset + _HEADER.size + _CRC.size
    if start > len(content):
        return None
    length, found = _HEADER.unpack_from(content, offset)
    (crc,) = _CRC.unpack_from(content, offset + _HEADER.size)
    if crc != crc32(content[offset : offset + _HEADER.size]) or found != number:
        return None
    stop = start + length
    if stop + _CRC.size > len(content):
        return None
    record = content[start:stop]
    (crc,) = _CRC.unpack_from(content, stop)
    return record if crc == crc32(record) else None


def _any_later(content: bytes, offset: int, number: int) -> int | None:
    """Return the number of a whole record behind an offset, or None.

    An append begins when the one before it is durable, so such a record proves damage.
    """
    for later in range(number + 1, number + 3):
        # The upper half of a number is zeros, so the search stops only where one may be.
        wanted = struct.pack(">Q", later)
        found = content.find(wanted, offset)
        while found >= 0:
            begin = found - 8
            if begin >= offset and _record_at(content, begin, later) is not None:
                return later
            found = content.find(wanted, found + 1)
    return None
