"""Pre-aggregation: elements are folded where they are sent, so that accumulators travel in their place.

A shuffle costs as much for each element as its fold; of a few keys there is little left to be sent.  Of keys that
hardly come again nothing is saved, and the fold is done twice: so it rests when it stops shrinking the data, and is
tried again now and then.

It is done where it changes no result:

- for a combining grouping whose inputs are never retracted, since it is for whoever takes them back to decide of
  each whether the combiner can;
- whose trigger doesn't look at single elements (`Trigger.element_wise`): one that counts them, weighs them or
  looks into them has to see each.  Any other is asked once for each bundle and window that it touches, and is so yet;
- whose windows don't merge: of windows that do, what an element joins decides whether it is late;
- whose results don't have the earliest timestamps, since an element behind the output watermark doesn't count
  there; of the latest those behind it are never the latest;
- that puts out no late elements, of which nothing would be left.  Late ones are counted: each accumulator knows
  how many elements it stands for.

What is in a bundle is folded, and sent at once: nothing is left here that a snapshot would have to hold.  The fold has
a slice of time of its own.  When that is over, the elements that it has not come to are sent as they are.
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
from ..plan.fusion import Grouping, Stage, Step, shrinks
from ..stages.executor import StageExecutor
from ..time_slice import TimeSlice
from ..user_errors import guarded
from ..windows.bounded_operator import Cells
from ..windows.combining import Fold, FoldedBundle

# Smaller bundles go as they are.
SMALLEST = 64
# Of five elements at most two accumulators have to come, which is where folding begins to save time
# (docs/streaming_performance.md); or so many times as many elements go by unfolded.
_WORTH, _RESTS = 2 / 5, 30
_FOLDING_STAMPS = (TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST)


def is_exact(transform: graph.Transform) -> bool:
    """Whether a grouping's results stay what they are when accumulators come to it instead of elements."""
    primitive = transform.primitive
    assert isinstance(primitive, graph.GroupByKeyAndWindow)
    is_merging = primitive.windowing.window_fn.is_merging
    stamps_fold = primitive.windowing.timestamp_combiner in _FOLDING_STAMPS
    return shrinks(primitive) and stamps_fold and not is_merging and set(transform.outputs) == {None}


class _CountingFold(Fold):
    """A grouping's fold, of pairs of an accumulator and the number of elements in it."""

    def __init__(self, transform: graph.Transform) -> None:
        super().__init__(transform)
        first, step = self.operation.first, self.operation.step
        assert first is not None
        assert step is not None
        step = re.sub(r"\bacc\b", "acc[0]", step)
        self.operation = attrs.evolve(self.operation, first=f"({first}, 1)", step=f"({step}, acc[1] + 1)")


class PreAggregation:
    """One sender's folding for one grouping.

    Args:
      time_slice: the worker's; None if each bundle is folded to its end.

    Attributes:
      label: the grouping's full label.
      left: the elements of the last bundle that the fold has not come to; None if it has come to all.

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
        """One for the step that elements are sent to; None if that has to see them itself."""
        if not isinstance(step, Grouping) or not is_exact(step.transform):
            return None
        return PreAggregation(step.transform, time_slice)

    def folded(self, bundle: Bundle) -> Bundle:
        """Return a bundle's accumulators, but for what is `left`; or the bundle itself, where that is less work.

        Raises what the combiner raises, as errors of its step.
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
            # What has been folded is sent so: user code has seen it.
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
            # Both dictionaries have their keys in the order in which they came.
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
        """Compact accumulators while the slice lasts; others are sent as they are."""
        over = self._over
        return [(accumulator if over else compact(accumulator), count) for accumulator, count in folded]

    def teardown(self) -> None:
        """Nothing more will come."""
        if self._is_set_up:
            self._is_set_up = False
            self._fold.teardown()


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")
