"""Number groups: the groups of a plain grouping of pairs of numbers, behind a shuffle.

Blocks are kept as they are, until windows are complete or there are many pairs.  Then one sort of integers puts the
values of each group together, in their order, and the list of all values is cut into groups: half the time of adding
one value after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from .....sdk.coders.key_encoding import KEY_GROUPS
from .....windowing import BoundedWindow
from ...serialization.column_codec import decode_windows, encode_windows
from ...serialization.number_pairs import NumberPairs

# The first byte of a block of pairs of numbers, which no array of MessagePack begins with.
NUMBERS = b"N"

# The pairs that are kept, at most, before they are added to their groups: the arrays that this takes have 60 bytes for
# each.
_KEPT = 1 << 17

_DIGIT = 16

# Records, and the runs of them with the same window: the places of the windows, and lengths.
Part = tuple[bytes | memoryview, Sequence[int], Sequence[int]]

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bool, bytes, list[int], list[int], bytes]).decode


class NumberGroups:
    """The groups of one grouping in one worker.

    Args:
      cells_of: returns the cells of a window that groups become.
    """

    def __init__(self, cells_of: Callable[[BoundedWindow], Any]) -> None:
        self._cells_of = cells_of
        self._value: type = int
        self.clear()

    def clear(self) -> None:
        """Forget all pairs."""
        self._windows: dict[BoundedWindow, int] = {}
        self._records: list[bytes] = []
        self._places: list[int] = []
        self._lengths: list[int] = []
        self._pairs = 0

    def __len__(self) -> int:
        return self._pairs

    def receive(self, block: bytes | memoryview, divisor: int = 1, remainder: int = 0) -> int:
        """Add the pairs of a block; return their number.

        Args:
          divisor, remainder: those of the hashes of the keys that are added.
        """
        is_float, windows, places, lengths, records = _unpack(block[1:])
        value = float if is_float else int
        if value is not self._value:
            self.settle()
            self._value = value
        if divisor > 1:
            records, places, lengths = _of_part(NumberPairs(records, value), places, lengths, divisor, remainder)
            if not places:
                return 0
        known = [self._windows.setdefault(window, len(self._windows)) for window in decode_windows(windows)]
        self._records.append(records)
        self._places += [known[place] for place in places]
        self._lengths += lengths
        received = sum(lengths)
        self._pairs += received
        if self._pairs >= _KEPT:
            self.settle()
        return received

    def settle(self) -> None:
        """Add the values to the groups of their keys."""
        if not self._records:
            return
        import numpy

        pairs = NumberPairs(b"".join(self._records), self._value)
        keys = pairs.keys()
        columns = _digits_of(keys)
        several = len(self._windows) > 1
        if several:
            kind = numpy.min_scalar_type(len(self._windows))
            columns.append(numpy.repeat(numpy.array(self._places, kind), self._lengths))
        order = order_of(columns)
        columns = [column[order] for column in columns]
        starts = starts_of_runs(columns)
        values = pairs.values()[order].tolist()
        ends = [*starts[1:].tolist(), len(values)]
        windows = list(self._windows)
        places = columns[-1][starts].tolist() if several else [0] * len(ends)
        keys = keys[order[starts]].tolist()
        self.clear()
        start, last, groups = 0, None, {}
        for place, key, end in zip(places, keys, ends, strict=True):
            if place != last:
                groups, last = self._cells_of(windows[place]).accumulators, place
            if key in groups:
                groups[key].extend(values[start:end])
            else:
                groups[key] = values[start:end]
            start = end


def block_of_numbers(windows: Sequence[BoundedWindow], value: type, parts: Sequence[Part]) -> bytes:
    """Return a block of records of one key group.

    Args:
      windows: by place.
      value: the type of the values.
    """
    places = list(chain.from_iterable(part[1] for part in parts))
    lengths = list(chain.from_iterable(part[2] for part in parts))
    own = {place: i for i, place in enumerate(dict.fromkeys(places))}
    encoded = encode_windows([windows[place] for place in own])
    records = b"".join([part[0] for part in parts])
    return NUMBERS + _pack((value is float, encoded, [own[place] for place in places], lengths, records))


def order_of(columns: Iterable[Any]) -> Any:
    """Return the places of rows in the order of the last column, then the one before it, and so on.

    Rows that are equal stay in their order.

    Args:
      columns: arrays of integers.  Those of up to 16 bits are sorted by their bytes, in 2 ns a row.
    """
    import numpy

    first, *others = columns
    order = numpy.argsort(first, kind="stable")
    for column in others:
        order = order[numpy.argsort(column[order], kind="stable")]
    return order


def starts_of_runs(columns: Iterable[Any]) -> Any:
    """Return where successive equal rows start."""
    import numpy

    starts = [column[1:] != column[:-1] for column in columns]
    return numpy.concatenate(([0], numpy.flatnonzero(numpy.logical_or.reduce(starts)) + 1))


def _digits_of(keys: Any) -> list[Any]:
    """Return the digits of keys, the last one first, by which they are sorted."""
    import numpy

    distances = keys.astype(numpy.int64) - int(keys.min())
    digits = [distances.astype(numpy.uint16)]
    if int(distances.max()) >> _DIGIT:
        digits.append((distances >> _DIGIT).astype(numpy.uint16))
    return digits


def _of_part(
    pairs: NumberPairs, places: list[int], lengths: list[int], divisor: int, remainder: int
) -> tuple[bytes, list[int], list[int]]:
    """Return the records of one part of the keys, and the runs."""
    import numpy

    selected = numpy.flatnonzero(pairs.hashes() // KEY_GROUPS % divisor == remainder)
    places = numpy.repeat(places, lengths)[selected].tolist()
    return bytes(pairs.take(selected)), places, [1] * len(places)
