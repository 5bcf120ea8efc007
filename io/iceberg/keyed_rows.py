"""Files of Iceberg that may have rows of given keys: they are chosen by the keys' ranges.

An expression with all keys takes longer than reading the rows, and one of many thousands overflows the client's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import attrs

# The number of values of a column up to which files are chosen by the values; the client looks at no more.
_FEW = 200


@attrs.define
class _Column:
    """The values of a column of the key.

    Attributes:
      few: the values; None for too many.
      least, most: the first and the last.
      is_ordered: whether there are such.
    """

    few: set[Any] | None = attrs.field(factory=set)
    least: Any = None
    most: Any = None
    is_ordered: bool = True

    def add(self, column: Any) -> None:
        import pyarrow
        from pyarrow import compute

        if self.few is not None:
            distinct = compute.unique(column)
            self.few = self.few | set(distinct.to_pylist()) if len(distinct) <= _FEW else None
            if self.few is not None and len(self.few) > _FEW:
                self.few = None
        try:
            ends = compute.min_max(column).as_py()
        except pyarrow.ArrowNotImplementedError:
            self.is_ordered = False
            return
        if ends["min"] is not None:
            self.least = ends["min"] if self.least is None else min(self.least, ends["min"])
            self.most = ends["max"] if self.most is None else max(self.most, ends["max"])


def may_match(key: Sequence[str], tables: Iterable[Any], expressions: Any) -> Any:
    """Return an expression of the client that is true for all rows with one of the keys, and for others in their range.

    Args:
      key: the columns of the key.
      tables: `pyarrow.Table`s of the keys, without nulls.
      expressions: the client's module of expressions.
    """
    columns = {name: _Column() for name in key}
    for table in tables:
        if table.num_rows:
            for name, column in columns.items():
                column.add(table.column(name))
    parts = []
    for name, column in columns.items():
        if column.few is not None:
            parts.append(expressions.In(name, column.few))
        elif column.is_ordered:
            parts.append(expressions.GreaterThanOrEqual(name, column.least))
            parts.append(expressions.LessThanOrEqual(name, column.most))
    return reduce(expressions.And, parts, expressions.AlwaysTrue())
