"""IcebergTable: a table of Iceberg that is written to.

A commit's name is in the properties of its snapshots.  The catalog accepts a commit only if the table's last snapshot
is the one that was loaded, in whose ancestors the name was looked for.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import compress, count
from typing import Any

from ...sdk.errors import SinkError
from ...sdk.user_code.error_text import text_or_class
from ..files.filesystem import filesystem_for, join_path
from ..lakehouse.commits import CommitName
from ..lakehouse.net_rows import NetRows
from ..lakehouse.rows import check_schema
from ..lakehouse.staging import Buffer, with_columns
from ..lakehouse.table import Compaction, ConflictError, LakehouseTable, LoadedTable
from .catalog import Catalog, closed, explained, package
from .data_files import IcebergFiles, arrow_schema, files_of
from .keyed_rows import may_match
from .partitions import add_partitions
from .source import Reading

# How often columns are added that other writers were faster than.
_ATTEMPTS = 20

# The size of rows in memory, in bytes, for which a commit writes a file.
_FILE_BYTES = 32 << 20

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
                    raise SinkError(
                        f"{self.label}: table {self.name}: other writers change it: {text_or_class(error)}"
                    ) from error
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

    def append(self, files: Sequence[Any], commit: CommitName) -> list[str]:
        with self._new_files("partitioned") as directory, self._transaction() as transaction:
            added = self._in_partitions(files_of(files), directory)
            with transaction.update_snapshot(_properties(commit)).fast_append() as append:
                for file in added:
                    append.append_data_file(file)
        return [file.file_path for file in added]

    def _in_partitions(self, files: Sequence[Any], directory: str) -> list[Any]:
        """Return data files, and instead of those of a former partitioning new ones with their rows.

        The client takes files for those of the table's partitioning.
        """
        from pyiceberg.table import FileScanTask

        spec_id = self._table.metadata.default_spec_id
        # A token of an earlier version doesn't tell it.
        are_current = [getattr(file, "spec_id", spec_id) == spec_id for file in files]
        former = [FileScanTask(file) for file, is_current in zip(files, are_current, strict=True) if not is_current]
        written = self._buffer(directory)
        for _, rows in self._rows(former):
            written.add(rows)
        return [*compress(files, are_current), *files_of(written.finish())]

    def _buffer(self, directory: str) -> Buffer:
        """Return what writes rows to new data files in a directory."""
        names = map(str, count())
        return Buffer(_FILE_BYTES, lambda rows: self.data_files.write(rows, directory, next(names)))

    def _rows(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the client's tasks to read files that have rows, and the rows of each as a `pyarrow.Table`."""
        metadata, schema = self._table.metadata, self.data_files.schema
        reading = Reading(self._of.catalog, self._of.identifier, self._of.label, tuple(schema.names))
        for task in tasks:
            if batches := list(reading.batches(metadata, metadata.schema(), [task])):
                yield task, pyarrow_table(iter(batches), schema)

    def change(self, net: NetRows, commit: CommitName) -> None:
        from pyarrow import compute

        with self._new_files("changed") as directory, self._transaction() as transaction:
            written, former = self._buffer(directory), []
            for file, data, matching in self._matching(net):
                former.append(file)
                written.add(data.filter(compute.invert(matching)))
            for rows, _ in net.parts(self.data_files.schema):
                written.add(rows)
            files = files_of(written.finish())
            if not former and not files:
                return
            snapshot = transaction.update_snapshot(_properties(commit))
            with snapshot.overwrite() if former else snapshot.fast_append() as update:
                for file in former:
                    update.delete_data_file(file)
                for file in files:
                    update.append_data_file(file)

    def _matching(self, net: NetRows) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the client's files that have rows which are replaced or deleted, their rows, and which are."""
        if self._table.current_snapshot() is None:
            return
        from pyarrow import compute

        keys = (table.select(net.key) for part in net.parts(self.data_files.schema) for table in part)
        row_filter = may_match(net.key, keys, package(self._of.label, "pyiceberg.expressions"))
        for task, data in self._rows(self._table.scan(row_filter=row_filter).plan_files()):
            matching = net.matching(data)
            if compute.any(matching).as_py():
                yield task.file, data, matching

    def after_commit(self) -> None:
        wanted = self._of.compaction
        if wanted is None:
            return
        import pyarrow

        # Needs the client, which is imported on first use.
        from .compaction import bins_of, commits_since, rewriting

        if commits_since(ancestors(self._table.metadata)) < wanted.every:
            return
        spec_id = self._table.metadata.default_spec_id
        groups = list(bins_of(self._table.scan().plan_files(), wanted.size, spec_id))
        if not groups:
            return
        # After a conflict the next compaction takes the files.
        with (
            suppress(ConflictError),
            self._new_files("compacted") as directory,
            self._transaction() as transaction,
            rewriting(transaction, self._table.io) as update,
        ):
            for number, group in enumerate(groups):
                data = pyarrow.concat_tables([rows for _, rows in self._rows(group)])
                for file in files_of(self.data_files.write(data, directory, str(number))):
                    update.append_data_file(file)
                for task in group:
                    update.delete_data_file(task.file)

    @contextmanager
    def _new_files(self, kind: str) -> Iterator[str]:
        """Return a directory for new data files, which are removed if they are certainly not committed."""
        errors = package(self._of.label, "pyiceberg.exceptions")
        directory = join_path(join_path(self._of.location(), "data"), f"penstock-{kind}-{uuid.uuid4().hex}")
        try:
            yield directory
        except ConflictError as error:
            if not isinstance(error.__cause__, errors.CommitStateUnknownException):
                filesystem_for(directory).delete(directory)
            raise

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
