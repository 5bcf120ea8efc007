"""FileFormat: how values become the bytes of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, BinaryIO


class RecordWriter(ABC):
    """Writes values into one file, which somebody else opened and will close."""

    @abstractmethod
    def write(self, values: list[Any]) -> None:
        """Write some values."""

    @abstractmethod
    def close(self) -> None:
        """Write what belongs at the end of the file.  The file stays open."""

    def abandon(self) -> None:
        """Let go of a file that is to be removed, while it is still open."""


class FileFormat(ABC):
    """A format that `FileSink` can write.  Picklable."""

    @abstractmethod
    def open(self, file: BinaryIO) -> RecordWriter:
        """Begin a file, with what belongs at the top of it."""
