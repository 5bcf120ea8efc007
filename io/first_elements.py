"""FirstElements: the first elements of an endless source as a bounded source, up to a number or for a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..frozen import frozen
from ..sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ..sdk.errors import SourceError
from ..sdk.sources.bounded import BoundedSource
from ..sdk.sources.event_time_reader import EventTimes
from ..sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ..sdk.watermark_estimators import WalltimeWatermarkEstimator
from ..windowing.timestamp import Timestamp

# Seconds between two looks at readers without elements.
_PAUSE = 0.01


@frozen
class ReadLimits:
    """Where the read of an endless source ends; None for no limit.

    >>> ReadLimits.of("Read", 5, None).is_bounded, ReadLimits.of("Read", None, None).is_bounded
    (True, False)
    """

    number: int | None
    seconds: float | None

    @staticmethod
    def of(transform: str, max_num_records: int | None, max_read_time: float | None) -> ReadLimits:
        """Return the limits for a transform's arguments.  Raises `ValueError`, naming it."""
        for given, parameter in ((max_num_records, "max_num_records"), (max_read_time, "max_read_time")):
            if given is not None and given <= 0:
                raise ValueError(f"{transform}: {parameter} must be more than 0, got {given!r}")
        return ReadLimits(max_num_records, max_read_time)

    @property
    def is_bounded(self) -> bool:
        """True if there is a limit."""
        return self.number is not None or self.seconds is not None

    def bundles(self, readers: Sequence[UnboundedReader[Any]]) -> Iterator[Bundle]:
        """Yield bundles of readers by turns, up to the limits, and acknowledge each after it was processed."""
        until = None if self.seconds is None else time.monotonic() + self.seconds
        remaining = self.number
        while remaining != 0 and (until is None or time.monotonic() < until):
            found = False
            for reader in readers:
                if remaining == 0:
                    return
                bundle = reader.poll(BUNDLE_SIZE if remaining is None else min(remaining, BUNDLE_SIZE), Timestamp.now())
                if bundle is not None:
                    found = True
                    remaining = None if remaining is None else remaining - len(bundle)
                    yield bundle
                    reader.acknowledge(reader.offset())
            if not found:
                time.sleep(_PAUSE)


class FirstElements(BoundedSource[Any]):
    """The first elements that arrive from all partitions of a source, as one split.

    They arrive in another order, or not at all, when the split is read again.  So a stream can't resume in the middle.

    Args:
      label: the transform's.
    """

    def __init__(self, source: UnboundedSource[Any], limits: ReadLimits, label: str) -> None:
        self.source = source
        self.limits = limits
        self.label = label

    def identity(self) -> Mapping[str, Any]:
        limits = {"max_num_records": self.limits.number, "max_read_time": self.limits.seconds}
        return {**self.source.identity(), **limits}

    def split(self, desired_splits: int) -> Sequence[Any]:
        return [tuple(self.source.partitions())]

    def check_split(self, split: Any) -> None:
        raise SourceError(
            f"{self.label}: a read with max_num_records or max_read_time can't resume in the middle, since other "
            "elements arrive when it is repeated; begin again without the checkpoint, or read without these limits"
        )

    def read_bundles(self, split: Sequence[Any]) -> Iterator[Bundle]:
        readers = [self.source.open(partition, None) for partition in split]
        try:
            yield from self.limits.bundles(readers)
        finally:
            for reader in readers:
                reader.close()


def without_watermark(times: EventTimes) -> EventTimes:
    """Return event times that may be in any order: a bounded source has no watermark."""
    return attrs.evolve(times, estimator=WalltimeWatermarkEstimator.default_provider())
