"""Tables of a lakehouse, as tests and the programs that they kill have them."""

from __future__ import annotations

import pathlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import deltalake
import duckdb
import pyarrow

import penstock as beam

WORDS = pyarrow.schema([("word", pyarrow.string()), ("n", pyarrow.int64())])


class LakeTable(ABC):
    """A table of a format.

    Attributes:
      name: its path, or its name in a catalog.
    """

    name: str

    @abstractmethod
    def write(self, schema: Any = None, **options: Any) -> Any:
        """Return the transform that writes into it."""

    @abstractmethod
    def read(self, **options: Any) -> Any:
        """Return the transform that reads it."""

    @abstractmethod
    def append(self, columns: Mapping[str, Any], partition_by: Any = None) -> None:
        """Append rows as another program does, and create the table if it is missing."""

    @abstractmethod
    def create(self, schema: Any) -> None:
        """Create the table, without rows."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is a table."""

    @abstractmethod
    def as_arrow(self) -> Any:
        """Return the rows that a reader sees."""

    @abstractmethod
    def data_files(self) -> list[str]:
        """Return the paths of the files that a reader sees."""

    @abstractmethod
    def files(self) -> list[str]:
        """Return the names of all data and staged files there are."""

    def rows(self, sql: str = "SELECT * FROM lake ORDER BY ALL") -> list[tuple[Any, ...]]:
        """Return the rows of a query of DuckDB over the table."""
        lake = self.as_arrow()
        connection = duckdb.connect()
        connection.register("lake", lake)
        return connection.sql(sql).fetchall()

    def values(self) -> list[int]:
        """Return the column n, sorted; of no table, none."""
        return sorted(self.as_arrow().column("n").to_pylist()) if self.exists() else []


class DeltaLakeTable(LakeTable):
    """A table of Delta Lake at a path or URL."""

    def __init__(self, directory: pathlib.Path | str, name: str = "table") -> None:
        self.name = f"{directory}/{name}"

    def write(self, schema: Any = None, **options: Any) -> Any:
        return beam.io.WriteToDelta(self.name, schema, **options)

    def read(self, **options: Any) -> Any:
        return beam.io.ReadFromDelta(self.name, **options)

    def append(self, columns: Mapping[str, Any], partition_by: Any = None) -> None:
        deltalake.write_deltalake(self.name, pyarrow.table(columns), mode="append", partition_by=partition_by)

    def create(self, schema: Any) -> None:
        deltalake.DeltaTable.create(self.name, deltalake.Schema.from_arrow(schema))

    def loaded(self) -> Any:
        return deltalake.DeltaTable(self.name)

    def exists(self) -> bool:
        return bool(deltalake.DeltaTable.is_deltatable(self.name))

    def as_arrow(self) -> Any:
        return self.loaded().to_pyarrow_table()

    def data_files(self) -> list[str]:
        return sorted(self.loaded().file_uris())

    def files(self) -> list[str]:
        paths = pathlib.Path(self.name).rglob("*")
        return sorted(path.name for path in paths if path.is_file() and "_delta_log" not in path.parts)


def table_of(format: str, directory: pathlib.Path | str, name: str = "table") -> LakeTable:
    """Return a table of a format."""
    return {"delta": DeltaLakeTable}[format](directory, name)
