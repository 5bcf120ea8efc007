"""Grouped columns: the groups of a plain grouping as columns, for elements that are columns.

Rows are kept as they are.  When windows are complete, windows and keys become numbers, one sort of numbers puts the
rows of each group together, in their order, and the values of a group become a list of an Arrow column.

A CoGroupByKey has values of several inputs, each with its tag and columns of its own.  Their keys are numbered
together, and each tag has a column of lists in the result: a hash join of any number of inputs.

Groups are *flushed*, which makes them lists of elements like others, where Arrow groups keys differently, where columns
change, and where there are too many rows for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs

from .....frozen import frozen
from .....sdk.columns.arrow_fold import plain_column
from .....sdk.columns.arrow_lists import list_array, numbered_cells
from .....sdk.columns.column_bundle import ColumnBundle
from .....sdk.columns.column_elements import Pairs, has_fields
from .....sdk.columns.column_groups import Lists, Tagged
from ..combining import merge_into, merge_stamps
from .windowed_columns import (
    LARGE,
    RESULTS,
    GroupsOf,
    WindowedColumns,
    groups_of_rows,
    keys_of_pairs,
    received,
    runs_of,
    with_numbers,
)


@frozen
class Layout:
    """How pairs are made of columns: of those of the key, and then of those of the value.

    Attributes:
      pairs: makes them.
      names, types: the names and the Arrow types of the columns.
    """

    pairs: Pairs
    names: tuple[str, ...]
    types: tuple[Any, ...]

    @property
    def tag(self) -> int | None:
        """The tag of the values."""
        values = self.pairs.values
        return values.tag if isinstance(values, Tagged) else None

    @property
    def of_keys(self) -> Any:
        """How keys are made."""
        width = self.pairs.width
        return self.pairs.keys, self.types[:width], has_fields(self.pairs.keys) and self.names[:width]

    def keys(self, batch: Any, rows: Any) -> list[Any]:
        """Return the keys of some rows."""
        width = self.pairs.width
        keys = batch.take(rows).select([f"c{i}" for i in range(width)])
        return self.pairs.keys(keys.rename_columns(list(self.names[:width])))


class GroupedColumns(WindowedColumns):
    """The groups of one plain grouping, as columns."""

    def clear(self) -> None:
        super().clear()
        # By tag.
        self._layouts: dict[int | None, Layout] = {}
        self._kept: dict[int | None, list[Any]] = {}

    def add(self, bundle: ColumnBundle) -> bool:
        """Add a bundle of pairs; return False if its elements have to be grouped one by one."""
        keys, pairs, batch = keys_of_pairs(bundle), bundle.elements, bundle.batch
        if keys is None or bundle.has_elements or not isinstance(pairs, Pairs) or batch.num_columns == pairs.width:
            return False
        columns = list(map(plain_column, [*keys, *batch.columns[pairs.width :]]))
        layout = Layout(pairs, tuple(batch.schema.names), tuple(column.type for column in columns))
        self.begin(layout)
        self._keep(layout, self.numbered(bundle, {f"c{i}": column for i, column in enumerate(columns)}))
        return True

    def begin(self, layout: Layout) -> None:
        """Flush groups whose columns differ from those that are to be added."""
        known = self._layouts.get(layout.tag, layout)
        if known != layout or any(other.of_keys != layout.of_keys for other in self._layouts.values()):
            self.flush()
        self._layouts[layout.tag] = layout

    def _keep(self, layout: Layout, batch: Any) -> None:
        self._kept.setdefault(layout.tag, []).append(batch)
        self.rows += batch.num_rows
        self.nbytes += batch.nbytes
        if self.nbytes > LARGE:
            self.flush()

    # Groups

    def _grouped(self) -> tuple[Any, Any, Pairs]:
        """Return windows and timestamps of the groups, their columns, and what makes pairs of these.

        Groups are in the order of the windows' ends.
        """
        import numpy
        import pyarrow

        layouts = list(self._layouts.values())
        width = layouts[0].pairs.width
        rows = [self._kept[layout.tag] for layout in layouts]
        both = [batch for own in rows for batch in own]
        by = [_joined(both, name) for name in ("w", *(f"c{i}" for i in range(width)))]
        cells, firsts = numbered_cells(by)
        n = len(firsts)
        if len(self.windows) > 1:
            order = numpy.argsort(self.ranks()[by[0].to_numpy()[firsts]], kind="stable")
            numbers = numpy.empty(n, numpy.int64)
            numbers[order] = numpy.arange(n)
            cells, firsts = numbers[cells], firsts[order]
        columns, names, start = [key.take(pyarrow.array(firsts)) for key in by[1:]], list(layouts[0].names[:width]), 0
        for layout, own in zip(layouts, rows, strict=True):
            stop = start + sum(batch.num_rows for batch in own)
            part = cells[start:stop]
            fields = [_joined(own, f"c{i}") for i in range(width, len(layout.names))]
            values = pyarrow.StructArray.from_arrays(fields, list(layout.names[width:]))
            columns.append(list_array(values.take(pyarrow.array(_order(part))), numpy.bincount(part, minlength=n)))
            names.append(f"values{len(names)}")
            start = stop
        groups = {"w": by[0].take(pyarrow.array(firsts))}
        if self.stamp is not None:
            micros = _joined(both, "s").to_numpy()[_order(cells)]
            counts = numpy.bincount(cells, minlength=n)
            function = numpy.minimum if self.stamp == "min" else numpy.maximum
            groups["s"] = pyarrow.array(function.reduceat(micros, numpy.cumsum(counts) - counts))
        lists = Lists(tuple(layout.pairs.values for layout in layouts))
        results = pyarrow.RecordBatch.from_arrays(columns, names)
        return pyarrow.record_batch(groups), results, attrs.evolve(layouts[0].pairs, values=lists)

    def flush(self) -> None:
        """Make lists of elements of all groups."""
        if not self.rows:
            self.clear()
            return
        groups, results, pairs = self._grouped()
        windows = list(self.windows)
        for first in range(0, results.num_rows, RESULTS):
            own = pairs(results.slice(first, RESULTS))
            numbers = groups.column("w").to_numpy()[first : first + RESULTS]
            for start, stop in runs_of(numbers):
                cells = self.cells_of(windows[numbers[start]])
                keys, values = map(list, zip(*own[start:stop], strict=True))
                merge_into(self.fold, cells.accumulators, keys, values)
                if self.stamp is not None:
                    stamps = groups.column("s").slice(first + start, stop - start).to_pylist()
                    merge_stamps(self.combiner, cells.stamps, keys, stamps)
        self.clear()

    def results(self) -> Iterator[ColumnBundle]:
        """Remove and yield all groups, in the order of the windows' ends."""
        groups, results, pairs = self._grouped()
        self._kept = {}
        yield from self.results_of(groups, results, pairs)
        self.clear()

    # Shuffles

    def blocks(self, groups_of: GroupsOf) -> Iterator[tuple[int, bytes]]:
        """Remove and yield all rows as blocks, with the key group of each."""
        import pyarrow

        for layout in self._layouts.values():
            kept = self._kept[layout.tag]
            names = kept[0].schema.names
            batch = pyarrow.RecordBatch.from_arrays([_joined(kept, name) for name in names], names)
            keys = [batch.column(f"c{i}") for i in range(layout.pairs.width)]
            groups = groups_of_rows(keys, batch.num_rows, partial(layout.keys, batch), groups_of)
            yield from self.blocks_of(batch, layout, groups)
        self.clear()

    def receive(self, block: bytes | memoryview, part: tuple[GroupsOf, int] | None = None) -> int:
        """Add the rows of a block; return their number.

        Args:
          part: returns the part of each of some keys; and the part whose rows are added.  None for all.
        """
        import pyarrow

        layout, windows, batch = received(block)
        if part is not None:
            keys = [batch.column(f"c{i}") for i in range(layout.pairs.width)]
            parts = groups_of_rows(keys, batch.num_rows, partial(layout.keys, batch), part[0])
            batch = batch.filter(pyarrow.array(parts == part[1]))
        self.begin(layout)
        self._keep(layout, with_numbers(batch, list(map(self.number_of, windows))))
        return int(batch.num_rows)


def _joined(batches: list[Any], name: str) -> Any:
    """Return the columns of this name as one."""
    import pyarrow

    return pyarrow.concat_arrays([batch.column(name) for batch in batches])


def _order(cells: Any) -> Any:
    """Return the indices of rows in the order of their cells; those of a cell stay in their order."""
    import numpy

    bits = len(cells).bit_length()
    # Numbers are sorted in a tenth of the time of a stable sort of indices.
    packed = (cells << bits) | numpy.arange(len(cells))
    packed.sort()
    return packed & ((1 << bits) - 1)
