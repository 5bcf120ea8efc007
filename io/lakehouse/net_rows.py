"""NetRows: what a transaction's signed rows of a table with a key come to, which doesn't depend on their order.

    key  row  sign          key  row  net
    ann  3    +1            ann  3      0     cancelled
    ann  3    -1     ->     ann  4      1     written to the table
    ann  4    +1            bob  1     -1     deleted, if the table has this row
    bob  1    -1

More rows than memory has room for are partitioned on disk, first as a whole, so that rows that cancel each other meet,
and what is left of them by key.  So a key with many rows needs no more memory than others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ...sdk.coders.coder import shortened
from ...sdk.elements.hash_partitions import PARTITIONS, HashPartitions
from ...sdk.errors import RejectedRecordError
from .changes import OWN_COLUMNS, SIGN, VERSION, hashable
from .staging import stream_of, table_of, with_columns

# The number of rows up to which they stay in memory, and that of those that are partitioned at a time.
IN_MEMORY_ROWS = 100_000
_AT_ONCE = 20_000

# The number of a row, in a join.
_NUMBER = "_penstock_number"


class NetRows:
    """The net effect of signed rows of a table.

    Args:
      key: the columns that identify a row.
      is_whole: whether all rows are in the first partition.

    Attributes:
      is_empty: whether there are no rows.
      nbytes: the size of the rows, in bytes.
    """

    def __init__(self, key: Sequence[str], is_whole: bool) -> None:
        self.key = list(key)
        self._is_whole = is_whole
        self._schema: Any = None
        # By partition, the rows to insert or update, each of another key, and those to delete.
        self._rows, self._gone = _partitions(), _partitions()
        self.nbytes = 0
        self.is_empty = True

    def add(self, number: int, rows: Any, gone: Any) -> None:
        """Add the net effect of the rows of a partition."""
        self._schema = rows.schema
        for partitions, table in ((self._rows, rows), (self._gone, gone)):
            if table.num_rows:
                partitions.add(number, table, table.nbytes)
                self.nbytes += table.nbytes
                self.is_empty = False

    def parts(self, schema: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the rows to insert or update, and those to delete, of all partitions, with the columns of a schema.

        A deleted row has all the values that the table must have.
        """
        for number in range(1 if self._is_whole else PARTITIONS):
            yield self._part(number, schema)

    def matching(self, data: Any) -> Any:
        """Return, as an array of truth values, which rows of a table are replaced or deleted."""
        import pyarrow
        from pyarrow import compute

        if self._is_whole:
            return self._matching(data, 0)
        found, order = [], []
        for number, chosen in _by_partition(data, self.key):
            order.append(chosen)
            found.append(self._matching(data.take(chosen), number))
        if not found:
            return pyarrow.array([], pyarrow.bool_())
        return pyarrow.concat_arrays(found).take(compute.sort_indices(pyarrow.concat_arrays(order)))

    def _part(self, number: int, schema: Any) -> tuple[Any, Any]:
        rows, gone = (_joined(partitions.of(number), schema) for partitions in (self._rows, self._gone))
        return rows, gone

    def _matching(self, data: Any, number: int) -> Any:
        import pyarrow
        from pyarrow import compute

        rows, gone = self._part(number, data.schema)
        replaced = have_key(data, rows.select(self.key))
        if not gone.num_rows:
            return replaced
        deleted = {repr(row) for row in gone.to_pylist()}
        has_key = have_key(data, gone.select(self.key))
        is_equal = iter([repr(row) in deleted for row in data.filter(has_key).to_pylist()])
        found = pyarrow.array([has and next(is_equal) for has in has_key.to_pylist()], pyarrow.bool_())
        return compute.or_(replaced, found)


