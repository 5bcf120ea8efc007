"""An unbounded source of pairs that gives a micro-batch just so many: for batches that can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from penstock.sdk.elements.bundle import BUNDLE_SIZE, Bundle
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing.timestamp import MAX_MICROS, Timestamp

SECOND = 1_000_000
# 2015-08-31, noon, in microseconds.
NOON = 1_441_022_400 * SECOND
# Keys come in an order that isn't theirs: each batch takes so manieth ones, which has no factor with any of `keys`.
STRIDE = 7_919


class BatchedPairs(UnboundedSource[tuple[int, int]]):
    """The pairs (key, value) of so many keys, all of them ever again, one batch after the other.

    Pair i has the key `i * STRIDE % keys` and the value i; its event time is a second after noon for each batch
    before its own, so a window of a day holds them all.

    Args:
      sizes: how many pairs each batch reads; a multiple of `number_of_partitions`.
    """

    def __init__(self, keys: int, sizes: Sequence[int], partitions: int = 2) -> None:
        self.keys = keys
        self.number_of_partitions = partitions
        self.ends = [0, *accumulate(size // partitions for size in sizes)]

    def partitions(self) -> Sequence[int]:
        return range(self.number_of_partitions)

    def open(self, partition: int, offset: Any | None) -> UnboundedReader[tuple[int, int]]:
        return _Reader(self, partition, offset or 0)


class _Reader(UnboundedReader[tuple[int, int]]):
    """Its offset is how many batches it has read."""

    def __init__(self, source: BatchedPairs, partition: int, batch: int) -> None:
        self._source = source
        self._partition = partition
        self._batch = batch

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        raise AssertionError("only micro-batches read this")

    def offset(self) -> int:
        return self._batch

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self.is_finished() else NOON + self._batch * SECOND

    def is_finished(self) -> bool:
        return self._batch == len(self._source.ends) - 1

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> int:
        self._batch += not self.is_finished()
        return self._batch

    def read_to(self, offset_end: int, now: Timestamp) -> Iterator[Bundle]:
        source, step = self._source, self._source.number_of_partitions
        while self._batch < offset_end:
            start, end = source.ends[self._batch], source.ends[self._batch + 1]
            micros = NOON + self._batch * SECOND
            for i in range(start, end, BUNDLE_SIZE):
                numbers = range(i * step + self._partition, min(i + BUNDLE_SIZE, end) * step + self._partition, step)
                yield Bundle([(n * STRIDE % source.keys, n) for n in numbers], micros)
            self._batch += 1
