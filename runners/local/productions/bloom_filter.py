"""A Bloom filter: a set that says of what it doesn't hold, nearly always and at once, that it doesn't.

>>> seen = BloomFilter(1_000, error_rate=0.01)
>>> seen.add(7)
>>> 7 in seen, 8 in seen
(True, False)

Source: Bloom, 1970; MillWheel, section 5.2, puts one before the ids of records that have come.
"""

from __future__ import annotations

import math

_WORD = (1 << 64) - 1


class BloomFilter:
    """Holds whole numbers, none of which can be removed.

    Args:
      capacity: how many it is made for.
      error_rate: the share of others that it takes for its own when it holds so many.

    Attributes:
      count: how many were added.
    """

    __slots__ = ("_bits", "_hashes", "_size", "capacity", "count")

    def __init__(self, capacity: int, error_rate: float = 0.01) -> None:
        self.capacity = capacity
        self.count = 0
        # The sizes by which, at that error rate, the least memory is needed.
        self._size = max(8, math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2))
        self._hashes = max(1, round(self._size / capacity * math.log(2)))
        self._bits = bytearray((self._size + 7) // 8)

    def add(self, number: int) -> None:
        """Add a number."""
        self.count += 1
        bits, size = self._bits, self._size
        place, step = _two_hashes(number)
        for _ in range(self._hashes):
            bit = place % size
            bits[bit >> 3] |= 1 << (bit & 7)
            place += step

    def __contains__(self, number: int) -> bool:
        bits, size = self._bits, self._size
        place, step = _two_hashes(number)
        for _ in range(self._hashes):
            bit = place % size
            if not bits[bit >> 3] & 1 << (bit & 7):
                return False
            place += step
        return True


def _two_hashes(number: int) -> tuple[int, int]:
    """Two numbers that look like chance; all further places come of them (Kirsch and Mitzenmacher, 2006)."""
    # The finisher of splitmix64, in which neighbours have nothing in common.
    mixed = (number + 0x9E3779B97F4A7C15) & _WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _WORD
    mixed ^= mixed >> 31
    return mixed >> 32, (mixed & 0xFFFFFFFF) | 1
