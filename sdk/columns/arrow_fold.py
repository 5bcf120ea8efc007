"""ArrowFold: the fold of a combiner by aggregate functions of Arrow, for values that are columns.

A part of an accumulator is what one function makes of the values of a cell.  Sums, counts and extremes have one part, a
mean has two.  A combiner without such a fold adds the elements one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from ...frozen import frozen
from .column_elements import Elements, Pairs, as_values, of_columns, values_of

# The function that counts rows, nulls included.  It has no column.
COUNT_ALL = "count_all"

# Integers below it are floats, too.
_FLOATS = 1 << 53
# So many possible cells for each row are few enough for a place of each.
_CELLS_OF_A_ROW = 4
# The number of rows that show how many keys there are.
_SAMPLE = 1 << 12
# The number of rows whose cells are computed at once.
_PART = 1 << 16


@frozen
class ArrowFold:
    """The fold of a combiner by functions of Arrow.

    The results must be those of `add_input`, for columns without nulls and without NaN.

    Attributes:
      functions: for each part of an accumulator, the names of a function of values, and of a function of such parts.
        Names are those of `pyarrow.TableGroupBy.aggregate`.
      is_mean: True if the result is the quotient of two parts; otherwise it is the only part.
      item: the index of the values in elements that are tuples; None if the values are the elements.

    >>> ArrowFold((("sum", "sum"),)).column_of(as_values, 1), ArrowFold(((COUNT_ALL, "sum"),)).column_of(of_columns, 2)
    (0, 0)
    """

    functions: tuple[tuple[str, str], ...]
    is_mean: bool = False
    item: int | None = None

    def column_of(self, elements: Elements, width: int) -> int | None:
        """Return the index of its values in the columns of elements; None if no column has them."""
        if self.item is not None:
            return self.item if elements is of_columns and self.item < width else None
        return 0 if self.is_count or (elements is as_values and width == 1) else None

    @property
    def is_count(self) -> bool:
        """True if it looks at no values."""
        return all(function == COUNT_ALL for function, _ in self.functions)

    def takes(self, column: Any) -> bool:
        """Return True if the results for a column of values are those of Python."""
        return all(_folds_like_python(function, column) for function, _ in self.functions)

    def accumulators(self, *parts: Any) -> list[Any]:
        """Return the accumulator of each cell, of the columns of its parts."""
        columns = list(map(values_of, parts))
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def results(self, *parts: Any) -> Any:
        """Return the column of the results of cells, of the columns of their parts."""
        return quotient(*parts) if self.is_mean else parts[0]


# A fold for each item of an accumulator that is a tuple, or one fold.
ArrowFolds: TypeAlias = ArrowFold | tuple[ArrowFold, ...]

SUM = ArrowFold((("sum", "sum"),))
COUNT = ArrowFold(((COUNT_ALL, "sum"),))
MEAN = ArrowFold((("sum", "sum"), (COUNT_ALL, "sum")), is_mean=True)
MIN = ArrowFold((("min", "min"),))
MAX = ArrowFold((("max", "max"),))
ANY = ArrowFold((("any", "any"),))
ALL = ArrowFold((("all", "all"),))


def columns_of(folds: Sequence[ArrowFold], pairs: Pairs, width: int) -> list[int] | None:
    """Return the index of the values of each fold in the columns of pairs' values; None if one of them isn't there."""
    indices = [fold.column_of(pairs.values, width) for fold in folds]
    found = [index for index in indices if index is not None]
    return found if len(found) == len(folds) else None


def plain_column(column: Any) -> Any:
    """Return a column with one type for each Python type of its values, where there are several."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return plain_column(column.dictionary_decode())
    if types.is_integer(kind) and kind.bit_width < 64:
        return column.cast("int64")
    if types.is_floating(kind):
        return column.cast("float64")
    if types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast("string")
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return column.cast("binary")
    if types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return column.cast("timestamp[us]" if kind.tz is None else f"timestamp[us, tz={kind.tz}]")
    return column


def is_ordinary(kind: Any) -> bool:
    """Return True for the types whose values Arrow and Python compare alike."""
    from pyarrow import types

    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date32(kind)
        or types.is_decimal128(kind)
        or (types.is_timestamp(kind) and kind.unit == "us")
    )


def key_column(column: Any) -> Any:
    """Return a column of keys that Arrow groups as Python does, strings also with a dictionary; None if it can't."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type) and types.is_string(column.type.value_type) and not column.null_count:
        return column
    column = plain_column(column)
    if types.is_float64(column.type):
        # -0.0 equals 0.0, and NaN can't be a key.
        return None if compute.any(compute.is_nan(column)).as_py() else compute.add(column, 0.0)
    return column if is_ordinary(column.type) or types.is_null(column.type) else None


def has_odd_floats(column: Any) -> bool:
    """Return True if a column of floats has NaN, or -0.0, which equals 0.0 but isn't the same."""
    import numpy
    from pyarrow import compute, types

    if not types.is_float64(column.type):
        return False
    values = column.drop_null().to_numpy()
    zeros = values[values == 0.0]
    return bool(numpy.signbit(zeros).any() or compute.any(compute.is_nan(column)).as_py())


