"""Compression: files that are compressed and decompressed as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, cast

from ...sdk.errors import InputError, SourceError
from ...sdk.redaction import redacted_cause
from ..optional_package import optional_package
from .filesystem import filesystem_for


class CompressionTypes:
    """The compression of a file.

    >>> CompressionTypes.detect_compression_type("lines.txt.zst")
    'zstd'
    >>> CompressionTypes.is_valid_compression_type("snappy")
    False
    """

    # Detected by the extension of the file.
    AUTO = "auto"
    UNCOMPRESSED = "uncompressed"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    # Bare zlib streams, as Beam's: extension `.deflate`.
    DEFLATE = "deflate"
    XZ = "xz"
    # Beam's name for the same.
    LZMA = "xz"
    ZSTD = "zstd"

    @staticmethod
    def detect_compression_type(path: str) -> str:
        """Return the compression that a file's extension stands for."""
        for extension, compression in _EXTENSIONS.items():
            if path.lower().endswith(extension):
                return compression
        return CompressionTypes.UNCOMPRESSED

    @staticmethod
    def is_valid_compression_type(compression: object) -> bool:
        """Return whether a value names a compression."""
        return compression in _ALL

    @staticmethod
    def mime_type(compression: str, default: str = "application/octet-stream") -> str:
        """Return the MIME type of compressed bytes; the default for a compression without one.

        >>> CompressionTypes.mime_type("gzip"), CompressionTypes.mime_type("auto")
        ('application/x-gzip', 'application/octet-stream')
        """
        return _MIME_TYPES.get(compression, default)

    @staticmethod
    def resolve(compression: str, path: str) -> str:
        """Return the compression of a path, with 'auto' resolved.  Raises `InputError` for an unknown compression."""
        if compression not in _ALL:
            raise InputError(f"compression_type must be one of {', '.join(_ALL)}; got {compression!r}")
        return CompressionTypes.detect_compression_type(path) if compression == "auto" else compression


_ALL = ("auto", "uncompressed", "gzip", "bzip2", "deflate", "xz", "zstd")
_EXTENSIONS = {".gz": "gzip", ".bz2": "bzip2", ".deflate": "deflate", ".xz": "xz", ".zst": "zstd", ".zstd": "zstd"}
_MIME_TYPES = {
    "gzip": "application/x-gzip",
    "bzip2": "application/x-bz2",
    "deflate": "application/x-deflate",
    "xz": "application/lzma",
    "zstd": "application/zstd",
}

# Buffer size between the file and the decompressor.
_BUFFER = 256 * 1024

# Small, since the size of the output of one read has no other bound.
_ZSTD_READ = 16 * 1024


def open_for_reading(path: str, compression: str = CompressionTypes.AUTO) -> BinaryIO:
    """Open a file whose content is decompressed as it is read.  Closing it closes the underlying file.

    Raises `OSError` if it can't be opened, and `MissingExtraError` for zstd without its package.  Corrupt content
    raises an error while it is read: see `naming_the_file`.
    """
    kind = CompressionTypes.resolve(compression, path)
    zstandard = zstandard_for(path) if kind == CompressionTypes.ZSTD else None
    return decompressed(filesystem_for(path).open(path), kind, zstandard)


def decompressed(file: BinaryIO, kind: str, zstandard: Any = None) -> BinaryIO:
    """Return the content of an open file, which is closed with it.

    Args:
      kind: the compression, resolved.
      zstandard: the package, for zstd.
    """
    if kind == CompressionTypes.GZIP:
        return _closing_both(gzip.GzipFile(fileobj=io.BufferedReader(cast(Any, file), _BUFFER), mode="rb"), file)
    if kind in _DECOMPRESSORS:
        return cast(BinaryIO, io.BufferedReader(_StreamsFile(file, _DECOMPRESSORS[kind]), _BUFFER))
    if zstandard is not None:
        return cast(BinaryIO, io.BufferedReader(_StreamsFile(file, _ZstdFrame.of(zstandard), _ZSTD_READ), _BUFFER))
    return file


