"""AvroSource: the records of Avro files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from ..sdk.errors import SourceError
from .compression import CompressionTypes, naming_the_file
from .file_source import FileRange, FileSource
from .filesystem import AnyPath, filesystem_for
from .line_blocks import next_boundary
from .optional_package import optional_package
from .records import rows


class AvroSource(FileSource[Any]):
    """The records of Avro files as dicts or Rows.

    An Avro file has a marker of 16 random bytes after each block, so it is cut as text is
    cut at newlines.  Raises `MissingExtraError` without fastavro.
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        as_rows: bool = False,
        min_bundle_size: int = 0,
        transform: str = "ReadFromAvro",
    ) -> None:
        super().__init__(
            pattern,
            compression_type=CompressionTypes.UNCOMPRESSED,
            min_bundle_size=min_bundle_size,
            transform=transform,
        )
        self.as_rows = as_rows
        self._fastavro()

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        fastavro = self._fastavro()
        with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as file:
            try:
                for block in fastavro.block_reader(_blocks_of(file, file_range)):
                    records = list(block)
                    yield rows(records) if self.as_rows else records, block.size
            except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
                raise SourceError(f"{self.transform}: {path!r} can't be read as Avro: {error}") from error

    def _fastavro(self) -> Any:
        return optional_package("fastavro", extra="avro", needed_for=self.transform)


def _blocks_of(file: BinaryIO, file_range: FileRange) -> BinaryIO | _Excerpt:
    """The file as if it had no blocks but those that start in the range."""
    if file_range.stop is None:
        return file
    header, marker = _header(file)
    begin = max(next_boundary(file, file_range.start, marker), len(header))
    # The end of the header is a marker too, so a first range that ends within the header is empty.
    end = max(next_boundary(file, file_range.stop, marker), len(header))
    file.seek(begin)
    return _Excerpt(header, file, end - begin)


def _header(file: BinaryIO) -> tuple[bytes, bytes]:
    """The bytes before the first block, and the marker that they end with.

    The header is "Obj" and 1, a map from strings to bytes, and the marker.
    """
    if file.read(4) != b"Obj\x01":
        raise ValueError("it doesn't begin as an Avro file does")
    while count := _read_long(file):
        if count < 0:
            # A negative count is followed by the size of the entries.
            _read_long(file)
        for _ in range(2 * abs(count)):
            _read_exactly(file, _read_long(file))
    marker = _read_exactly(file, 16)
    size = file.tell()
    file.seek(0)
    return _read_exactly(file, size), marker


def _read_long(file: BinaryIO) -> int:
    n = shift = 0
    while True:
        byte = _read_exactly(file, 1)[0]
        n |= (byte & 127) << shift
        if byte < 128:
            return (n >> 1) ^ -(n & 1)
        shift += 7


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size >= 0 else b""
    if len(data) != size:
        raise EOFError("it ends within its header")
    return data


class _Excerpt:
    """The header of a file, and so many bytes from where the file stands."""

    def __init__(self, header: bytes, file: BinaryIO, size: int) -> None:
        self._header = header
        self._file = file
        self._left = size
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        head = self._header[self._position :][: size if size >= 0 else None]
        wanted = self._left if size < 0 else min(size - len(head), self._left)
        body = self._file.read(wanted) if wanted else b""
        self._left -= len(body)
        self._position += len(head) + len(body)
        return head + body if head else body

    def tell(self) -> int:
        return self._position
