"""Batches of Arrow and pandas: record batches, tables, arrays, data frames and series."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from ..columns.column_bundle import in_microseconds
from ..columns.column_elements import array_of, dicts_of
from ..elements.row import Row, fields_of, rows_of_dicts
from ..errors import ColumnError
from .batch import BatchConverter, has_class, mismatch, one_column
from .callables import hints_of_callable
from .simplified import NoneType, class_and_args, members


class ArrowArrayConverter(BatchConverter):
    """Batches that are a `pyarrow.Array`."""

    stored_name = "arrow-array"

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        return _array(list(elements), self.element_type)

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        return batch.to_pylist()  # type: ignore[no-any-return]

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        import pyarrow

        return pyarrow.concat_arrays(batches)

    def part(self, batch: Any, start: int, stop: int) -> Any:
        return batch[start:stop]

    def take(self, batch: Any, indices: Any) -> Any:
        return batch.take(indices)

    def to_columns(self, batch: Any) -> Any:
        return one_column(batch)

    def of_columns(self, columns: Any) -> Any:
        return columns.column(0)


class SeriesConverter(BatchConverter):
    """Batches that are a `pandas.Series`, whose index is the elements' places."""

    stored_name = "series"

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        return _series(list(elements))

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        return _of_series(batch)

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        import pandas  # type: ignore[import-untyped]

        return pandas.concat(batches, ignore_index=True)

    def part(self, batch: Any, start: int, stop: int) -> Any:
        return batch.iloc[start:stop].reset_index(drop=True)

    def take(self, batch: Any, indices: Any) -> Any:
        return batch.iloc[indices].reset_index(drop=True)

    def to_columns(self, batch: Any) -> Any:
        return one_column(_column_of_series(batch))

    def of_columns(self, columns: Any) -> Any:
        return _series_of_column(columns.column(0))


class RecordConverter(BatchConverter):
    """Batches that are a `pyarrow.RecordBatch` or a `pyarrow.Table`, and elements with named fields."""

    has_fields = True
    stored_name = "records"

    def __init__(self, batch_type: Any, element_type: Any) -> None:
        super().__init__(batch_type, element_type)
        self._types = _field_types(element_type)
        self._is_table = class_and_args(batch_type)[0].__name__ == "Table"

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        import pyarrow

        fields = _fields_of_all(elements)
        columns = [_array(values, self._types.get(name)) for name, values in fields.items()]
        return self.of_columns(pyarrow.RecordBatch.from_arrays(columns, list(fields)))

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        return self.elements(self.to_columns(batch))

    def elements(self, columns: Any) -> list[Any]:
        names = columns.schema.names
        return _with_fields(self.element_type, names, [column.to_pylist() for column in columns.columns], len(columns))

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        import pyarrow

        return self.of_columns(pyarrow.concat_batches(list(map(self.to_columns, batches))))

    def part(self, batch: Any, start: int, stop: int) -> Any:
        return batch[start:stop]

    def take(self, batch: Any, indices: Any) -> Any:
        import pyarrow

        return batch.take(pyarrow.array(indices))

    def to_columns(self, batch: Any) -> Any:
        import pyarrow

        if isinstance(batch, pyarrow.RecordBatch):
            return batch
        chunks = batch.combine_chunks().to_batches()
        return chunks[0] if chunks else pyarrow.RecordBatch.from_pylist([], batch.schema)

    def of_columns(self, columns: Any) -> Any:
        import pyarrow

        return pyarrow.Table.from_batches([columns]) if self._is_table else columns


