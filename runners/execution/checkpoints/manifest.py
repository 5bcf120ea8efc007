"""Manifests: a checkpoint with every file of every part, their lengths and checksums.

A manifest is two lines of JSON; the first has the length and the CRC32 of the second.

>>> file = FileReference("...-a.full", SnapshotKind.FULL, 50, 123, 2)
>>> part = PartReference("sum/0", (file,))
>>> checkpoint = Checkpoint(42, "00000001-aa", CheckpointKind.CHECKPOINT, 0, (part,), {"watermark": 7})
>>> checkpoint == decode_checkpoint("manifest", encode_checkpoint(checkpoint))
True
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

import msgspec

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError, SnapshotError
from ..serialization.records import unknown_format
from .files import FileReference, SnapshotKind

T = TypeVar("T")

# "00000007-6f1c2b...": the number of owners so far, and a token that distinguishes owners that claim one number at the
# same time.  As strings, a later owner's is greater.
Generation: TypeAlias = str

# 2: keys belong to other key groups than in 1.  3: records have tags and versions of their own.
VERSION = 3
# Of manifests whose parts have tables.
_WITH_TABLES = 4


class CheckpointKind(Enum):
    """The kind of a checkpoint: retention removes checkpoints, and only the user removes savepoints."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"


@frozen
class TableReference:
    """A file of RocksDB, with the name that it has there.

    Attributes:
      name: the name in the database's directory, such as "000012.sst".
      file: the file in the store.
    """

    name: str
    file: FileReference


@frozen
class PartReference:
    """A written part; small, and may be pickled and sent.

    Attributes:
      name: such as "task/subtask/key groups"; unique in a checkpoint.
      files: a full snapshot, and then its deltas, in the order in which they apply.
      tables: the files of a RocksDB, with the entries that weren't in memory; checkpoints may share them.
      database: which one: only in one RocksDB a name stands for one file.
    """

    name: str
    files: tuple[FileReference, ...]
    tables: tuple[TableReference, ...] = ()
    database: str = ""

    def all_files(self) -> list[FileReference]:
        """Return every file that it depends on."""
        return [*self.files, *(table.file for table in self.tables)]

    @property
    def length(self) -> int:
        """The bytes of all files."""
        return sum(file.length for file in self.all_files())


@frozen
class Checkpoint:
    """A committed checkpoint.

    Attributes:
      epoch: its number.
      generation: the owner of the store that committed it.
      kind: a checkpoint, or a savepoint.
      committed_at_micros: microseconds since 1970, by the committing process's clock.
      parts: sorted by name.
      metadata: JSON of its writer.
    """

    epoch: int
    generation: Generation
    kind: CheckpointKind
    committed_at_micros: int
    parts: tuple[PartReference, ...]
    metadata: dict[str, Any]

    def part(self, name: str) -> PartReference:
        """Return the part of a name.

        Raises `KeyError` if there is none.
        """
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)

    def files(self) -> list[FileReference]:
        """Return every file that it depends on, once, by name."""
        files = {file.file: file for part in self.parts for file in part.all_files()}
        return sorted(files.values(), key=lambda file: file.file)

    def name(self) -> ManifestName:
        """Return the name of its manifest."""
        return ManifestName(self.generation, self.epoch, self.kind)


# --- Names


@frozen
class ManifestName:
    """The fields of a manifest's name."""

    generation: Generation
    epoch: int
    kind: CheckpointKind

    def __str__(self) -> str:
        return f"manifest-{self.epoch:012d}-{self.generation}.{self.kind.value}"


_MANIFEST = re.compile(r"manifest-(\d{12})-(\d{8}-[0-9a-f]+)\.(checkpoint|savepoint)")
_FILE = re.compile(r"(\d{12})-(\d{8}-[0-9a-f]+)-[0-9a-f]+\.(?:full|delta|table)")


def manifest_name(name: str) -> ManifestName | None:
    """Return the fields of a manifest's name; None for another file's name.

    >>> str(manifest_name("manifest-000000000042-00000001-aa.checkpoint"))
    'manifest-000000000042-00000001-aa.checkpoint'
    >>> manifest_name("notes.txt")
    """
    match = _MANIFEST.fullmatch(name)
    return match and ManifestName(match[2], int(match[1]), CheckpointKind(match[3]))


