"""IcebergTable: a table of Iceberg that is written to.

A commit's name is in the properties of its snapshots.  The catalog accepts a commit only if the table's last snapshot
is the one that was loaded, in whose ancestors the name was looked for.
"""

from __future__ import annotations

import random
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from ...sdk.errors import SinkError
from ..files.filesystem import filesystem_for, join_path
from ..lakehouse.commits import CommitName
from ..lakehouse.rows import check_schema
from ..lakehouse.staging import with_columns
from ..lakehouse.table import Compaction, ConflictError, LakehouseTable, LoadedTable
from .catalog import Catalog, closed, explained, package
from .data_files import IcebergFiles, arrow_schema, files_of
from .partitions import add_partitions
from .source import Reading

# How often columns are added that other writers were faster than.
_ATTEMPTS = 20

# The properties of a snapshot that say whose commit it is.
WRITER = "penstock.writer"
COMMIT = "penstock.commit"


class IcebergTable(LakehouseTable):
    """A table of Iceberg.

    Args:
      identifier: its name in the catalog, with its namespace.
      properties: of a table that is created.
      compaction: when small files are compacted, and to which size.
    """

    def __init__(
        self,
        catalog: Catalog,
        identifier: str,
        label: str,
        properties: Mapping[str, str] | None = None,
        compaction: Compaction | None = None,
    ) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self.label = label
        self.properties = dict(properties or {})
        self.compaction = compaction
        # Known once the table is prepared or loaded.
        self._location: str | None = None

    @property
    def name(self) -> str:
        return repr(self.identifier)

    def location(self) -> str:
        if self._location is None:
            with explained(self.catalog, self.identifier, self.label, "can't be written to", SinkError):
                self._location = self.catalog.load(self.identifier, self.label).location()
        return self._location

    def data_directory(self, commit: CommitName) -> str:
        return join_path(join_path(self.location(), "data"), commit.directory)

    def prepare(
        self, schema: Any, partition_by: Sequence[str], key: Sequence[str], create: bool, merge_schema: bool
    ) -> bytes:
        errors = package(self.label, "pyiceberg.exceptions")
        with explained(self.catalog, self.identifier, self.label, "can't be written to", SinkError):
            catalog = self.catalog.opened(self.label)
            try:
                try:
                    table = catalog.load_table(self.identifier)
                except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
                    table = self._create(catalog, schema, partition_by, create)
                if schema is not None:
                    table = self._checked(catalog, table, schema, merge_schema)
            finally:
                closed(catalog)
            self._location = table.location()
            found = arrow_schema(table.schema())
            unknown = [name for name in key if name not in found.names]
            if unknown:
                raise SinkError(
                    f"{self.label}: table {self.name} has no column {unknown[0]!r} for the key; it has "
                    f"{', '.join(found.names)}"
                )
            return IcebergFiles(self.catalog, table.metadata, self.label).prepared()

    def _create(self, catalog: Any, schema: Any, partition_by: Sequence[str], create: bool) -> Any:
        if not create:
            raise SinkError(
                f"{self.label}: there is no Iceberg table {self.name} in the catalog {self.catalog.name!r}; create it, "
                "or give create=True"
            )
        if schema is None:
            raise SinkError(
                f"{self.label}: there is no Iceberg table {self.name}, and no schema to create one; give schema= a "
                "pyarrow.Schema, or declare a class with fields by with_output_types"
            )
        namespace, _, _ = self.identifier.rpartition(".")
        if namespace:
            with _made_meanwhile(lambda: catalog.namespace_exists(namespace)):
                catalog.create_namespace_if_not_exists(namespace)
        with (
            _made_meanwhile(lambda: catalog.table_exists(self.identifier)),
            catalog.create_table_transaction(self.identifier, schema, properties=self.properties) as creation,
        ):
            if partition_by:
                with creation.update_spec() as update:
                    add_partitions(update, partition_by, self.label)
        return catalog.load_table(self.identifier)

    def _checked(self, catalog: Any, table: Any, schema: Any, merge_schema: bool) -> Any:
        errors = package(self.label, "pyiceberg.exceptions")
        for attempt in count(1):
            missing = check_schema(self.label, self.name, arrow_schema(table.schema()), schema, merge_schema)
            if not missing:
                break
            import pyarrow

            try:
                with table.update_schema() as update:
                    update.union_by_name(pyarrow.schema([field.with_nullable(True) for field in missing]))
                break
            except errors.CommitFailedException as error:
                # Another writer has changed it, perhaps in the same way.
                if attempt == _ATTEMPTS:
                    raise SinkError(f"{self.label}: table {self.name}: other writers change it: {error}") from error
                time.sleep(random.random() / 10)
                table = catalog.load_table(self.identifier)
        return table

    def data_files(self, prepared: bytes) -> IcebergFiles:
        return IcebergFiles.of(self.catalog, prepared, self.label)

    def load(self) -> LoadedIceberg:
        with explained(self.catalog, self.identifier, self.label, "can't be written to", SinkError):
            table = self.catalog.load(self.identifier, self.label)
            self._location = table.location()
            return LoadedIceberg(self, table)


