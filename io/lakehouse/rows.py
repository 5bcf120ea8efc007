"""Elements as the columns of a table."""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import array_of
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SinkError
from ..records import as_dicts

# Arrow types between which values are converted without a loss that Arrow wouldn't report, by pyarrow's predicates.
_ALIKE = ("integer", "floating")


@frozen
class ColumnsOf:
    """Conversion of bundles to Arrow tables with the columns of a table.

    Attributes:
      label: of the transform, for errors.
      table: the name of the table, for errors.
      schema: the `pyarrow.Schema` of the table.
    """

    label: str
    table: str
    schema: Any

    def of(self, bundle: Bundle) -> Any:
        """Return the elements as a `pyarrow.Table`.  Raises `SinkError` for one that isn't a row of the table."""
        records = bundle.records if isinstance(bundle, ColumnBundle) else None
        converted = None if records is None else self._converted(records)
        return self.of_values(bundle.values) if converted is None else converted

    def of_values(self, values: list[Any]) -> Any:
        """Return records as a `pyarrow.Table`."""
        import pyarrow

        try:
            dicts = as_dicts(values)
        except SinkError as error:
            raise SinkError(f"{self.label}: {error}") from None
        self._check_names({name for each in dicts for name in each})
        columns = []
        for field in self.schema:
            column = [each.get(field.name) for each in dicts]
            try:
                array = array_of(column, field.type)
            except (pyarrow.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise self._misfit(field, f"{shortened(self._culprit(field, column), 100)}: {error}") from None
            if array.null_count and not field.nullable:
                raise self._misfit(field, "None, and it can't be null")
            columns.append(array)
        return pyarrow.Table.from_arrays(columns, schema=self.schema)

    def _converted(self, batch: Any) -> Any:
        """Return a batch as a table; None if a column has to be converted value by value."""
        import pyarrow

        names = batch.schema.names
        self._check_names(set(names))
        if len(set(names)) != len(names):
            return None
        columns = []
        for field in self.schema:
            if field.name not in names:
                if not field.nullable:
                    raise self._misfit(field, "no such field, and it can't be null")
                columns.append(pyarrow.nulls(len(batch), field.type))
                continue
            column = batch.column(field.name)
            if pyarrow.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if column.type != field.type:
                kinds = [getattr(pyarrow.types, f"is_{kind}") for kind in _ALIKE]
                if not any(is_kind(column.type) and is_kind(field.type) for is_kind in kinds):
                    return None
                try:
                    column = column.cast(field.type)
                except pyarrow.ArrowInvalid:
                    return None
            if column.null_count and not field.nullable:
                return None
            columns.append(column)
        return pyarrow.Table.from_arrays(columns, schema=self.schema)

    def _check_names(self, names: set[str]) -> None:
        unknown = sorted(names - set(self.schema.names))
        if unknown:
            raise SinkError(
                f"{self.label}: the elements have {', '.join(map(repr, unknown))}, which table {self.table} doesn't "
                f"have; its columns are {', '.join(self.schema.names)}. To add columns, give the new schema= and "
                "merge_schema=True"
            )

    def _misfit(self, field: Any, found: str) -> SinkError:
        return SinkError(f"{self.label}: column {field.name!r} of table {self.table} is of {field.type}, got {found}")

    @staticmethod
    def _culprit(field: Any, column: list[Any]) -> Any:
        for value in column:
            try:
                array_of([value], field.type)
            except Exception:
                return value
        return column


def check_schema(label: str, table: str, found: Any, given: Any, merge_schema: bool) -> list[Any]:
    """Return the fields that a table doesn't have yet.

    Args:
      found, given: the `pyarrow.Schema` of the table, and the one that is to be written.
      merge_schema: whether new fields may be added.

    Raises `SinkError` naming the columns that don't fit.
    """
    wrong = []
    for field in given:
        if field.name in found.names:
            own = found.field(field.name)
            if not _fits(field.type, own.type):
                wrong.append(f"{field.name!r} is of {own.type}, expected {field.type}")
    missing = [field for field in given if field.name not in found.names]
    if missing and not merge_schema:
        wrong += [f"it has no {field.name!r} ({field.type})" for field in missing]
    needed = [field.name for field in found if not field.nullable and field.name not in given.names]
    wrong += [f"{name!r} can't be null, and isn't written" for name in needed]
    if wrong:
        advice = "; merge_schema=True adds columns" if missing and not merge_schema else ""
        raise SinkError(f"{label}: the schema doesn't fit table {table}: {', '.join(wrong)}{advice}")
    return missing


def _fits(kind: Any, own: Any) -> bool:
    """Return True if values of one type may be written into a column of another."""
    from pyarrow import types

    if kind == own or any(getattr(types, f"is_{each}")(kind) and getattr(types, f"is_{each}")(own) for each in _ALIKE):
        return True
    sizes = ("string", "binary", "list")
    if any(_is(each, kind) and _is(each, own) for each in sizes):
        return not _is("list", kind) or _fits(kind.value_type, own.value_type)
    if types.is_struct(kind) and types.is_struct(own):
        fields = {own.field(i).name: own.field(i).type for i in range(own.num_fields)}
        inner = [kind.field(i) for i in range(kind.num_fields)]
        return all(field.name in fields and _fits(field.type, fields[field.name]) for field in inner)
    if types.is_timestamp(kind) and types.is_timestamp(own):
        return (kind.tz is None) == (own.tz is None)
    if types.is_map(kind) and types.is_map(own):
        return _fits(kind.key_type, own.key_type) and _fits(kind.item_type, own.item_type)
    return bool(types.is_decimal(kind) and types.is_decimal(own))


def _is(name: str, kind: Any) -> bool:
    from pyarrow import types

    tests = [getattr(types, f"is_{prefix}{name}", None) for prefix in ("", "large_", "fixed_size_")]
    return any(test is not None and test(kind) for test in tests)
