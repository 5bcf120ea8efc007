"""Pairs of numbers: keys that are integers, and values that are integers or floats.

A list of keys and values, one after the other, is marshalled as a whole.  `marshal` writes integers of 32 bits and
floats with a code each, at equal distances: two comparisons of slices prove all types, and what was written is an array
of records for NumPy.  So pairs can be distributed and grouped without the interpreter.
"""

from __future__ import annotations

import marshal
import sys
from contextlib import suppress
from typing import Any

import attrs

from .column_codec import LIST_BYTES, MARSHAL_VERSION, MARSHALLED

_KEY_CODE, _KEY_BYTES = MARSHALLED[int]
_TYPES_OF_VALUES = {int: "<i4", float: "<f8"}


def numpy_is_imported() -> bool:
    """Return whether NumPy is imported, which takes as long as to shuffle 250,000 pairs without it."""
    return "numpy" in sys.modules


def import_numpy() -> None:
    """Import NumPy if it is installed; processes that are forked from this one then have it."""
    with suppress(ImportError):
        import numpy  # noqa: F401


def marshalled_pairs(items: list[Any], value: type) -> bytes | None:
    """Return pairs as records; None if a key isn't an integer of 32 bits, or a value of another type or size.

    Args:
      items: the keys and values, one after the other; not empty.
      value: the type of the values.

    >>> len(marshalled_pairs([1, 0.5, 2, 1.5], float)) // 2
    14
    >>> marshalled_pairs([1, 0.5, 2, 3], float)
    """
    pairs = len(items) // 2
    if value not in MARSHALLED or any(
        type(items[i]) is not int or type(items[i + 1]) is not value for i in (0, pairs // 2 * 2, -2)
    ):
        # `marshal` would write all of what other values consist of, and what they share again and again.
        return None
    try:
        data = marshal.dumps(items, MARSHAL_VERSION)
    except ValueError:
        return None
    code, width = MARSHALLED[value]
    record = _KEY_BYTES + width
    if (
        len(data) != LIST_BYTES + pairs * record
        or data[LIST_BYTES::record] != _KEY_CODE * pairs
        or data[LIST_BYTES + _KEY_BYTES :: record] != code * pairs
    ):
        return None
    return data[LIST_BYTES:]


@attrs.frozen
class NumberPairs:
    """Records of pairs.

    Attributes:
      data: what `marshalled_pairs` has returned, of one or more lists.
      value: the type of the values.

    >>> pairs = NumberPairs(marshalled_pairs([1, 10, -1, 20], int), int)
    >>> pairs.keys().tolist(), pairs.values().tolist(), pairs.hashes().tolist()
    ([1, -1], [10, 20], [1, -2])
    >>> pairs.take([1]).tobytes() == marshalled_pairs([-1, 20], int)
    True
    """

    data: bytes
    value: type

    def __len__(self) -> int:
        return len(self.data) // self.width

    @property
    def width(self) -> int:
        """The bytes of a record."""
        return _KEY_BYTES + MARSHALLED[self.value][1]

    def keys(self) -> Any:
        """Return the keys, as an array of 32 bits."""
        return self._column("<i4", 1)

    def values(self) -> Any:
        """Return the values as an array."""
        return self._column(_TYPES_OF_VALUES[self.value], _KEY_BYTES + 1)

    def hashes(self) -> Any:
        """Return the keys' hashes: themselves, but -2 for -1."""
        keys = self.keys()
        return keys - (keys == -1)

    def take(self, places: Any) -> memoryview:
        """Return the records at these places."""
        import numpy

        records = numpy.frombuffer(self.data, numpy.uint8).reshape(-1, self.width)
        return memoryview(records.take(places, axis=0).reshape(-1))

    def _column(self, kind: str, offset: int) -> Any:
        import numpy

        return numpy.ndarray((len(self),), kind, self.data, offset, (self.width,))