class LoadedIceberg(LoadedTable):
    """A version of a table of Iceberg."""

    def __init__(self, of: IcebergTable, table: Any) -> None:
        self._of = of
        self._table = table
        self.data_files: IcebergFiles = IcebergFiles(of.catalog, table.metadata, of.label)

    def committed(self, writer: str) -> int | None:
        for snapshot in ancestors(self._table.metadata):
            properties = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if properties.get(WRITER) == writer:
                return int(properties[COMMIT])
        return None

    def paths(self, files: Sequence[Any]) -> list[str]:
        return [file.file_path for file in files_of(files)]

    def append(self, files: Sequence[Any], commit: CommitName) -> None:
        with (
            self._transaction() as transaction,
            transaction.update_snapshot(_properties(commit)).fast_append() as append,
        ):
            for file in files_of(files):
                append.append_data_file(file)

    def change(self, key: Sequence[str], rows: Any, gone: Any, commit: CommitName) -> None:
        import pyarrow

        schema = self.data_files.schema
        rows = with_columns(rows, schema)
        gone = self._present(key, with_columns(gone, schema))
        keys = pyarrow.concat_tables([table.select(list(key)) for table in (rows, gone)])
        if not keys.num_rows:
            return
        with self._transaction() as transaction, warnings.catch_warnings():
            # A key that isn't there is no mistake.
            warnings.filterwarnings("ignore", message="Delete operation did not match any records")
            if self._table.current_snapshot() is not None:
                transaction.delete(self._of_keys(keys), snapshot_properties=_properties(commit))
            if rows.num_rows:
                transaction.append(rows, snapshot_properties=_properties(commit))

    def _present(self, key: Sequence[str], gone: Any) -> Any:
        """Return the rows that the table has, with all of their values."""
        import pyarrow

        if not gone.num_rows or self._table.current_snapshot() is None:
            return gone.slice(0, 0)
        found = self._table.scan(row_filter=self._of_keys(gone.select(list(key)))).to_arrow()
        there = {repr(row) for row in with_columns(found, self.data_files.schema).to_pylist()}
        chosen = [repr(row) in there for row in gone.to_pylist()]
        return gone.filter(pyarrow.array(chosen, pyarrow.bool_()))

    def _of_keys(self, keys: Any) -> Any:
        """Return the expression of rows with one of these keys."""
        e = package(self._of.label, "pyiceberg.expressions")
        names = keys.schema.names
        if len(names) == 1:
            return e.In(names[0], keys.column(0).to_pylist())
        parts = []
        # All but the last column are the same in many keys.
        by_prefix: dict[Any, list[Any]] = {}
        for row in keys.to_pylist():
            *prefix, last = (row[name] for name in names)
            by_prefix.setdefault(tuple(prefix), []).append(last)
        for prefix, lasts in by_prefix.items():
            same = [e.EqualTo(name, value) for name, value in zip(names, prefix, strict=False)]
            parts.append(e.And(*same, e.In(names[-1], lasts)))
        return parts[0] if len(parts) == 1 else e.Or(*parts)

    def after_commit(self) -> None:
        wanted = self._of.compaction
        if wanted is None:
            return
        # Needs the client, which is imported on first use.
        from .compaction import bins_of, commits_since, rewriting

        if commits_since(ancestors(self._table.metadata)) < wanted.every:
            return
        metadata = self._table.metadata
        directory = join_path(join_path(self._of.location(), "data"), f"penstock-compacted-{uuid.uuid4().hex}")
        reading = Reading(self._of.catalog, self._of.identifier, self._of.label, tuple(self.data_files.schema.names))
        groups = list(bins_of(self._table.scan().plan_files(), wanted.size, metadata.default_spec_id))
        if not groups:
            return
        try:
            with self._transaction() as transaction, rewriting(transaction, self._table.io) as update:
                for number, group in enumerate(groups):
                    data = pyarrow_table(reading.batches(metadata, metadata.schema(), group), self.data_files.schema)
                    for file in files_of(self.data_files.write(data, directory, str(number))):
                        update.append_data_file(file)
                    for task in group:
                        update.delete_data_file(task.file)
        except ConflictError:
            # Another writer has committed meanwhile; the next compaction takes the files.
            filesystem_for(directory).delete(directory)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Begin a transaction of the table, which ends with the block; and convert the client's errors."""
        errors = package(self._of.label, "pyiceberg.exceptions")
        with explained(self._of.catalog, self._of.identifier, self._of.label, "can't be committed to", SinkError):
            try:
                transaction = self._table.transaction()
                yield transaction
                transaction.commit_transaction()
            except (errors.CommitFailedException, errors.CommitStateUnknownException) as error:
                # The next try looks whether it was committed.
                raise ConflictError(str(error)) from error


@contextmanager
def _made_meanwhile(exists: Callable[[], bool]) -> Iterator[None]:
    """Ignore any error of making what exists afterwards: another process was faster.

    Catalogs report it by errors of several classes, down to those of their databases.
    """
    try:
        yield
    except Exception:
        if not exists():
            raise


def ancestors(metadata: Any) -> Iterator[Any]:
    """Yield a table's last snapshot, its parent, and so on, as far as they are kept."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    following = by_id.get(metadata.current_snapshot_id)
    while following is not None:
        yield following
        following = by_id.get(following.parent_snapshot_id)


def pyarrow_table(batches: Iterator[Any], schema: Any) -> Any:
    """Return record batches as one table with a schema."""
    import pyarrow

    return with_columns(pyarrow.Table.from_batches(batches), schema)


def _properties(commit: CommitName) -> dict[str, str]:
    return {WRITER: commit.writer, COMMIT: str(commit.number)}
