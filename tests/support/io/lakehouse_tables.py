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
from penstock.io.iceberg.catalog import Catalog

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
    def read_changes(self, **options: Any) -> Any:
        """Return the transform that reads its changes."""

    @abstractmethod
    def append(self, columns: Mapping[str, Any], partition_by: Any = None) -> None:
        """Append rows as another program does, and create the table if it is missing."""

    @abstractmethod
    def upsert(self, columns: Mapping[str, Any], key: str) -> None:
        """Insert or update rows as another program does."""

    @abstractmethod
    def delete(self, condition: str) -> None:
        """Delete rows as another program does."""

    @abstractmethod
    def versions(self) -> list[Any]:
        """Return its versions that are kept, each as a reader's options name it, the first first."""

    @abstractmethod
    def last_commit(self, writer: str) -> int:
        """Return the number of a writer's last commit, as the table has it."""

    @abstractmethod
    def at(self, version: Any) -> Any:
        """Return the rows of one of its versions."""

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

    def __init__(
        self, directory: pathlib.Path | str, name: str = "table", configuration: Mapping[str, str] | None = None
    ) -> None:
        self.name = f"{directory}/{name}"
        self.configuration = dict(configuration or {})

    def write(self, schema: Any = None, **options: Any) -> Any:
        return beam.io.WriteToDelta(self.name, schema, **options)

    def read(self, **options: Any) -> Any:
        return beam.io.ReadFromDelta(self.name, **options)

    def append(self, columns: Mapping[str, Any], partition_by: Any = None) -> None:
        rows, own = pyarrow.table(columns), self.configuration
        deltalake.write_deltalake(self.name, rows, mode="append", partition_by=partition_by, configuration=own)

    def read_changes(self, **options: Any) -> Any:
        return beam.io.ReadFromDeltaChanges(self.name, **options)

    def upsert(self, columns: Mapping[str, Any], key: str) -> None:
        merge = self.loaded().merge(pyarrow.table(columns), f"t.{key} = s.{key}", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, condition: str) -> None:
        self.loaded().delete(condition)

    def versions(self) -> list[Any]:
        return list(range(self.loaded().version() + 1))

    def last_commit(self, writer: str) -> int:
        return int(self.loaded().transaction_version(writer))

    def at(self, version: Any) -> Any:
        return deltalake.DeltaTable(self.name, version=version).to_pyarrow_table()

    def create(self, schema: Any) -> None:
        made = deltalake.Schema.from_arrow(schema)
        deltalake.DeltaTable.create(self.name, made, configuration=self.configuration or None)

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


class ApacheIcebergTable(LakeTable):
    """A table of Iceberg in a catalog in a directory, or in a catalog of these properties."""

    def __init__(
        self, directory: pathlib.Path | str, name: str = "table", properties: Mapping[str, str] | None = None
    ) -> None:
        self.name = f"tests.{name}"
        self.properties = dict(properties or {"warehouse": str(directory)})

    def write(self, schema: Any = None, **options: Any) -> Any:
        if "partition_by" in options:
            options["partition_fields"] = options.pop("partition_by")
        return beam.io.WriteToIceberg(self.name, catalog_properties=self.properties, schema=schema, **options)

    def read(self, **options: Any) -> Any:
        if "columns" in options:
            options["keep"] = options.pop("columns")
        if "poll_interval" in options:
            options["poll_interval_seconds"] = options.pop("poll_interval")
        return beam.io.ReadFromIceberg(self.name, catalog_properties=self.properties, **options)

    def read_changes(self, **options: Any) -> Any:
        if "columns" in options:
            options["keep"] = options.pop("columns")
        if "poll_interval" in options:
            options["poll_interval_seconds"] = options.pop("poll_interval")
        if "starting_version" in options:
            options["from_snapshot"] = options.pop("starting_version")
        return beam.io.ReadFromIcebergChanges(self.name, catalog_properties=self.properties, **options)

    def upsert(self, columns: Mapping[str, Any], key: str) -> None:
        table = self.loaded()
        table.upsert(pyarrow.Table.from_pydict(columns, table.schema().as_arrow()), [key])

    def delete(self, condition: str) -> None:
        self.loaded().delete(condition)

    def versions(self) -> list[Any]:
        return [snapshot.snapshot_id for snapshot in self.loaded().metadata.snapshots]

    def last_commit(self, writer: str) -> int:
        summaries = [snapshot.summary.additional_properties for snapshot in self.loaded().metadata.snapshots]
        return max(int(each["penstock.commit"]) for each in summaries if each.get("penstock.writer") == writer)

    def at(self, version: Any) -> Any:
        return self.loaded().scan(snapshot_id=version).to_arrow()

    def catalog(self) -> Any:
        """The catalog, as the client has it."""
        return Catalog(None, self.properties).opened("test")

    def create(self, schema: Any, partition_by: str | None = None) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("tests")
        made = catalog.create_table(self.name, schema)
        if partition_by is not None:
            with made.update_spec() as update:
                update.add_identity(partition_by)

    def append(self, columns: Mapping[str, Any], partition_by: Any = None) -> None:
        rows = pyarrow.table(columns)
        if not self.exists():
            self.create(rows.schema, partition_by)
        self.loaded().append(rows)

    def exists(self) -> bool:
        return bool(self.catalog().table_exists(self.name))

    def loaded(self) -> Any:
        """The table, as the client has it."""
        return self.catalog().load_table(self.name)

    def as_arrow(self) -> Any:
        return self.loaded().scan().to_arrow()

    def data_files(self) -> list[str]:
        return sorted(task.file.file_path for task in self.loaded().scan().plan_files())

    def files(self) -> list[str]:
        directory = pathlib.Path(self.loaded().location().removeprefix("file://"))
        names = (path for path in directory.rglob("*") if path.is_file() and "metadata" not in path.parts)
        return sorted(path.name for path in names)


def table_of(format: str, directory: pathlib.Path | str, name: str = "table", catalog: str | None = None) -> LakeTable:
    """Return a table of a format.

    Args:
      catalog: of Iceberg in a store, the file of the SQL catalog.
    """
    if format == "delta":
        return DeltaLakeTable(directory, name)
    in_store = {"type": "sql", "uri": f"sqlite:///{catalog}", "warehouse": str(directory)}
    return ApacheIcebergTable(directory, name, in_store if catalog else None)


def stream_of(read: Any) -> list[int]:
    """Return the numbers of the rows that a stream of a table has by now."""
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    reader = source.open("table", None)
    found: list[int] = []
    while (bundle := reader.poll(100, beam.utils.timestamp.Timestamp(0))) is not None:
        found += [row.n for row in bundle.values]
    return found
