"""Deduplication: the ids of the records that have arrived on a channel (MillWheel, section 5.2).

An id is a number that the sender gave to a record when it produced it.  Ids go up on each channel.  With every message
the sender names the id below which it will never send again, because the receiver has acknowledged those: they are
collected, and any id below is a duplicate without being remembered.

The ids are in a set.  Beyond a limit the lowest half of them moves to RocksDB, whose Bloom filters answer most lookups
without reading the disk.  Without the extra `rocksdb` all ids stay in memory.

>>> seen = SeenIds()
>>> seen.add(3), seen.add(4), seen.add(3)
(True, True, False)
>>> seen.collect(4)
>>> len(seen), seen.add(3), seen.add(4), seen.add(5)
(1, False, False, True)
"""

from __future__ import annotations

from typing import NamedTuple

from ....sdk.errors import MissingExtraError
from ...execution.spilling.rocksdb import SpillDatabase, SpilledIds

# The ids of a channel in memory: about 9 MB.
MEMORY_IDS = 100_000


class KeptIds(NamedTuple):
    """Seen ids as data: all below `collected`, and `ids`."""

    collected: int
    ids: tuple[int, ...]


class SeenIds:
    """The ids seen on one channel and not yet collected.

    Args:
      kept: the ids to begin with.
      limit: the number of ids in memory beyond which ids are spilled; None keeps all in memory.

    Attributes:
      collected: all ids below are collected.
    """

    def __init__(self, kept: KeptIds = KeptIds(0, ()), limit: int | None = None) -> None:
        self.collected = kept.collected
        self._limit = limit
        self._ids = set(kept.ids)
        self._spilled: SpilledIds | None = None
        # No spilled id is higher, so new ids, which go up, are not looked up on disk.
        self._highest_spilled = -1
        self._dropped = 0
        self._spill_excess()

    def __contains__(self, id: int) -> bool:
        if id < self.collected or id in self._ids:
            return True
        return id <= self._highest_spilled and self._spilled is not None and id in self._spilled

    def __len__(self) -> int:
        return len(self.kept().ids)

    def add(self, id: int) -> bool:
        """Add an id; return False if it has been seen before."""
        if id in self:
            return False
        self._ids.add(id)
        if self._limit is not None and len(self._ids) > self._limit:
            self._spill_excess()
        return True

    def _spill_excess(self) -> None:
        if self._limit is None or len(self._ids) <= self._limit:
            return
        if self._spilled is None:
            try:
                self._spilled = SpilledIds(SpillDatabase())
            except MissingExtraError:
                self._limit = None
                return
        ids = sorted(self._ids)
        lowest = ids[: len(ids) - self._limit // 2]
        self._spilled.add(lowest)
        self._highest_spilled = max(self._highest_spilled, lowest[-1])
        self._ids.difference_update(lowest)

    def collect(self, below: int) -> None:
        """Forget the ids below, which the sender will not send again."""
        if below > self.collected:
            self.collected = below
            self._ids = {id for id in self._ids if id >= below}
            # Each removal of a range slows RocksDB's later lookups: remove few large ranges.
            if self._spilled is not None and self._limit is not None and below >= self._dropped + self._limit:
                self._spilled.drop_below(below)
                self._dropped = below

    def kept(self) -> KeptIds:
        """Return the ids to remember, as data."""
        spilled = () if self._spilled is None else self._spilled.all_from(self.collected)
        return KeptIds(self.collected, tuple(sorted((*spilled, *self._ids))))
