"""Pre-aggregation: elements are folded by their sender, so that accumulators are sent instead of them.

A shuffle costs as much for each element as its fold; of a few keys there is little left to be sent.  Of keys that
hardly repeat nothing is saved, and the fold is done twice.  So it pauses when it stops shrinking the data, and is tried
again later.

It is done where it changes no result:

- for a combining grouping whose inputs are never retracted, since the receiver of a retraction has to decide for each
  element whether the combiner can retract it;
- whose trigger doesn't look at single elements (`Trigger.element_wise`).  One that counts, weighs or inspects them
  needs each.  Any other is asked once for each bundle and window;
- whose windows don't merge: of merging windows, the window that an element joins decides whether it is late;
- whose results don't have the earliest timestamps, because an element behind the output watermark doesn't count there.
  With the latest timestamps an element behind it is never the latest;
- without an output for late elements, which would be lost.  Late elements are counted: each accumulator has the number
  of its elements.

The accumulators of a bundle are sent at once, so nothing remains for a snapshot.  The fold has a slice of time of its
own.  When that is over, the remaining elements are sent as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.bundle import Bundle, Windows
from ....sdk.combine_fn import CombineFn
from ....windowing.timestamp_combiner import TimestampCombiner
from ..clock import TimeSlice
from ..plan.fusion import Grouping, Stage, Step, shrinks
from ..stages.executor import StageExecutor
from ..user_errors import guarded
from ..windows.bounded_operator import Cells
from ..windows.combining import Fold, FoldedBundle

# Smaller bundles are not folded.
SMALLEST = 64
# Folding saves time if five elements become at most two accumulators (docs/streaming_performance.md).  Otherwise
# `_RESTS` times as many elements are sent without.
_WORTH, _RESTS = 2 / 5, 30
_FOLDING_STAMPS = (TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST)


def is_exact(transform: graph.Transform) -> bool:
    """Return True if a grouping has the same results when it receives accumulators instead of elements."""
    primitive = transform.primitive
    assert isinstance(primitive, graph.GroupByKeyAndWindow)
    is_merging = primitive.windowing.window_fn.is_merging
    stamps_fold = primitive.windowing.timestamp_combiner in _FOLDING_STAMPS
    return shrinks(primitive) and stamps_fold and not is_merging and set(transform.outputs) == {None}


class _CountingFold(Fold):
    """A grouping's fold, of pairs of an accumulator and the number of its elements."""

    def __init__(self, transform: graph.Transform) -> None:
        super().__init__(transform)
        first, step = self.operation.first, self.operation.step
        assert first is not None
        assert step is not None
        step = re.sub(r"\bacc\b", "acc[0]", step)
        self.operation = attrs.evolve(self.operation, first=f"({first}, 1)", step=f"({step}, acc[1] + 1)")


class PreAggregation:
    """The pre-aggregation of one sender for one grouping.

    Args:
      time_slice: the worker's; None if each bundle is folded to its end.

    Attributes:
      label: the grouping's full label.
      left: the remaining elements of the last bundle, which the fold has not reached; None if there are none.

    >>> import penstock as beam
    >>> from penstock.runners.execution.plan.fusion import fuse
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([("a", 1)]) | beam.CombinePerKey(sum)
    >>> before = PreAggregation.of(fuse(p.graph()).steps[-1])
    >>> before.folded(Bundle([("a", 1), ("b", 2)] * 50)).values
    [('a', (50, 50)), ('b', (100, 50))]
    """

    def __init__(self, transform: graph.Transform, time_slice: TimeSlice | None = None) -> None:
        self.label = transform.label
        self._fold = _CountingFold(transform)
        fn = self._fold.combine_fn
        self._compacts = fn is not None and type(fn).compact is not CombineFn.compact
        self._cells = Cells()
        self._time_slice = time_slice
        self._over = None if time_slice is None else time_slice.over
        stage = Stage((), transform.inputs[0], transform)
        self._executor = StageExecutor(stage, _no_output, None, self._cells, self._fold, None, self._over)
        self.left: Bundle | None = None
        self._is_set_up = False
        self._resting = 0

    @staticmethod
    def of(step: Step | None, time_slice: TimeSlice | None = None) -> PreAggregation | None:
        """Return the pre-aggregation for a receiving step; None if that needs the elements."""
        if not isinstance(step, Grouping) or not is_exact(step.transform):
            return None
        return PreAggregation(step.transform, time_slice)

    def folded(self, bundle: Bundle) -> Bundle:
        """Return a bundle's accumulators, or the bundle itself where that is less work.

        Elements that the fold has not reached are `left`.

        Errors of the combiner are raised as errors of its step.
        """
        self.left = None
        n = len(bundle)
        if n < SMALLEST:
            return bundle
        if self._resting > 0:
            self._resting -= n
            return bundle
        if not self._is_set_up:
            self._is_set_up = True
            self._fold.setup()
        try:
            with self._slice():
                self._executor.process(bundle)
            with self._slice() if self._compacts else nullcontext():
                folded = self._taken()
        finally:
            self._cells.by_window.clear()
        done = n
        if self._executor.left:
            ((_, self.left),) = self._executor.left
            self._executor.left = []
            done -= len(self.left)
        if len(folded) > _WORTH * done or done < n // 2:
            # Folded elements are sent as accumulators in any case, because user code has processed them.
            self._resting = _RESTS * n
        return folded

    def _slice(self) -> AbstractContextManager[None]:
        return nullcontext() if self._time_slice is None else self._time_slice.renewed()

    def _taken(self) -> FoldedBundle:
        values: list[Any] = []
        timestamps: Any = []
        windows: Any = []
        for cells in self._cells.by_window.values():
            own: Windows = (cells.window,)
            count = len(cells.accumulators)
            values += zip(cells.accumulators, self._compacted(cells.accumulators.values()), strict=True)
            # Both dictionaries have the same order of keys.
            timestamps += cells.stamps.values() if cells.stamps else [cells.window.max_micros] * count
            windows += [own] * count
        if len(self._cells.by_window) == 1:
            windows = windows[0]
        return FoldedBundle(values, timestamps, windows)

    def _compacted(self, folded: Iterable[Any]) -> Iterable[Any]:
        fn = self._fold.combine_fn
        if fn is None or not self._compacts:
            return folded
        return guarded(self.label, partial(self._compacted_in_time, fn.compact, folded))

    def _compacted_in_time(self, compact: Callable[[Any], Any], folded: Iterable[Any]) -> list[Any]:
        """Compact accumulators until the slice is over; the others are sent as they are."""
        over = self._over
        return [(accumulator if over else compact(accumulator), count) for accumulator, count in folded]

    def teardown(self) -> None:
        """Tear down the combiner."""
        if self._is_set_up:
            self._is_set_up = False
            self._fold.teardown()


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")
