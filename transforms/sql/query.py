"""Query: a SQL query over tables of known schemas, checked when the pipeline is built, and evaluated by DuckDB.

DuckDB sees the rows of the tables and nothing else: no files, no network, no extensions, no variables of the program.
"""

from __future__ import annotations

import json
import keyword
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from ...frozen import frozen
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import array_of
from ...sdk.elements.row import fields_of
from ...sdk.errors import ColumnError, PipelineError, UnsupportedError, missing_extra

# The number of each row of the input, among the columns of a query that is evaluated by row.
_ROW = "penstock_row_number"

# DuckDB's operators whose output rows depend on one input row each, in a plan that isn't optimized.
_BY_ROW = {"PYTHON_ARROW_SCAN", "PROJECTION", "FILTER", "UNNEST"}

_SETTINGS: Final[dict[str, Any]] = {
    "threads": 1,
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
}

# One database in each process: opening one takes 20 ms.  A forked process opens its own.
_DATABASES: dict[int, Any] = {}


@frozen(eq=False)
class Query:
    """A query that DuckDB has accepted.

    Attributes:
      text: the query.
      tables: the schema of each table, by name.
      schema: the `pyarrow.Schema` of the result.
      text_by_row: the query with the number of its input row as the last column, if each row of the result depends on
        one row of the only table; None for other queries.
      used: the names of the columns that it reads.
    """

    text: str
    tables: dict[str, Any]
    schema: Any
    text_by_row: str | None
    used: frozenset[str]

    def result(self, tables: Mapping[str, Any]) -> Any:
        """Return the result for tables, as a record batch.  Raises the errors of DuckDB, and `ColumnError`."""
        with _cursor(tables) as cursor:
            return conformed(_one_batch(cursor.sql(self.text).to_arrow_table()), self.schema)

    def result_by_row(self, rows: Any) -> tuple[Any, Any]:
        """Return the result for rows, as a record batch, and the number of the input row of each, a NumPy array."""
        import numpy
        import pyarrow

        assert self.text_by_row is not None
        (name,) = self.tables
        numbered = rows.append_column(_ROW, pyarrow.array(numpy.arange(len(rows))))
        with _cursor({name: numbered}) as cursor:
            result = _one_batch(cursor.sql(self.text_by_row).to_arrow_table())
        row_numbers = result.column(result.num_columns - 1).to_numpy()
        kept = [i for i, name in enumerate(result.schema.names) if name != _ROW]
        return conformed(result.select(kept), self.schema), row_numbers

    def rows_of(self, table: str, bundle: ColumnBundle) -> Any:
        """Return the elements of a bundle as rows of a table."""
        if bundle.has_given_elements:
            return rows_of_elements(bundle.values, self.tables[table])
        return conformed(bundle.batch, self.tables[table])


def planned(text: str, tables: Mapping[str, Any], label: str) -> Query:
    """Return a query over tables with these `pyarrow.Schema`s.

    Raises `PipelineError` for a query that DuckDB refuses, for one that isn't a single SELECT, and for results whose
    columns have no names that fields can have; and `MissingExtraError` without DuckDB.
    """
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra("duckdb", "sql-transform", label) from error
    empty = {name: schema.empty_table() for name, schema in tables.items()}
    try:
        with _cursor(empty) as cursor:
            statements = cursor.extract_statements(text)
            if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
                kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
                raise PipelineError(f"{label}: expected one SELECT, got {kinds}: {text.strip():.80}")
            (text,) = (statement.query for statement in statements)
            relation = cursor.sql(text)
            schema = _schema(relation, label)
            return Query(text, dict(tables), schema, _by_row(text, tables, schema), _used(cursor, text, tables))
    except duckdb.Error as error:
        raise PipelineError(f"{label}: DuckDB refuses the query: {error}") from error


def _schema(relation: Any, label: str) -> Any:
    """Return the schema of a result; whole numbers of more than 64 bits, which sums have, with 64.

    Raises `PipelineError` for columns that can't be fields, and `UnsupportedError` for types without Python values.
    """
    import pyarrow
    from pyarrow import types

    fields: list[tuple[str, Any]] = []
    found = relation.to_arrow_table().schema
    for name, kind, declared in zip(found.names, found.types, map(str, relation.types)):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise PipelineError(f"{label}: {name!r} can't be the name of a field; name the column by AS")
        if name in dict(fields):
            raise PipelineError(f"{label}: two columns are called {name!r}; name one of them by AS")
        if declared in ("HUGEINT", "UHUGEINT"):
            kind = pyarrow.int64()
        elif declared == "UUID":
            kind = pyarrow.uuid()
        elif types.is_dictionary(kind):
            kind = kind.value_type
        elif types.is_timestamp(kind):
            kind = pyarrow.timestamp("us", None if kind.tz is None else "UTC")
        elif types.is_interval(kind) or hasattr(kind, "extension_name"):
            raise UnsupportedError(f"{label}: column {name!r} has the type {declared}; cast it to another one")
        fields.append((name, kind))
    return pyarrow.schema(fields)