class DataFrameConverter(BatchConverter):
    """Batches that are a `pandas.DataFrame`, whose index is the elements' places."""

    has_fields = True
    stored_name = "data-frame"

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        import pandas

        fields = _fields_of_all(elements)
        return pandas.DataFrame({name: _series(values) for name, values in fields.items()}, range(len(elements)))

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        columns = [_of_series(batch.iloc[:, i]) for i in range(batch.shape[1])]
        return _with_fields(self.element_type, list(map(str, batch.columns)), columns, len(batch))

    def elements(self, columns: Any) -> list[Any]:
        names = columns.schema.names
        return _with_fields(self.element_type, names, [column.to_pylist() for column in columns.columns], len(columns))

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        import pandas

        return pandas.concat(batches, ignore_index=True)

    def estimate_byte_size(self, batch: Any) -> int:
        return int(batch.memory_usage().sum())

    def part(self, batch: Any, start: int, stop: int) -> Any:
        return batch.iloc[start:stop].reset_index(drop=True)

    def take(self, batch: Any, indices: Any) -> Any:
        return batch.iloc[indices].reset_index(drop=True)

    def to_columns(self, batch: Any) -> Any:
        import pyarrow

        columns = [_column_of_series(batch.iloc[:, i]) for i in range(batch.shape[1])]
        return pyarrow.RecordBatch.from_arrays(columns, list(map(str, batch.columns)))

    def of_columns(self, columns: Any) -> Any:
        import pandas

        names = columns.schema.names
        return pandas.DataFrame(
            {name: _series_of_column(column) for name, column in zip(names, columns.columns, strict=True)},
            range(len(columns)),
        )


@BatchConverter.register(name="pyarrow")
def _of_arrow(element_type: Any, batch_type: Any) -> BatchConverter | None:
    if has_class(batch_type, "pyarrow", "Array"):
        return ArrowArrayConverter(batch_type, element_type)
    if has_class(batch_type, "pyarrow", "RecordBatch", "Table"):
        return RecordConverter(batch_type, _checked(element_type, batch_type))
    return None


@BatchConverter.register(name="pandas")
def _of_pandas(element_type: Any, batch_type: Any) -> BatchConverter | None:
    if has_class(batch_type, "pandas", "Series"):
        return SeriesConverter(batch_type, element_type)
    if has_class(batch_type, "pandas", "DataFrame"):
        return DataFrameConverter(batch_type, _checked(element_type, batch_type))
    return None


# Elements with named fields


def _checked(element_type: Any, batch_type: Any) -> Any:
    """Return the type of elements with named fields; `Row` for an unknown type."""
    kind, _ = class_and_args(element_type)
    if element_type is Any:
        return Row
    if kind is None or not (issubclass(kind, (dict, Row)) or _is_record_class(kind)):
        raise mismatch(element_type, batch_type, "elements with named fields (a Row, a named tuple, a dataclass)")
    return element_type


def _is_record_class(kind: type) -> bool:
    # Of a named tuple, or of a `msgspec.Struct`.
    if hasattr(kind, "_fields") or hasattr(kind, "__struct_fields__"):
        return True
    return attrs.has(kind) or dataclasses.is_dataclass(kind)


def _field_types(element_type: Any) -> dict[str, Any]:
    """Return the declared types of the fields of a class, by name; none for a `Row` or a dict."""
    kind, _ = class_and_args(element_type)
    if kind is None or issubclass(kind, dict) or kind is Row:
        return {}
    names = getattr(kind, "__annotations__", {})
    inputs, _ = hints_of_callable(kind.__new__ if issubclass(kind, tuple) else kind.__init__, skip_self=True)
    return dict(zip(names, inputs or (), strict=False))


