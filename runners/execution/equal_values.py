"""Which value is taken back: one that is equal, or where values equal nothing, one that is encoded alike.

What is no number isn't equal to itself, arrays can't be compared as a whole, and objects
without `__eq__` are equal to themselves alone: all of them are other objects when they come out of a shuffle or
a snapshot, and can still be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...sdk.errors import SerializationError
from .column_codec import decode_column, encode_column

# A copy of one of these is equal to it, except for a float that is no number.
_EQUAL_TO_COPIES = frozenset({int, str, bytes, bool, type(None), float})


def are_equal(value: Any, other: Any) -> bool:
    """Whether one of two values can stand for the other.

    >>> are_equal([1], [1.0]), are_equal([1], [2])
    (True, False)
    """
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return find_alike(value, [other]) is not None


def find_alike(value: Any, values: Iterable[Any]) -> int | None:
    """The place of the first of these that is of the same type and encoded alike, if there is one.

    For a value that no other one was equal to.  They aren't gone through if it would be equal
    to a copy of itself, since then the right one would have been.

    >>> find_alike(("a", float("nan")), [("b", 1), ("a", float("nan"))])
    1
    """
    if type(value) in _EQUAL_TO_COPIES and value == value:
        return None
    try:
        encoded = encode_column([value])
        if _is_equal(decode_column(encoded)[0], value):
            return None
        for place, other in enumerate(values):
            if type(other) is type(value) and encode_column([other]) == encoded:
                return place
    except SerializationError:
        # What can't travel has never been anywhere: it is the object that it was.
        pass
    return None


def _is_equal(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except (TypeError, ValueError):
        return False
