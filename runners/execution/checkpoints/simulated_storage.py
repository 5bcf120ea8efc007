"""A disk in memory that fails, tears files and loses unsynced writes, drawn from a seed.

>>> from random import Random
>>> disk = SimulatedDisk(Random(7))
>>> disk.write_atomically("dir/a", b"content")
>>> disk.fault = errno.EROFS
>>> disk.write_atomically("dir/b", b"content")
Traceback (most recent call last):
OSError: [Errno 30] Read-only file system: 'dir/b'
>>> disk.crash()
>>> disk.list("dir")
['a']
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import BytesIO
from random import Random
from typing import BinaryIO

from .storage import UNFINISHED, Content, Disk

# The bytes that reach the disk whole or not at all; few, because simulated files are small.
_SECTOR = 64


class SimulatedCrash(BaseException):
    """The simulated process died here.  It is no `Exception`, so that no handler survives the death of the process."""


class SimulatedDisk(Disk):
    """A disk whose failures and crashes are drawn from one `random.Random`.

    Writes and removals go through the steps of `LocalDisk`, and at each step the process may die or the step may fail.
    Unsynced writes are kept, lost, or kept in part when `crash` is called.

    Args:
      random: decides everything; the same seed and calls give the same disk.
      failures: the probability that a step fails, because the disk is full or read-only.
      crashes: the probability that the process dies at a step, with a `SimulatedCrash`.

    Attributes:
      fault: an errno that each step fails with from now on, such as `errno.ENOSPC`; None for none.
    """

    def __init__(self, random: Random, failures: float = 0.0, crashes: float = 0.0) -> None:
        self._random = random
        self.failures = failures
        self.crashes = crashes
        self.fault: int | None = None
        # The files that a process sees now, and those that it would find after a crash.
        self._files: dict[str, bytes] = {}
        self._durable: dict[str, bytes] = {}
        # The content of files that were overwritten in place, up to the last sync.
        self._written: dict[str, bytes] = {}
        # Files with an unfinished or unsynced write.
        self._unsynced: set[str] = set()
        # Changes of names that no sync has made durable, in order.
        self._pending: list[Callable[[dict[str, bytes]], object]] = []

    def write_atomically(self, path: str, content: Content) -> None:
        unfinished = f"{path}.{self._random.getrandbits(32):08x}{UNFINISHED}"
        try:
            written = b""
            self._step(path)
            self._files[unfinished] = written
            for piece in [content] if isinstance(content, bytes) else content:
                self._step(path)
                written = self._files[unfinished] = written + piece
            self._step(path)
            self._durable[unfinished] = written
            self._step(path)
        except Exception:
            self._unlink(unfinished)
            raise
        self._rename(unfinished, path, written)
        self._step(path)
        self._sync_names()

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        self._step(path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        before = self._files[path]
        self._unsynced.add(path)
        for length in (self._random.randint(0, len(content)), len(content)):
            self._files[path] = before[:offset].ljust(offset, b"\0") + content[:length] + before[offset + length :]
            self._step(path)
        self._unsynced.remove(path)
        # When a new name becomes durable, so does its content.
        self._written[path] = self._files[path]
        if path in self._durable:
            self._durable[path] = self._files[path]

    def write_soon(self, path: str, offset: int, content: bytes) -> None:
        self._step(path)
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        before = self._files[path]
        self._unsynced.add(path)
        self._files[path] = before[:offset].ljust(offset, b"\0") + content + before[offset + len(content) :]
        self._step(path)

    def _rename(self, source: str, destination: str, content: bytes) -> None:
        def rename(files: dict[str, bytes]) -> None:
            files.pop(source, None)
            files[destination] = self._written.get(destination, content)

        self._written.pop(destination, None)
        self._unsynced.discard(destination)
        rename(self._files)
        self._pending.append(rename)

    def _unlink(self, path: str) -> None:
        self._files.pop(path, None)
        self._pending.append(lambda files: files.pop(path, None))

    def open(self, path: str) -> BinaryIO:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return BytesIO(self._files[path])

    def list(self, directory: str) -> list[str]:
        prefix = f"{directory}/"
        names = (path.removeprefix(prefix) for path in self._files if path.startswith(prefix))
        return sorted(name for name in names if "/" not in name)

    def exists(self, path: str) -> bool:
        return path in self._files

    def remove(self, *paths: str) -> None:
        for path in paths:
            if path in self._files:
                self._step(path)
                self._unlink(path)
        if paths:
            self._step(paths[0])
            self._sync_names()

    def sync(self, directory: str) -> None:
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault), directory)
        self._sync_names()

    def make_directory(self, path: str) -> None:
        pass

    def why_untrusted(self, path: str) -> str | None:
        return None

    def _step(self, path: str) -> None:
        """Die or fail between two steps of an operation, with the given probabilities."""
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault), path)
        if self.crashes and self._random.random() < self.crashes:
            raise SimulatedCrash(path)
        if self.failures and self._random.random() < self.failures:
            number = self._random.choice([errno.ENOSPC, errno.EROFS, errno.EIO])
            raise OSError(number, os.strerror(number), path)

    def _sync_names(self) -> None:
        for change in self._pending:
            change(self._durable)
        self._pending.clear()

    def crash(self) -> None:
        """Lose unsynced writes, or parts of them, as a process that starts now would find.

        Each change of a name may have reached the disk or not; a file being written is torn.
        """
        for path in sorted(self._unsynced):
            if path in self._durable and path in self._files:
                self._durable[path] = self._torn(self._durable[path], self._files[path])
        self._unsynced.clear()
        torn = [path for path in sorted(self._files) if path.endswith(UNFINISHED) and path not in self._durable]
        for path in torn:
            content = self._files[path]
            if self._random.random() < 0.5:
                self._durable[path] = content[: self._random.randint(0, len(content))]
        for change in self._pending:
            if self._random.random() < 0.5:
                change(self._durable)
        self._pending.clear()
        self._files = dict(self._durable)

    def _torn(self, before: bytes, after: bytes) -> bytes:
        """Return the result of an unsynced write: each sector has its old content or the new one."""
        length = self._random.randint(min(len(before), len(after)), max(len(before), len(after)))
        before, after = before.ljust(length, b"\0"), after.ljust(length, b"\0")
        torn = bytearray(before[:length])
        for start in range(0, length, _SECTOR):
            sector = slice(start, min(start + _SECTOR, length))
            if before[sector] != after[sector] and self._random.random() < 0.5:
                torn[sector] = after[sector]
        return bytes(torn)

    def flip_bit(self, path: str) -> None:
        """Flip one random bit of a file."""
        content = bytearray(self._files[path])
        content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
        self._files[path] = self._durable[path] = bytes(content)

    def truncate(self, path: str) -> None:
        """Cut off the end of a file, of random length."""
        content = self._files[path]
        self._files[path] = self._durable[path] = content[: self._random.randrange(len(content))]

    def lose(self, path: str) -> None:
        """Remove a file, as a user might."""
        del self._files[path], self._durable[path]
