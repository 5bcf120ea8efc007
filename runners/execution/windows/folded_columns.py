"""Folded columns: the cells of a combining grouping as Arrow tables, for elements that are columns.

Bundles are kept as they are, until they need as much memory as what has been folded of them; then Arrow groups them by
window and key.  A row of the folded table is a cell: its window, the columns of its key, its timestamp if the timestamp
combiner keeps one, and the parts of its accumulator (`sdk/arrow_fold.py`).

The results are those of the rows.  Where Arrow's functions differ from Python's, the rows are folded one by one: for
columns of other types, for nulls and NaN among the values, and where a sum might exceed 64 bits.  Before that the cells
in columns are *settled*: they become cells like all others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any

import attrs
import msgspec

from ....sdk.arrow_fold import (
    COUNT_ALL,
    ArrowFold,
    columns_of,
    dense_sums,
    key_column,
    most_of,
    plain_column,
)
from ....sdk.arrow_lists import LIST, ListFold, numbered_cells
from ....sdk.bundle import BUNDLE_SIZE, Bundle
from ....sdk.column_bundle import ColumnBundle, Elements, Pairs, as_dicts, as_values, of_columns, values_of
from ....triggers import ONLY_PANE
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner
from ....windowing.windows import end_of_window
from ..serialization.column_codec import decode_column, encode_column
from .combining import Fold, merge_stamps, merging_into

# The functions of timestamps, by timestamp combiner.
_STAMPS = {
    TimestampCombiner.OUTPUT_AT_EOW: None,
    TimestampCombiner.OUTPUT_AT_EARLIEST: "min",
    TimestampCombiner.OUTPUT_AT_LATEST: "max",
}
# Bundles are kept up to this number of bytes.
_KEPT_BYTES = 32 << 20
# The size of a folded table beyond which a column of strings may be too long for one array.
_LARGE = 1 << 30
# Bundles of results.
_RESULTS = 4 * BUNDLE_SIZE
# A sum of absolute values below it can't overflow.
_LIMIT = 1 << 63

# The first byte of a block of columns.  A block of rows is a MessagePack array, which begins with another.
COLUMNS = b"A"
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[bytes]).decode


@attrs.frozen
class _Keys:
    """How keys are made of their columns, whose names are `names`."""

    elements: Elements
    names: tuple[str, ...]

    def of(self, table: Any) -> list[Any]:
        """Return the key of each cell of a folded table."""
        import pyarrow

        if not self.names:
            return self.elements(table.select([]))
        columns = [_array(table.column(f"k{i}")) for i in range(len(self.names))]
        return self.elements(pyarrow.RecordBatch.from_arrays(columns, list(self.names)))


class FoldedColumns:
    """The cells of one grouping, as columns.

    Args:
      fold: the grouping's fold.
      cells_of: returns the cells of a window that settled cells become.

    Attributes:
      windows: the windows, with their places in the column of windows.
      rows: the number of rows that are kept; a cell may have several.
      nbytes: the number of their bytes.
    """

    def __init__(self, fold: Fold, cells_of: Callable[[BoundedWindow], Any]) -> None:
        self._combiner = fold.windowing.timestamp_combiner
        self._stamp = _STAMPS.get(self._combiner)
        self._fold = fold
        self._merge_into = merging_into(fold)
        self._cells_of = cells_of
        folds = None if fold.combine_fn is None else fold.combine_fn.arrow_fold
        self._is_tuple = isinstance(folds, tuple)
        self._folds: tuple[ArrowFold, ...] = folds if isinstance(folds, tuple) else () if folds is None else (folds,)
        self._functions = [pair for each in self._folds for pair in each.functions]
        folds_of_parts = [each for each in self._folds for _ in each.functions]
        self._lists = {f"p{i}": each for i, each in enumerate(folds_of_parts) if isinstance(each, ListFold)}
        if fold.counts:
            self._functions.append((COUNT_ALL, "sum"))
        self.clear()

    @staticmethod
    def takes(fold: Fold) -> bool:
        """Return True if columns of some types can be folded for a grouping."""
        fn = fold.combine_fn
        return (
            fn is not None
            and fn.arrow_fold is not None
            and not fold.operation.merging
            and fold.windowing.timestamp_combiner in _STAMPS
        )

    def clear(self) -> None:
        """Forget all cells."""
        self.windows: dict[BoundedWindow, int] = {}
        self.rows = self.nbytes = 0
        self._keys: _Keys | None = None
        self._kept: list[Any] = []
        self._kept_bytes = 0
        self._folded: list[Any] = []
        # By the place of a part that is a sum of integers, the most that it may be.
        self._most: dict[int, int] = {}

    def __len__(self) -> int:
        return self.rows

    # Elements

    def add(self, bundle: ColumnBundle) -> bool:
        """Fold a bundle of pairs; return False if its rows have to be folded one by one."""
        import pyarrow

        pairs = bundle.elements
        if not isinstance(pairs, Pairs) or pairs.keys is as_dicts or type(bundle.signs) is list or bundle.signs != 1:
            return False
        batch = bundle.batch
        places = columns_of(self._folds, pairs, batch.num_columns - pairs.width)
        if places is None:
            return False
        keys = [key_column(column) for column in batch.columns[: pairs.width]]
        values = self._values(batch, [pairs.width + place for place in places])
        if values is None or any(column is None for column in keys):
            return False
        most = most_of([function for function, _ in self._functions], values, len(bundle))
        if any(bound >= _LIMIT for bound in most.values()):
            return False
        self._begin(_Keys(pairs.keys, tuple(batch.schema.names[: pairs.width])), most)
        windows, rows = self._windows_of(bundle)
        columns = [*keys, *(column for column in values if column is not None)]
        names = [f"k{i}" for i in range(len(keys))] + [f"p{i}" for i, column in enumerate(values) if column is not None]
        if rows is not None:
            columns = [column.take(pyarrow.array(rows)) for column in columns]
        columns.append(pyarrow.array(windows))
        names.append("w")
        if self._stamp is not None:
            columns.append(pyarrow.array(_micros(bundle, rows)))
            names.append("s")
        kept = pyarrow.RecordBatch.from_arrays(columns, names)
        if self._kept and self._kept[0].schema != kept.schema:
            self.compact()
        self._kept.append(kept)
        self._kept_bytes += kept.nbytes
        self.nbytes += kept.nbytes
        self.rows += kept.num_rows
        if self._kept_bytes >= max(_KEPT_BYTES, self.nbytes - self._kept_bytes):
            self.compact()
        return True

    def _values(self, batch: Any, places: list[int]) -> list[Any] | None:
        """Return the column of each part's values, None for a count; or None if Python would fold some otherwise."""
        columns: list[Any] = []
        known: dict[int, Any] = {}
        for fold, place in zip(self._folds, places, strict=True):
            if not fold.is_count:
                if place not in known:
                    known[place] = plain_column(batch.column(place))
                if not fold.takes(known[place]):
                    return None
            columns += [None if function == COUNT_ALL else known[place] for function, _ in fold.functions]
        return columns

    def _begin(self, keys: _Keys, most: dict[int, int]) -> None:
        """Settle the cells that differ in how keys are made, or whose sums might overflow with those to be added."""
        bounds = {part: self._most.get(part, 0) + bound for part, bound in most.items()}
        if self.rows and (keys != self._keys or any(bound >= _LIMIT for bound in bounds.values())):
            self.settle()
            bounds = most
        self._keys = keys
        self._most.update(bounds)

    def _windows_of(self, bundle: ColumnBundle) -> tuple[Any, Any]:
        """Return the window's place of each element in each window, and the element's; None if each has one window."""
        import numpy

        if bundle.has_several_windows:
            indices, known = bundle.assigned
        else:
            indices, known = numpy.zeros(len(bundle), numpy.int64), [bundle.assigned]
        flat = numpy.array([self._place(window) for own in known for window in own], numpy.int32)
        counts = numpy.array([len(own) for own in known])
        if (counts == 1).all():
            return flat[indices], None
        own = counts[indices]
        rows = numpy.repeat(numpy.arange(len(indices)), own)
        firsts = numpy.cumsum(counts) - counts
        in_element = numpy.arange(len(rows)) - numpy.repeat(numpy.cumsum(own) - own, own)
        return flat[firsts[indices][rows] + in_element], rows

    def _place(self, window: BoundedWindow) -> int:
        return self.windows.setdefault(window, len(self.windows))

    # Folding

    def compact(self) -> None:
        """Fold all rows, so that each cell has one."""
        import pyarrow

        if self._kept:
            kept, self._kept, self._kept_bytes = self._kept, [], 0
            self._put(self._grouped(pyarrow.Table.from_batches(kept), 0))
        if len(self._folded) > 1:
            self._put_all([self._grouped(pyarrow.concat_tables(self._folded), 1)])
        self._measure()

    def _put(self, table: Any) -> None:
        if self._folded and self._folded[0].schema != table.schema:
            folded, self._folded = self._folded, []
            for each in folded:
                self._settle(each)
        self._folded.append(table)

    def _put_all(self, tables: list[Any]) -> None:
        self._folded = tables

    def _measure(self) -> None:
        self.rows = sum(table.num_rows for table in [*self._folded, *self._kept])
        self.nbytes = sum(table.nbytes for table in self._folded) + self._kept_bytes

    def _grouped(self, table: Any, step: int) -> Any:
        """Return a table grouped by window and key.

        Args:
          step: 0 for a table of values, 1 for one of parts of accumulators.
        """
        import pyarrow

        by = ["w", *(name for name in table.column_names if name[0] == "k")]
        wanted = [(f"p{i}", pair[step]) for i, pair in enumerate(self._functions) if pair[step] != LIST]
        if self._stamp is not None:
            wanted.append(("s", self._stamp))
        if not self._lists:
            return self._aggregated(table, by, wanted)
        cells, firsts = numbered_cells([_array(table.column(name)) for name in by])
        found = _decoded(table.select(by).take(pyarrow.array(firsts)))
        if wanted:
            numbered = table.set_column(table.column_names.index("w"), "w", pyarrow.array(cells))
            others = self._aggregated(numbered, ["w"], wanted).sort_by("w")
            for name, _ in wanted:
                found = found.append_column(name, others.column(name))
        for name, fold in self._lists.items():
            lists = (fold.merged if step else fold.folded)(_array(table.column(name)), cells, len(firsts))
            found = found.append_column(name, lists)
        return found

    def _aggregated(self, table: Any, by: list[str], wanted: list[tuple[str, str]]) -> Any:
        """Return a table grouped by some columns, the first of which has numbers, with functions of others."""
        import pyarrow
        from pyarrow import types

        dense = dense_sums(table, by[1:], wanted)
        if dense is not None:
            return dense.select([*by, *(name for name, _ in wanted)])
        table = _decoded(table)
        aggregations = [([] if function == COUNT_ALL else name, function) for name, function in wanted]
        unique = [each for i, each in enumerate(aggregations) if each not in aggregations[:i]]
        found = table.group_by(by, use_threads=False).aggregate(unique)
        names = {name: name for name in by}
        for name, function in wanted:
            names[name] = COUNT_ALL if function == COUNT_ALL else f"{name}_{function}"
        columns = {name: found.column(own) for name, own in names.items()}
        for name, function in wanted:
            if function == "sum" and types.is_uint64(columns[name].type):
                # Of bools, or of unsigned integers.
                columns[name] = columns[name].cast("int64")
        return pyarrow.table(columns)

    # Settling

    def settle(self) -> None:
        """Make cells of all that was folded."""
        self.compact()
        for table in self._folded:
            self._settle(table)
        self.clear()

    def _settle(self, table: Any) -> None:
        assert self._keys is not None
        windows = list(self.windows)
        for batch in table.to_batches(_RESULTS):
            places = batch.column("w").to_numpy()
            ordered, places = _sorted(batch, places)
            for start, stop in _runs(places):
                part = ordered.slice(start, stop - start)
                cells = self._cells_of(windows[places[start]])
                keys = self._keys.of(part)
                self._merge_into(cells.accumulators, keys, self._accumulators(part))
                if self._stamp is not None:
                    merge_stamps(self._combiner, cells.stamps, keys, values_of(part.column("s")))

    def _accumulators(self, batch: Any) -> list[Any]:
        parts = iter([batch.column(f"p{i}") for i in range(len(self._functions))])
        items = [fold.accumulators(*islice(parts, len(fold.functions))) for fold in self._folds]
        accumulators: list[Any] = list(zip(*items, strict=True)) if self._is_tuple else items[0]
        return list(zip(accumulators, values_of(next(parts)), strict=True)) if self._fold.counts else accumulators

    # Results

    def results(self) -> Iterator[Bundle]:
        """Remove and yield the results of all cells, in the order of the windows' ends."""
        import numpy
        import pyarrow

        self._number_by_end()
        self.compact()
        if len(self._folded) != 1 or self.nbytes > _LARGE:
            self.settle()
            return
        assert self._keys is not None
        (batch,) = self._folded[0].combine_chunks().to_batches()
        windows, width = list(self.windows), len(self._keys.names)
        batch, places = _sorted(batch, batch.column("w").to_numpy())
        elements = Pairs(width, self._keys.elements, of_columns if self._is_tuple else as_values)
        columns = [batch.column(f"k{i}") for i in range(width)] + self._result_columns(batch)
        names = [*self._keys.names, *(f"result{i}" for i in range(len(columns) - width))]
        results = pyarrow.RecordBatch.from_arrays(columns, names)
        last = numpy.array([window.max_micros for window in windows])
        micros = batch.column("s").to_numpy() if self._stamp is not None else last[places]
        assigned = [(window,) for window in windows]
        self.clear()
        for start in range(0, len(places), _RESULTS):
            part = slice(start, start + _RESULTS)
            own = places[part]
            is_one = own[0] == own[-1]
            yield ColumnBundle(
                results.slice(start, _RESULTS),
                elements,
                int(last[own[0]]) if is_one and self._stamp is None else micros[part],
                assigned[own[0]] if is_one else (own, assigned),
                ONLY_PANE,
            )

    def _number_by_end(self) -> None:
        """Number the windows anew, in the order of their ends."""
        import numpy
        import pyarrow

        windows = list(self.windows)
        ends = numpy.argsort(list(map(end_of_window, windows)), kind="stable")
        if (ends[1:] > ends[:-1]).all():
            return
        self.windows = {windows[place]: i for i, place in enumerate(ends.tolist())}
        ranks = numpy.empty(len(windows), numpy.int32)
        ranks[ends] = numpy.arange(len(windows))

        def numbered(rows: Any) -> Any:
            places = ranks[rows.column("w").to_numpy()]
            return rows.set_column(rows.schema.get_field_index("w"), "w", pyarrow.array(places))

        self._kept = list(map(numbered, self._kept))
        self._put_all(list(map(numbered, self._folded)))

    def _result_columns(self, batch: Any) -> list[Any]:
        parts = iter([batch.column(f"p{i}") for i in range(len(self._functions))])
        return [fold.results(*islice(parts, len(fold.functions))) for fold in self._folds]

    # Shuffles

    def blocks(self, groups_of: Callable[[Collection[Any]], list[int]]) -> Iterator[tuple[int, bytes]]:
        """Remove and yield all cells as blocks, with the key group of each.

        Args:
          groups_of: returns the key group of each of some keys.
        """
        import numpy
        import pyarrow

        self.compact()
        folded, keys = self._folded, self._keys
        assert keys is not None
        windows = list(self.windows)
        self.clear()
        for table in folded:
            (batch,) = table.combine_chunks().to_batches()
            batch, groups = _sorted(batch, _groups(table, keys, groups_of))
            head = pickle.dumps((keys.elements, keys.names)), batch.schema.serialize().to_pybytes()
            place = batch.schema.get_field_index("w")
            for start, stop in _runs(groups):
                part = batch.slice(start, stop - start)
                used, places = numpy.unique(part.column(place).to_numpy(), return_inverse=True)
                part = part.set_column(place, "w", pyarrow.array(places.astype(numpy.int32)))
                own = encode_column([windows[i] for i in used.tolist()])
                yield int(groups[start]), COLUMNS + _pack([*head, own, part.serialize().to_pybytes()])

    def receive(self, block: bytes | memoryview) -> int:
        """Add the cells of a block; return their number."""
        import numpy
        import pyarrow

        pickled, schema, windows, rows = _unpack(memoryview(block)[1:])
        known = pyarrow.ipc.read_schema(pyarrow.py_buffer(schema))
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(rows), known)
        merges = [merge for _, merge in self._functions]
        most = most_of(merges, [batch.column(f"p{i}") for i in range(len(merges))], batch.num_rows)
        self._begin(_Keys(*_unpickled(pickled)), most)
        places = numpy.array([self._place(window) for window in decode_column(windows)], numpy.int32)
        own = places[batch.column("w").to_numpy()]
        batch = batch.set_column(known.get_field_index("w"), "w", pyarrow.array(own))
        self._put(pyarrow.Table.from_batches([batch]))
        self._measure()
        return int(batch.num_rows)

    def earliest_end(self) -> int:
        """Return the earliest end of the windows."""
        return min(map(end_of_window, self.windows), default=MAX_MICROS)


