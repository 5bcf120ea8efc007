"""Types of expressions over fields, and checks of fields, when the pipeline is built.

An expression is computed for no elements, with columns of the types of the fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..columns.column_bundle import in_microseconds
from ..columns.expressions import Column, OfFields, Selection
from ..errors import ColumnError
from .arrow_schema import arrow_type
from .schema import Schema, schemas_of

# Types for which a column of Python's values has the functions of the source's column.
_CHECKED = ("boolean", "integer", "floating", "string", "date", "timestamp")


def fields_of(schema: Any) -> list[tuple[str, Any]]:
    """Return the fields of elements whose columns have a `pyarrow.Schema`, as in `Schema`.

    >>> import pyarrow
    >>> fields_of(pyarrow.schema([("at", pyarrow.timestamp("ns")), ("nothing", pyarrow.null())]))
    [('at', TimestampType(timestamp[us])), ('nothing', None)]
    """
    from pyarrow import types

    columns = in_microseconds(schema.empty_table()).schema
    kinds = [kind.value_type if types.is_dictionary(kind) else kind for kind in columns.types]
    return [(name, None if types.is_null(kind) else kind) for name, kind in zip(columns.names, kinds, strict=True)]


def type_in(column: Column, element_type: Any) -> Any:
    """Return the type of an expression's values for elements with a schema, as in `Schema`.

    >>> from penstock import col
    >>> from penstock.sdk.typehints.schema import with_schema
    >>> type_in(col("price") * 1.5, with_schema(dict, [("price", "int64")]))
    DataType(double)
    """
    try:
        return _computed_type(column, element_type)
    except ColumnError:
        return None


def _computed_type(column: Column, element_type: Any) -> Any:
    """Return the type as `type_in`.  Raises `ColumnError` if the types of the fields don't fit the expression."""
    found = schemas_of(element_type)
    if len(found) != 1:
        return None
    ((_, schema),) = found
    fields = {name: kind for name, kind in schema.fields if name in column.fields}
    if column.is_field:
        return next(iter(fields.values()), None)
    if not column.is_of_arrow or len(fields) < len(column.fields):
        return None
    import pyarrow
    from pyarrow import types

    kinds = [arrow_type(kind) for kind in fields.values()]
    if any(kind is None or not any(getattr(types, f"is_{name}")(kind) for name in _CHECKED) for kind in kinds):
        return None
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([], kind) for kind in kinds], list(fields))
    try:
        return getattr(column.values(batch), "type", None)
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError) as error:
        raise ColumnError(f"{column.text} can't be computed: {error}") from error
    except Exception:
        # The same error is raised for elements, if there are any.
        return None


def check_operation(operation: Any, element_type: Any, label: str) -> None:
    """Raise `ColumnError` if an operation on columns certainly can't be applied to elements of a type."""
    if not isinstance(operation, OfFields):
        return
    check_columns(operation.columns, element_type, label, operation.is_needed)
    if isinstance(operation, Selection):
        kind = type_in(operation.mask, element_type)
        if kind is not None and str(kind) != "bool":
            raise ColumnError(f"{label}: {operation.mask.text} is of the type {kind}; expected true or false")


def check_columns(columns: Iterable[Column], element_type: Any, label: str, is_needed: bool = True) -> None:
    """Raise `ColumnError` for an expression over fields that no element has, or whose types don't fit it.

    Args:
      is_needed: False for fields that may be other attributes of elements.
    """
    found = schemas_of(element_type)
    if not found:
        return
    for column in columns:
        for name in sorted(column.fields):
            if not any(_has(kind, schema, name, is_needed) for kind, schema in found):
                raise ColumnError(f"{label}: {_missing(name, found)}")
        try:
            _computed_type(column, element_type)
        except ColumnError as error:
            raise ColumnError(f"{label}: {error}") from error.__cause__


def _has(kind: Any, schema: Schema, name: str, is_needed: bool) -> bool:
    if is_needed or kind is None:
        return schema.may_have(name)
    return not issubclass(kind, dict) and (schema.may_have(name) or hasattr(kind, name))


def _missing(name: str, found: list[tuple[Any, Schema]]) -> str:
    if any(schema.may_have(name) for _, schema in found):
        return (
            f"the field {name!r} of a dict isn't an attribute; use the expression col({name!r}), or read Rows by "
            "as_rows=True"
        )
    names = dict.fromkeys(name for _, schema in found for name in schema.names)
    return f"there is no field {name!r}; the elements have {', '.join(names) or 'none'}"