def net_rows(staged: Iterable[Any], key: Sequence[str], retracting: bool, transform: str, table: str) -> NetRows:
    """Return the net effect of staged rows.

    Of several rows with a key the one with the latest version is written.  Raises `RejectedRecordError` for two
    different rows of a key with one version, and, with `retracting`, for two rows of a key that are both left.

    Args:
      staged: `pyarrow.Table`s with the columns of `with_signs`.
      retracting: whether a row is retracted before another replaces it.
    """
    remaining = iter(staged)
    few: list[Any] = []
    count = 0
    for each in remaining:
        few.append(each if not few else with_columns(each, few[0].schema))
        count += each.num_rows
        if count > IN_MEMORY_ROWS:
            break
    if not few:
        return NetRows(key, is_whole=True)
    schema, unsigned = _schemas(few[0].schema)
    net = NetRows(key, is_whole=count <= IN_MEMORY_ROWS)
    if count <= IN_MEMORY_ROWS:
        by_key, numbers = None, [0]
    else:
        by_value = _partitions()
        for each in chain(_emptied(few), remaining):
            _distribute(by_value, with_columns(each, schema), unsigned.names)
        by_key, numbers = _partitions(), list(range(PARTITIONS))
        for number in numbers:
            _distribute(by_key, _Signed(_joined(by_value.of(number), schema), key).left(retracting), key)
        by_value.close()
    for number in numbers:
        signed = _Signed(_joined(few if by_key is None else by_key.of(number), schema), key)
        net.add(number, *signed.net(retracting, transform, table))
    return net


class _Signed:
    """Signed rows of a partition, and what is left of those of each key."""

    def __init__(self, staged: Any, key: Sequence[str]) -> None:
        self._staged = staged
        self._key = list(key)
        self._data = staged.select([name for name in staged.schema.names if name not in OWN_COLUMNS])
        self._versions: list[Any] = []

    def _are_unique(self) -> bool:
        """Return True if all rows are additions, and each has another key."""
        import pyarrow.compute as pc

        if self._staged.num_rows and pc.min(self._staged.column(SIGN)).as_py() < 0:
            return False
        groups = self._data.select(self._key).group_by(self._key).aggregate([])
        return bool(groups.num_rows == self._data.num_rows)

    def _by_key(self) -> dict[Any, list[list[int]]]:
        """Return, by key and row, the sum of its signs, and the number of the staged row with its latest version."""
        keys = zip(*(self._data.column(name).to_pylist() for name in self._key), strict=True)
        values = zip(*(hashable(column.to_pylist()) for column in self._data.columns), strict=True)
        signs = self._staged.column(SIGN).to_pylist()
        self._versions = versions = list(zip(*(self._staged.column(name).to_pylist() for name in VERSION), strict=True))
        by_key: dict[Any, dict[Any, list[int]]] = {}
        for number, (of_key, value) in enumerate(zip(keys, values, strict=True)):
            net = by_key.setdefault(of_key, {}).setdefault(value, [0, number])
            net[0] += signs[number]
            if signs[number] > 0 and (signs[net[1]] < 0 or versions[number] >= versions[net[1]]):
                net[1] = number
        return {of_key: list(found.values()) for of_key, found in by_key.items()}

    def left(self, retracting: bool) -> Any:
        """Return the rows that are left or gone, with the sums of their signs."""
        import pyarrow

        if self._are_unique():
            return self._staged
        kept: list[list[int]] = []
        for found in self._by_key().values():
            left = [each for each in found if each[0] > 0]
            if left and not retracting:
                last = max(self._versions[number] for _, number in left)
                left = [each for each in left if self._versions[each[1]] == last]
            kept += left or [each for each in found if each[0] < 0]
        rows = self._staged.take(pyarrow.array([number for _, number in kept], pyarrow.int64()))
        sums = pyarrow.array([count for count, _ in kept], pyarrow.int64())
        return rows.set_column(rows.schema.get_field_index(SIGN), SIGN, sums)

    def net(self, retracting: bool, transform: str, table: str) -> tuple[Any, Any]:
        """Return the rows to insert or update, one for each key, and those to delete."""
        import pyarrow

        data = self._data
        if self._are_unique():
            return data, data.slice(0, 0)
        rows, gone = [], []
        for of_key, found in self._by_key().items():
            remaining = sorted((n for count, n in found if count > 0), key=lambda n: self._versions[n])
            if remaining:
                last = self._versions[remaining[-1]]
                copies = sum(count for count, _ in found if count > 0)
                if [self._versions[n] for n in remaining].count(last) > 1 or (retracting and copies > 1):
                    shown = [shortened(data.slice(n, 1).to_pylist()[0], 100) for n in remaining[-2:]]
                    raise _ambiguous(dict(zip(self._key, of_key, strict=True)), shown, copies, transform, table)
                rows.append(remaining[-1])
            else:
                gone += [number for count, number in found if count < 0]
        return data.take(pyarrow.array(rows, pyarrow.int64())), data.take(pyarrow.array(gone, pyarrow.int64()))


