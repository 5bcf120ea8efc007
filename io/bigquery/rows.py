"""DoFns of a write: rows for their tables, and those that aren't fit for them; and insertions of the streaming API."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.element_wrappers import TaggedOutput, WindowedValue
from ...sdk.elements.row import fields_of
from ...sdk.options.value_provider import value_of
from ...sdk.redaction import logger_of
from .client import TableName
from .tables import Tables, Target
from .values import Rows, WrongValueError

_logger = logger_of(__name__)

FAILED: Final = "FailedRowsWithErrors"

# Of rows with their change, Beam's fields.
_CHANGE, _RECORD = "row_mutation_info", "record"
UPSERT, DELETE = "UPSERT", "DELETE"


# Of values that a schema hasn't checked, the text.
_line = msgspec.json.Encoder(enc_hook=str).encode


class Form(StrEnum):
    """What rows are converted to."""

    MESSAGE = "messages of the Storage Write API, as bytes"
    FIELDS = "the fields of these"
    LINE = "lines of JSON"
    JSON = "values as JSON has them"


class ConvertRows(DoFn):
    """Rows as pairs of a table and the row; with changes, as four: then the kind and the sequence number.

    A row that doesn't fit its table is an output with the tag FAILED: its table, the row, and errors.

    Args:
      table: a function of the element and side inputs; None for the table of the target.
      form: of the rows.
      changes: returns the change of a row, or True: an element has the row and its change.
      schema_inputs: how many of the last side inputs are those of the function of the schema.
    """

    def __init__(
        self,
        label: str,
        target: Target,
        table: Callable[..., Any] | None,
        form: Form,
        changes: bool | Callable[[Any], Any] = False,
        schema_inputs: int = 0,
    ) -> None:
        self._tables = Tables(label, target, creates=form is not Form.LINE)
        self._table = table
        self._form = form
        self._changes = changes
        self._schema_inputs = schema_inputs
        # By what the function of the table returns: the table's name, it with its schema, and the function of rows.
        self._by_given: dict[Any, tuple[str, str, Callable[[Any], Any]]] = {}

    def process(self, element: Any, *side_inputs: Any) -> Iterable[Any]:
        row, change = self._parts(element) if self._changes else (element, ())
        of_table = len(side_inputs) - self._schema_inputs
        of_schema = side_inputs[of_table:]
        given = self._tables.target.table
        if self._table is not None:
            given = value_of(self._table(row, *side_inputs[:of_table]))
        try:
            name, destination, convert = self._by_given[given]
        except (KeyError, TypeError):
            name, destination, convert = self._for(given, of_schema)
        try:
            fields = convert(row)
        except WrongValueError as error:
            return (TaggedOutput(FAILED, (name, row, [{"reason": "invalid", "message": str(error)}])),)
        return ((destination, fields, *change),)

    def _parts(self, element: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the row of an element, and its change."""
        if callable(self._changes):
            return element, _change_of(self._changes(element))
        fields = element if isinstance(element, dict) else fields_of(element)
        if fields is not None and fields.keys() == {_CHANGE, _RECORD}:
            return fields[_RECORD], _change_of(fields[_CHANGE])
        return element, (None, None)

    def _for(self, given: Any, schema_inputs: Sequence[Any]) -> tuple[str, str, Callable[[Any], Any]]:
        """Return the name of a table, it with its schema, and the function that converts its rows."""
        table = self._tables.named(given)
        destination = str(table) if self._table is None else self._tables.told(given, schema_inputs)
        columns = self._tables.columns(table)
        found = str(table), destination, (_as_it_is if columns is None else self._converter(table, columns))
        try:
            self._by_given[given] = found
        except TypeError:
            # A name that can't be hashed, such as Beam's.
            self._by_given[str(table)] = found
        return found

    def _converter(self, table: TableName, columns: Any) -> Callable[[Any], Any]:
        target, form = self._tables.target, self._form
        rows = Rows(columns, target.ignores_unknown, target.base64_bytes, parsed_json=form is Form.LINE)
        if form is Form.LINE:
            return lambda row: _line(rows.as_json(row))
        if form is not Form.MESSAGE:
            return rows.as_json if form is Form.JSON else rows.as_fields
        _, message = self._tables.message_class(table, columns)
        return lambda row: message(**rows.as_fields(row)).SerializeToString()

    def teardown(self) -> None:
        self._tables.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_by_given": {}}


