"""The elements of columns: the values of an Arrow record batch as Python's objects, and back.

Elements are rows, dictionaries, tuples, pairs or single values.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from datetime import date, timezone
from functools import lru_cache, partial
from typing import Any, TypeAlias
from uuid import UUID

from ...frozen import frozen
from ...persistence import restores, stored_as
from ...windowing.timestamp import Timestamp
from ..elements.row import Row, rows_of_dicts

# Makes the elements of a record batch.
Elements: TypeAlias = Callable[[Any], list[Any]]


@restores("tuples-of-columns", 1)
def of_columns(batch: Any) -> list[tuple[Any, ...]]:
    """Return the values of each row, as tuples."""
    if not batch.num_columns:
        return [()] * batch.num_rows
    return list(zip(*map(values_of, batch.columns), strict=True))


def values_of(column: Any) -> list[Any]:
    """Return the values of an Arrow array, or of a list, as Python objects."""
    if type(column) is list:
        return column
    from pyarrow import types

    if types.is_timestamp(column.type) or types.is_date32(column.type):
        return _times(column)
    if types.is_dictionary(column.type):
        # Equal values are one object.
        known = [*values_of(column.dictionary), None]
        values: list[Any] = list(map(known.__getitem__, column.indices.fill_null(len(known) - 1).to_numpy().tolist()))
    elif column.null_count or not (types.is_integer(column.type) or types.is_float64(column.type)):
        values = column.to_pylist()
    else:
        # In a quarter of the time.
        values = column.to_numpy().tolist()
    return values


def _times(column: Any) -> list[Any]:
    """Return the values of an array of timestamps or dates, in a twentieth of the time that Arrow takes."""
    import pyarrow

    kind = column.type
    first = pyarrow.scalar(0, kind).as_py()
    is_date = pyarrow.types.is_date32(kind)
    # Beside Python's times, Arrow has pandas' of nanoseconds; and the offset of a zone varies.
    if not is_date and (kind.unit == "ns" or (kind.tz not in (None, "UTC") and type(first.tzinfo) is not timezone)):
        values: list[Any] = column.to_pylist()
        return values
    if is_date or kind.unit == "us":
        numbers = column.cast(pyarrow.int32() if is_date else pyarrow.int64())
    else:
        numbers = column.cast(pyarrow.timestamp("us", kind.tz)).cast(pyarrow.int64())
    if column.null_count:
        numbers = numbers.fill_null(0)
    array = numbers.to_numpy()
    if is_date:
        values = list(map(date.fromordinal, (array.astype("int64") + first.toordinal()).tolist()))
    else:
        values = list(map(first.__add__, array.view("timedelta64[us]").tolist()))
    if column.null_count:
        for index in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
            values[index] = None
    return values


def array_of(values: list[Any], kind: Any = None) -> Any:
    """Return Python's objects as an Arrow array.  Raises pyarrow's errors.

    Args:
      kind: its type; by default the one that pyarrow infers, or uint64 for whole numbers that are too large for that.
    """
    import pyarrow

    if kind is not None and (pyarrow.types.is_timestamp(kind) or pyarrow.types.is_nested(kind)):
        # Arrow takes a Timestamp for a number of microseconds.
        values = list(map(_convertible, values))
    try:
        return pyarrow.array(values, kind)
    except OverflowError:
        if kind is not None:
            raise
        return pyarrow.array(values, pyarrow.uint64())
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        # Older versions convert UUIDs to Python's only.
        if not all(value is None or isinstance(value, UUID) for value in values):
            raise
        return pyarrow.array([None if value is None else value.bytes for value in values], kind or pyarrow.uuid())


def _convertible(value: Any) -> Any:
    """Return a value of a known type as Arrow takes it: Timestamps as datetimes, Rows as dicts, and sets as lists."""
    kind = type(value)
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    if kind is Row:
        return {name: _convertible(part) for name, part in value._asdict().items()}
    if kind is dict:
        return {key: _convertible(part) for key, part in value.items()}
    if kind is tuple:
        return tuple(map(_convertible, value))
    return list(map(_convertible, value)) if kind in (list, set, frozenset) else value


@restores("dicts-of-columns", 1)
def as_dicts(batch: Any) -> list[dict[str, Any]]:
    """Return each row as a dictionary."""
    return dicts_of(batch.schema.names, list(map(values_of, batch.columns)), batch.num_rows)


@restores("rows-of-columns", 1)
def as_rows(batch: Any) -> list[Row]:
    """Return each row as a `Row`."""
    return rows_of_dicts(as_dicts(batch))


def dicts_of(names: list[str], columns: list[list[Any]], n: int) -> list[dict[str, Any]]:
    """Return a dictionary for each of `n` rows.

    >>> dicts_of(["a", "b"], [[1, 2], ["x", "y"]], 2)
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}]
    """
    if not names:
        return [{} for _ in range(n)]
    # By columns, which takes half the time of `dict(zip(names, row))` for each row.
    dicts = [{names[0]: value} for value in columns[0]]
    for name, column in zip(names[1:], columns[1:], strict=True):
        for row, value in zip(dicts, column, strict=True):
            row[name] = value
    return dicts


def light_rows(batch: Any, fields: tuple[str, ...]) -> list[Any] | None:
    """Return for each row an object with some of its fields, in half the time of a `Row`; None if one is missing.

    >>> import pyarrow
    >>> light_rows(pyarrow.record_batch({"a": [1], "b": ["x"], "c": [2.5]}), ("c", "a"))
    [Row(c=2.5, a=1)]
    >>> light_rows(pyarrow.record_batch({"a": [1]}), ("b",))
    """
    names = batch.schema.names
    if not all(names.count(field) == 1 and not field.startswith("_") for field in fields):
        return None
    return list(map(_light_row(fields), zip(*(values_of(batch.column(field)) for field in fields), strict=True)))


@lru_cache(maxsize=64)
def _light_row(fields: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function from values to a row; one of C, as is the reading of a field."""
    make: Any = namedtuple
    return partial(tuple.__new__, make("Row", fields))


@restores("values-of-columns", 1)
def as_values(batch: Any) -> list[Any]:
    """Return the values of the only column."""
    return values_of(batch.column(0))


@restores("nones-of-columns", 1)
def as_nones(batch: Any) -> list[None]:
    """Return None for each row."""
    return [None] * batch.num_rows


@stored_as("pairs-of-columns", 1)
@frozen
class Pairs:
    """Makes pairs of key and value of a record batch.

    Attributes:
      width: the number of columns that keys are made of, which come first.
      keys, values: make the keys and the values of their columns.

    >>> import pyarrow
    >>> Pairs(1, as_values, of_columns)(pyarrow.record_batch({"k": ["a"], "x": [1], "y": [2]}))
    [('a', (1, 2))]
    """

    width: int
    keys: Elements
    values: Elements

    def __call__(self, batch: Any) -> list[tuple[Any, Any]]:
        return list(zip(self.keys(self.keys_of(batch)), self.values(self.values_of(batch)), strict=True))

    def keys_of(self, batch: Any) -> Any:
        """Return the columns of the keys."""
        return batch.select(list(range(self.width)))

    def values_of(self, batch: Any) -> Any:
        """Return the columns of the values."""
        return batch.select(list(range(self.width, batch.num_columns)))


def has_fields(elements: Elements) -> bool:
    """Return True if elements are made with the names of the columns."""
    return not isinstance(elements, Pairs) and elements not in (as_values, as_nones, of_columns)
