"""A hash that distributes: equal in every process, and random-like also for keys that differ in their last digit.

CRC-32 is linear: the checksums of `user-0` to `user-9` differ in a few of their bits only, and a few bits choose the
worker.  One multiplication carries every bit of the checksum into the high bits of the product (Knuth, *The Art of
Computer Programming*, volume 3, section 6.4), and those are the bits that choose.

>>> [crc32(f"user-{n}".encode()) % 128 // 32 for n in range(10)]
[0, 0, 1, 1, 0, 0, 1, 1, 1, 1]
>>> [place(mixed(crc32(f"user-{n}".encode())), 4) for n in range(10)]
[3, 2, 2, 2, 0, 2, 0, 3, 1, 3]
"""

from __future__ import annotations

import pickle
from typing import Any
from zlib import crc32

BITS = 32
# 2**32 over the golden ratio, and odd.
MULTIPLIER = 0x9E3779B1
MASK = (1 << BITS) - 1


def mixed(checksum: int) -> int:
    """Return 32 bits, of which the high ones depend on all bits of a 32-bit checksum."""
    return checksum * MULTIPLIER & MASK


def place(hash: int, places: int) -> int:
    """Return which of so many places a 32-bit hash belongs to, by its high bits.

    >>> place(0, 3), place(MASK, 3)
    (0, 2)
    """
    return hash * places >> BITS


def pickled_hash(value: Any) -> int:
    """Return a 32-bit hash of a value by its pickle, or 0 if it can't be pickled.

    Equal values may have different pickles, so this distributes and doesn't group.
    """
    try:
        return mixed(crc32(pickle.dumps(value, protocol=5)))
    except Exception:  # whatever pickle raises for what it can't pickle
        return 0
