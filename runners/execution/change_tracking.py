"""Entries added and removed since the last snapshot, which the next snapshot of changes contains.

An entry that was added and removed in between leaves no trace.

>>> since = ChangeTracker()
>>> since.add("b"), since.add("c"), since.remove("b"), since.remove("a")
(None, None, None, None)
>>> list(since.added), list(since.removed), len(since)
(['c'], ['a'], 2)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

E = TypeVar("E", bound=Hashable)


class ChangeTracker(Generic[E]):
    """Tracks entries, each of which is added once and removed once.

    Attributes:
      added: the entries added since the snapshot that still exist, in that order.
      removed: the entries of the snapshot that no longer exist.
    """

    __slots__ = ("added", "removed")

    def __init__(self) -> None:
        self.added: dict[E, None] = {}
        self.removed: dict[E, None] = {}

    def add(self, entry: E) -> None:
        """Note that an entry was added."""
        self.added[entry] = None

    def remove(self, entry: E) -> None:
        """Note that an entry was removed."""
        if entry in self.added:
            del self.added[entry]
        else:
            self.removed[entry] = None

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self.added) + len(self.removed)
