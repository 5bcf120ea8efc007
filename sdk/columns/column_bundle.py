"""ColumnBundle: elements as columns of an Arrow record batch.

What Python does for an element, Arrow does for a column, in a tenth of the time or less.  A stage runs its first
operations on columns as long as each of them understands them (`runners/execution/stages/columns.py`).  Everything else
sees rows: `values`, `timestamps` and `windows` are made of the columns when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

from ...persistence import restores
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.timestamp import MIN_MICROS
from ..elements.bundle import BUNDLE_SIZE, GLOBAL_WINDOWS, Bundle, Windows
from ..elements.defensive_copy import defensive_copies
from ..errors import ColumnError
from .column_elements import Elements, as_dicts, as_rows, has_fields

# Sources of columns give bundles of about so many elements: NumPy and Arrow spend less time on each than on those of
# `BUNDLE_SIZE`.
COLUMN_BUNDLE_SIZE = 8 * BUNDLE_SIZE
# Bundles of wide rows have fewer of them.
_COLUMN_BUNDLE_BYTES = 8 << 20

# Bundles with fewer windows than one for so many elements are sent with all of them.
_FEW_WINDOWS = 16


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
