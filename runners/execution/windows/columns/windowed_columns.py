"""Windowed columns: the base of cells and groups that are columns.

A row has the number of its window in a list of windows, beside the columns of its key.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec

from .....sdk.columns.arrow_fold import key_column
from .....sdk.columns.arrow_lists import numbered_cells
from .....sdk.columns.column_bundle import ColumnBundle
from .....sdk.columns.column_elements import Elements, Pairs, as_dicts
from .....sdk.elements.bundle import BUNDLE_SIZE
from .....triggers import ONLY_PANE
from .....windowing import BoundedWindow
from .....windowing.timestamp import MAX_MICROS
from .....windowing.timestamp_combiner import TimestampCombiner
from .....windowing.windows import end_of_window
from ...serialization.column_codec import decode_column, encode_column
from ..combining import Fold

# The functions of timestamps, by timestamp combiner.
_STAMPS = {
    TimestampCombiner.OUTPUT_AT_EOW: None,
    TimestampCombiner.OUTPUT_AT_EARLIEST: "min",
    TimestampCombiner.OUTPUT_AT_LATEST: "max",
}
# The size beyond which a column of strings may be too long for one array.
LARGE = 1 << 30
# Bundles of results.
RESULTS = 4 * BUNDLE_SIZE

# The first byte of a block of columns.  A block of rows is a MessagePack array, which begins with another.
COLUMNS = b"A"
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[bytes]).decode
_unpickled = lru_cache(maxsize=256)(pickle.loads)

# Returns the key group of each of some keys.
GroupsOf = Callable[[Collection[Any]], list[int]]


class WindowedColumns:
    """Columns of one grouping.

    Args:
      fold: the grouping's fold.
      cells_of: returns the cells of a window that flushed columns become.

    Attributes:
      windows: the windows, with their numbers in the column of windows.
      rows: the number of rows that are kept; a cell may have several.
      nbytes: the number of their bytes.
    """

    def __init__(self, fold: Fold, cells_of: Callable[[BoundedWindow], Any]) -> None:
        self.fold = fold
        self.combiner = fold.windowing.timestamp_combiner
        self.stamp = _STAMPS.get(self.combiner)
        self.cells_of = cells_of
        self.clear()

    @staticmethod
    def takes(fold: Fold) -> bool:
        """Return True if columns of some types can stay columns in a grouping."""
        return not fold.operation.merging and fold.windowing.timestamp_combiner in _STAMPS

    def clear(self) -> None:
        """Forget all rows."""
        self.windows: dict[BoundedWindow, int] = {}
        self.rows = self.nbytes = 0

    def __len__(self) -> int:
        return self.rows

    def compact(self) -> None:
        """Fold what can be folded."""

    def earliest_end(self) -> int:
        """Return the earliest end of the windows."""
        return min(map(end_of_window, self.windows), default=MAX_MICROS)

    def number_of(self, window: BoundedWindow) -> int:
        """Return the number of a window."""
        return self.windows.setdefault(window, len(self.windows))

    def numbered(self, bundle: ColumnBundle, columns: dict[str, Any]) -> Any:
        """Return columns of a bundle as a record batch, with a row for each element and window.

        The column "w" has the numbers of the windows, and "s" the timestamps, if the timestamp combiner looks at them.
        """
        import pyarrow

        windows, rows = self._windows_of(bundle)
        if rows is not None:
            columns = {name: column.take(pyarrow.array(rows)) for name, column in columns.items()}
        columns = {**columns, "w": pyarrow.array(windows)}
        if self.stamp is not None:
            columns["s"] = pyarrow.array(_micros(bundle, rows))
        return pyarrow.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _windows_of(self, bundle: ColumnBundle) -> tuple[Any, Any]:
        """Return the window's number of each element in each window, and the element's; None if each has one window."""
        import numpy

        if bundle.has_several_windows:
            indices, known = bundle.assigned
        else:
            indices, known = numpy.zeros(len(bundle), numpy.int64), [bundle.assigned]
        flat = numpy.array([self.number_of(window) for own in known for window in own], numpy.int32)
        counts = numpy.array([len(own) for own in known])
        if (counts == 1).all():
            return flat[indices], None
        own = counts[indices]
        rows = numpy.repeat(numpy.arange(len(indices)), own)
        firsts = numpy.cumsum(counts) - counts
        in_element = numpy.arange(len(rows)) - numpy.repeat(numpy.cumsum(own) - own, own)
        return flat[firsts[indices][rows] + in_element], rows

    def ranks(self) -> Any:
        """Return the rank of each window in the order of their ends, by its number."""
        import numpy

        ends = numpy.argsort(list(map(end_of_window, self.windows)), kind="stable")
        ranks = numpy.empty(len(ends), numpy.uint16 if len(ends) < 1 << 16 else numpy.int64)
        ranks[ends] = numpy.arange(len(ends))
        return ranks

    def results_of(self, batch: Any, results: Any, elements: Elements) -> Iterator[ColumnBundle]:
        """Yield the results of cells.

        Args:
          batch: their windows and timestamps, in the order of the windows' ends.
          results: the columns that results are made of.
        """
        import numpy

        own = self.ranks()[batch.column("w").to_numpy()]
        windows = sorted(self.windows, key=end_of_window)
        last = numpy.array([window.max_micros for window in windows])
        micros = batch.column("s").to_numpy() if self.stamp is not None else last[own]
        assigned = [(window,) for window in windows]
        for start in range(0, len(own), RESULTS):
            part = slice(start, start + RESULTS)
            numbers = own[part]
            is_one = numbers[0] == numbers[-1]
            yield ColumnBundle(
                results.slice(start, RESULTS),
                elements,
                int(last[numbers[0]]) if is_one and self.stamp is None else micros[part],
                assigned[numbers[0]] if is_one else (numbers, assigned),
                ONLY_PANE,
            )

    # Shuffles

    def blocks_of(self, batch: Any, head: Any, groups: Any) -> Iterator[tuple[int, bytes]]:
        """Yield rows as blocks, with the key group of each.

        Args:
          head: describes the rows.
          groups: the key group of each row.
        """
        import numpy
        import pyarrow

        windows = list(self.windows)
        batch, groups = sorted_by(batch, groups)
        described = pickle.dumps(head), batch.schema.serialize().to_pybytes()
        column = batch.schema.get_field_index("w")
        for start, stop in runs_of(groups):
            part = batch.slice(start, stop - start)
            used = [0]
            if len(windows) > 1:
                there, numbers = numpy.unique(part.column(column).to_numpy(), return_inverse=True)
                part, used = part.set_column(column, "w", pyarrow.array(numbers.astype(numpy.int32))), there.tolist()
            own = encode_column([windows[i] for i in used])
            yield int(groups[start]), COLUMNS + _pack([*described, own, part.serialize().to_pybytes()])


def received(block: bytes | memoryview) -> tuple[Any, list[BoundedWindow], Any]:
    """Return what describes the rows of a block, their windows, and the rows."""
    import pyarrow

    head, schema, windows, rows = _unpack(memoryview(block)[1:])
    known = pyarrow.ipc.read_schema(pyarrow.py_buffer(schema))
    batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(rows), known)
    return _unpickled(head), decode_column(windows), batch


def with_numbers(batch: Any, numbers: list[int]) -> Any:
    """Return rows with other numbers of windows, by their numbers."""
    import numpy
    import pyarrow

    own = numpy.array(numbers, numpy.int32)[batch.column("w").to_numpy()]
    return batch.set_column(batch.schema.get_field_index("w"), "w", pyarrow.array(own))


def keys_of_pairs(bundle: ColumnBundle) -> list[Any] | None:
    """Return the columns of the keys of pairs; None if Arrow doesn't group them as Python does."""
    pairs = bundle.elements
    if not isinstance(pairs, Pairs) or pairs.keys is as_dicts or type(bundle.signs) is list or bundle.signs != 1:
        return None
    keys = [key_column(column) for column in bundle.batch.columns[: pairs.width]]
    return None if any(column is None for column in keys) else keys


