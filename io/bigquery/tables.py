"""The tables that a transform writes to: they are looked up, compared with the schema that is given, and created."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from ...frozen import frozen
from ...sdk.errors import SinkError
from ...sdk.options.value_provider import value_of
from .client import TableName, error_of, exceptions, explained, open_client, open_write_client, package, waited_for
from .schemas import Column, as_json, schema_of
from .values import message_class

T = TypeVar("T")

AUTODETECT: Final = "SCHEMA_AUTODETECT"

TRUNCATE, APPEND, EMPTY = "WRITE_TRUNCATE", "WRITE_APPEND", "WRITE_EMPTY"

# Of `additional_bq_parameters`, what only load jobs have.
OF_LOADS = frozenset(
    {"schemaUpdateOptions", "maxBadRecords", "ignoreUnknownValues", "projectionFields", "nullMarker", "sourceFormat"}
)

# Between the name of a table and its schema.
_MARK = "\0"

# How long a staging table is kept that isn't removed, in seconds: as long as its streams.
_STAGED = 7 * 24 * 3600


@frozen
class Target:
    """What a transform writes to, and how: what its arguments say.

    Attributes:
      table: None if a function of the element says the table.
      dataset, project: those of names without.
      schema: columns, a function from a table's name to a schema, AUTODETECT, or None for that of the table.
      create: whether a missing table is created.
      disposition: WRITE_APPEND, WRITE_TRUNCATE or WRITE_EMPTY.
      parameters: of tables and load jobs, as the API has them, or a function from a table's name to them.
      key: the columns of the primary key.
      ignores_unknown, base64_bytes: as those of `Rows`.
    """

    table: TableName | None
    dataset: str | None = None
    project: str | None = None
    schema: tuple[Column, ...] | Callable[[str], Any] | str | None = None
    create: bool = True
    disposition: str = APPEND
    parameters: Mapping[str, Any] | Callable[[str], Any] = attrs.field(factory=dict)
    kms_key: str | None = None
    key: tuple[str, ...] = ()
    ignores_unknown: bool = False
    base64_bytes: bool = True

    def parameters_of(self, table: TableName) -> dict[str, Any]:
        """Return the parameters of a table and its load jobs."""
        found = self.parameters(str(table)) if callable(self.parameters) else self.parameters
        return dict(value_of(found) or {})


class Tables:
    """The tables of a transform, with the clients of this process.

    Args:
      creates: whether missing tables are created here; else a load job does so.
    """

    def __init__(self, label: str, target: Target, creates: bool = True) -> None:
        self.label = label
        self.target = target
        self._creates = creates
        self._client: Any = None
        self._write_client: Any = None
        self._columns: dict[TableName, tuple[Column, ...] | None] = {}
        # What the function of the schema has returned for tables that a function has named.
        self._told: dict[TableName, tuple[Column, ...] | None] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None, "_write_client": None, "_columns": {}, "_told": {}}

    @property
    def client(self) -> Any:
        """Google's client of tables and jobs."""
        if self._client is None:
            with explained(self.label, self.target.table or "service", "can't be reached", SinkError):
                self._client = open_client(self.label, self.target.project)
        return self._client

    @property
    def write_client(self) -> Any:
        """Google's client of the Storage Write API."""
        if self._write_client is None:
            self._write_client = open_write_client()
        return self._write_client

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
        writer, self._write_client = self._write_client, None
        if writer is not None:
            writer.transport.close()

    def reached(self, table: TableName, what: str, call: Callable[[], T]) -> T:
        """Return the result of a call; wait for a service that doesn't answer.  Other errors become `SinkError`s."""
        with explained(self.label, table, what, SinkError):
            return waited_for(self.label, table, call)

    def named(self, given: Any) -> TableName:
        """Return the whole name of a table that a program gives."""
        name = TableName.of(self.label, given, self.target.dataset, self.target.project)
        return name if name.project else name.within(self.client.project)

    def told(self, given: Any, inputs: Sequence[Any]) -> str:
        """Return a table that a function has named as text, with its schema if that is a function's; see `at`.

        Args:
          given: what the function of the table has returned, and the function of the schema gets.
          inputs: side inputs of the function of the schema.
        """
        table, schema = self.named(given), self.target.schema
        if not callable(schema):
            return str(table)
        name = given if isinstance(given, str) else str(table)
        columns = self._told[table] = self._schema_of(value_of(schema(name, *inputs)))
        return f"{table}{_MARK}{json.dumps(None if columns is None else as_json(columns))}"

    def at(self, destination: str) -> TableName:
        """Return the table of a text that `told` has made, in this process or another one."""
        name, _, schema = destination.partition(_MARK)
        table = TableName.of(self.label, name)
        if schema and table not in self._told:
            self._told[table] = self._schema_of(json.loads(schema))
        return table

    def columns(self, table: TableName) -> tuple[Column, ...] | None:
        """Return the columns that rows of a table may have, None if a load job finds them out.

        Creates a missing table, if the table is to be.  Raises `SinkError` for a table that can't be written to.
        """
        if table not in self._columns:
            self._columns[table] = self.reached(table, "can't be written to", lambda: self._found(table))
        return self._columns[table]

    def _found(self, table: TableName) -> tuple[Column, ...] | None:
        given = self._given(table)
        existing = self.existing(table)
        if existing is None:
            if not self.target.create:
                raise SinkError(
                    f"{self.label}: there is no table {table}, and the create disposition is CREATE_NEVER; create it"
                )
            if given is None and (self._creates or self.target.schema is None):
                raise SinkError(
                    f"{self.label}: there is no table {table}, and no schema to create it with; give `schema`"
                )
            if given is not None and self._creates:
                self._create(table, given)
            else:
                # A load job would find that it is missing, when all rows are there.
                self.client.get_dataset(f"{table.project}.{table.dataset}", retry=None, timeout=60.0)
            return given
        if given is None and self.target.schema == AUTODETECT:
            return None
        # A load job may add columns.
        if given is not None and "schemaUpdateOptions" not in self.target.parameters_of(table):
            self._check(table, given, existing)
        return given or existing

    def _given(self, table: TableName) -> tuple[Column, ...] | None:
        if table in self._told:
            return self._told[table]
        schema: Any = self.target.schema
        if callable(schema):
            return self._schema_of(value_of(schema(str(table))))
        return None if schema == AUTODETECT else schema

    def _schema_of(self, given: Any) -> tuple[Column, ...] | None:
        if given is None or (isinstance(given, str) and given == AUTODETECT):
            return None
        return schema_of(self.label, given)

    def message_class(self, table: TableName, columns: Sequence[Column], pseudocolumns: Sequence[str] = ()) -> Any:
        """Return the descriptor and the class of the messages of a table's rows; see `values.message_class`."""
        try:
            return message_class(columns, pseudocolumns)
        except ValueError as error:
            raise SinkError(f"{self.label}: table {table}: {error}; use FILE_LOADS") from None

    def existing(self, table: TableName) -> tuple[Column, ...] | None:
        """Return the columns of a table as BigQuery has it; None if there is none."""
        try:
            found = self.client.get_table(table.sql.partition("$")[0], retry=None, timeout=60.0)
        except exceptions().NotFound:
            return None
        return schema_of(self.label, found.schema) if found.schema else ()

    def check_rights(self, table: TableName) -> None:
        """Raise `SinkError` if rows of a table that there is may not be changed."""

        def missing() -> Sequence[str]:
            wanted = ["bigquery.tables.updateData"]
            try:
                answer = self.client.test_iam_permissions(
                    f"{table.within(self.client.project).sql}".partition("$")[0], wanted, retry=None, timeout=60.0
                )
            except (exceptions().NotFound, exceptions().MethodNotAllowed, exceptions().MethodNotImplemented):
                # The table is created by a load job; or the server is an emulator.
                return ()
            return [each for each in wanted if each not in answer.get("permissions", ())]

        for permission in self.reached(table, "can't be written to", missing):
            denied = exceptions().Forbidden(f"the account doesn't have the permission {permission}")
            raise error_of(self.label, table, "can't be written to", denied, SinkError)

    def check_jobs(self, table: TableName, project: str | None = None) -> None:
        """Raise `SinkError` if no jobs may be run, by a query that isn't.

        Args:
          project: which they are run in; None for that of the credentials.
        """
        config = package(self.label).QueryJobConfig(dry_run=True)
        self.reached(
            table,
            "can't be written to by jobs",
            lambda: self.client.query("SELECT 1", config, project=project, retry=None, job_retry=None, timeout=60.0),
        )

    def is_empty(self, table: TableName) -> bool:
        """Return True if a table has no rows, and if there is none."""

        def found() -> bool:
            try:
                return not list(self.client.list_rows(self.client.get_table(table.sql), max_results=1, retry=None))
            except exceptions().NotFound:
                return True

        return self.reached(table, "can't be read", found)

    def _create(self, table: TableName, columns: Sequence[Column]) -> None:
        target = self.target
        made = {key: value for key, value in target.parameters_of(table).items() if key not in OF_LOADS}
        if target.kms_key:
            made["encryptionConfiguration"] = {"kmsKeyName": target.kms_key}
        if target.key:
            made["tableConstraints"] = {"primaryKey": {"columns": list(target.key)}}
        self._make(table, columns, made)

    def make_staging(self, table: TableName, staging: TableName) -> None:
        """Make a table with the columns that rows of another one may have, unless it is there.  It expires."""
        columns = self.columns(table) or ()

        def make() -> None:
            existing = self.client.get_table(table.sql, retry=None, timeout=60.0)
            made: dict[str, Any] = {"expirationTime": str(round(1000 * (time.time() + _STAGED)))}
            if existing.encryption_configuration is not None:
                made["encryptionConfiguration"] = existing.encryption_configuration.to_api_repr()
            self._make(staging, columns, made)

        self.reached(table, "can't be replaced by way of a staging table", make)

    def _make(self, table: TableName, columns: Sequence[Column], parameters: Mapping[str, Any]) -> None:
        table_id = table.table.partition("$")[0]
        made = {
            "tableReference": {"projectId": table.project, "datasetId": table.dataset, "tableId": table_id},
            "schema": as_json(columns),
            **parameters,
        }
        # Another worker may be faster.
        found = package(self.label).Table.from_api_repr(made)
        self.client.create_table(found, exists_ok=True, retry=None, timeout=60.0)

    def _check(self, table: TableName, given: Sequence[Column], existing: Sequence[Column]) -> None:
        """Raise `SinkError` for a schema that an existing table doesn't have."""
        columns = {column.name.lower(): column for column in existing}
        for column in given:
            found = columns.pop(column.name.lower(), None)
            if found is None:
                raise SinkError(f"{self.label}: table {table} has no column {column.name!r}, which the schema has")
            differs = [name for name in ("type", "mode") if _differs(name, column, found)]
            if differs:
                name = differs[0]
                raise SinkError(
                    f"{self.label}: column {column.name!r} of table {table} has the {name} {getattr(found, name)}; the "
                    f"schema says {getattr(column, name)}"
                )
            if column.fields:
                self._check(table, column.fields, found.fields)
        for column in columns.values():
            if column.mode == "REQUIRED" and not column.others.get("defaultValueExpression"):
                raise SinkError(
                    f"{self.label}: column {column.name!r} of table {table} is REQUIRED, and the schema doesn't have it"
                )


def _differs(name: str, given: Column, found: Column) -> bool:
    if name == "mode":
        return (given.mode == "REPEATED") != (found.mode == "REPEATED")
    return given.type != found.type
