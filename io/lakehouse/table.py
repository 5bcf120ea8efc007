"""LakehouseTable: the interface of a table format."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from ...frozen import frozen
from .commits import CommitName
from .net_rows import NetRows


@frozen
class Compaction:
    """When small files of a table are compacted.

    Attributes:
      every: after so many commits.
      size: files smaller than this are joined, up to this size, in bytes.
    """

    every: int
    size: int

    @staticmethod
    def of(transform: str, every: int | None, size: int) -> Compaction | None:
        """Return the compaction of a transform's arguments; None for none.  Raises `ValueError`."""
        if size < 1:
            raise ValueError(f"{transform}: target_file_size must be 1 byte or more, got {size}")
        if every is not None and every < 1:
            raise ValueError(f"{transform}: compact_every must be 1 or more, got {every}")
        return None if every is None else Compaction(every, size)


class ConflictError(Exception):
    """Another writer has committed first: the table is loaded again, and the commit tried again."""


class DataFiles(ABC):
    """The data files of a version of a table, which workers write.

    Attributes:
      schema: the `pyarrow.Schema` of the table.
    """

    schema: Any

    @abstractmethod
    def write(self, data: Any, directory: str, name: str) -> list[Any]:
        """Write data files, one or more for each partition, and return what `append` needs of each.

        The result is of lists, dicts, text, bytes and numbers.

        Args:
          data: a `pyarrow.Table` of the table's schema.
          directory: the directory of the files.
          name: the beginning of their names; unique.
        """


class LoadedTable(ABC):
    """A version of a table, in the process that commits.

    Attributes:
      data_files: its data files.
    """

    data_files: DataFiles

    @abstractmethod
    def committed(self, writer: str) -> int | None:
        """Return the number of a writer's last commit, or None."""

    @abstractmethod
    def append(self, files: Sequence[Any], commit: CommitName) -> list[str]:
        """Add data files to this version of the table in one commit, and return the paths of those that it has then.

        Raises `ConflictError` if this isn't the last version any more.
        """

    @abstractmethod
    def change(self, net: NetRows, commit: CommitName) -> None:
        """Insert or update rows by their key, and delete rows that the table has, in one commit.

        Raises `ConflictError` if this isn't the last version any more.
        """

    @abstractmethod
    def after_commit(self) -> None:
        """Compact small files, if it is time: no row depends on it."""


class LakehouseTable(ABC):
    """The description of a table; picklable.

    Attributes:
      label: the full label of the transform, for errors.
    """

    label: str

    def labelled(self, label: str) -> Self:
        """Return the table for the transform with this label."""
        table = copy.copy(self)
        table.label = label
        return table

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the table for messages, without secrets."""

    @abstractmethod
    def location(self) -> str:
        """Return the path of the table's directory."""

    @abstractmethod
    def data_directory(self, commit: CommitName) -> str:
        """Return the directory of a commit's data files, which no other commit has."""

    @abstractmethod
    def prepare(
        self, schema: Any, partition_by: Sequence[str], key: Sequence[str], create: bool, merge_schema: bool
    ) -> bytes:
        """Create the table if it doesn't exist, or check that it fits, and add columns.

        Returns what `data_files` needs.

        Args:
          schema: the `pyarrow.Schema` of the elements; None if it is unknown.

        Raises `SinkError`, naming the columns, if the table can't be written to.
        """

    @abstractmethod
    def data_files(self, prepared: bytes) -> DataFiles:
        """Return the data files of the table, as it was when `prepare` returned this."""

    @abstractmethod
    def load(self) -> LoadedTable:
        """Return the last version of the table.  Raises `SinkError` if there is no table."""