def have_key(rows: Any, keys: Any) -> Any:
    """Return, as an array of truth values, which rows have one of the keys.

    An expression with all keys would take longer than the join, and one of many thousands overflows a client's stack.

    >>> import pyarrow
    >>> rows = pyarrow.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0, 0, 0]})
    >>> have_key(rows, pyarrow.table({"a": [1, 2], "b": ["y", "x"]})).to_pylist()
    [False, True, True]
    """
    import pyarrow
    from pyarrow import compute

    names = keys.schema.names
    numbers = pyarrow.array(range(rows.num_rows), pyarrow.int64())
    numbered = rows.select(names).append_column(_NUMBER, numbers)
    found = numbered.join(keys.cast(rows.select(names).schema), names, join_type="left semi").column(_NUMBER)
    return compute.is_in(numbers, value_set=found.combine_chunks())


def _partitions() -> HashPartitions[Any]:
    return HashPartitions(lambda tables: stream_of(_joined(tables, tables[0].schema)), lambda data: [table_of(data)])


def _distribute(to: HashPartitions[Any], table: Any, names: Sequence[str]) -> None:
    """Add the rows of a table to the partitions of their values in some columns."""
    for start in range(0, table.num_rows, _AT_ONCE):
        part = table.slice(start, _AT_ONCE).combine_chunks()
        for number, chosen in _by_partition(part, names):
            rows = part.take(chosen)
            to.add(number, rows, rows.nbytes)


def _by_partition(table: Any, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of partitions, each with the numbers of its rows."""
    import numpy
    import pyarrow

    values = zip(*(hashable(table.column(name).to_pylist()) for name in names), strict=True)
    numbers = numpy.fromiter((hash(value) % PARTITIONS for value in values), numpy.uint8, table.num_rows)
    order = numpy.argsort(numbers, kind="stable")
    present, starts = numpy.unique(numbers[order], return_index=True)
    for number, chosen in zip(present.tolist(), numpy.split(order, starts[1:]), strict=False):
        yield number, pyarrow.array(chosen, pyarrow.int64())


def _joined(tables: Iterable[Any], schema: Any) -> Any:
    """Return the rows of tables as one, with the columns of a schema."""
    import pyarrow

    found = [with_columns(table, schema) for table in tables]
    return pyarrow.concat_tables(found).combine_chunks() if found else schema.empty_table()


def _schemas(staged: Any) -> tuple[Any, Any]:
    """Return the schema of staged rows with sums of signs, and that of the rows themselves."""
    import pyarrow

    index = staged.get_field_index(SIGN)
    data = [field for field in staged if field.name not in OWN_COLUMNS]
    return staged.set(index, pyarrow.field(SIGN, pyarrow.int64())), pyarrow.schema(data)


def _emptied(tables: list[Any]) -> Iterator[Any]:
    """Yield the tables of a list, and drop each from it."""
    tables.reverse()
    while tables:
        yield tables.pop()


def _ambiguous(key: dict[str, Any], shown: list[str], copies: int, transform: str, table: str) -> RejectedRecordError:
    error = RejectedRecordError(
        f"{transform}: the key is not unique: {copies} rows are left for {key} of table {table}, such as "
        f"{' and '.join(shown)}. Add what distinguishes them to the key"
    )
    error.record, error.transform = shown[-1], transform
    return error
