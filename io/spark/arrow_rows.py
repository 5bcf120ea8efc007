"""Conversion between rows of a DataFrame and elements, by way of Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

from ...sdk.columns.column_elements import dicts_of, values_of
from ...sdk.elements.row import Row, rows_of_dicts
from ...sdk.errors import SinkError, SourceError
from ...windowing.timestamp import Timestamp
from ..optional_package import optional_package

_EXTRA = "dataframes"


def pyarrow() -> Any:
    """Import and return the package.  Raises `MissingExtraError` if it isn't installed."""
    return optional_package("pyarrow", extra=_EXTRA, needed_for="A DataFrame in a pipeline")


def arrow_type(spark_type: Any, large: bool = False) -> Any:
    """Return the Arrow type of a Spark type.

    Args:
      large: uses offsets of 64 bits for strings and bytes (`spark.sql.execution.arrow.useLargeVarTypes`).

    Raises `TypeError` for a type that has no counterpart.
    """
    pa = pyarrow()
    name = spark_type.typeName()
    if name in ("array", "map", "struct"):
        return _nested(spark_type, name, large)
    if name == "decimal":
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if name == "string":
        return pa.large_string() if large else pa.string()
    if name == "binary":
        return pa.large_binary() if large else pa.binary()
    simple = {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if name in simple:
        return simple[name]
    if name == "daytimeinterval":
        return pa.duration("us")
    raise TypeError(f"the type {spark_type.simpleString()}, which elements can't have; cast it to another one")


def _nested(spark_type: Any, name: str, large: bool) -> Any:
    pa = pyarrow()
    if name == "struct":
        return pa.struct([pa.field(f.name, arrow_type(f.dataType, large), f.nullable) for f in spark_type.fields])
    if name == "array":
        element = pa.field("element", arrow_type(spark_type.elementType, large), spark_type.containsNull)
        return pa.list_(element)
    value = pa.field("value", arrow_type(spark_type.valueType, large), spark_type.valueContainsNull)
    return pa.map_(arrow_type(spark_type.keyType, large), value)


def arrow_schema(struct: Any, label: str, large: bool = False) -> Any:
    """Return the Arrow schema of a `StructType`.

    Raises `SourceError`, naming the transform and the column, for a type that elements can't have, or a name that
    two columns have.
    """
    pa = pyarrow()
    fields, names = [], set()
    for field in struct.fields:
        if field.name in names:
            raise SourceError(f"{label}: two columns are called {field.name!r}; rename one of them")
        names.add(field.name)
        try:
            fields.append(pa.field(field.name, arrow_type(field.dataType, large), field.nullable))
        except TypeError as error:
            raise SourceError(f"{label}: column {field.name!r} has {error}") from None
    return pa.schema(fields)


# Rows as elements


def rows_of(batch: Any) -> list[Row]:
    """Return the rows of a record batch.

    A struct is a `Row`, an array a list, a map a dictionary, a timestamp a `datetime` in UTC.

    >>> import pyarrow as pa
    >>> rows_of(pa.record_batch({"word": ["a", "b"], "n": [1, None]}))
    [Row(word='a', n=1), Row(word='b', n=None)]
    """
    return rows_of_dicts(dicts_of(batch.schema.names, [_values(column) for column in batch.columns], batch.num_rows))


def _values(column: Any) -> list[Any]:
    values, convert = values_of(column), _reader(column.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _reader(arrow: Any) -> Callable[[Any], Any] | None:
    """Return a function from Arrow's values to elements' values, or None if they are the same."""
    pa = pyarrow()
    if pa.types.is_struct(arrow):
        fields = [(field.name, _reader(field.type)) for field in arrow]
        return lambda value: Row(**{name: _converted(read, value[name]) for name, read in fields})
    if pa.types.is_map(arrow):
        key, item = _reader(arrow.key_type), _reader(arrow.item_type)
        return lambda pairs: {_converted(key, k): _converted(item, v) for k, v in pairs}
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = _reader(arrow.value_type)
        return None if element is None else lambda values: [_converted(element, value) for value in values]
    return None


def _converted(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def timestamps_of(batch: Any, column: str, label: str) -> Any:
    """Return a column's values as event times, in a NumPy array of microseconds.

    Timestamps and dates without a time zone are in UTC; a number is seconds since 1970.  Raises `SourceError` for other
    types, and for a row without a value.

    >>> import pyarrow as pa
    >>> timestamps_of(pa.record_batch({"t": [1, 2]}), "t", "Read").tolist()
    [1000000, 2000000]
    """
    import numpy

    pa = pyarrow()
    array = batch.column(column)
    if array.null_count:
        raise SourceError(
            f"{label}: {array.null_count} rows have no value in column {column!r}, which is their event time; "
            "filter them out of the DataFrame, or fill them in"
        )
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if pa.types.is_date(array.type):
        return array.cast(pa.int32()).cast(pa.int64()).to_numpy(zero_copy_only=False) * 86_400_000_000
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        seconds = [float(value) if isinstance(value, float) else int(value) for value in array.to_pylist()]
        return numpy.array([Timestamp.of(value).micros for value in seconds], numpy.int64)
    raise SourceError(
        f"{label}: column {column!r} has the type {array.type}; an event time is a timestamp, a date, or a number "
        "of seconds since 1970"
    )


# Elements as rows


class Packer:
    """Conversion of elements to record batches.

    An element is a `Row`, a dictionary, a (named) tuple or an object with attributes; of a schema with one column,
    it may be that column's value.

    Args:
      schema: an Arrow schema.

    >>> import pyarrow as pa
    >>> packer = Packer(pa.schema([("word", pa.string()), ("n", pa.int64())]), "ToSpark")
    >>> pa.ipc.open_stream(packer([("a", 1), {"n": 2, "word": "b"}])).read_all().to_pylist()
    [{'word': 'a', 'n': 1}, {'word': 'b', 'n': 2}]
    """

    def __init__(self, schema: Any, label: str) -> None:
        self._schema = schema
        self._label = label

    def __call__(self, elements: list[Any]) -> bytes:
        """Return elements as a stream of Arrow's IPC.  Raises `SinkError` for an element that doesn't fit the
        schema."""
        pa = pyarrow()
        names = self._schema.names
        rows = [self._row(element, names) for element in elements]
        columns = zip(*rows) if rows else [()] * len(names)
        arrays = [self._array(field, column) for field, column in zip(self._schema, columns)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        packed: bytes = sink.getvalue().to_pybytes()
        return packed

    def _row(self, element: Any, names: list[str]) -> Iterable[Any]:
        try:
            if isinstance(element, tuple) and not hasattr(element, "_fields"):
                values: Iterable[Any] = element
            elif isinstance(element, dict):
                unknown = element.keys() - set(names)
                if unknown:
                    raise AttributeError(f"there is no column {sorted(map(str, unknown))[0]!r}")
                values = [element.get(name) for name in names]
            elif hasattr(element, "_fields") or all(hasattr(element, name) for name in names):
                values = [getattr(element, name) for name in names]
            elif len(names) == 1:
                values = (element,)
            else:
                raise AttributeError("it isn't a Row, a dictionary or a tuple")
        except AttributeError as error:
            raise self._misfit(element, str(error)) from None
        if isinstance(values, tuple) and len(values) != len(names):
            raise self._misfit(element, f"it has {len(values)} values for {len(names)} columns")
        return values

    def _misfit(self, element: Any, why: str) -> SinkError:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._schema)
        return SinkError(f"{self._label}: {element!r:.200} can't be a row of ({columns}): {why}")

    def _array(self, field: Any, column: Iterable[Any]) -> Any:
        pa = pyarrow()
        convert = _writer(field.type)
        values = [None if value is None else convert(value) for value in column] if convert else list(column)
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SinkError(
                f"{self._label}: column {field.name!r} of type {field.type} got a value that doesn't fit: {error}"
            ) from None


def _writer(arrow: Any) -> Callable[[Any], Any] | None:
    """Return a function from elements' values to Arrow's, or None if they are the same."""
    pa = pyarrow()
    if pa.types.is_timestamp(arrow):
        return _time
    if pa.types.is_struct(arrow):
        fields = [(field.name, _writer(field.type)) for field in arrow]
        return lambda value: {
            name: _converted(write, part) for (name, write), part in zip(fields, _parts(value, [n for n, _ in fields]))
        }
    if pa.types.is_map(arrow):
        key, item = _writer(arrow.key_type), _writer(arrow.item_type)
        return lambda value: [(_converted(key, k), _converted(item, v)) for k, v in dict(value).items()]
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = _writer(arrow.value_type)
        return lambda values: [_converted(element, value) for value in values]
    return None


def _parts(value: Any, names: list[str]) -> Iterable[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return value
    return [getattr(value, name) for name in names]


def _time(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.micros
    if isinstance(value, datetime.datetime):
        return value
    return Timestamp.of(value).micros
