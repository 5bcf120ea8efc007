"""Folded columns: the cells of a combining grouping as Arrow tables, for elements that are columns.

Bundles are kept as they are, until they need as much memory as what has been folded of them; then Arrow groups them by
window and key.  A row of the folded table is a cell: its window, the columns of its key, its timestamp if the timestamp
combiner keeps one, and the parts of its accumulator (`sdk/columns/arrow_fold.py`).

The results are those of the rows.  Where Arrow's functions differ from Python's, the rows are folded one by one: for
columns of other types, for nulls and NaN among the values, and where a sum might exceed 64 bits.  Before that the cells
in columns are *flushed*: they become cells like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

from .....frozen import frozen
from .....sdk.columns.arrow_fold import (
    COUNT_ALL,
    ArrowFold,
    columns_of,
    dense_sums,
    most_of,
    plain_column,
)
from .....sdk.columns.arrow_lists import LIST, ListFold, numbered_cells
from .....sdk.columns.column_bundle import ColumnBundle
from .....sdk.columns.column_elements import Elements, Pairs, as_values, of_columns, values_of
from .....sdk.elements.bundle import Bundle
from .....windowing import BoundedWindow
from ..combining import Fold, merge_into, merge_stamps
from .windowed_columns import (
    LARGE,
    RESULTS,
    GroupsOf,
    WindowedColumns,
    groups_of_rows,
    keys_of_pairs,
    received,
    runs_of,
    sorted_by,
    with_numbers,
)

# Bundles are kept up to this number of bytes.
_KEPT_BYTES = 32 << 20
# A sum of absolute values below it can't overflow.
_LIMIT = 1 << 63


@frozen
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

    def of_rows(self, batch: Any, rows: Any) -> list[Any]:
        """Return the keys of some rows."""
        return self.of(batch.take(rows))


class FoldedColumns(WindowedColumns):
    """The cells of one combining grouping, as columns.

    Args:
      fold: the grouping's fold.
      cells_of: returns the cells of a window that flushed cells become.
    """

    def __init__(self, fold: Fold, cells_of: Callable[[BoundedWindow], Any]) -> None:
        folds = None if fold.combine_fn is None else fold.combine_fn.arrow_fold
        self._is_tuple = isinstance(folds, tuple)
        self._folds: tuple[ArrowFold, ...] = folds if isinstance(folds, tuple) else () if folds is None else (folds,)
        self._functions = [pair for each in self._folds for pair in each.functions]
        folds_of_parts = [each for each in self._folds for _ in each.functions]
        self._lists = {f"p{i}": each for i, each in enumerate(folds_of_parts) if isinstance(each, ListFold)}
        if fold.operation.counts:
            self._functions.append((COUNT_ALL, "sum"))
        super().__init__(fold, cells_of)

    @staticmethod
    def takes(fold: Fold) -> bool:
        """Return True if columns of some types can be folded for a grouping."""
        fn = fold.combine_fn
        return fn is not None and fn.arrow_fold is not None and WindowedColumns.takes(fold)

    def clear(self) -> None:
        """Forget all cells."""
        super().clear()
        self._keys: _Keys | None = None
        self._kept: list[Any] = []
        self._kept_bytes = 0
        self._folded: list[Any] = []
        # By the index of a part that is a sum of integers, the most that it may be.
        self._most: dict[int, int] = {}

    # Elements

    def add(self, bundle: ColumnBundle) -> bool:
        """Fold a bundle of pairs; return False if its rows have to be folded one by one."""
        keys, pairs = keys_of_pairs(bundle), bundle.elements
        if keys is None:
            return False
        assert isinstance(pairs, Pairs)
        batch = bundle.batch
        indices = columns_of(self._folds, pairs, batch.num_columns - pairs.width)
        if indices is None:
            return False
        values = self._values(batch, [pairs.width + index for index in indices])
        if values is None:
            return False
        most = most_of([function for function, _ in self._functions], values, len(bundle))
        if any(bound >= _LIMIT for bound in most.values()):
            return False
        self._begin(_Keys(pairs.keys, tuple(batch.schema.names[: pairs.width])), most)
        columns = {f"k{i}": column for i, column in enumerate(keys)}
        columns |= {f"p{i}": column for i, column in enumerate(values) if column is not None}
        kept = self.numbered(bundle, columns)
        if self._kept and self._kept[0].schema != kept.schema:
            self.compact()
        self._kept.append(kept)
        self._kept_bytes += kept.nbytes
        self.nbytes += kept.nbytes
        self.rows += kept.num_rows
        if self._kept_bytes >= max(_KEPT_BYTES, self.nbytes - self._kept_bytes):
            self.compact()
        return True

    def _values(self, batch: Any, indices: list[int]) -> list[Any] | None:
        """Return the column of each part's values, None for a count; or None if Python would fold some otherwise."""
        columns: list[Any] = []
        known: dict[int, Any] = {}
        for fold, index in zip(self._folds, indices, strict=True):
            if not fold.is_count:
                if index not in known:
                    known[index] = plain_column(batch.column(index))
                if not fold.takes(known[index]):
                    return None
            columns += [None if function == COUNT_ALL else known[index] for function, _ in fold.functions]
        return columns

    def _begin(self, keys: _Keys, most: dict[int, int]) -> None:
        """Flush the cells that differ in how keys are made, or whose sums might overflow with those to be added."""
        bounds = {part: self._most.get(part, 0) + bound for part, bound in most.items()}
        if self.rows and (keys != self._keys or any(bound >= _LIMIT for bound in bounds.values())):
            self.flush()
            bounds = most
        self._keys = keys
        self._most.update(bounds)

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
                self._flush(each)
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
        if self.stamp is not None:
            wanted.append(("s", self.stamp))
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

    # Flushing

    def flush(self) -> None:
        """Make cells of all that was folded."""
        self.compact()
        for table in self._folded:
            self._flush(table)
        self.clear()

    def _flush(self, table: Any) -> None:
        assert self._keys is not None
        windows = list(self.windows)
        for batch in table.to_batches(RESULTS):
            numbers = batch.column("w").to_numpy()
            ordered, numbers = sorted_by(batch, numbers)
            for start, stop in runs_of(numbers):
                part = ordered.slice(start, stop - start)
                cells = self.cells_of(windows[numbers[start]])
                keys = self._keys.of(part)
                merge_into(self.fold, cells.accumulators, keys, self._accumulators(part))
                if self.stamp is not None:
                    merge_stamps(self.combiner, cells.stamps, keys, values_of(part.column("s")))

    def _accumulators(self, batch: Any) -> list[Any]:
        parts = iter([batch.column(f"p{i}") for i in range(len(self._functions))])
        items = [fold.accumulators(*islice(parts, len(fold.functions))) for fold in self._folds]
        accumulators: list[Any] = list(zip(*items, strict=True)) if self._is_tuple else items[0]
        if not self.fold.operation.counts:
            return accumulators
        return list(zip(accumulators, values_of(next(parts)), strict=True))

    # Results

    def results(self) -> Iterator[Bundle]:
        """Remove and yield the results of all cells, in the order of the windows' ends."""
        import pyarrow

        self._number_by_end()
        self.compact()
        if len(self._folded) != 1 or self.nbytes > LARGE:
            self.flush()
            return
        assert self._keys is not None
        (batch,) = self._folded[0].combine_chunks().to_batches()
        width = len(self._keys.names)
        batch, _ = sorted_by(batch, batch.column("w").to_numpy())
        columns = [batch.column(f"k{i}") for i in range(width)] + self._result_columns(batch)
        names = [*self._keys.names, *(f"result{i}" for i in range(len(columns) - width))]
        elements = Pairs(width, self._keys.elements, of_columns if self._is_tuple else as_values)
        yield from self.results_of(batch, pyarrow.RecordBatch.from_arrays(columns, names), elements)
        self.clear()

    def _number_by_end(self) -> None:
        """Number the windows anew, in the order of their ends."""
        import pyarrow

        ranks = self.ranks()
        if (ranks[1:] > ranks[:-1]).all():
            return
        self.windows = dict(sorted(zip(self.windows, ranks.tolist(), strict=True), key=itemgetter(1)))

        def numbered(rows: Any) -> Any:
            numbers = ranks.astype("int32")[rows.column("w").to_numpy()]
            return rows.set_column(rows.schema.get_field_index("w"), "w", pyarrow.array(numbers))

        self._kept = list(map(numbered, self._kept))
        self._put_all(list(map(numbered, self._folded)))

    def _result_columns(self, batch: Any) -> list[Any]:
        parts = iter([batch.column(f"p{i}") for i in range(len(self._functions))])
        return [fold.results(*islice(parts, len(fold.functions))) for fold in self._folds]

    # Shuffles

    def blocks(self, groups_of: GroupsOf) -> Iterator[tuple[int, bytes]]:
        """Remove and yield all cells as blocks, with the key group of each."""
        self.compact()
        folded, keys = self._folded, self._keys
        assert keys is not None
        for table in folded:
            (batch,) = table.combine_chunks().to_batches()
            columns = [batch.column(f"k{i}") for i in range(len(keys.names))]
            groups = groups_of_rows(columns, batch.num_rows, partial(keys.of_rows, batch), groups_of)
            yield from self.blocks_of(batch, keys, groups)
        self.clear()

    def receive(self, block: bytes | memoryview) -> int:
        """Add the cells of a block; return their number."""
        import pyarrow

        keys, windows, batch = received(block)
        merges = [merge for _, merge in self._functions]
        most = most_of(merges, [batch.column(f"p{i}") for i in range(len(merges))], batch.num_rows)
        self._begin(keys, most)
        self._put(pyarrow.Table.from_batches([with_numbers(batch, list(map(self.number_of, windows)))]))
        self._measure()
        return int(batch.num_rows)


def _decoded(table: Any) -> Any:
    """Return a table without dictionaries."""
    from pyarrow import types

    for i, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _array(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