def file_name(epoch: int, generation: Generation, attempt: str, kind: SnapshotKind) -> str:
    """Return the name of a snapshot file.

    >>> file_name(42, "00000001-aa", "b7", SnapshotKind.DELTA)
    '000000000042-00000001-aa-b7.delta'
    """
    return f"{epoch:012d}-{generation}-{attempt}.{kind.value}"


def origin_of(name: str) -> tuple[int, Generation] | None:
    """Return the epoch and the generation of a snapshot file, whole or unfinished; None for another file's name.

    >>> origin_of("000000000042-00000001-aa-b7.delta")
    (42, '00000001-aa')
    """
    match = _FILE.match(name)
    return match and (int(match[1]), match[2])


# --- Content


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the manifest of a checkpoint.

    Raises `SnapshotError` if JSON doesn't preserve its metadata.
    """
    try:
        version = _WITH_TABLES if any(part.tables for part in checkpoint.parts) else VERSION
        content = sealed("penstock manifest", checkpoint, version)
        same = decode_checkpoint("", content) == checkpoint
    except (TypeError, ValueError, OverflowError, RecursionError, CorruptSnapshotError) as error:
        raise SnapshotError(f"the metadata of epoch {checkpoint.epoch} is not JSON: {error}") from error
    if not same:
        raise SnapshotError(
            f"the metadata of epoch {checkpoint.epoch} changes when written as JSON: use lists for "
            f"tuples and strings for keys, or put it into a part; found {checkpoint.metadata!r}"
        )
    return content


def decode_checkpoint(path: str, content: bytes) -> Checkpoint:
    """Return the checkpoint of a manifest.

    Raises `CorruptSnapshotError` if the manifest is damaged.
    """
    return unsealed(path, content, "penstock manifest", Checkpoint, (VERSION, _WITH_TABLES))


@frozen
class _Seal:
    format: str
    version: int
    length: int
    crc32: int


def sealed(format: str, data: Any, version: int = VERSION) -> bytes:
    """Return data as two lines of JSON: the first has the checksum of the second.

    >>> print(sealed("numbers", [1, 2]).decode(), end="")
    {"format":"numbers","version":3,"length":5,"crc32":3353180111}
    [1,2]
    """
    body = msgspec.json.encode(data)
    seal = {"format": format, "version": version, "length": len(body), "crc32": _checksum(format, version, body)}
    return msgspec.json.encode(seal) + b"\n" + body + b"\n"


def _checksum(format: str, version: int, body: bytes) -> int:
    """Return the checksum: up to version 2 of the body, since then of the format, version and body."""
    return crc32(body) if version <= 2 else crc32(body, crc32(f"{format} {version}".encode()))


def unsealed(path: str, content: bytes, format: str, of: type[T], versions: tuple[int, ...] = (VERSION,)) -> T:
    """Return the data of `sealed`, of one of these versions.

    Raises `UnknownFormatError` for another version, and `CorruptSnapshotError`, naming the path, if any bit has
    changed.
    """
    head, _, rest = content.partition(b"\n")
    try:
        seal = msgspec.json.decode(head, type=_Seal)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CorruptSnapshotError(path, f"the first line {head[:80]!r}", f"the head of a {format}") from None
    if seal.format != format:
        raise CorruptSnapshotError(path, f"a {seal.format}, version {seal.version}", f"a {format}, version {VERSION}")
    body = rest[:-1]
    found = _checksum(format, seal.version, body)
    if seal.version not in versions and found == seal.crc32:
        raise unknown_format(path, "file", format, seal.version, {format: list(versions)})
    if seal.version not in versions:
        raise CorruptSnapshotError(path, f"a {format}, version {seal.version}", f"version {VERSION}")
    if rest[-1:] != b"\n" or len(body) != seal.length:
        raise CorruptSnapshotError(path, f"{len(rest)} bytes after the first line", f"{seal.length} and a newline")
    if found != seal.crc32:
        raise CorruptSnapshotError(path, f"the checksum {found:08x}", f"{seal.crc32:08x}")
    try:
        return msgspec.json.decode(body, type=of)
    except msgspec.DecodeError as error:
        # The checksum is right, so another program wrote it.
        raise CorruptSnapshotError(path, str(error), f"the body of a {format}") from None