def _folds_like_python(function: str, column: Any) -> bool:
    from pyarrow import compute, types

    kind = column.type
    if function == COUNT_ALL:
        return True
    if column.null_count or not _is_known(function, kind):
        return False
    if function == "sum":
        return bool(types.is_integer(kind) or types.is_float64(kind) or types.is_boolean(kind))
    if function in ("any", "all"):
        return bool(types.is_boolean(kind))
    if types.is_float64(kind):
        return not compute.any(compute.is_nan(column)).as_py()
    return is_ordinary(kind)


@lru_cache(maxsize=256)
def _is_known(function: str, kind: Any) -> bool:
    """Return True if this version of pyarrow has a function for values of a type."""
    import pyarrow

    table = pyarrow.table({"k": [1], "x": pyarrow.nulls(1, kind)})
    try:
        table.group_by("k", use_threads=False).aggregate([("x", function)])
    except pyarrow.ArrowNotImplementedError:
        return False
    return True


def most_of(functions: list[str], columns: list[Any], n: int) -> dict[int, int]:
    """Return the most that the sum of each column of integers may be, of those that are to be added."""
    from pyarrow import compute, types

    most: dict[int, int] = {}
    for index, (function, column) in enumerate(zip(functions, columns, strict=False)):
        if function == "sum" and n and types.is_integer(column.type):
            extremes = compute.min_max(column).as_py()
            most[index] = max(-extremes["min"], extremes["max"]) * n
    return most


def quotient(total: Any, count: Any) -> Any:
    """Return a mean as Python computes it: with one rounding."""
    import pyarrow
    from pyarrow import compute, types

    if types.is_integer(total.type):
        extremes = compute.min_max(total).as_py()
        if max(-extremes["min"], extremes["max"]) >= _FLOATS:
            pairs = zip(values_of(total), values_of(count), strict=True)
            return pyarrow.array([own / number for own, number in pairs], "float64")
    return compute.divide(total.cast("float64"), count.cast("float64"))


def dense_sums(table: Any, keys: list[str], wanted: list[tuple[str, str]]) -> Any | None:
    """Return a table's sums and counts for each cell, by NumPy; None if Arrow has to group it.

    Arrow hashes each row.  Where possible cells are few, only the keys are hashed, one column after the other, and the
    index of a row's cell is computed of the numbers of its window and of its keys.

    Args:
      table: windows as the numbers "w", the columns of keys, and columns of values without nulls.
      keys: the names of the columns of keys.
      wanted: pairs of a column and its function.  Sums of integers have at most 64 bits.
    """
    import numpy
    import pyarrow
    from pyarrow import compute, types

    n = table.num_rows
    if not n or any(function not in ("sum", COUNT_ALL) for _, function in wanted):
        return None
    size = windows = compute.max(table.column("w")).as_py() + 1
    encoded: list[Any] = []
    for name in keys:
        column = table.column(name)
        is_few = types.is_dictionary(column.type) or not (
            types.is_null(column.type) or _distinct(column.slice(0, _SAMPLE)) * windows > _CELLS_OF_A_ROW * n
        )
        if is_few:
            encoded.append(encoded_column(column))
            size *= len(encoded[-1].dictionary)
        if not is_few or size > _CELLS_OF_A_ROW * n:
            return None
    is_float = {name: function == "sum" and types.is_floating(table.column(name).type) for name, function in wanted}
    totals = {name: numpy.zeros(size, numpy.float64 if is_float[name] else numpy.int64) for name, _ in wanted}
    is_there = numpy.zeros(size, bool)
    start = 0
    # Parts stay in the processor's cache.
    for part in table.to_batches(_PART):
        cells = part.column("w").to_numpy().astype(numpy.int64)
        for each in encoded:
            cells *= len(each.dictionary)
            cells += each.indices.slice(start, len(cells)).to_numpy()
        is_there[cells] = True
        for name, function in wanted:
            values = 1 if function == COUNT_ALL else part.column(name).to_numpy(zero_copy_only=False)
            numpy.add.at(totals[name], cells, numpy.asarray(values, totals[name].dtype))
        start += len(cells)
    there = numpy.flatnonzero(is_there)
    columns = {name: pyarrow.array(own[there]) for name, own in totals.items()}
    for name, each in reversed(list(zip(keys, encoded, strict=True))):
        there, codes = numpy.divmod(there, len(each.dictionary))
        columns[name] = each.dictionary.take(pyarrow.array(codes))
    return pyarrow.table({"w": pyarrow.array(there.astype(numpy.int32)), **columns})


def _distinct(column: Any) -> int:
    return len(encoded_column(column).dictionary)


def encoded_column(column: Any) -> Any:
    """Return a column with a dictionary of distinct values."""
    from pyarrow import compute, types

    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if types.is_dictionary(column.type):
        if compute.count_distinct(column.dictionary, mode="all").as_py() == len(column.dictionary):
            return column
        column = column.dictionary_decode()
    return column.dictionary_encode(null_encoding="encode")
