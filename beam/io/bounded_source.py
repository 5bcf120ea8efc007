"""BoundedSource as Beam defines it: a source that is read by ranges of positions, and sources made of others."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from threading import RLock
from typing import Any, NamedTuple

from ...sdk import coders
from ...sdk.adapters import AdaptedSource, convert_sources
from ...sdk.sources.bounded import BoundedSource as OwnBoundedSource
from .range_trackers import RangeTracker

# Sizes of splits in the unit of `estimate_size`, which is bytes as a rule.  A source may rely on not being cut finer.
_SMALLEST_SPLIT = 1024 * 1024
_LARGEST_SPLIT = 64 * 1024 * 1024


class SourceBase:
    """Base class of Beam's sources."""

    def display_data(self) -> dict[str, Any]:
        """Return what describes the source."""
        return {}

    def default_output_coder(self) -> Any:
        """Return the coder of its elements."""
        return coders.registry.get_coder(object)

    def is_bounded(self) -> bool:
        """Return whether it ends."""
        raise NotImplementedError(f"{type(self).__name__}.is_bounded")


class BoundedSource(SourceBase):
    """A finite input that is read by ranges of positions.  A subclass defines `get_range_tracker`, `read` and `split`.

    >>> import penstock as beam
    >>> from penstock.io.range_trackers import OffsetRangeTracker
    >>> class Numbers(BoundedSource):
    ...     def estimate_size(self):
    ...         return 3
    ...     def get_range_tracker(self, start_position, stop_position):
    ...         return OffsetRangeTracker(start_position or 0, 3 if stop_position is None else stop_position)
    ...     def read(self, range_tracker):
    ...         for n in range(range_tracker.start_position(), 3):
    ...             if not range_tracker.try_claim(n):
    ...                 return
    ...             yield n
    ...     def split(self, desired_bundle_size, start_position=None, stop_position=None):
    ...         yield SourceBundle(3, self, 0, 3)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.Read(Numbers()) | beam.Map(print)
    0
    1
    2
    """

    def estimate_size(self) -> int | None:
        """Return the size of the input in bytes; None if it is unknown."""
        raise NotImplementedError(f"{type(self).__name__}.estimate_size")

    def split(
        self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None
    ) -> Iterable[SourceBundle]:
        """Return the parts of a range, of about `desired_bundle_size` bytes.  None as a position is the source's."""
        raise NotImplementedError(f"{type(self).__name__}.split")

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> RangeTracker:
        """Return the tracker of a range.  None as a position is the source's."""
        raise NotImplementedError(f"{type(self).__name__}.get_range_tracker")

    def read(self, range_tracker: Any) -> Iterable[Any]:
        """Yield the elements of a range, and claim their positions."""
        raise NotImplementedError(f"{type(self).__name__}.read")

    def is_bounded(self) -> bool:
        return True


class SourceBundle(NamedTuple):
    """A part of a source.

    Attributes:
      weight: its size relative to other parts, such as bytes; None if unknown.
      source: the source.
      start_position, stop_position: the range; None for the source's.
    """

    weight: float | None
    source: BoundedSource
    start_position: Any
    stop_position: Any


