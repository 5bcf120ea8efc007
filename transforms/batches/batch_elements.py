"""BatchElements: elements in lists of an efficient size."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import GenericAlias
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.dofn.dofn import DoFn, TimestampDoFn
from ...sdk.elements.element_wrappers import WindowedValue
from ...sdk.metrics import Metrics
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.typehints import pair_of
from ...windowing import GLOBAL_WINDOW, BoundedWindow, GlobalWindows, Timestamp
from ...windowing.duration import DurationTypes, seconds_of_span
from ..par_do.pardo import ParDo
from .length_bucket import DEFAULT_BUCKET_BOUNDARIES, checked_boundaries

if TYPE_CHECKING:
    from ...sdk.static_results import MakesLists

    T = TypeVar("T")

# The number of latest timings that the estimate is based on.
MAX_DATA_POINTS = 100
# The largest ratio of the sizes of two consecutive batches.
MAX_GROWTH = 2


class BatchElements(PTransform):
    """Elements in lists, for a step with a fixed cost for each call besides the cost for each element.

    Returns a `PCollection[list[T]]` for elements of type T.

    The size of the lists is adaptive: the time of the fused steps after it is modelled as `fixed + size * per_element`,
    with parameters estimated from the latest hundred lists, and the size is the largest that meets every target.  For a
    fixed size, set `min_batch_size` and `max_batch_size` to one value.

    A list has elements of one window, and is emitted in that window, with the timestamp of its end.  Without
    `max_batch_duration_secs` it has elements of one bundle, and the rest at the end of a bundle is emitted as a smaller
    list.

    Args:
      min_batch_size: the smallest size of a list, except at the end of a bundle.
      max_batch_size: the largest size of a list.
      target_batch_overhead: the largest share of `fixed` in the time.
      target_batch_duration_secs: the longest time of a list, without `fixed`.
      target_batch_duration_secs_including_fixed_cost: the longest time of a list, with `fixed`.
      max_batch_duration_secs: the longest buffering of an element, in seconds of processing time.  A worker's elements
        are buffered in state from one bundle to the next.  None for lists of one bundle, without state.
      element_size_fn: returns the size of an element; 1 by default.
      variance: the share by which the size varies at random, which the estimate needs.
      clock: returns the time in seconds.  Buffering ends by the runner's clock, unless this one is given.
      record_metrics: reports sizes and times, as distributions in the namespace
        "BatchElements" ("batch_size" and "msec_per_batch").
      length_fn: returns an element's length; elements of different `bucket_boundaries` aren't mixed.
      bucket_boundaries: the boundaries of the buckets of lengths; by default 16, 32, 64, 128, 256 and 512.

    >>> import penstock as beam
    >>> [1, 2, 3, 4, 5] | beam.BatchElements(min_batch_size=2, max_batch_size=2)
    [[1, 2], [3, 4], [5]]
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: MakesLists  # type: ignore[assignment]

    def __init__(
        self,
        min_batch_size: int = 1,
        max_batch_size: int = 10_000,
        target_batch_overhead: float | None = 0.05,
        target_batch_duration_secs: DurationTypes | None = 10,
        target_batch_duration_secs_including_fixed_cost: DurationTypes | None = None,
        max_batch_duration_secs: DurationTypes | None = None,
        *,
        element_size_fn: Callable[[Any], int] | None = None,
        variance: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        record_metrics: bool = True,
        length_fn: Callable[[Any], int] | None = None,
        bucket_boundaries: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.buffering_secs = _seconds(max_batch_duration_secs)
        if self.buffering_secs is not None and self.buffering_secs <= 0:
            raise ValueError(f"BatchElements: max_batch_duration_secs must be positive, got {max_batch_duration_secs}")
        if bucket_boundaries is not None and length_fn is None:
            raise ValueError("BatchElements: bucket_boundaries needs a length_fn, which returns an element's length")
        self.estimator = BatchSizeEstimator(
            min_batch_size=min_batch_size,
            max_batch_size=max_batch_size,
            target_batch_overhead=target_batch_overhead,
            target_batch_duration_secs=target_batch_duration_secs,
            target_batch_duration_secs_including_fixed_cost=target_batch_duration_secs_including_fixed_cost,
            variance=variance,
            clock=clock,
            record_metrics=record_metrics,
        )
        self.clock = clock
        self.size_of = element_size_fn
        self.length_of = length_fn
        boundaries = DEFAULT_BUCKET_BOUNDARIES if bucket_boundaries is None else bucket_boundaries
        self.boundaries = checked_boundaries(boundaries, "BatchElements")

    def expand(self, pcoll: PCollection[T]) -> PCollection[list[T]]:
        hint = GenericAlias(list, (pcoll.hint,))
        if self.buffering_secs is not None:
            from .buffered_batches import AssignBuffers, Buffered

            buffered = Buffered(self.estimator, self.size_of, self.buffering_secs, self.clock)
            assign = ParDo(AssignBuffers(self.length_of, self.boundaries))
            keyed = pcoll | "Buffer" >> assign.with_output_types(pair_of(Any, pcoll.hint))
            batches = keyed | "Batch" >> ParDo(buffered).with_output_types(hint)
            return batches | "EndOfWindow" >> ParDo(TimestampDoFn(_end_of_window)).with_output_types(hint)
        globally = isinstance(pcoll.windowing.window_fn, GlobalWindows)
        batching = (_BatchGlobally if globally else _BatchByWindow)(
            self.estimator, self.size_of, self.length_of, self.boundaries
        )
        return (
            pcoll
            | "Batch" >> ParDo(batching).with_output_types(hint)
            | "EndOfWindow" >> ParDo(TimestampDoFn(_end_of_window)).with_output_types(hint)
        )


def _end_of_window(batch: list[Any], window: Any = DoFn.WindowParam) -> Timestamp:
    return window.max_timestamp()  # type: ignore[no-any-return]


class BatchSizeEstimator:
    """Estimator of the size of the next batch, from the durations of former batches.

    The parameters are those of `BatchElements`; `rng` is the source of the variance.
    Raises `ValueError` for parameters that contradict each other.

    >>> estimator = BatchSizeEstimator(min_batch_size=3, max_batch_size=3)
    >>> with estimator.record_time(3):
    ...     pass
    >>> estimator.next_batch_size()
    3
    """

    def __init__(
        self,
        min_batch_size: int = 1,
        max_batch_size: int = 10_000,
        target_batch_overhead: float | None = 0.05,
        target_batch_duration_secs: DurationTypes | None = 10,
        target_batch_duration_secs_including_fixed_cost: DurationTypes | None = None,
        variance: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        record_metrics: bool = True,
        rng: random.Random | None = None,
    ) -> None:
        if not 1 <= min_batch_size <= max_batch_size:
            raise ValueError(
                "BatchElements: expected 1 <= min_batch_size <= max_batch_size, "
                f"got {min_batch_size} and {max_batch_size}"
            )
        if target_batch_overhead and not 0 < target_batch_overhead <= 1:
            raise ValueError(
                f"BatchElements: target_batch_overhead must be between 0 and 1, got {target_batch_overhead}"
            )
        self._duration = _seconds(target_batch_duration_secs)
        self._whole_duration = _seconds(target_batch_duration_secs_including_fixed_cost)
        durations = {
            "target_batch_duration_secs": self._duration,
            "target_batch_duration_secs_including_fixed_cost": self._whole_duration,
        }
        for name, duration in durations.items():
            if duration and duration < 0:
                raise ValueError(f"BatchElements: {name} must be positive, got {duration}")
        if not (target_batch_overhead or any(durations.values())):
            raise ValueError(
                f"BatchElements: at least one of target_batch_overhead, {' and '.join(durations)} is needed"
            )
        self._smallest = min_batch_size
        self._largest = max_batch_size
        self._overhead = target_batch_overhead
        self._variance = variance
        self._clock = clock
        self._record_metrics = record_metrics
        self._rng = rng or random.Random()
        self._timings: list[tuple[int, float]] = []
        self._ignore_next = False
        self._replayed: int | None = None
        # Fractions of a millisecond that aren't reported yet.
        self._unreported = 0.0

    def ignore_next_timing(self) -> None:
        """Ignore the time of the next batch, which is slower than others, for example because of a set-up.

        The batch after it has the same size.
        """
        self._ignore_next = True

    @contextmanager
    def record_time(self, batch_size: int) -> Iterator[None]:
        """Record the time of the block as that of a batch of this size."""
        start = self._clock()
        yield
        elapsed = float(self._clock() - start)
        if self._record_metrics:
            whole, self._unreported = divmod(1000 * elapsed + self._unreported, 1)
            Metrics.distribution("BatchElements", "batch_size").update(batch_size)
            Metrics.distribution("BatchElements", "msec_per_batch").update(int(whole))
        if self._ignore_next:
            self._ignore_next = False
            self._replayed = min(batch_size, self._largest)
            return
        self._timings.append((batch_size, elapsed))
        del self._timings[:-MAX_DATA_POINTS]

    def next_batch_size(self) -> int:
        """Return the size of the next batch."""
        if self._replayed is not None:
            size, self._replayed = self._replayed, None
            return size
        if self._smallest == self._largest or not self._timings:
            return self._smallest
        cap = min(self._timings[-1][0] * MAX_GROWTH, self._largest)
        target = self._target()
        if len(self._timings) > 10:
            target *= 1 + self._variance * (2 * self._rng.random() - 1)
        # Two alternating sizes instead of one, since a line needs two points.
        floor = min(self._smallest + len(self._timings) % 2, self._largest)
        return int(max(floor, min(target, cap)))

    def _target(self) -> float:
        """Return the largest size that meets all targets, by the present estimate."""
        fixed, each = fitted_line(self._timings)
        # Noise may make either negative.
        fixed, each = max(fixed, 1e-10), max(each, 1e-20)
        target = float(self._largest)
        if self._whole_duration:
            target = min(target, (self._whole_duration - fixed) / each)
        if self._duration:
            target = min(target, self._duration / each)
        if self._overhead:
            target = min(target, fixed / each * (1 / self._overhead - 1))
        return target


def fitted_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the intercept and the slope of the line through points, by least squares.

    If all points have one x, the line goes through the origin.

    >>> fitted_line([(1, 5), (2, 7), (3, 9)])
    (3.0, 2.0)
    """
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        return (0.0, mean_y / mean_x) if mean_x else (mean_y, 0.0)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return mean_y - slope * mean_x, slope


class _Batch:
    """A list under construction, and its size."""

    __slots__ = ("elements", "size")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.size = 0


class _BatchByWindow(DoFn):
    """Elements to lists, each of one window and bucket of lengths."""

    # The elements of a list depend on the clock and on the bundle.
    deterministic = False

    def __init__(
        self,
        estimator: BatchSizeEstimator,
        size_of: Callable[[Any], int] | None,
        length_of: Callable[[Any], int] | None,
        boundaries: tuple[int, ...],
    ) -> None:
        self.estimator = estimator
        self.size_of = size_of
        self.length_of = length_of
        self.boundaries = boundaries

    def start_bundle(self) -> None:
        self.batches: dict[tuple[BoundedWindow, int], _Batch] = {}
        self.target = self.estimator.next_batch_size()
        self.estimator.ignore_next_timing()

    def process(self, element: Any, window: Any = DoFn.WindowParam) -> Iterable[Any] | None:
        return self.add(element, window)

    def add(self, element: Any, window: BoundedWindow) -> Iterable[Any] | None:
        """Add an element to its list, and return the lists that are complete."""
        bucket = 0 if self.length_of is None else bisect_right(self.boundaries, self.length_of(element))
        size = 1 if self.size_of is None else self.size_of(element)
        batch = self.batches.get((window, bucket))
        full: _Batch | None = None
        if batch is not None and batch.size + size > self.target:
            batch, full = None, batch
        if batch is None:
            batch = self.batches[window, bucket] = _Batch()
        batch.elements.append(element)
        batch.size += size
        # Emitted here, as a plain value in the window of the current element, which is the list's, so that the clock
        # measures the fused steps after this one.
        return None if full is None else self._timed(full)

    def _timed(self, batch: _Batch) -> Iterator[Any]:
        with self.estimator.record_time(batch.size):
            yield batch.elements
        self.target = self.estimator.next_batch_size()

    def finish_bundle(self) -> Iterable[Any]:
        batches, self.batches = self.batches, {}
        return [
            WindowedValue(batch.elements, window.max_timestamp(), (window,)) for (window, _), batch in batches.items()
        ]


class _BatchGlobally(_BatchByWindow):
    """Elements to lists in the global window, without `DoFn.WindowParam`."""

    def process(self, element: Any) -> Iterable[Any] | None:  # type: ignore[override]
        return self.add(element, GLOBAL_WINDOW)


def _seconds(span: DurationTypes | None) -> float | None:
    return None if span is None else seconds_of_span(span)