def open_for_writing(path: str, compression: str = CompressionTypes.AUTO) -> BinaryIO:
    """Create a file whose content is compressed as it is written.  Closing it closes the underlying file."""
    kind = CompressionTypes.resolve(compression, path)
    zstandard = zstandard_for(path) if kind == CompressionTypes.ZSTD else None
    return compressed(filesystem_for(path).create(path), kind, zstandard)


def compressed(file: BinaryIO, kind: str, zstandard: Any = None) -> BinaryIO:
    """Return what compresses into an open file, which is closed with it.  The arguments are those of `decompressed`."""
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
    """Convert errors of reading a file into a `SourceError` that names the file."""
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
    hint = "" if compression != "auto" else "; that was decided by its extension, which compression_type overrides"
    return SourceError(f"{path!r} can't be read as {kind}: {error or type(error).__name__}{hint}")


def zstandard_for(path: str) -> Any:
    """Return the package for zstd.  Raises `MissingExtraError`, which names the path, if it isn't installed."""
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


class _Decompressor(Protocol):
    """Decompressor of one stream, such as `bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _StreamsFile(io.RawIOBase):
    """Decompressed content of concatenated streams, with zeros between and behind them as padding.

    Other bytes behind a stream are damage, and raise an error; the standard library's readers ignore them with all that
    follows.  A truncated stream raises an error as well, which `zstandard.open` doesn't.

    Args:
      start: returns the decompressor of the next stream.
      block: how many compressed bytes are read at a time.
    """

    def __init__(self, file: BinaryIO, start: Callable[[], _Decompressor], block: int = 0) -> None:
        self._file = file
        self._start = start
        self._block = block or _BUFFER
        self._begin()

    def _begin(self) -> None:
        self._stream: _Decompressor | None = self._start()
        self._compressed = b""
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: Any) -> int:
        while True:
            stream = self._stream or self._next()
            if stream is None:
                return 0
            if stream.eof:
                self._stream, self._compressed = None, stream.unused_data
                continue
            # Some output may be ready without more input.
            if data := stream.decompress(self._compressed, len(buffer)):
                self._compressed = b""
                buffer[: len(data)] = data
                self._position += len(data)
                return len(data)
            self._compressed = b"" if stream.eof else self._file.read(self._block)
            if not stream.eof and not self._compressed:
                raise EOFError("the file ends within a compressed stream")

    def _next(self) -> _Decompressor | None:
        """Begin another stream, if there is one."""
        while not (compressed := self._compressed.lstrip(b"\0")):
            self._compressed = self._file.read(self._block)
            if not self._compressed:
                return None
        self._stream, self._compressed = self._start(), compressed
        return self._stream

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek in the decompressed content.  Seeking backwards reads it again from the start."""
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            while self.read(_BUFFER):
                pass
            offset += self._position
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        if offset < self._position:
            self._file.seek(0)
            self._begin()
        while self._position < offset and self.read(min(offset - self._position, _BUFFER)):
            pass
        return self._position

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()


class _Inflater:
    """A zlib stream."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj()

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflater.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inflater.decompress(self._inflater.unconsumed_tail + data, max_length)


class _ZstdFrame:
    """A frame of zstandard."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._ready = memoryview(b"")

    @staticmethod
    def of(zstandard: Any) -> Callable[[], _ZstdFrame]:
        return lambda: _ZstdFrame(zstandard.ZstdDecompressor().decompressobj())

    @property
    def eof(self) -> bool:
        return self._frame.eof and not self._ready

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._ready = memoryview(bytes(self._ready) + self._frame.decompress(data))
        found, self._ready = self._ready[:max_length], self._ready[max_length:]
        return bytes(found)


_DECOMPRESSORS: Mapping[str, Callable[[], _Decompressor]] = {
    CompressionTypes.BZIP2: bz2.BZ2Decompressor,
    CompressionTypes.XZ: lzma.LZMADecompressor,
    CompressionTypes.DEFLATE: _Inflater,
}


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


class CountingFile:
    """A file that counts the bytes written to it.

    >>> import io
    >>> file = CountingFile(io.BytesIO())
    >>> _ = file.write(b"abc"), file.write(b"d")
    >>> file.bytes
    4
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0

    def write(self, data: bytes) -> int:
        """Write bytes, and count them."""
        self.bytes += len(data)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> CountingFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