class _ReadByRanges(OwnBoundedSource[Any]):
    def __init__(self, source: BoundedSource) -> None:
        self._source = source

    def identity(self) -> Mapping[str, Any]:
        return {"source": type(self._source).__name__}

    def estimate_size(self) -> int | None:
        try:
            return self._source.estimate_size()
        except NotImplementedError:
            return None

    def split(self, desired_splits: int) -> Sequence[SourceBundle]:
        size = self.estimate_size() or 0
        return list(
            self._source.split(max(_SMALLEST_SPLIT, min(size // desired_splits or _LARGEST_SPLIT, _LARGEST_SPLIT)))
        )

    def read(self, split: SourceBundle) -> Iterator[Any]:
        _, source, start, stop = split
        return iter(source.read(source.get_range_tracker(start, stop)))


convert_sources(BoundedSource, lambda source: AdaptedSource(_ReadByRanges(source)))


class ConcatSource(BoundedSource):
    """The elements of several sources, one source after the other.  A position is a source's index, and one in it."""

    def __init__(self, sources: Iterable[Any]) -> None:
        self._bundles = [s if isinstance(s, SourceBundle) else SourceBundle(None, s, None, None) for s in sources]

    @property
    def sources(self) -> list[BoundedSource]:
        """The sources."""
        return [bundle.source for bundle in self._bundles]

    def estimate_size(self) -> int | None:
        return sum(source.estimate_size() or 0 for source in self.sources)

    def split(
        self, desired_bundle_size: int | None = None, start_position: Any = None, stop_position: Any = None
    ) -> Iterator[SourceBundle]:
        if start_position or stop_position:
            raise ValueError(
                f"ConcatSource: it is split as a whole, got the positions {start_position!r} and {stop_position!r}"
            )
        size = _LARGEST_SPLIT if desired_bundle_size is None else desired_bundle_size
        for _, source, start, stop in self._bundles:
            yield from source.split(size, start, stop)

    def get_range_tracker(self, start_position: Any = None, stop_position: Any = None) -> ConcatRangeTracker:
        stop = (len(self._bundles), None) if stop_position is None else stop_position
        return ConcatRangeTracker((0, None) if start_position is None else start_position, stop, self._bundles)

    def read(self, range_tracker: ConcatRangeTracker) -> Iterator[Any]:
        stop, within = range_tracker.stop_position()
        for index in range(range_tracker.start_position()[0], stop if within is None else stop + 1):
            if not range_tracker.try_claim((index, None)):
                return
            yield from self._bundles[index].source.read(range_tracker.sub_range_tracker(index))

    def default_output_coder(self) -> Any:
        return self._bundles[0].source.default_output_coder() if self._bundles else super().default_output_coder()


class ConcatRangeTracker(RangeTracker):
    """Tracker of a range over several sources, from and to pairs of a source's index and a position in it, or None."""

    def __init__(self, start: tuple[int, Any], end: tuple[int, Any], source_bundles: Sequence[SourceBundle]) -> None:
        self._start = start
        self._end = end
        self._bundles = source_bundles
        self._claimed = start[0]
        self._trackers: dict[int, RangeTracker] = {}
        self._lock = RLock()
        behind = self._behind()
        known = [bundle.weight for bundle in source_bundles if bundle.weight]
        mean = sum(known) / len(known) if known else 1.0
        weights = [bundle.weight or mean for bundle in source_bundles[start[0] : behind]]
        total = sum(weights) or 1.0
        # The fraction of the range before each source.
        before = [*(w / total for w in accumulate(weights, initial=0.0))]
        before[-1] = 1.0 if weights else 0.0
        self._before = [0.0] * start[0] + before + [1.0] * (len(source_bundles) - behind)

    def _behind(self) -> int:
        """Return the index behind the last source of the range."""
        return self._end[0] if self._end[1] is None else self._end[0] + 1

    def start_position(self) -> tuple[int, Any]:
        return self._start

    def stop_position(self) -> tuple[int, Any]:
        return self._end

    def try_claim(self, pos: tuple[int, Any]) -> bool:
        index, position = pos
        with self._lock:
            if index >= self._behind():
                return False
            if index < self._claimed:
                raise ValueError(f"ConcatRangeTracker: sources are read in order; claimed {self._claimed}, got {index}")
            self._claimed = index
            return position is None or self.sub_range_tracker(index).try_claim(position)

    def try_split(self, pos: tuple[int, Any]) -> tuple[tuple[int, Any], float] | None:
        index, position = pos
        with self._lock:
            if index < self._claimed or index >= self._behind():
                return None
            within = None
            if index > self._claimed:
                # Between two sources.
                fraction = self._before[index]
            else:
                split = self.sub_range_tracker(index).try_split(position)
                if split is None:
                    return None
                within, part = split
                fraction = self.local_to_global(index, part)
            self._end = index, within
            self._before = [min(each / fraction, 1.0) if fraction else 1.0 for each in self._before]
            return self._end, fraction

    def position_at_fraction(self, fraction: float) -> tuple[int, Any]:
        index, part = self.global_to_local(fraction)
        if part is None or index >= self._behind():
            return index, None
        return index, self.sub_range_tracker(index).position_at_fraction(part)

    def fraction_consumed(self) -> float:
        with self._lock:
            if self._claimed >= len(self._bundles):
                return 1.0
            return self.local_to_global(self._claimed, self.sub_range_tracker(self._claimed).fraction_consumed())

    def local_to_global(self, source_ix: int, source_frac: float) -> float:
        """Return the fraction of the range for one of a source."""
        before, behind = self._before[source_ix : source_ix + 2]
        return before + source_frac * (behind - before)

    def global_to_local(self, frac: float) -> tuple[int, float | None]:
        """Return a source and the fraction of it for one of the range."""
        if frac == 1:
            return self._behind(), None
        index = bisect(self._before, frac) - 1
        before, behind = self._before[index : index + 2]
        return index, (frac - before) / (behind - before)

    def sub_range_tracker(self, source_ix: int) -> RangeTracker:
        """Return the tracker of the part of a source that is in the range."""
        with self._lock:
            if source_ix not in self._trackers:
                _, source, start, stop = self._bundles[source_ix]
                if source_ix == self._start[0] and self._start[1] is not None:
                    start = self._start[1]
                if source_ix == self._end[0] and self._end[1] is not None:
                    stop = self._end[1]
                self._trackers[source_ix] = source.get_range_tracker(start, stop)
            return self._trackers[source_ix]
