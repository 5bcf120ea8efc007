"""The ids of what has come on a channel: duplicates are dropped by them (MillWheel, section 5.2).

An id is a number that its sender gave when it was produced; later ones are greater.  A Bloom filter
answers "certainly new" at once, and only what it takes for known is looked up.  A sender says
with everything that it sends which ids it will never send again, since it knows that they have
been taken: those are collected, and anything below them is a duplicate without being remembered.

>>> seen = SeenIds()
>>> seen.add(3), seen.add(4), seen.add(3)
(True, True, False)
>>> seen.collect(4)
>>> len(seen), seen.add(3), seen.add(4), seen.add(5)
(1, False, False, True)
"""

from __future__ import annotations

from typing import NamedTuple

from .bloom_filter import BloomFilter

# The least number of ids that a filter is made for.
_LEAST = 256


class KeptIds(NamedTuple):
    """Seen ids as data: those from `collected` on."""

    collected: int
    ids: tuple[int, ...]


class SeenIds:
    """Those that were seen and are not collected, of one channel.

    Attributes:
      collected: all ids below are collected.
      lookups: how often the filter couldn't say.
    """

    def __init__(self, kept: KeptIds = KeptIds(0, ())) -> None:
        self.collected = kept.collected
        self.lookups = 0
        self._ids = set(kept.ids)
        self._filter = self._filled()

    def _filled(self) -> BloomFilter:
        filter = BloomFilter(max(_LEAST, 2 * len(self._ids)))
        for id in self._ids:
            filter.add(id)
        return filter

    def __contains__(self, id: int) -> bool:
        if id < self.collected:
            return True
        if id not in self._filter:
            return False
        self.lookups += 1
        return id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, id: int) -> bool:
        """Whether an id is new; it is seen from now on."""
        if id in self:
            return False
        if self._filter.count >= self._filter.capacity:
            # Most of what is in it has been collected since; what hasn't gets a larger one.
            self._filter = self._filled()
        self._filter.add(id)
        self._ids.add(id)
        return True

    def collect(self, below: int) -> None:
        """The sender will not send any id below this again."""
        if below > self.collected:
            self.collected = below
            self._ids = {id for id in self._ids if id >= below}

    def kept(self) -> KeptIds:
        """What has to be remembered, as data."""
        return KeptIds(self.collected, tuple(sorted(self._ids)))
