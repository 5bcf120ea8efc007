"""CompressedFile: Beam's view of an open file as its decompressed content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...io.files.compression import CompressionTypes, compressed, decompressed, zstandard_for

# As many bytes are read at once to skip them.
_SKIPPED = 1024 * 1024


class CompressedFile:
    """The content of an open file of compressed bytes, to read or, if that file is open for writing, to write.

    Closing it closes the other file.

    >>> import gzip, io
    >>> file = CompressedFile(io.BytesIO(gzip.compress(b"one")))
    >>> file.read(), file.tell()
    (b'one', 3)

    Args:
      fileobj: an open binary file, at its beginning.
      compression_type: one of `CompressionTypes`, except AUTO and UNCOMPRESSED.
      read_size: accepted, without effect.
    """

    def __init__(
        self, fileobj: BinaryIO, compression_type: str = CompressionTypes.GZIP, read_size: int = 16 * 1024 * 1024
    ) -> None:
        if not fileobj:
            raise ValueError("CompressedFile: expected an open file, got None")
        if not CompressionTypes.is_valid_compression_type(compression_type):
            raise TypeError(
                f"CompressedFile: compression_type must be one of CompressionTypes, got {compression_type!r}"
            )
        if compression_type in (CompressionTypes.AUTO, CompressionTypes.UNCOMPRESSED):
            raise ValueError(f"CompressedFile: the compression must be named, got {compression_type!r}")
        zstandard = zstandard_for("CompressedFile") if compression_type == CompressionTypes.ZSTD else None
        mode = getattr(fileobj, "mode", None)
        self._reads = "r" in mode if isinstance(mode, str) else fileobj.readable()
        if fileobj.tell() != 0 and (self._reads or "a" not in str(mode)):
            raise ValueError(f"CompressedFile: the file must be at position 0, got {fileobj.tell()}")
        self._file = (decompressed if self._reads else compressed)(fileobj, compression_type, zstandard)
        self._written = 0

    def readable(self) -> bool:
        """Return whether the content can be read."""
        return self._reads

    def writeable(self) -> bool:
        """Return whether content can be written."""
        return not self._reads

    writable = writeable

    @property
    def seekable(self) -> bool:
        """Whether `seek` is possible: in files that are read."""
        return self._reads

    def closed(self) -> bool:
        """Return whether the file is closed."""
        return self._file.closed

    def read(self, num_bytes: int | None = -1) -> bytes:
        """Return this many bytes, or up to the end of the file."""
        self._check(reads=True)
        return self._file.read(-1 if num_bytes is None else num_bytes)

    def readline(self) -> bytes:
        """Return the bytes up to the next newline; nothing at the end of the file."""
        self._check(reads=True)
        return self._file.readline()

    def write(self, data: bytes) -> None:
        """Write bytes, which are compressed."""
        self._check(reads=False)
        self._file.write(data)
        self._written += len(data)

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def tell(self) -> int:
        """Return the position in the decompressed content."""
        return self._file.tell() if self._reads else self._written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        """Move to a position of the decompressed content; one before it is its beginning, one behind it its end.

        Backwards, and from the end, the file is read again from its beginning.
        """
        self._check(reads=True)
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"CompressedFile.seek: expected whence of 0, 1 or 2, got {whence!r}")
        if whence == os.SEEK_END:
            while self._file.read(_SKIPPED):
                pass
        target = max(offset if whence == os.SEEK_SET else self._file.tell() + offset, 0)
        if target < self._file.tell():
            self._file.seek(0)
        while (remaining := target - self._file.tell()) > 0 and self._file.read(min(remaining, _SKIPPED)):
            pass

    def close(self) -> None:
        """Write what is left, and close both files."""
        self._file.close()

    def _check(self, reads: bool) -> None:
        if self._reads != reads:
            raise ValueError(f"CompressedFile: the file isn't open for {'reading' if reads else 'writing'}")

    def __getattr__(self, name: str) -> Any:
        # An unpickled or unfinished object has no file.
        if name == "_file":
            raise AttributeError(name)
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)

    def __enter__(self) -> CompressedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
