"""A bounded source as partitions with offsets, so that a run over it can be recovered in the middle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ...sdk.bundle import Bundle
from ...sdk.source import BoundedSource
from ...sdk.unbounded_source import UnboundedReader, UnboundedSource
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp


@attrs.frozen
class SplitPartition:
    """One split of a bounded source."""

    index: int
    split: Any = attrs.field(eq=False, repr=False)


class BoundedPartitions(UnboundedSource[Any]):
    """The splits of a bounded source; an offset is how many elements of its split have been read.

    >>> from penstock.sdk.source import ValuesSource
    >>> source = BoundedPartitions(ValuesSource(["a", "b"]), 2)
    >>> [reader.poll(10, Timestamp(0)).values for reader in (source.open(p, None) for p in source.partitions())]
    [['a'], ['b']]
    """

    def __init__(self, source: BoundedSource[Any], splits: int) -> None:
        self._source = source
        self._splits = splits

    def partitions(self) -> Sequence[Any]:
        return [SplitPartition(i, split) for i, split in enumerate(self._source.split(self._splits))]

    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[Any]:
        return BoundedReader(self._source, partition.split, offset or 0)


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
