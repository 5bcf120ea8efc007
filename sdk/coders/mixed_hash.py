"""A distributing hash, equal in every process and well mixed even for keys that differ in their last digit only.

CRC-32 is linear: the checksums of `user-0` to `user-9` differ in a few bits only, and a few bits select the worker. One
multiplication mixes every bit of the checksum into the high bits of the product (Knuth, *The Art of Computer
Programming*, volume 3, section 6.4), and the high bits select the worker.

>>> [crc32(f"user-{n}".encode()) % 128 // 32 for n in range(10)]
[0, 0, 1, 1, 0, 0, 1, 1, 1, 1]
>>> [bucket(mixed(crc32(f"user-{n}".encode())), 4) for n in range(10)]
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
    """Return 32 bits whose high bits depend on all bits of a 32-bit checksum."""
    return checksum * MULTIPLIER & MASK


def bucket(hash: int, buckets: int) -> int:
    """Return the index, less than `buckets`, that the high bits of a 32-bit hash select.

    >>> bucket(0, 3), bucket(MASK, 3)
    (0, 2)
    """
    return hash * buckets >> BITS


def pickled_hash(value: Any) -> int:
    """Return a 32-bit hash of a value by its pickle, or 0 if it can't be pickled.

    Equal values may have different pickles, so this hash is for distributing, not for grouping.
    """
    try:
        return mixed(crc32(pickle.dumps(value, protocol=5)))
    except Exception:  # pickle raises errors of any class
        return 0
