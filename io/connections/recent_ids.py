"""RecentIds: the ids of the last messages that were read, by which those that come again are dropped.

>>> ids = RecentIds(2)
>>> [ids.is_new(id) for id in (b"a", b"b", b"a", b"c", b"a")]
[True, True, False, True, True]
>>> RecentIds(2, ids.encoded()).is_new(b"c")
False
"""

from __future__ import annotations

import hashlib
from collections import deque

# The size of the digest of an id, in bytes.
_DIGEST = 12


class RecentIds:
    """The digests of the last ids.

    Args:
      number: how many ids are kept at most.
      encoded: those of a position, as `encoded` returns them.
    """

    def __init__(self, number: int, encoded: bytes = b"") -> None:
        self._digests: deque[bytes] = deque(maxlen=number)
        self._known: set[bytes] = set()
        for start in range(0, len(encoded), _DIGEST):
            self._add(encoded[start : start + _DIGEST])

    def is_new(self, id: bytes) -> bool:
        """Keep an id, and return whether it was not among those that are kept."""
        digest = hashlib.blake2b(id, digest_size=_DIGEST).digest()
        if digest in self._known:
            return False
        self._add(digest)
        return True

    def encoded(self) -> bytes:
        """Return the digests, the oldest first, one after the other."""
        return b"".join(self._digests)

    def _add(self, digest: bytes) -> None:
        if len(self._digests) == self._digests.maxlen:
            self._known.discard(self._digests[0])
        self._digests.append(digest)
        self._known.add(digest)
