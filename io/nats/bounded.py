"""NatsRanges and FirstMessages: messages of a stream as bounded sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.elements.bundle import Bundle
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.watermark_estimators import WalltimeWatermarkEstimator
from ...stored import stored_as
from ...windowing.timestamp import Timestamp
from ..first_bundles import first_bundles
from .client import called
from .pulling import Reading
from .source import NatsReader, NatsSource, Start, first_position, last_sequence

# The messages of a split, at least.
_LEAST = 10_000


def _source(reading: Reading, subjects: tuple[str | None, ...], start: Start, times: EventTimes) -> NatsSource:
    # A bounded source has no watermark, so its timestamps may be in any order.
    times = attrs.evolve(times, estimator=WalltimeWatermarkEstimator.default_provider())
    return NatsSource(reading, subjects, start, times, None)


@stored_as("nats-range", 1)
@attrs.frozen
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

    def __init__(self, reading: Reading, subjects: tuple[str | None, ...], start: Start, times: EventTimes) -> None:
        self.reading = reading
        self.subjects = subjects
        self.source = _source(reading, subjects, start, times)

    def identity(self) -> Mapping[str, Any]:
        return self.source.identity()

    def split(self, desired_splits: int) -> Sequence[Range]:
        self.source.partitions()
        micros = Timestamp.now().micros
        bounds = [(subject, *self._bounds(subject)) for subject in self.subjects]
        step = max(_LEAST, -(-sum(max(stop - first, 0) for _, first, stop in bounds) // max(1, desired_splits)))
        return [
            Range(subject, start, min(start + step, stop), micros)
            for subject, first, stop in bounds
            for start in range(first, stop, step)
        ]

    def _bounds(self, subject: str | None) -> tuple[int, int]:
        reading = attrs.evolve(self.reading, subject=subject)

        async def found(js: Any) -> tuple[int, int]:
            return await first_position(js, reading, self.source.start), await last_sequence(js, reading) + 1

        return called(reading.connection, f"{reading.what} can't be read", found)

    def read_bundles(self, split: Range) -> Iterator[Bundle]:
        reader = NatsReader(self.source, attrs.evolve(self.reading, subject=split.subject), split.start)
        try:
            yield from reader.read_to(split.stop, Timestamp(micros=split.micros))
        finally:
            reader.close()


class FirstMessages(BoundedSource[Any]):
    """The first messages that arrive, up to a number or for a time: one split of all filters."""

    def __init__(
        self,
        reading: Reading,
        subjects: tuple[str | None, ...],
        start: Start,
        times: EventTimes,
        number: int | None,
        seconds: float | None,
    ) -> None:
        self.source = _source(reading, subjects, start, times)
        self.number = number
        self.seconds = seconds

    def identity(self) -> Mapping[str, Any]:
        return dict(self.source.identity()) | {"max_num_records": self.number, "max_read_time": self.seconds}

    def split(self, desired_splits: int) -> Sequence[Any]:
        return [tuple(self.source.partitions())]

    def read_bundles(self, split: Sequence[str]) -> Iterator[Bundle]:
        readers = [self.source.open(partition, None) for partition in split]
        try:
            yield from first_bundles(readers, self.number, self.seconds)
        finally:
            for reader in readers:
                reader.close()
