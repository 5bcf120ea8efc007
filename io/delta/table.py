"""DeltaTable: a table of Delta Lake that is written to.

A commit has an application transaction, Delta's own record of the last commit of a writer.  It is tried for exactly
the version after the one in which the transaction was looked for: a commit of another writer in between is a conflict.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from ...sdk.errors import SinkError
from ..files.filesystem import filesystem_for, join_path
from ..lakehouse.commits import CommitName
from ..lakehouse.net_rows import NetRows
from ..lakehouse.rows import check_schema
from ..lakehouse.table import Compaction, ConflictError, LakehouseTable, LoadedTable
from .data_files import DeltaFiles
from .log import last_version
from .package import arrow_of, arrow_schema, explained, opened, package, storage_options


class DeltaTable(LakehouseTable):
    """A table of Delta Lake.

    Args:
      uri: the path or URL of the table.
      configuration: properties of a table that is created.
      compaction: when small files are compacted, and to which size.
    """

    def __init__(
        self, uri: str, label: str, configuration: dict[str, str] | None = None, compaction: Compaction | None = None
    ) -> None:
        self.uri = uri
        self.label = label
        self.configuration = configuration
        self.compaction = compaction

    @property
    def name(self) -> str:
        return repr(self.uri)

    def location(self) -> str:
        return self.uri

    def data_directory(self, commit: CommitName) -> str:
        return join_path(self.uri, commit.directory)

    def prepare(
        self, schema: Any, partition_by: Sequence[str], key: Sequence[str], create: bool, merge_schema: bool
    ) -> bytes:
        delta = package(self.label)
        with explained(self.uri, self.label, "can't be written to", SinkError):
            if not delta.DeltaTable.is_deltatable(self.uri, storage_options(self.uri)):
                self._create(schema, partition_by, create)
            table = opened(self.uri, self.label)
            found = arrow_schema(table)
            if schema is not None:
                given = arrow_of(delta.Schema.from_arrow(schema))
                missing = check_schema(self.label, self.name, found, given, merge_schema)
                if missing:
                    fields = delta.Schema.from_arrow(_schema([field.with_nullable(True) for field in missing])).fields
                    table.alter.add_columns(fields)
                    found = arrow_schema(table)
            unknown = [name for name in key if name not in found.names]
            if unknown:
                raise SinkError(
                    f"{self.label}: table {self.name} has no column {unknown[0]!r} for the key; it has "
                    f"{', '.join(found.names)}"
                )
            self._check_rules(table, bool(key))
            own = table.metadata().partition_columns
            if partition_by and list(partition_by) != own:
                raise SinkError(
                    f"{self.label}: table {self.name} is partitioned by {', '.join(own) or 'nothing'}, expected "
                    f"{', '.join(partition_by)}"
                )
        return DeltaFiles(self.uri, found, own).prepared()

    def _check_rules(self, table: Any, has_key: bool) -> None:
        """Raise `SinkError` for rules of a table that a commit would break."""
        configuration = table.metadata().configuration
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            raise SinkError(
                f"{self.label}: table {self.name} has column mapping, with which it can't be written to; rewrite the "
                "table without"
            )
        if has_key:
            # The client checks the other rules when it merges rows.
            if configuration.get("delta.appendOnly", "false").lower() == "true":
                raise SinkError(
                    f"{self.label}: table {self.name} is only appended to (delta.appendOnly), so its rows can't be "
                    "changed by key; leave the key out"
                )
            return
        rules = [f"the constraint {name[len(_RULE) :]!r}" for name in configuration if name.startswith(_RULE)]
        for field in table.schema().fields:
            kinds = {name: kind for name, kind in _COLUMN_RULES.items() if name in field.metadata}
            rules += [f"the {kind} of column {field.name!r}" for kind in kinds.values()]
        if rules:
            raise SinkError(
                f"{self.label}: table {self.name} has {', '.join(rules)}, which isn't checked when files are appended; "
                "drop it, or give a key, by which rows are merged"
            )

    def data_files(self, prepared: bytes) -> DeltaFiles:
        return DeltaFiles.of(self.uri, prepared)

    def _create(self, schema: Any, partition_by: Sequence[str], create: bool) -> None:
        if not create:
            raise SinkError(f"{self.label}: there is no Delta table at {self.name}; create it, or give create=True")
        if schema is None:
            raise SinkError(
                f"{self.label}: there is no Delta table at {self.name}, and no schema to create one; give schema= a "
                "pyarrow.Schema, or declare a class with fields by with_output_types"
            )
        delta = package(self.label)
        unknown = [name for name in partition_by if name not in schema.names]
        if unknown:
            raise SinkError(f"{self.label}: there is no column {unknown[0]!r} to partition by")
        filesystem_for(self.uri).mkdirs(self.uri)
        delta.DeltaTable.create(
            self.uri,
            delta.Schema.from_arrow(schema),
            mode="ignore",
            partition_by=list(partition_by) or None,
            configuration=self.configuration,
            storage_options=storage_options(self.uri),
        )

    def load(self) -> LoadedDelta:
        with explained(self.uri, self.label, "can't be written to", SinkError):
            return LoadedDelta(self, opened(self.uri, self.label))


class LoadedDelta(LoadedTable):
    """A version of a table of Delta Lake."""

    def __init__(self, of: DeltaTable, table: Any) -> None:
        self._of = of
        self._table = table
        self._schema = arrow_schema(table)
        self._partition_by: list[str] = table.metadata().partition_columns
        self.data_files = DeltaFiles(of.uri, self._schema, self._partition_by)

    def committed(self, writer: str) -> int | None:
        found: int | None = self._table.transaction_version(writer)
        return found

    def append(self, files: Sequence[Any], commit: CommitName) -> list[str]:
        action = package(self._of.label, "deltalake.transaction").AddAction
        milliseconds = int(time.time() * 1000)
        actions = [
            action(quote(path), size, partition, milliseconds, True, json.dumps(stats))
            for path, size, partition, stats in files
        ]
        with self._conflicts():
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                partition_by=self._partition_by or None,
                commit_properties=self._properties(commit),
            )
        return [join_path(self._of.uri, path) for path, *_ in files]

    def change(self, net: NetRows, commit: CommitName) -> None:
        import pyarrow

        # One source for both: a row to delete has its mark.
        # What netting has used, and the client can't.
        pyarrow.default_memory_pool().release_unused()
        marked = self._schema.append(pyarrow.field(GONE, pyarrow.bool_()))
        source = pyarrow.RecordBatchReader.from_batches(marked, _marked(net, self._schema))
        on = " AND ".join(f"{_q('t', name)} = {_q('s', name)}" for name in net.key)
        nested = pyarrow.types.is_nested
        others = [field.name for field in self._schema if field.name not in net.key and not nested(field.type)]
        same = "".join(f" AND ({_q('t', name)} IS NOT DISTINCT FROM {_q('s', name)})" for name in others)
        updates = {f"`{name}`": _q("s", name) for name in self._schema.names}
        with self._conflicts():
            merge = self._table.merge(
                source,
                on,
                source_alias="s",
                target_alias="t",
                # Of a source that is collected in memory, files of the table without these keys aren't read.
                streamed_exec=net.nbytes > _COLLECTED_BYTES,
                writer_properties=package(self._of.label).WriterProperties(
                    compression="SNAPPY", max_row_group_size=_ROW_GROUP
                ),
                commit_properties=self._properties(commit),
            )
            (
                merge.when_matched_delete(f"{_q('s', GONE)} = true{same}")
                .when_matched_update(updates, f"{_q('s', GONE)} = false")
                .when_not_matched_insert(updates, f"{_q('s', GONE)} = false")
                .execute()
            )

    def after_commit(self) -> None:
        wanted = self._of.compaction
        if wanted is None:
            return
        delta = package(self._of.label)
        try:
            with self._conflicts():
                self._table.update_incremental()
                version = self._table.version()
                if version - (self._table.transaction_version(_COMPACTION) or 0) < wanted.every:
                    return
                # The table knows the version of the last compaction.
                done = delta.CommitProperties(app_transactions=[delta.Transaction(_COMPACTION, version)])
                self._table.optimize.compact(target_size=wanted.size, commit_properties=done)
        except ConflictError:
            # Another writer has changed the files; the next compaction takes them.
            return

    def _properties(self, commit: CommitName) -> Any:
        delta = package(self._of.label)
        transaction = delta.Transaction(commit.writer, commit.number)
        return delta.CommitProperties(max_commit_retries=0, app_transactions=[transaction])

    @contextmanager
    def _conflicts(self) -> Iterator[None]:
        """Convert the client's errors."""
        failed = package(self._of.label, "deltalake.exceptions").CommitFailedError
        with explained(self._of.uri, self._of.label, "can't be committed to", SinkError):
            try:
                yield
            except failed as error:
                if last_version(self._of.uri) <= self._table.version():
                    # No other writer was faster: the commit isn't allowed.
                    raise
                raise ConflictError(str(error)) from error


# The properties of a table, and those of its columns, that have rules for its rows.
_RULE = "delta.constraints."
_COLUMN_RULES = {"delta.invariants": "invariant", "delta.generationExpression": "expression"}

# The size of the rows of a commit, in bytes, up to which they are collected in memory.
_COLLECTED_BYTES = 64 << 20

# The number of rows that the client holds until it writes them; its own is a million.
_ROW_GROUP = 1 << 17

# The application transaction of compactions.
_COMPACTION = "penstock-compaction"

# The mark of a row to delete.
GONE = "_penstock_gone"


def _marked(net: NetRows, schema: Any) -> Iterator[Any]:
    """Yield record batches of rows to insert or update, and of those to delete, with their marks."""
    import pyarrow

    for part in net.parts(schema):
        for table, is_gone in zip(part, (False, True), strict=True):
            marks = pyarrow.repeat(pyarrow.scalar(is_gone), table.num_rows)
            yield from table.append_column(GONE, marks).to_batches()


def _q(alias: str, name: str) -> str:
    return f"{alias}.`{name}`"


def _schema(fields: list[Any]) -> Any:
    import pyarrow

    return pyarrow.schema(fields)