def _by_row(text: str, tables: Mapping[str, Any], schema: Any) -> str | None:
    """Return the query with the number of its input row; None if a row of the result may depend on several rows.

    DuckDB's own plan decides, without optimizations, which use that the table is empty.
    """
    import duckdb
    import pyarrow

    if len(tables) != 1:
        return None
    ((name, own),) = tables.items()
    with _cursor({name: own.append(pyarrow.field(_ROW, pyarrow.int64())).empty_table()}) as cursor:
        ((serialized,),) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
        parsed = json.loads(serialized)
        node = parsed["statements"][0]["node"] if "statements" in parsed else {}
        if node.get("type") != "SELECT_NODE" or node["from_table"]["type"] != "BASE_TABLE":
            return None
        reference = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "query_location": 0}
        node["select_list"].append({**reference, "column_names": [_ROW]})
        try:
            ((numbered,),) = cursor.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(parsed)]).fetchall()
            result = cursor.sql(numbered).to_arrow_table().schema
            operators = [found["name"] for found in _plan(cursor, numbered, optimized="")]
        except duckdb.Error:
            # Such as an aggregate beside a column.
            return None
    is_by_row = set(operators) <= _BY_ROW and operators.count("PYTHON_ARROW_SCAN") == 1
    # A star has the number, too; an expression over all columns would have others.
    kept = [column for column in result.names if column != _ROW]
    return numbered if is_by_row and result.names[-1] == _ROW and kept == schema.names else None


def _used(cursor: Any, text: str, tables: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the columns that a query reads."""
    scans = [found for found in _plan(cursor, text, "unused_columns") if found["name"] == "PYTHON_ARROW_SCAN"]
    found = [scan["extra_info"].get("Projections", []) for scan in scans]
    read = {name for names in found for name in ([names] if isinstance(names, str) else names)}
    # Of a struct, DuckDB names the fields that are read: `place.city`.
    columns = {column for schema in tables.values() for column in schema.names}
    return frozenset(column for column in columns if any(f"{name}.".startswith(f"{column}.") for name in read))


def _plan(cursor: Any, text: str, optimized: str) -> Iterator[dict[str, Any]]:
    """Yield the operators of DuckDB's plan of a query, with one optimization or none."""
    known = [name for (name,) in cursor.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    cursor.execute(f"SET disabled_optimizers = '{','.join(name for name in known if name != optimized)}'")
    try:
        ((_, shown),) = cursor.execute(f"EXPLAIN (FORMAT json) {text}").fetchall()
    finally:
        cursor.execute("RESET disabled_optimizers")
    waiting = json.loads(shown)
    while waiting:
        operator = waiting.pop()
        waiting += operator["children"]
        yield operator


@contextmanager
def _cursor(tables: Mapping[str, Any]) -> Iterator[Any]:
    """Return a connection that sees these tables only."""
    import duckdb

    database = _DATABASES.get(os.getpid())
    if database is None:
        database = _DATABASES[os.getpid()] = duckdb.connect(":memory:", config=_SETTINGS)
    cursor = database.cursor()
    try:
        for name, table in tables.items():
            cursor.register(name, table)
        yield cursor
    finally:
        cursor.close()


def _one_batch(table: Any) -> Any:
    import pyarrow

    # A table without rows has no batch.
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=table.schema)


def conformed(batch: Any, schema: Any) -> Any:
    """Return the columns of a schema, with its types.  Raises `ColumnError`."""
    import pyarrow

    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise ColumnError(f"there is no field {field.name!r}; the elements have {', '.join(batch.schema.names)}")
        try:
            columns.append(_cast(batch.column(index), field.type))
        except pyarrow.ArrowException as error:
            raise _mismatch(field, error) from error
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, kind: Any) -> Any:
    import pyarrow

    if pyarrow.types.is_null(kind):
        # Of a field without a type, which the query doesn't read.
        return pyarrow.nulls(len(column))
    # DuckDB gives UUIDs as text, for which Arrow has no cast.
    if isinstance(kind, pyarrow.UuidType) and pyarrow.types.is_string(column.type):
        return array_of([None if text is None else UUID(text) for text in column.to_pylist()], kind)
    return column.cast(kind)


def rows_of_elements(elements: list[Any], schema: Any) -> Any:
    """Return elements with named fields as a record batch.

    Raises `ColumnError` for elements without the fields of the schema, and for values of other types.
    """
    import pyarrow

    records = [fields_of(element) for element in elements]
    columns = []
    for field in schema:
        try:
            values = [record[field.name] for record in records]  # type: ignore[index]
            is_read = not pyarrow.types.is_null(field.type)
            columns.append(array_of(values, field.type).cast(field.type) if is_read else pyarrow.nulls(len(values)))
        except (KeyError, TypeError) as error:
            raise ColumnError(f"expected elements with a field {field.name!r}: {error}") from error
        except (pyarrow.ArrowException, OverflowError) as error:
            raise _mismatch(field, error) from error
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def _mismatch(field: Any, error: Exception) -> ColumnError:
    return ColumnError(f"the field {field.name!r} was declared as {field.type}: {error}")