def _decoded(table: Any) -> Any:
    """Return a table without dictionaries."""
    from pyarrow import types

    for i, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _array(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


_unpickled = lru_cache(maxsize=256)(pickle.loads)


def _micros(bundle: ColumnBundle, rows: Any) -> Any:
    import numpy

    micros = bundle.micros
    if isinstance(micros, int):
        return numpy.full(len(bundle) if rows is None else len(rows), micros, numpy.int64)
    return micros if rows is None else micros[rows]


def _runs(values: Any) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each run of equal values of a NumPy array."""
    import numpy

    if len(values):
        borders = [0, *(numpy.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
        yield from pairwise(borders)


def _sorted(batch: Any, by: Any) -> tuple[Any, Any]:
    """Return the rows of a batch in the order of an array, and the array in order."""
    import numpy
    import pyarrow

    if (by[1:] >= by[:-1]).all():
        return batch, by
    # Integers of 16 bits are sorted by radix.
    is_small = len(by) and by.min() >= 0 and by.max() < 1 << 16
    order = numpy.argsort(by.astype(numpy.uint16) if is_small else by, kind="stable")
    return batch.take(pyarrow.array(order)), by[order]


def _groups(table: Any, keys: _Keys, groups_of: Callable[[Collection[Any]], list[int]]) -> Any:
    """Return the key group of each cell, computed once for each key."""
    import numpy
    import pyarrow

    n = table.num_rows
    if not keys.names:
        return numpy.full(n, groups_of(keys.of(table.slice(0, 1)))[0], numpy.int64)
    names = [f"k{i}" for i in range(len(keys.names))]
    numbered = table.append_column("row", pyarrow.array(numpy.arange(n)))
    by_key = numbered.group_by(names, use_threads=False).aggregate([("row", "list")])
    rows = by_key.column("row_list").combine_chunks()
    groups = numpy.empty(n, numpy.int64)
    of_keys = numpy.array(groups_of(keys.of(by_key)), numpy.int64)
    groups[rows.flatten().to_numpy()] = numpy.repeat(of_keys, rows.value_lengths().to_numpy())
    return groups
