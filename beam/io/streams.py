"""Streams over what downloads and uploads bytes, for file systems of the user."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Downloader", "DownloaderStream", "PipeStream", "Uploader", "UploaderStream"]


class Downloader(ABC):
    """A remote file whose parts can be fetched."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size of the file in bytes."""

    @abstractmethod
    def get_range(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to before `end`."""


class Uploader(ABC):
    """A remote file that is written from its beginning to its end."""

    @abstractmethod
    def put(self, data: memoryview) -> None:
        """Write bytes behind those before."""

    @abstractmethod
    def finish(self) -> None:
        """Write what is left, and close the file.  The file is whole afterwards."""


class DownloaderStream(io.RawIOBase):
    """A remote file, to read without a buffer.  A position out of it is moved to its beginning or its end.

    >>> class Letters(Downloader):
    ...     size = 26
    ...     def get_range(self, start, end):
    ...         return bytes(range(ord("a") + start, ord("a") + end))
    >>> stream = DownloaderStream(Letters())
    >>> stream.seek(23), stream.read(2), stream.read()
    (23, b'xy', b'z')

    Args:
      downloader: what fetches the bytes.
      read_buffer_size: how many bytes `readall` fetches at once.
      mode: the attribute `mode`.
    """

    def __init__(
        self, downloader: Downloader, read_buffer_size: int = io.DEFAULT_BUFFER_SIZE, mode: str = "rb"
    ) -> None:
        self._downloader = downloader
        self._block = read_buffer_size
        self._position = 0
        self.mode = mode

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._check_open()
        end = min(self._position + len(buffer), self._downloader.size)
        if end <= self._position:
            return 0
        data = self._downloader.get_range(self._position, end)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        blocks = []
        # As large as one request may be: the rest of the file, at least a block.
        while block := self.read(max(self._downloader.size - self._position, self._block)):
            blocks.append(block)
        return b"".join(blocks)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._downloader.size}
        if whence not in bases:
            raise ValueError(f"seek: expected whence of 0, 1 or 2, got {whence!r}")
        self._position = max(0, min(bases[whence] + offset, self._downloader.size))
        return self._position

    def tell(self) -> int:
        self._check_open()
        return self._position

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the stream is closed")


class UploaderStream(io.RawIOBase):
    """A remote file, to write without a buffer.  `close` finishes the upload.

    Args:
      uploader: what writes the bytes.
      mode: the attribute `mode`.
    """

    def __init__(self, uploader: Uploader, mode: str = "wb") -> None:
        self._uploader = uploader
        self._position = 0
        self.mode = mode

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("the stream is closed")
        view = memoryview(data)
        self._uploader.put(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        if not self.closed:
            try:
                self._uploader.finish()
            finally:
                super().close()


class PipeStream:
    """The bytes that arrive at a `multiprocessing.Connection`, as a stream.

    `seek` goes back to the beginning of the latest `read`, or stays where the stream is.
    """

    def __init__(self, recv_pipe: Any) -> None:
        self.conn = recv_pipe
        self.closed = False
        self.position = 0
        self._arrived = bytearray()
        self._latest = b""
        self._again = False

    def read(self, size: int) -> bytes:
        """Return exactly this many bytes, fewer only at the end."""
        self._check_open()
        if self._again:
            self._again = False
            self._arrived[:0] = self._latest
        while len(self._arrived) < size:
            try:
                self._arrived += self.conn.recv_bytes()
            except EOFError:
                break
        data = bytes(self._arrived[:size])
        del self._arrived[:size]
        self.position += len(data)
        if data:
            self._latest = data
        return data

    def tell(self) -> int:
        """Return the number of bytes before the position."""
        self._check_open()
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        """Go back to the beginning of the latest `read`.  Raises `NotImplementedError` for another position."""
        self._check_open()
        if whence == os.SEEK_END and offset == 0:
            return
        before = self.position - len(self._latest)
        if whence != os.SEEK_SET or offset not in (self.position, before):
            raise NotImplementedError(
                f"PipeStream.seek: expected {before} or {self.position}, got {offset} with whence {whence}"
            )
        if offset == before and self._latest:
            self._again = True
            self.position = before

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the stream is closed")
