"""Sources of a stream: checks of what a source returns, and bounded sources as partitions with offsets.

A value that breaks the interface of an unbounded source raises `SourceError` at once:

>>> checked_watermark(1.5, "Ticks")
Traceback (most recent call last):
    ...
penstock.sdk.errors.SourceError: Ticks: expected watermark() to give microseconds since 1970, an int, got 1.5

A bounded source with offsets lets a run over it resume in the middle.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ....frozen import frozen
from ....persistence import stored_as
from ....sdk.coders.coder import shortened
from ....sdk.elements.bundle import Bundle
from ....sdk.errors import SourceError
from ....sdk.sources.bounded import BoundedSource, ValuesSource
from ....sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp


def checked_partitions(partitions: Any, label: str) -> Sequence[Any]:
    """Return the partitions as a list.

    Raises `SourceError` for a value without a hash, or that is no sequence.
    """
    if not isinstance(partitions, Iterable) or isinstance(partitions, (str, bytes)):
        raise SourceError(f"{label}: expected partitions() to give a list, got {shortened(partitions, 100)}")
    found = list(partitions)
    for partition in found:
        try:
            hash(partition)
        except TypeError:
            raise SourceError(
                f"{label}: expected partitions with a hash, such as names, numbers or tuples of them, got "
                f"{shortened(partition, 100)}"
            ) from None
    return found


def checked_bundle(bundle: Any, label: str) -> Bundle | None:
    """Return the bundle of `poll`.

    Raises `SourceError` for another value, or columns of different lengths.
    """
    if bundle is None:
        return None
    if not isinstance(bundle, Bundle):
        raise SourceError(
            f"{label}: expected poll() to give a Bundle, or None, got {shortened(bundle, 100)}; make it "
            "Bundle(values, timestamps)"
        )
    times = bundle.timestamps
    if isinstance(times, list) and len(times) != len(bundle):
        raise SourceError(
            f"{label}: expected as many timestamps as values from poll(), got {len(times)} for {len(bundle)}"
        )
    return bundle


def checked_watermark(watermark: Any, label: str) -> int:
    """Return the watermark.

    Raises `SourceError` for a value that is no number of microseconds.
    """
    return _micros(watermark, label, "watermark() to give")


def checked_watermarks(watermarks: Any, label: str) -> Mapping[float, int]:
    """Return the watermarks by share.

    Raises `SourceError` unless each is a number of microseconds.
    """
    if not isinstance(watermarks, Mapping):
        raise SourceError(
            f"{label}: expected watermarks() to give microseconds since 1970 by share, such as {{0.5: 0}}, got "
            f"{shortened(watermarks, 100)}"
        )
    return {share: _micros(micros, label, f"watermarks()[{share!r}] to be") for share, micros in watermarks.items()}


def checked_backlog(backlog: Any, label: str) -> int | None:
    """Return the backlog.

    Raises `SourceError` for a value that is no number.
    """
    if backlog is None or isinstance(backlog, int):
        return backlog
    try:
        return int(backlog)
    except (TypeError, ValueError, OverflowError):
        raise SourceError(
            f"{label}: expected backlog() to give about how many elements wait, an int, or None, got "
            f"{shortened(backlog, 100)}"
        ) from None


def _micros(micros: Any, label: str, what: str) -> int:
    if isinstance(micros, int):
        return micros
    try:
        return operator.index(micros)
    except TypeError:
        advice = "; give its .micros" if isinstance(micros, Timestamp) else ""
        raise SourceError(
            f"{label}: expected {what} microseconds since 1970, an int, got {shortened(micros, 100)}{advice}"
        ) from None


@stored_as("split-partition", 1)
@frozen
class SplitPartition:
    """One split of a bounded source.

    Attributes:
      index, of: the split's place among the desired number of splits.
      split: None for values of the pipeline itself.
    """

    index: int
    of: int = attrs.field(eq=False, repr=False)
    split: Any = attrs.field(eq=False, repr=False)


class BoundedPartitions(UnboundedSource[Any]):
    """The splits of a bounded source; an offset is the number of elements read of its split.

    >>> from penstock.sdk.sources.bounded import ValuesSource
    >>> source = BoundedPartitions(ValuesSource(["a", "b"]), 2)
    >>> [reader.poll(10, Timestamp(0)).values for reader in (source.open(p, None) for p in source.partitions())]
    [['a'], ['b']]
    """

    # The splits of the first run stay the partitions.
    keeps_partitions = True

    def __init__(self, source: BoundedSource[Any], splits: int) -> None:
        self._source = source
        self._splits = splits

    def partitions(self) -> Sequence[Any]:
        # A snapshot doesn't repeat values that the pipeline has.
        is_there = isinstance(self._source, ValuesSource)
        splits = enumerate(self._source.split(self._splits))
        return [SplitPartition(i, self._splits, None if is_there else split) for i, split in splits]

    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[Any]:
        split = partition.split
        if isinstance(self._source, ValuesSource):
            split = self._source.split(partition.of)[partition.index]
        elif offset is not None:
            self._source.check_split(split)
        return BoundedReader(self._source, split, offset or 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Values are pickled with their splits, but not with their source.
        if isinstance(self._source, ValuesSource):
            return _of_values, (self._source.values, self._splits)
        return BoundedPartitions, (self._source, self._splits)


def _of_values(values: Sequence[Any], splits: int) -> BoundedPartitions:
    return BoundedPartitions(ValuesSource(values), splits)


class BoundedReader(UnboundedReader[Any]):
    """Reads one split from an offset on."""

    def __init__(self, source: BoundedSource[Any], split: Any, offset: int) -> None:
        self._bundles: Iterator[Bundle] = iter(source.read_bundles(split))
        self._offset = 0
        self._rest: Bundle | None = None
        self._is_finished = False
        while self._offset < offset:
            bundle = next(self._bundles, None)
            if bundle is None:
                break
            n = min(len(bundle), offset - self._offset)
            self._offset += n
            if n < len(bundle):
                self._rest = bundle.part(n, len(bundle))

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        bundle, self._rest = self._rest, None
        while bundle is None or not len(bundle):
            bundle = next(self._bundles, None)
            if bundle is None:
                self._is_finished = True
                return None
        if len(bundle) > max_elements:
            self._rest = bundle.part(max_elements, len(bundle))
            bundle = bundle.part(0, max_elements)
        self._offset += len(bundle)
        return bundle

    def offset(self) -> int:
        return self._offset

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self._is_finished else MIN_MICROS

    def is_finished(self) -> bool:
        return self._is_finished

    def backlog(self) -> int | None:
        return None

    def is_idle(self, now: Timestamp) -> bool:
        return False
