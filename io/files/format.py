"""FileFormat: the encoding of values as the bytes of a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, BinaryIO

from ...sdk.columns.column_bundle import ColumnBundle


class RecordWriter(ABC):
    """Writer of values into an open file, which its owner closes."""

    @abstractmethod
    def write(self, values: list[Any]) -> None:
        """Write some values."""

    def write_columns(self, bundle: ColumnBundle) -> None:
        """Write elements that are columns."""
        self.write(bundle.values)

    @abstractmethod
    def close(self) -> None:
        """Write the end of the file.  The file stays open."""

    def abandon(self) -> None:
        """Release a file that is going to be removed, while it is still open."""


class FileFormat(ABC):
    """A format that `FileSink` can write.  Picklable.

    Attributes:
      writes_columns: whether its writer writes columns without making elements of them.
    """

    writes_columns = False

    @abstractmethod
    def open(self, file: BinaryIO) -> RecordWriter:
        """Write the beginning of a file, and return its writer."""

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {}
