"""IcebergTable: a table of Iceberg that is written to.

A commit's name is in the properties of its snapshots.  The catalog accepts a commit only if the table's last snapshot
is the one that was loaded, in whose ancestors the name was looked for.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from ...sdk.errors import SinkError
from ...sdk.user_code.error_text import text_or_class
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
        from pyarrow import compute

        schema = self.data_files.schema
        rows = with_columns(rows, schema)
        gone = self._present(key, with_columns(gone, schema))
        keys = pyarrow.concat_tables([table.select(list(key)) for table in (rows, gone)])
        if not keys.num_rows:
            return
        with self._new_files("changed") as directory, self._transaction() as transaction:
            replaced = []
            for number, (task, data, matching) in enumerate(self._matching(keys)):
                remaining = data.filter(compute.invert(matching))
                files = self.data_files.write(remaining, directory, str(number)) if remaining.num_rows else []
                replaced.append((task.file, files_of(files)))
            if replaced:
                with transaction.update_snapshot(_properties(commit)).overwrite() as update:
                    for former, files in replaced:
                        update.delete_data_file(former)
                        for file in files:
                            update.append_data_file(file)
            if rows.num_rows:
                transaction.append(rows, snapshot_properties=_properties(commit))

    def _present(self, key: Sequence[str], gone: Any) -> Any:
        """Return the rows that the table has, with all of their values."""
        import pyarrow

        if not gone.num_rows:
            return gone
        there: set[str] = set()
        for _, data, matching in self._matching(gone.select(list(key))):
            there.update(map(repr, data.filter(matching).to_pylist()))
        chosen = [repr(row) in there for row in gone.to_pylist()]
        return gone.filter(pyarrow.array(chosen, pyarrow.bool_()))

    def _matching(self, keys: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the client's tasks of the files that have rows with the keys, their rows, and which of them match."""
        if self._table.current_snapshot() is None:
            return
        from pyarrow import compute

        # Needs pyarrow, which is imported on first use.
        from .keyed_rows import have_key, may_match

        metadata, schema = self._table.metadata, self.data_files.schema
        reading = Reading(self._of.catalog, self._of.identifier, self._of.label, tuple(schema.names))
        row_filter = may_match(keys, package(self._of.label, "pyiceberg.expressions"))
        for task in self._table.scan(row_filter=row_filter).plan_files():
            batches = list(reading.batches(metadata, metadata.schema(), [task]))
            if batches:
                data = pyarrow_table(iter(batches), schema)
                matching = have_key(data, keys)
                if compute.any(matching).as_py():
                    yield task, data, matching

    def after_commit(self) -> None:
        wanted = self._of.compaction
        if wanted is None:
            return
        # Needs the client, which is imported on first use.
        from .compaction import bins_of, commits_since, rewriting

        if commits_since(ancestors(self._table.metadata)) < wanted.every:
            return
        metadata = self._table.metadata
        reading = Reading(self._of.catalog, self._of.identifier, self._of.label, tuple(self.data_files.schema.names))
        groups = list(bins_of(self._table.scan().plan_files(), wanted.size, metadata.default_spec_id))
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
                data = pyarrow_table(reading.batches(metadata, metadata.schema(), group), self.data_files.schema)
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
