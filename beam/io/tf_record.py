"""TFRecord files: `ReadFromTFRecord`, `ReadAllFromTFRecord` and `WriteToTFRecord`.

A record is its length, the length's checksum, its bytes, and their checksum: a masked CRC-32C.  A file isn't cut.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...io.files.compression import CompressionTypes, naming_the_file, open_for_reading
from ...io.files.filesystem import AnyPath
from ...io.files.format import FileFormat, RecordWriter
from ...io.files.source import FileRange, FileSource, ReadAllFiles, ReadFiles
from ...io.files.write import FileSink, WriteFiles
from ...sdk.coders import BytesCoder
from ...sdk.elements.bundle import BUNDLE_SIZE
from ...sdk.errors import SourceError, missing_extra
from ...sdk.options.value_provider import ValueProvider

_HEAD = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class ReadFromTFRecord(ReadFiles):
    """The records of the TFRecord files that match a pattern, decoded by a coder: bytes by default.

    Needs the extra `tfrecord`.  A wrong checksum and an incomplete record raise `SourceError`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([b"one"]) | beam.io.tfrecordio.WriteToTFRecord(directory / "out")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.tfrecordio.ReadFromTFRecord(directory / "out*") | beam.Map(print)
    b'one'
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        coder: Any = BytesCoder(),
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
    ) -> None:
        source = _TFRecordSource(file_pattern, coder, compression_type, type(self).__name__)
        super().__init__(source, validate, coder.to_type_hint())


class ReadAllFromTFRecord(ReadAllFiles):
    """The records of the TFRecord files that match the patterns of its input."""

    def __init__(
        self, coder: Any = BytesCoder(), compression_type: str = CompressionTypes.AUTO, with_filename: bool = False
    ) -> None:
        source = _TFRecordSource("", coder, compression_type, type(self).__name__)
        super().__init__(source, with_filename=with_filename, element_type=coder.to_type_hint())


class WriteToTFRecord(WriteFiles):
    """A record for each element, encoded by a coder, in files that appear together once the pipeline has succeeded.

    Needs the extra `tfrecord`.  The arguments are those of `WriteToText`.
    """

    def __init__(
        self,
        file_path_prefix: AnyPath,
        coder: Any = BytesCoder(),
        file_name_suffix: str | ValueProvider = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        triggering_frequency: float | None = None,
    ) -> None:
        _require(type(self).__name__)
        super().__init__(
            FileSink(
                file_path_prefix,
                _TFRecordFormat(coder),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=compression_type,
                triggering_frequency=triggering_frequency,
                transform=type(self).__name__,
            )
        )


class _TFRecordSource(FileSource[Any]):
    def __init__(self, pattern: AnyPath, coder: Any, compression_type: str, transform: str) -> None:
        _require(transform)
        super().__init__(pattern, compression_type=compression_type, transform=transform)
        self.coder = coder

    def can_be_cut(self, path: str) -> bool:
        return False

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        decode = self.coder.decode
        with naming_the_file(path, self.compression_type), open_for_reading(path, self.compression_type) as file:
            records: list[Any] = []
            size = 0
            while head := file.read(_HEAD.size):
                data = self._data(path, head, file)
                records.append(decode(data))
                size += len(data) + _HEAD.size + _CHECKSUM.size
                if len(records) == BUNDLE_SIZE:
                    yield records, size
                    records, size = [], 0
            yield records, size

    def _data(self, path: str, head: bytes, file: BinaryIO) -> bytes:
        """Return the bytes of the record with this head, which follow it in the file."""
        if len(head) == _HEAD.size:
            length, checksum = _HEAD.unpack(head)
            if masked_crc32c(head[: _LENGTH.size]) != checksum:
                raise self._damage(path, "the checksum of a record's length is wrong")
            data = file.read(length)
            end = file.read(_CHECKSUM.size)
            if len(end) == _CHECKSUM.size:
                if masked_crc32c(data) != _CHECKSUM.unpack(end)[0]:
                    raise self._damage(path, "the checksum of a record is wrong")
                return data
        raise self._damage(path, "it ends within a record")

    def _damage(self, path: str, what: str) -> SourceError:
        return SourceError(f"{self.transform}: {path!r} can't be read as TFRecords: {what}")


class _TFRecordFormat(FileFormat):
    def __init__(self, coder: Any) -> None:
        self.coder = coder

    def open(self, file: BinaryIO) -> RecordWriter:
        return _TFRecordWriter(self.coder, file)


class _TFRecordWriter(RecordWriter):
    def __init__(self, coder: Any, file: BinaryIO) -> None:
        self._encode = coder.encode
        self._file = file

    def write(self, values: list[Any]) -> None:
        for value in values:
            data = self._encode(value)
            length = _LENGTH.pack(len(data))
            checksums = _CHECKSUM.pack(masked_crc32c(length)), _CHECKSUM.pack(masked_crc32c(data))
            self._file.write(b"".join((length, checksums[0], data, checksums[1])))

    def close(self) -> None:
        pass


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes, rotated and with a constant added, as TFRecord files have it.

    >>> hex(masked_crc32c(bytes(32)))
    '0xfd7fffa'
    """
    import google_crc32c

    checksum: int = google_crc32c.value(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _require(transform: str) -> None:
    """Raise `MissingExtraError` without the package that computes the checksums."""
    try:
        import google_crc32c  # noqa: F401
    except ImportError as error:
        raise missing_extra("google-crc32c", "tfrecord", transform) from error