def _as_it_is(row: Any) -> bytes:
    """Return the line of a row whose columns BigQuery finds out."""
    return _line(dict(row))


def _change_of(given: Any) -> tuple[str, str | None]:
    fields = (given if isinstance(given, dict) else fields_of(given)) or {}
    kind = fields.get("mutation_type")
    if kind not in (UPSERT, DELETE):
        raise ValueError(f"expected a change with 'mutation_type' UPSERT or DELETE, got {given!r}")
    return kind, fields.get("change_sequence_number")


# Streaming inserts

# The rows and bytes of an insertion, about.
_INSERTED_ROWS = 500

# Reasons of errors of a row that is inserted in vain again.
_PERMANENT = frozenset({"invalid", "invalidQuery", "notImplemented", "row_too_large"})


class InsertRows(DoFn):
    """Inserts rows, from pairs of a table and a row's fields, at least once; rows that are refused are outputs.

    Args:
      retry: RETRY_ALWAYS, RETRY_NEVER or RETRY_ON_TRANSIENT_ERROR: which refused rows are inserted again.
    """

    def __init__(self, label: str, target: Target, retry: str, ignores_ids: bool = False) -> None:
        self._tables = Tables(label, target)
        self._retry = retry
        self._ignores_ids = ignores_ids
        self._waiting: dict[str, list[tuple[Any, str | None, Any, Any]]] = {}

    def start_bundle(self) -> None:
        self._waiting = {}

    def process(
        self, element: Any, timestamp: Any = DoFn.TimestampParam, window: Any = DoFn.WindowParam
    ) -> Iterable[Any]:
        destination, fields = element
        waiting = self._waiting.setdefault(destination, [])
        # The same one in each attempt.
        waiting.append((fields, None if self._ignores_ids else uuid.uuid4().hex, timestamp, window))
        if len(waiting) >= _INSERTED_ROWS:
            yield from self._inserted(destination, self._waiting.pop(destination))

    def finish_bundle(self) -> Iterable[Any]:
        waiting, self._waiting = self._waiting, {}
        for destination, rows in waiting.items():
            yield from self._inserted(destination, rows)

    def _inserted(self, destination: str, rows: list[tuple[Any, str | None, Any, Any]]) -> Iterator[Any]:
        table = self._tables.at(destination)
        target = self._tables.target
        while rows:

            def insert(rows: Any = rows) -> Any:
                return self._tables.client.insert_rows_json(
                    table.sql,
                    [row[0] for row in rows],
                    row_ids=[row[1] for row in rows],
                    ignore_unknown_values=target.ignores_unknown,
                    skip_invalid_rows=True,
                    retry=None,
                    timeout=60.0,
                )

            refused = self._tables.reached(table, "can't be written to", insert)
            errors = {each["index"]: each["errors"] for each in refused}
            again = []
            for number, found in errors.items():
                if self._is_repeated(found):
                    again.append(rows[number])
                    continue
                fields, _, timestamp, window = rows[number]
                yield TaggedOutput(FAILED, WindowedValue((str(table), fields, found), timestamp, (window,)))
            rows = again

    def _is_repeated(self, errors: Any) -> bool:
        reasons = {each.get("reason") for each in errors}
        return self._retry != "RETRY_NEVER" and reasons.isdisjoint(_PERMANENT)

    def teardown(self) -> None:
        self._tables.close()
