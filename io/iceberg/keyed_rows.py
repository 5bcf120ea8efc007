"""Rows of given keys in data files of Iceberg.

Files are chosen by the keys' ranges, and rows by a join: an expression with all keys takes longer than reading the
rows, and one of many thousands overflows the client's stack.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

# The number of values of a column up to which files are chosen by the values; the client looks at no more.
_FEW = 200

_NUMBER = "_penstock_number"


def may_match(keys: Any, expressions: Any) -> Any:
    """Return an expression of the client that is true for all rows with one of the keys, and for others in their range.

    Args:
      keys: a `pyarrow.Table` of the columns of the key, with at least one row and no nulls.
      expressions: the client's module of expressions.
    """
    import pyarrow
    from pyarrow import compute

    parts = []
    for name, column in zip(keys.schema.names, keys.columns, strict=True):
        distinct = compute.unique(column)
        if len(distinct) <= _FEW:
            parts.append(expressions.In(name, distinct.to_pylist()))
            continue
        try:
            ends = compute.min_max(column).as_py()
        except pyarrow.ArrowNotImplementedError:
            continue
        parts.append(expressions.GreaterThanOrEqual(name, ends["min"]))
        parts.append(expressions.LessThanOrEqual(name, ends["max"]))
    return reduce(expressions.And, parts, expressions.AlwaysTrue())


def have_key(rows: Any, keys: Any) -> Any:
    """Return, as an array of truth values, which rows have one of the keys.

    >>> import pyarrow
    >>> rows = pyarrow.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0, 0, 0]})
    >>> have_key(rows, pyarrow.table({"a": [1, 2], "b": ["y", "x"]})).to_pylist()
    [False, True, True]
    """
    import pyarrow
    from pyarrow import compute

    names = keys.schema.names
    numbers = compute.cumulative_sum(pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), rows.num_rows))
    numbered = rows.select(names).append_column(_NUMBER, numbers)
    found = numbered.join(keys.cast(rows.select(names).schema), names, join_type="left semi").column(_NUMBER)
    return compute.is_in(numbers, value_set=found.combine_chunks())
