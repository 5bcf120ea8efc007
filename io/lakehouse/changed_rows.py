"""ChangedRows: a stream of the rows that versions of a table add and remove.

A file that a version removes has rows that are gone, and one that it adds has new ones; a row in both has only moved:

    removed file      added file            changes
    ann 3             ann 3           ->    -1 bob 4
    bob 4             bob 5                 +1 bob 5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ...sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE
from ...sdk.columns.column_elements import as_rows
from ..cdc.row_change import RowChange
from .added_rows import AddedRowsReader, AddedRowsSource, VersionRows
from .changes import SIGN, hashable

# The size in bytes of a version's files up to which rows that have only moved are left out.  They are compared in
# memory; those of larger versions are retracted, and added again.
_COMPARED_BYTES = 256 << 20


class ChangedRowsReader(AddedRowsReader):
    """Reader of the rows of a table, and then of those that each version adds and removes.

    Its source gives batches with a column `SIGN`.  The event time of rows is that of their version, or that of an
    earlier one if that is later, which the offset has.
    """

    def __init__(self, source: AddedRowsSource, position: tuple[int, ...]) -> None:
        super().__init__(source, position)
        self._before = position[3] if len(position) > 3 else 0
        self._micros = 0

    def opened(self, rows: VersionRows) -> None:
        self._micros = max(rows.micros or 0, self._before)

    def elements(self, batch: Any) -> tuple[list[RowChange], int | None]:
        signs = batch.column(SIGN).to_pylist()
        rows = as_rows(batch.drop_columns([SIGN]))
        return [RowChange(sign, row) for sign, row in zip(signs, rows, strict=True)], self._micros

    def offset(self) -> tuple[int, bool, int, int]:
        return self._version, self._is_whole, self._row, self._before

    def _following(self) -> None:
        super()._following()
        self._before = self._micros


def signed(batches: Iterable[Any], sign: int) -> Iterator[Any]:
    """Yield record batches with a sign for all of their rows."""
    import pyarrow

    for batch in batches:
        if batch.num_rows:
            yield batch.append_column(SIGN, pyarrow.repeat(pyarrow.scalar(sign, pyarrow.int8()), batch.num_rows))


def changes_between(removed: Iterable[Any], added: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the changes of a version with their signs: first the rows that are gone, and then the new ones.

    Args:
      removed, added: the record batches of the files that it removes, and of those that it adds.
      size: of these files, in bytes.
    """
    if size > _COMPARED_BYTES:
        return chain(signed(removed, -1), signed(added, +1))
    gone = list(removed)
    return _compared(gone, list(added)) if gone else signed(added, +1)


def _compared(removed: Sequence[Any], added: Sequence[Any]) -> Iterator[Any]:
    import pyarrow

    of_removed, of_added = _values(removed), _values(added)
    moved = Counter(of_removed) & Counter(of_added)
    for batches, values, sign in ((removed, of_removed, -1), (added, of_added, +1)):
        remaining, kept = moved.copy(), []
        for number, value in enumerate(values):
            if remaining[value] > 0:
                remaining[value] -= 1
            else:
                kept.append(number)
        if kept:
            table = pyarrow.Table.from_batches(batches).take(pyarrow.array(kept, pyarrow.int64()))
            yield from signed(table.combine_chunks().to_batches(COLUMN_BUNDLE_SIZE), sign)


def _values(batches: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of record batches as tuples that a dict can compare."""
    import pyarrow

    if not batches:
        return []
    columns = pyarrow.Table.from_batches(batches).columns
    return list(zip(*(hashable(column.to_pylist()) for column in columns), strict=True))
