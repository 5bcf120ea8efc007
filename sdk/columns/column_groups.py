"""Groups as columns: the values of each key as a list, from which Python's lists are made when they are needed."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from .arrow_lists import ends_of
from .column_elements import Elements


@stored_as("tagged-columns", 1)
@frozen
class Tagged:
    """Makes pairs of a tag and an element of a record batch.

    >>> import pyarrow
    >>> from penstock.sdk.columns.column_elements import as_values
    >>> Tagged(1, as_values)(pyarrow.record_batch({"x": ["a", "b"]}))
    [(1, 'a'), (1, 'b')]
    """

    tag: int
    elements: Elements

    def __call__(self, batch: Any) -> list[tuple[int, Any]]:
        tag = self.tag
        return [(tag, element) for element in self.elements(batch)]


@stored_as("lists-of-columns", 1)
@frozen
class Lists:
    """Makes a list for each row of a record batch, of columns of lists of structs.

    Attributes:
      elements: makes the elements of the structs, for each column.

    >>> import pyarrow
    >>> from penstock.sdk.columns.column_elements import as_rows
    >>> Lists((as_rows,))(pyarrow.record_batch({"values": [[{"x": 1}, {"x": 2}], [{"x": 3}]]}))
    [[Row(x=1), Row(x=2)], [Row(x=3)]]
    """

    elements: tuple[Elements, ...]

    def __call__(self, batch: Any) -> list[list[Any]]:
        columns = [lists_of(column, elements) for column, elements in zip(batch.columns, self.elements, strict=True)]
        return columns[0] if len(columns) == 1 else [list(chain(*own)) for own in zip(*columns, strict=True)]


@stored_as("collected-columns", 1)
@frozen
class Collected:
    """Makes the values of each input of a CoGroupByKey for each row, of its columns of tagged values.

    Attributes:
      lists: describes the columns.
      n: the number of inputs.
      tags: their tags, for dicts; None for tuples.
    """

    lists: Lists
    n: int
    tags: tuple[Any, ...] | None

    def __call__(self, batch: Any) -> list[Any]:
        slots: list[list[Any]] = [[] for _ in range(self.n)]
        for column, tagged in zip(batch.columns, self.lists.elements, strict=True):
            assert isinstance(tagged, Tagged)
            slots[tagged.tag] = lists_of(column, tagged.elements)
        # An input that has no values here has no column.
        slots = [own or [[] for _ in range(batch.num_rows)] for own in slots]
        rows = list(zip(*slots, strict=True))
        return rows if self.tags is None else [dict(zip(self.tags, row, strict=True)) for row in rows]


def lists_of(column: Any, elements: Elements) -> list[list[Any]]:
    """Return the lists of a column of lists of structs."""
    import pyarrow

    values = elements(pyarrow.RecordBatch.from_struct_array(column.flatten()))
    return [values[start:stop] for start, stop in pairwise(ends_of(column))]