def groups_of_rows(columns: list[Any], rows: int, keys_of: Callable[[Any], list[Any]], groups_of: GroupsOf) -> Any:
    """Return the key group of each row, computed once for each key.

    Args:
      columns: the columns of the keys.
      keys_of: returns the keys of some rows.
    """
    import numpy

    if not columns:
        return numpy.full(rows, groups_of(keys_of(numpy.zeros(1, numpy.int64)))[0], numpy.int64)
    numbers, firsts = numbered_cells(columns)
    return numpy.array(groups_of(keys_of(firsts)), numpy.int64)[numbers]


def _micros(bundle: ColumnBundle, rows: Any) -> Any:
    import numpy

    micros = bundle.micros
    if isinstance(micros, int):
        return numpy.full(len(bundle) if rows is None else len(rows), micros, numpy.int64)
    return micros if rows is None else micros[rows]


def runs_of(values: Any) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each run of equal values of a NumPy array."""
    import numpy

    if len(values):
        borders = [0, *(numpy.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
        yield from pairwise(borders)


def sorted_by(batch: Any, by: Any) -> tuple[Any, Any]:
    """Return the rows of a batch in the order of an array, and the array in order."""
    import numpy
    import pyarrow

    if (by[1:] >= by[:-1]).all():
        return batch, by
    # Integers of 16 bits are sorted by radix.
    is_small = len(by) and by.min() >= 0 and by.max() < 1 << 16
    order = numpy.argsort(by.astype(numpy.uint16) if is_small else by, kind="stable")
    return batch.take(pyarrow.array(order)), by[order]
