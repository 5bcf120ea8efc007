"""The listing of logs: the length and checksum of each, kept apart from the logs so that it isn't lost with them.

A log alone can't show that its last records are lost: it would look as if they had never been appended.  So each owner
notes the length of its log here, behind each append.  The note needs no sync of its own.  It survives the death of the
process at once; after a power failure the listing may be some seconds behind the logs, and never ahead of them.

The file has one entry of 64 bytes for each log, behind its header.  Owners in different processes write different
entries.

>>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
>>> from random import Random
>>> listing = LogListing(SimulatedDisk(Random(0)), "dir/listed-1")
>>> listing.create(2)
>>> listing.note(1, Listed("00000001-aa", 1, 500, 3, 0xCAFE))
>>> listing.entry(0), listing.entry(1)
(None, Listed(generation='00000001-aa', begun=1, length=500, records=3, crc32=51966))
"""

from __future__ import annotations

import struct
from zlib import crc32

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from ....sdk.user_code.error_text import text_or_class
from ..serialization.records import unknown_format
from .manifest import Generation
from .storage import Disk

# The version follows the name.
_NAME = b"PENSTOCKLOGLIST"
VERSION = 1
_MAGIC = _NAME + bytes([VERSION])
_SIZE = 64
_ENTRY = struct.Struct(">32sIQQI")
_CRC = struct.Struct(">I")


@frozen
class Listed:
    """The entry of one log.

    Attributes:
      generation: its owner.
      begun: the number of times that the owner has begun it.
      length, records: the least number of bytes, and of records, that it has.
      crc32: the checksum of these bytes.
    """

    generation: Generation
    begun: int
    length: int
    records: int
    crc32: int


@frozen
class LogListing:
    """The listing at a path."""

    disk: Disk
    path: str

    def create(self, logs: int) -> None:
        """Write a listing of this many logs, without entries.

        Raises `SnapshotError` where the disk fails.
        """
        try:
            self.disk.write_atomically(self.path, _MAGIC.ljust(_SIZE, b"\0") + bytes(logs * _SIZE))
        except OSError as error:
            raise SnapshotError(f"{self.path} can't be written: {text_or_class(error)}") from error

    def require(self) -> None:
        """Raise `CorruptSnapshotError` if the listing is missing."""
        if not self.disk.exists(self.path):
            raise CorruptSnapshotError(self.path, "no such file", "the list of logs")

    def note(self, number: int, listed: Listed) -> None:
        """Write the entry of a log; raises `OSError`."""
        body = _ENTRY.pack(listed.generation.encode(), listed.begun, listed.length, listed.records, listed.crc32)
        self.disk.write_soon(self.path, (number + 1) * _SIZE, body + _CRC.pack(crc32(body)))

    def entry(self, number: int) -> Listed | None:
        """Return the entry of a log; None without an entry or a listing.

        Raises `CorruptSnapshotError` if it is damaged.
        """
        try:
            content = self.disk.read(self.path)
        except FileNotFoundError:
            return None
        start = (number + 1) * _SIZE
        entry = content[start : start + _SIZE]
        version = content[len(_NAME) : len(_MAGIC)]
        if content.startswith(_NAME) and version not in (b"", _MAGIC[-1:]):
            raise unknown_format(self.path, "file", "list of logs", version[0], {"list of logs": [VERSION]})
        if not content.startswith(_MAGIC) or len(entry) < _SIZE:
            raise CorruptSnapshotError(self.path, f"{len(content)} bytes", f"a list with entry {number}")
        if not any(entry):
            return None
        body, (crc,) = entry[: _ENTRY.size], _CRC.unpack_from(entry, _ENTRY.size)
        if crc != crc32(body):
            raise CorruptSnapshotError(self.path, f"the checksum {crc32(body):08x} of entry {number}", f"{crc:08x}")
        generation, begun, length, records, crc = _ENTRY.unpack(body)
        return Listed(generation.rstrip(b"\0").decode(), begun, length, records, crc)


@frozen
class ListedLog:
    """One log of a listing."""

    listing: LogListing
    number: int

    def note(self, listed: Listed) -> None:
        """Write the entry of the log; raises `OSError`."""
        self.listing.note(self.number, listed)

    def entry(self) -> Listed | None:
        """Return the entry of the log, or None."""
        return self.listing.entry(self.number)
