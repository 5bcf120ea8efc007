"""What has come and what has gone since the last snapshot: what the next delta of it has to say.

Of what has come and gone in between it has nothing to say.

>>> since = FreshAndGone()
>>> since.come("b"), since.come("c"), since.go("b"), since.go("a")
(None, None, None, None)
>>> list(since.fresh), list(since.gone), len(since)
(['c'], ['a'], 2)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

E = TypeVar("E", bound=Hashable)


class FreshAndGone(Generic[E]):
    """Entries of something that a snapshot was taken of, each of which comes once and goes once.

    Attributes:
      fresh: those that have come since and are still there, in that order.
      gone: those that the snapshot has, and that aren't there any more.
    """

    __slots__ = ("fresh", "gone")

    def __init__(self) -> None:
        self.fresh: dict[E, None] = {}
        self.gone: dict[E, None] = {}

    def come(self, entry: E) -> None:
        """There is another one."""
        self.fresh[entry] = None

    def go(self, entry: E) -> None:
        """One is there no more."""
        if entry in self.fresh:
            del self.fresh[entry]
        else:
            self.gone[entry] = None

    def __len__(self) -> int:
        """How many entries the next delta tells of."""
        return len(self.fresh) + len(self.gone)
