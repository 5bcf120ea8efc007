"""The sources of events: bounded, and unbounded at full rate.

Both read the blocks of a `Generator`.  The unbounded source gives its partitions the blocks in turn.  The watermark of
a partition is the beginning of its next block, so no event is late on any runner.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexmark.events import Event
from nexmark.generator import BLOCK, Generator
from penstock.io import BoundedSource, UnboundedReader, UnboundedSource
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.unbounded import ended_early
from penstock.windowing.timestamp import MAX_MICROS, Timestamp

# Bundles of this many blocks are as large as a runner's own.
_BLOCKS_OF_A_BUNDLE = 16


class BoundedEvents(BoundedSource[Event]):
    """All events of a generator.  A split is a range of blocks."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def split(self, desired_splits: int) -> Sequence[range]:
        blocks = self.generator.blocks
        parts = max(1, min(desired_splits, blocks))
        return [range(i * blocks // parts, (i + 1) * blocks // parts) for i in range(parts)]

    def read_bundles(self, split: range) -> Iterator[Bundle]:
        for first in range(split.start, split.stop, _BLOCKS_OF_A_BUNDLE):
            blocks = range(first, min(first + _BLOCKS_OF_A_BUNDLE, split.stop))
            yield bundle_of([event for block in blocks for event in self.generator.rows_of(block)])


class UnboundedEvents(UnboundedSource[Event]):
    """All events of a generator, as a stream that ends.  Its offsets are (block, position in the block).

    Args:
      partitions: how many partitions take the blocks in turn.
    """

    repeatable = True

    def __init__(self, generator: Generator, partitions: int = 1) -> None:
        self.generator = generator
        self.number_of_partitions = partitions

    def partitions(self) -> Sequence[int]:
        return range(self.number_of_partitions)

    def open(self, partition: int, offset: Any | None) -> UnboundedReader[Event]:
        return _Reader(self.generator, self.number_of_partitions, *(offset or (partition, 0)))

    def identity(self) -> Mapping[str, Any]:
        generator = self.generator
        return {
            "events": generator.events,
            "seed": generator.seed,
            "rate": generator.rate,
            "partitions": self.number_of_partitions,
        }


class BlockReader(UnboundedReader[Any]):
    """A reader of every `step`th block, whose offsets are (block, position in the block).

    Args:
      blocks: the number of blocks of all partitions.
    """

    def __init__(self, blocks: int, step: int, block: int, position: int) -> None:
        self._blocks = blocks
        self._step = step
        self._block = block
        self._position = position

    @abstractmethod
    def events_in(self, block: int) -> int:
        """Return the number of events of a block."""

    @abstractmethod
    def start_of(self, block: int) -> int:
        """Return the least event time of a block, in milliseconds."""

    def move_to(self, position: int) -> None:
        """Go to a position in the block, or behind it to the next block."""
        if position < self.events_in(self._block):
            self._position = position
        else:
            self._block, self._position = self._block + self._step, 0

    def offset(self) -> tuple[int, int]:
        return self._block, self._position

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self.is_finished() else self.start_of(self._block) * 1000

    def is_finished(self) -> bool:
        return self._block >= self._blocks

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> tuple[int, int]:
        if max_bytes is not None:
            return super().admit(max_elements, max_bytes, now)
        while max_elements > 0 and not self.is_finished():
            taken = min(max_elements, self.events_in(self._block) - self._position)
            max_elements -= taken
            self.move_to(self._position + taken)
        return self.offset()

    def read_to(self, offset_end: tuple[int, int], now: Timestamp) -> Iterator[Bundle]:
        while self.offset() < offset_end:
            left = offset_end[1] if self._block == offset_end[0] else self.events_in(self._block)
            bundle = self.poll(left - self._position, now)
            if bundle is None:
                raise ended_early(self, offset_end)
            yield bundle


class _Reader(BlockReader):
    def __init__(self, generator: Generator, step: int, block: int, position: int) -> None:
        super().__init__(generator.blocks, step, block, position)
        self._generator = generator
        self._loaded: tuple[int, list[Event]] = (-1, [])

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        found: list[Event] = []
        while len(found) < max_elements and not self.is_finished():
            if self._loaded[0] != self._block:
                self._loaded = self._block, self._generator.rows_of(self._block)
            end = self._position + max_elements - len(found)
            found += self._loaded[1][self._position : end]
            self.move_to(end)
        return bundle_of(found) if found else None

    def events_in(self, block: int) -> int:
        return min(BLOCK, self._generator.events - block * BLOCK)

    def start_of(self, block: int) -> int:
        return int(self._generator.time_of(block * BLOCK))


def bundle_of(events: list[Event]) -> Bundle:
    """Return a bundle of events with their event times."""
    return Bundle(events, [event.date_time * 1000 for event in events])