def _fields_of_all(elements: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the values of each field.  Raises `ColumnError` if an element has no fields, or others."""
    dicts = []
    for element in elements:
        fields = fields_of(element)
        if fields is None:
            raise ColumnError(f"expected an element with named fields, got {element!r:.60}")
        dicts.append(fields)
    names = list(dicts[0]) if dicts else []
    try:
        found = {name: [fields[name] for fields in dicts] for name in names}
    except KeyError as error:
        raise ColumnError(f"an element has no field {error}, which another element of the batch has") from None
    if any(len(fields) != len(names) for fields in dicts):
        raise ColumnError(f"an element has other fields than {', '.join(names)}, which another of the batch has")
    return found


def _with_fields(element_type: Any, names: list[str], columns: list[list[Any]], n: int) -> list[Any]:
    kind: Any = class_and_args(element_type)[0]
    dicts = dicts_of(names, columns, n)
    if issubclass(kind, dict):
        return dicts
    return rows_of_dicts(dicts) if kind is Row else [kind(**fields) for fields in dicts]


# Columns


def _array(values: list[Any], hint: Any) -> Any:
    """Return values as an Arrow array, of the type of a hint if that is simple.  Raises `ColumnError`."""
    import pyarrow

    kinds = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string(), bool: pyarrow.bool_()}
    one = [alternative for alternative in members(hint) or (hint,) if alternative is not NoneType]
    kind = kinds.get(one[0]) if len(one) == 1 and isinstance(one[0], type) else None
    try:
        return array_of(values, kind)
    except (pyarrow.ArrowException, OverflowError) as error:
        raise ColumnError(f"the elements can't be converted to columns: {error}") from error


def _series(values: list[Any]) -> Any:
    """Return values as a Series; numbers with None among them stay whole numbers, and None stays None."""
    import numpy
    import pandas

    kinds = set(map(type, values)) - {NoneType}
    if None in values and kinds == {float}:
        # A Series of the type "Float64" would have None for NaN.
        is_none = numpy.array([value is None for value in values])
        numbers = numpy.array([0.0 if value is None else value for value in values])
        return pandas.Series(pandas.arrays.FloatingArray(numbers, is_none))
    if None in values and kinds == {bool}:
        return pandas.Series(values, dtype="boolean")
    if None in values and kinds == {int}:
        return pandas.Series(values, dtype=_nullable_integers([value for value in values if value is not None]))
    if kinds <= {str} or (len(kinds) > 1 and not kinds <= {int, float}):
        return pandas.Series(values, dtype=object)
    return pandas.Series(values)


def _nullable_integers(numbers: list[int]) -> Any:
    """Return the type of a Series of numbers and None."""
    least, most = min(numbers), max(numbers)
    if least >= -(2**63) and most < 2**63:
        return "Int64"
    return "UInt64" if least >= 0 and most < 2**64 else object


def _of_series(series: Any) -> list[Any]:
    """Return the elements of a Series: Python's times, unless they have nanoseconds, and None for NA and NaT."""
    import pandas

    if series.dtype.kind in "mM":
        try:
            return _column_of_series(series).to_pylist()  # type: ignore[no-any-return]
        except ColumnError:
            return [None if value is pandas.NaT else value for value in series.tolist()]
    values: list[Any] = series.tolist()
    if series.dtype.kind in "biuf" and not _is_nullable(series):
        return values
    return [None if value is pandas.NA else value for value in values]


def _is_nullable(series: Any) -> bool:
    return not hasattr(series.dtype, "itemsize") or type(series.dtype).__module__.startswith("pandas")


def _column_of_series(series: Any) -> Any:
    """Return a Series as an Arrow array with the same values.  Raises `ColumnError` if Arrow would change them."""
    import pyarrow

    if series.dtype == object and not set(map(type, series.tolist())) <= {str, NoneType}:
        raise ColumnError("a column of objects other than strings has no type in Arrow")
    # Otherwise NaN would become None.
    column = pyarrow.array(series) if _is_nullable(series) else pyarrow.array(series.to_numpy(), from_pandas=False)
    return in_microseconds(one_column(column)).column(0)


def _series_of_column(column: Any) -> Any:
    import pandas
    from pyarrow import types

    is_number = types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type)
    if is_number and column.null_count:
        return _series(column.to_pylist())
    # Lists would become arrays.
    return pandas.Series(column.to_pylist(), dtype=object) if types.is_nested(column.type) else column.to_pandas()
