"""ColumnBundle: elements as columns of an Arrow record batch.

What Python does for an element, Arrow does for a column, in a tenth of the time or less.  A stage runs its first
operations on columns as long as each of them understands them (`runners/execution/stages/columns.py`).  Everything else
sees rows: `values`, `timestamps` and `windows` are made of the columns when they are first asked for.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from datetime import date, timezone
from functools import lru_cache, partial
from itertools import compress
from typing import Any, TypeAlias
from uuid import UUID

from ...frozen import frozen
from ...persistence import restores, stored_as
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.timestamp import MIN_MICROS, Timestamp
from ..elements.bundle import BUNDLE_SIZE, GLOBAL_WINDOWS, Bundle, Windows
from ..elements.defensive_copy import defensive_copies
from ..elements.row import Row, rows_of_dicts
from ..errors import ColumnError

# Sources of columns give bundles of about so many elements: NumPy and Arrow spend less time on each than on those of
# `BUNDLE_SIZE`.
COLUMN_BUNDLE_SIZE = 8 * BUNDLE_SIZE
# Bundles of wide rows have fewer of them.
_COLUMN_BUNDLE_BYTES = 8 << 20

# Bundles with fewer windows than one for so many elements are sent with all of them.
_FEW_WINDOWS = 16

# Makes the elements of a record batch.
Elements: TypeAlias = Callable[[Any], list[Any]]


def rows_of_bundle(size: int, rows: int) -> int:
    """Return the number of rows of a source's bundles.

    Args:
      size: the number of bytes of `rows` rows.

    >>> rows_of_bundle(1000, 100), rows_of_bundle(100_000, 100)
    (131072, 16384)
    """
    return BUNDLE_SIZE if COLUMN_BUNDLE_SIZE * size > _COLUMN_BUNDLE_BYTES * rows else COLUMN_BUNDLE_SIZE


class ColumnBundle(Bundle):
    """Elements as columns.

    Args:
      batch: a `pyarrow.RecordBatch`, one row for each element.
      elements: makes the elements of a batch.
      micros: event times in microseconds; a NumPy array, or one int for all.
      assigned: one tuple of windows for all; or a NumPy array of indices into a list of such tuples, and that list.
      panes, signs: as in `Bundle`.

    >>> import pyarrow
    >>> bundle = ColumnBundle(pyarrow.record_batch({"name": ["Ada", "Bo"], "age": [36, 7]}), as_rows)
    >>> len(bundle), bundle.values[1], bundle.part(0, 1).values
    (2, Row(name='Bo', age=7), [Row(name='Ada', age=36)])
    """

    __slots__ = ("_rows", "assigned", "batch", "elements", "micros")

    def __init__(
        self,
        batch: Any,
        elements: Elements,
        micros: Any = MIN_MICROS,
        assigned: Any = GLOBAL_WINDOWS,
        panes: list[PaneInfo] | PaneInfo = PANE_INFO_UNKNOWN,
        signs: list[int] | int = 1,
    ) -> None:
        self.batch = batch
        self.elements = elements
        self.micros = micros
        self.assigned = assigned
        self.panes = panes
        self.signs = signs
        # The columns that have been converted.
        self._rows: dict[str, Any] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __repr__(self) -> str:
        return f"ColumnBundle({self.batch.num_rows} elements)"

    @property
    def values(self) -> list[Any]:  # type: ignore[override]
        """The elements."""
        if "values" not in self._rows:
            self._rows["values"] = self.elements(self.batch)
        values: list[Any] = self._rows["values"]
        return values

    @property
    def timestamps(self) -> list[int] | int:  # type: ignore[override]
        """The event times in microseconds."""
        if isinstance(self.micros, int):
            return self.micros
        if "timestamps" not in self._rows:
            self._rows["timestamps"] = self.micros.tolist()
        timestamps: list[int] = self._rows["timestamps"]
        return timestamps

    @property
    def windows(self) -> list[Windows] | Windows:  # type: ignore[override]
        """The windows of the elements."""
        if not self.has_several_windows:
            assigned: Windows = self.assigned
            return assigned
        if "windows" not in self._rows:
            indices, known = self.assigned
            self._rows["windows"] = list(map(known.__getitem__, indices.tolist()))
        windows: list[Windows] = self._rows["windows"]
        return windows

    @property
    def has_several_windows(self) -> bool:
        """True if the windows vary from element to element."""
        return len(self.assigned) == 2 and isinstance(self.assigned[1], list)

    @property
    def has_elements(self) -> bool:
        """True if the elements exist already."""
        return "values" in self._rows

    def in_columns(self) -> ColumnBundle:
        """Return the bundle with nothing besides its columns."""
        return ColumnBundle(self.batch, self.elements, *self.properties)

    @property
    def has_fields(self) -> bool:
        """True if the columns are the fields of the elements."""
        return has_fields(self.elements)

    @property
    def has_columns(self) -> bool:
        """True if the elements have columns; False for a batch of values that Arrow would change."""
        return True

    @property
    def has_given_elements(self) -> bool:
        """True if the columns were made of the elements, which may be of other types than those of the columns."""
        return "given" in self._rows

    @property
    def has_other_columns(self) -> bool:
        """True if something besides the values varies from element to element, or elements exist already."""
        varies = not isinstance(self.micros, int) or self.has_several_windows or "values" in self._rows
        return varies or type(self.panes) is list or type(self.signs) is list

    @property
    def records(self) -> Any:
        """The batch if the elements are Rows or dictionaries that are yet to be made of all of it; otherwise None."""
        is_of_records = self.elements in (as_rows, as_dicts) and "values" not in self._rows
        return self.batch if is_of_records and self.has_columns else None

    def part(self, start: int, stop: int) -> ColumnBundle:
        stop = min(stop, len(self))
        return self._picked(self.batch.slice(start, stop - start), lambda column: column[start:stop])

    def unshared(self) -> ColumnBundle:
        # Columns aren't changed in place, unlike elements.
        copied = ColumnBundle(self.batch, self.elements, *self.properties)
        if "values" in self._rows:
            return copied._with_values(defensive_copies(self._rows["values"]), self.has_given_elements)
        return copied

    def portions(self) -> Iterator[ColumnBundle]:
        """Yield the elements in parts of at most `BUNDLE_SIZE`."""
        if len(self) <= BUNDLE_SIZE:
            yield self
            return
        for start in range(0, len(self), BUNDLE_SIZE):
            yield self.part(start, start + BUNDLE_SIZE)

    def where(self, mask: Any) -> ColumnBundle:
        """Return the elements for which an Arrow array of bools is true."""
        batch = _filtered(self.batch, mask)
        if batch.num_rows == len(self):
            return self
        if not self.has_other_columns:
            return self.with_batch(batch, self.elements)
        chosen = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return self._picked(
            batch, lambda column: list(compress(column, chosen.tolist())) if type(column) is list else column[chosen]
        )

    def _picked(self, batch: Any, pick: Callable[[Any], Any]) -> ColumnBundle:
        picked = ColumnBundle(
            batch,
            self.elements,
            self.micros if isinstance(self.micros, int) else pick(self.micros),
            (pick(self.assigned[0]), self.assigned[1]) if self.has_several_windows else self.assigned,
            pick(self.panes) if type(self.panes) is list else self.panes,
            pick(self.signs) if type(self.signs) is list else self.signs,
        )
        if "values" in self._rows:
            # Elements that exist already stay the same objects.
            return picked._with_values(pick(self._rows["values"]), self.has_given_elements)
        return picked

    def with_batch(self, batch: Any, elements: Elements) -> ColumnBundle:
        """Return a bundle with other values."""
        return ColumnBundle(batch, elements, self.micros, self.assigned, self.panes, self.signs)

    def with_times(self, micros: Any, assigned: Any) -> ColumnBundle:
        """Return a bundle with other event times and windows."""
        changed = ColumnBundle(self.batch, self.elements, micros, assigned, self.panes, self.signs)
        if "values" in self._rows:
            return changed._with_values(self._rows["values"], self.has_given_elements)
        return changed

    def with_values(self, values: list[Any]) -> ColumnBundle:
        """Return a bundle whose elements exist already."""
        return self.with_times(self.micros, self.assigned)._with_values(values, are_given=True)

    def _with_values(self, values: list[Any], are_given: bool) -> ColumnBundle:
        self._rows["values"] = values
        if are_given:
            self._rows["given"] = True
        return self

    def taken(self, indices: Any) -> ColumnBundle:
        """Return the elements of these positions, a NumPy array of ints."""
        import pyarrow

        positions: list[int] = indices.tolist()
        return self._picked(
            self.batch.take(pyarrow.array(indices)),
            lambda column: [column[i] for i in positions] if type(column) is list else column[indices],
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (stream_of(self.batch), self.elements, *self.sent_properties)

    @property
    def properties(self) -> tuple[Any, Any, Any, Any]:
        """The columns besides those of the values."""
        return self.micros, self.assigned, self.panes, self.signs

    @property
    def sent_properties(self) -> tuple[Any, Any, Any, Any]:
        """The columns besides those of the values; of many windows only those that elements have."""
        if not self.has_several_windows or len(self.assigned[1]) <= len(self) // _FEW_WINDOWS:
            return self.properties
        import numpy

        indices, known = self.assigned
        used, positions = numpy.unique(indices, return_inverse=True)
        return self.micros, (positions, [known[i] for i in used.tolist()]), self.panes, self.signs


def column_properties(bundle: Bundle) -> tuple[Any, Any, Any, Any]:
    """Return what a bundle has besides values: event times, windows, panes and signs, as a `ColumnBundle` has them."""
    import numpy

    micros: Any = bundle.timestamps
    windows: Any = bundle.windows
    if type(micros) is list:
        micros = numpy.array(micros, numpy.int64)
    if type(windows) is list:
        windows = indexed(windows)
    return micros, windows, bundle.panes, bundle.signs


def _filtered(batch: Any, mask: Any) -> Any:
    """Return the rows for which a mask is true."""
    if batch.num_columns != 1:
        return batch.filter(mask)
    # In half the time: a batch is filtered by the indices of its rows, an array by the bits of the mask.
    return type(batch).from_arrays([batch.column(0).filter(mask)], schema=batch.schema)


def indexed(windows: list[Windows]) -> tuple[Any, list[Windows]]:
    """Return the windows of each element as indices of distinct windows, a NumPy array, and these."""
    import numpy

    positions: dict[Windows, int] = {}
    indices = [positions.setdefault(own, len(positions)) for own in windows]
    return numpy.array(indices, numpy.int64), list(positions)


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


def in_microseconds(table: Any) -> Any:
    """Return a table or a record batch with times of microseconds, as Python's are, in the place of nanoseconds.

    Raises `ColumnError`, naming the column, for a time that isn't one of whole microseconds.

    >>> import pyarrow
    >>> in_microseconds(pyarrow.table({"at": pyarrow.array([5000], "timestamp[ns]")})).schema.field("at").type
    TimestampType(timestamp[us])
    """
    import pyarrow

    for index, field in enumerate(table.schema):
        kind = _in_microseconds(field.type)
        if kind != field.type:
            try:
                table = table.set_column(index, field.name, table.column(index).cast(kind))
            except pyarrow.ArrowInvalid as error:
                raise ColumnError(
                    f"column {field.name!r} has times with nanoseconds, which Python's don't have; round them to "
                    f"microseconds: {error}"
                ) from None
    return table


def _in_microseconds(kind: Any) -> Any:
    import pyarrow
    from pyarrow import types

    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    if types.is_map(kind):
        return pyarrow.map_(_in_microseconds(kind.key_type), _in_microseconds(kind.item_type), kind.keys_sorted)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = kind.value_field.with_type(_in_microseconds(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pyarrow.list_(item, kind.list_size)
        return pyarrow.large_list(item) if types.is_large_list(kind) else pyarrow.list_(item)
    if getattr(kind, "unit", None) != "ns":
        return kind
    if types.is_timestamp(kind):
        return pyarrow.timestamp("us", kind.tz)
    return pyarrow.time64("us") if types.is_time(kind) else pyarrow.duration("us")


@restores("column-bundle", 1)
def _restored(stream: bytes, elements: Elements, *properties: Any) -> ColumnBundle:
    return ColumnBundle(batch_of_stream(stream), elements, *properties)


def stream_of(batch: Any) -> bytes:
    """Return a record batch in Arrow's IPC format.  A pickle of a slice would have the whole batch."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def batch_of_stream(stream: bytes) -> Any:
    """Return the record batch of a stream in Arrow's IPC format."""
    import pyarrow

    return pyarrow.ipc.open_stream(stream).read_next_batch()


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
    if not all(field in names and not field.startswith("_") for field in fields):
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
