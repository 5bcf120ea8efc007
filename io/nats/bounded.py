"""NatsRanges: the messages that a stream has, as a bounded source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...windowing.timestamp import Timestamp
from .client import called
from .source import NatsReader, NatsSource, first_position, last_sequence

# The messages of a split, at least.
_LEAST = 10_000


@stored_as("nats-range", 1)
@frozen
class Range:
    """The sequences of a split.

    Attributes:
      micros: the time at which they were determined.
    """

    subject: str | None
    start: int
    stop: int
    micros: int


class NatsRanges(BoundedSource[Any]):
    """The messages that the stream has when the run begins.  A split is a range of sequences."""

    def __init__(self, source: NatsSource) -> None:
        self.source = source

    def identity(self) -> Mapping[str, Any]:
        return self.source.identity()

    def split(self, desired_splits: int) -> Sequence[Range]:
        self.source.partitions()
        micros = Timestamp.now().micros
        bounds = [(subject, *self._bounds(subject)) for subject in self.source.subjects]
        step = max(_LEAST, -(-sum(max(stop - first, 0) for _, first, stop in bounds) // max(1, desired_splits)))
        return [
            Range(subject, start, min(start + step, stop), micros)
            for subject, first, stop in bounds
            for start in range(first, stop, step)
        ]

    def _bounds(self, subject: str | None) -> tuple[int, int]:
        reading = attrs.evolve(self.source.reading, subject=subject)

        async def found(js: Any) -> tuple[int, int]:
            return await first_position(js, reading, self.source.start), await last_sequence(js, reading) + 1

        return called(reading.connection, f"{reading.what} can't be read", found)

    def read_bundles(self, split: Range) -> Iterator[Bundle]:
        reader = NatsReader(self.source, attrs.evolve(self.source.reading, subject=split.subject), split.start)
        try:
            yield from reader.read_to(split.stop, Timestamp(micros=split.micros))
        finally:
            reader.close()
