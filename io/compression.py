"""Compressed files, read and written as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from ..sdk.errors import SourceError
from ..sdk.redaction import redacted_cause
from .filesystem import filesystem_for
from .optional_package import optional_package


class CompressionTypes:
    """How a file is compressed.

    >>> CompressionTypes.detect_compression_type("lines.txt.zst")
    'zstd'
    >>> CompressionTypes.resolve("snappy", "lines.txt")
    Traceback (most recent call last):
    ValueError: compression_type must be one of auto, uncompressed, gzip, bzip2, deflate, xz, zstd; got 'snappy'
    """

    # By the extension of the file.
    AUTO = "auto"
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    # A bare zlib stream, as Beam's: extension `.deflate`.
    DEFLATE = "deflate"
    XZ = "xz"
    # Beam's name for the same.
    LZMA = "xz"
    ZSTD = "zstd"

    @staticmethod
    def detect_compression_type(path: str) -> str:
        """The compression that a file's extension announces."""
        for extension, compression in _EXTENSIONS.items():
            if path.lower().endswith(extension):
                return compression
        return CompressionTypes.UNCOMPRESSED

    @staticmethod
    def is_valid_compression_type(compression: object) -> bool:
        """Whether there is such a compression."""
        return compression in _ALL

    @staticmethod
    def resolve(compression: str, path: str) -> str:
        """What 'auto' stands for with this path; `ValueError` for an unknown compression."""
        if compression not in _ALL:
            raise ValueError(f"compression_type must be one of {', '.join(_ALL)}; got {compression!r}")
        return CompressionTypes.detect_compression_type(path) if compression == "auto" else compression


_ALL = ("auto", "uncompressed", "gzip", "bzip2", "deflate", "xz", "zstd")
_EXTENSIONS = {".gz": "gzip", ".bz2": "bzip2", ".deflate": "deflate", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd"}

# Between the file and the decompressor.
_BUFFER = 256 * 1024

# Little at once, since nothing else bounds what comes out.
_ZSTD_READ = 16 * 1024


def open_for_reading(path: str, compression: str = CompressionTypes.AUTO) -> BinaryIO:
    """A file's content, decompressed as it is read.  Closing it closes the file below.

    Raises `OSError` when it can't be opened, `MissingExtraError` for zstd without its
    package.  What is corrupt shows while reading: see `naming_the_file`.
    """
    kind = CompressionTypes.resolve(compression, path)
    zstandard = _zstandard(path) if kind == CompressionTypes.ZSTD else None
    file = filesystem_for(path).open(path)
    if kind == CompressionTypes.GZIP:
        return _closing_both(gzip.GzipFile(fileobj=io.BufferedReader(cast(Any, file), _BUFFER), mode="rb"), file)
    if kind == CompressionTypes.BZIP2:
        return _closing_both(bz2.BZ2File(file, "rb"), file)
    if kind == CompressionTypes.XZ:
        return _closing_both(lzma.LZMAFile(file, "rb"), file)
    if kind == CompressionTypes.DEFLATE:
        return cast(BinaryIO, io.BufferedReader(_InflatingFile(file), _BUFFER))
    if zstandard is not None:
        return cast(BinaryIO, io.BufferedReader(_ZstdFile(file, zstandard), _BUFFER))
    return file


def open_for_writing(path: str, compression: str = CompressionTypes.AUTO) -> BinaryIO:
    """A new file whose content is compressed as it is written.  Closing it closes the file below."""
    kind = CompressionTypes.resolve(compression, path)
    zstandard = _zstandard(path) if kind == CompressionTypes.ZSTD else None
    file = filesystem_for(path).create(path)
    # No name and no time in the header: the same elements give the same bytes.
    if kind == CompressionTypes.GZIP:
        return _closing_both(gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0), file)
    if kind == CompressionTypes.BZIP2:
        return _closing_both(bz2.BZ2File(file, "wb"), file)
    if kind == CompressionTypes.XZ:
        return _closing_both(lzma.LZMAFile(file, "wb"), file)
    if kind == CompressionTypes.DEFLATE:
        return cast(BinaryIO, io.BufferedWriter(_DeflatingFile(file), _BUFFER))
    if zstandard is not None:
        return cast(BinaryIO, zstandard.ZstdCompressor().stream_writer(file, closefd=True))
    return file


@contextmanager
def naming_the_file(path: str, compression: str = CompressionTypes.AUTO) -> Iterator[None]:
    """Turns whatever reading a file raises into a `SourceError` that names it."""
    try:
        yield
    except SourceError:
        raise
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise _unreadable(path, compression, error) from redacted_cause(error)
    except Exception as error:
        if type(error).__name__ != "ZstdError":
            raise
        raise _unreadable(path, compression, error) from redacted_cause(error)


def _unreadable(path: str, compression: str, error: Exception) -> SourceError:
    kind = CompressionTypes.resolve(compression, path)
    if isinstance(error, OSError) and error.errno is not None:
        return SourceError(f"{path!r} can't be read: {error.strerror}")
    hint = "" if compression != "auto" else "; its extension decided that: compression_type says otherwise"
    return SourceError(f"{path!r} can't be read as {kind}: {error or type(error).__name__}{hint}")


def _zstandard(path: str) -> Any:
    return optional_package("zstandard", extra="zstd", needed_for=f"the file {path!r}")


def _closing_both(outer: Any, inner: BinaryIO) -> BinaryIO:
    close_outer = outer.close

    def close() -> None:
        try:
            close_outer()
        finally:
            inner.close()

    outer.close = close
    return cast(BinaryIO, outer)


class _InflatingFile(io.RawIOBase):
    """A zlib stream, decompressed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater = zlib.decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._inflater.eof:
            compressed = self._inflater.unconsumed_tail or self._file.read(_BUFFER)
            if not compressed:
                raise EOFError("the file ends within the compressed stream")
            if data := self._inflater.decompress(compressed, len(buffer)):
                buffer[: len(data)] = data
                return len(data)
        return 0

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()


class _ZstdFile(io.RawIOBase):
    """Zstandard frames, decompressed.  (The package's own reader takes a truncated file for a whole one.)"""

    def __init__(self, file: BinaryIO, zstandard: Any) -> None:
        self._file = file
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._compressed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            self._compressed = self._compressed or self._file.read(_ZSTD_READ)
            if not self._compressed:
                if self._frame is not None:
                    raise EOFError("the file ends within a frame")
                return 0
            if self._frame is None:
                self._frame = self._new_frame()
            self._ready = memoryview(self._frame.decompress(self._compressed))
            self._compressed = b""
            if self._frame.eof:
                self._compressed, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()


class _DeflatingFile(io.RawIOBase):
    """A zlib stream, compressed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._deflater = zlib.compressobj()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._file.write(self._deflater.compress(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.write(self._deflater.flush())
            self._file.close()
