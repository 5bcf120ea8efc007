"""Pre-aggregation: a sender folds elements into a table, and sends accumulators instead of them.

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

The table outlives a bundle.  Its owner sends it, whole, before each message that the receiver could see the difference
by:

- a barrier.  So a snapshot contains nothing of a table;
- a watermark that `matters`: one at the end of a window in the table, before which the elements have to arrive so that
  they are on time.  Where results have the latest timestamps, and for triggers of users, any watermark matters;
- the clock and the signals of a script, a percentile watermark, and the begin of idleness.

Otherwise it is sent when it `is_full`, when the worker has nothing else to do, and when it has waited for its
`patience`: 5 ms where a pane may fire before the end of its window, 100 ms where only a watermark that matters lets one
fire.

Of a bundle as many elements are folded as a step may take, by the time that the last ones took.  Then the table and the
remaining elements are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.combine_fn import CombineFn
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, Windows
from ....triggers import Trigger
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS
from ....windowing.timestamp_combiner import TimestampCombiner
from ....windowing.windows import end_of_window
from ..clock import StepClock, UnboundedSteps
from ..plan.fusion import Grouping, Stage, Step, shrinks
from ..spilling.memory import average, memory_of
from ..stages.executor import StageExecutor
from ..user_errors import guarded
from ..windows.cell_table import CellTable, WindowCells
from ..windows.columns.folded_columns import FoldedColumns
from ..windows.combining import Fold, FoldedBundle
from ..windows.trigger_state import fires_early

# Smaller bundles begin no table.
SMALLEST = 64
# The bounds of the tables of an edge: entries, and bytes of accumulators, about.
MOST_ENTRIES, MOST_BYTES = 2 * BUNDLE_SIZE, 4 << 20
# Microseconds that a table waits at most: where a pane may fire before the end of its window, and where none does.
PATIENCE, LONG_PATIENCE = 5_000, 100_000
# Folding saves time if five elements become at most two accumulators (docs/streaming_performance.md).  Otherwise, or if
# it is slow, four times as many elements are sent without; the next time twice that, up to 32 times.
_WORTH, _RESTS, _MOST_RESTS = 2 / 5, 4, 32
_FOLDING_STAMPS = (TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST)


def is_exact(transform: graph.Transform) -> bool:
    """Return True if a grouping has the same results when it receives accumulators instead of elements."""
    primitive = transform.primitive
    assert isinstance(primitive, graph.GroupByKeyAndWindow)
    is_merging = primitive.windowing.window_fn.is_merging
    stamps_fold = primitive.windowing.timestamp_combiner in _FOLDING_STAMPS
    return shrinks(primitive) and stamps_fold and not is_merging and set(transform.outputs) == {None}


def _parts(trigger: Trigger) -> Iterator[Trigger]:
    """Yield a trigger and all triggers that it is made of."""
    yield trigger
    for value in vars(trigger).values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Trigger):
                yield from _parts(part)


def _is_of_users(trigger: Trigger) -> bool:
    own = Trigger.__module__.rpartition(".")[0]
    return any(not type(part).__module__.startswith(f"{own}.") for part in _parts(trigger))


@attrs.define
class _Table:
    """The cells of one origin.

    Attributes:
      by_window, columns: the cells.
      elements: the number of elements that were folded into them.
    """

    by_window: dict[BoundedWindow, WindowCells] = attrs.field(factory=dict)
    columns: FoldedColumns | None = None
    elements: int = 0
    _seen: int = 0
    _end: int = MAX_MICROS

    def __len__(self) -> int:
        in_columns = 0 if self.columns is None else len(self.columns)
        return in_columns + sum(len(cells.accumulators) for cells in self.by_window.values())

    def accumulators(self) -> Iterator[Any]:
        """Yield the accumulators."""
        return chain.from_iterable(cells.accumulators.values() for cells in self.by_window.values())

    def earliest_end(self) -> int:
        """Return the earliest end of its windows."""
        # Dictionaries keep the order of insertion.
        new = len(self.by_window) - self._seen
        if new:
            self._end = min(self._end, *map(end_of_window, islice(reversed(self.by_window), new)))
            self._seen = len(self.by_window)
        return self._end if self.columns is None else min(self._end, self.columns.earliest_end())


class PreAggregation:
    """The pre-aggregation of one sender for one grouping.

    Elements of each origin have a table of their own.

    Args:
      step_clock: the worker's; None if each bundle is folded to its end.

    Attributes:
      label: the grouping's full label.
      waits_since: when the tables began to wait, in microseconds of processing time; for their owner.

    >>> import penstock as beam
    >>> from penstock.runners.execution.plan.fusion import fuse
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([("a", 1)]) | beam.CombinePerKey(sum)
    >>> before = PreAggregation.of(fuse(p.graph()).steps[-1])
    >>> before.add(Bundle([("a", 1), ("b", 2)] * 50)), before.add(Bundle([("a", 1)]))
    (None, None)
    >>> [(origin, bundle.values) for origin, bundle in before.take()]
    [(None, [('a', (51, 51)), ('b', (100, 50))])]
    """

    def __init__(self, transform: graph.Transform, step_clock: StepClock | None = None) -> None:
        self.label = transform.label
        self._fold = Fold(transform, counts=True)
        self._cells = CellTable()
        step_clock = step_clock or UnboundedSteps()
        self._compacting, self._pace = step_clock.pace(BUNDLE_SIZE), step_clock.pace(BUNDLE_SIZE, BUNDLE_SIZE)
        stage = Stage((), transform.inputs[0], transform)
        self._executor = StageExecutor(stage, _no_output, None, self._cells, self._fold)
        trigger = self._fold.windowing.trigger
        self._fires_early = fires_early(trigger)
        self._each_watermark = self._fold.operation.stamped or _is_of_users(trigger)
        self.waits_since: int | None = None
        self._tables: dict[Any, _Table] = {}
        self._is_set_up = False
        self._resting, self._rests = 0, _RESTS
        # The numbers of elements folded and accumulators sent, of the last tables.
        self._elements = self._sent = 0.0
        # The number of elements at which memory is measured next.
        self._measured_at = 0
        self._is_large = False

    @staticmethod
    def of(step: Step | None, step_clock: StepClock | None = None) -> PreAggregation | None:
        """Return the pre-aggregation for a receiving step; None if that needs the elements."""
        if not isinstance(step, Grouping) or not is_exact(step.transform):
            return None
        return PreAggregation(step.transform, step_clock)

    def __bool__(self) -> bool:
        """Return True if a table holds elements."""
        return bool(self._tables)

    def add(self, bundle: Bundle, origin: Any = None) -> Bundle | None:
        """Fold a bundle into the table of its origin.

        Returns the elements that were not folded, which are to be sent behind the tables; None if all were.

        Errors of the combiner are raised as errors of its step.
        """
        n = len(bundle)
        if not self._tables:
            if n < SMALLEST:
                return bundle
            if self._resting > 0:
                self._resting -= n
                return bundle
        if not self._is_set_up:
            self._is_set_up = True
            self._fold.setup()
        table = self._tables.setdefault(origin, _Table())
        self._cells.by_window, self._cells.columns = table.by_window, table.columns
        done = min(n, self._pace.count)
        self._pace.begin()
        try:
            self._executor.process(bundle if done == n else bundle.part(0, done))
        except BaseException:
            self.clear()
            raise
        self._pace.end(done)
        table.columns = self._cells.columns
        table.elements += done
        if done < n // 2:
            self._rest(n)
        return None if done == n else bundle.part(done, n)

    def _rest(self, elements: int) -> None:
        """Fold nothing of the next elements, of a multiple of this number."""
        self._resting = max(self._resting, self._rests * elements)
        self._rests = min(2 * self._rests, _MOST_RESTS)

    @property
    def is_full(self) -> bool:
        """True if the tables have reached their bound."""
        elements = sum(table.elements for table in self._tables.values())
        in_columns = [table.columns for table in self._tables.values() if table.columns is not None]
        if sum(map(len, self._tables.values())) >= MOST_ENTRIES:
            for columns in in_columns:
                columns.compact()
        if elements >= self._measured_at:
            self._measured_at = 2 * elements
            every = [each for table in self._tables.values() for each in table.accumulators()]
            self._is_large = (
                len(every) * average(every, len(every), memory_of) + sum(c.nbytes for c in in_columns) > MOST_BYTES
            )
        return self._is_large or sum(map(len, self._tables.values())) >= MOST_ENTRIES

    def matters(self, watermark: int) -> bool:
        """Return True if a watermark must not overtake the tables."""
        if self._each_watermark:
            return bool(self._tables)
        return any(table.earliest_end() <= watermark for table in self._tables.values())

    def patience(self, watermark: int) -> int:
        """Return for how long the tables may wait, in microseconds, behind a watermark."""
        return PATIENCE if self._fires_early or self.matters(watermark) else LONG_PATIENCE

    def take(self) -> list[tuple[Any, FoldedBundle]]:
        """Remove and return the accumulators of each origin."""
        if not self._tables:
            return []
        tables = self._tables
        self.clear()
        taken = [(origin, self._folded(table)) for origin, table in tables.items()]
        elements = sum(table.elements for table in tables.values())
        # A barrier or a watermark may come early once, so earlier tables count too.
        self._elements = self._elements / 2 + elements
        self._sent = self._sent / 2 + sum(len(folded) for _, folded in taken)
        if self._sent > _WORTH * self._elements:
            # Folded elements are sent as accumulators in any case, because user code has processed them.
            self._rest(elements)
            self._elements = self._sent = 0.0
        elif self._resting <= 0:
            self._rests = _RESTS
        return [(origin, folded) for origin, folded in taken if len(folded)]

    def clear(self) -> None:
        """Empty the tables."""
        self._tables = {}
        self._cells.by_window, self._cells.columns = {}, None
        self.waits_since = None
        self._measured_at = 0
        self._is_large = False

    def _folded(self, table: _Table) -> FoldedBundle:
        self._cells.by_window, self._cells.columns = table.by_window, table.columns
        self._cells.flush_columns()
        self._cells.by_window, self._cells.columns = {}, None
        values: list[Any] = []
        timestamps: Any = []
        windows: Any = []
        for cells in table.by_window.values():
            own: Windows = (cells.window,)
            count = len(cells.accumulators)
            values += zip(cells.accumulators, self._compacted(cells.accumulators.values()), strict=True)
            # Both dictionaries have the same order of keys.
            timestamps += cells.stamps.values() if cells.stamps else [cells.window.max_micros] * count
            windows += [own] * count
        if windows and len(windows) == count:
            windows = own
        return FoldedBundle(values, timestamps, windows)

    def _compacted(self, folded: Iterable[Any]) -> Iterable[Any]:
        """Compact accumulators, as many as a step may take; the others are sent as they are."""
        fn = self._fold.combine_fn
        if fn is None or type(fn).compact is CombineFn.compact:
            return folded
        compact, pace, rest = fn.compact, self._compacting, iter(folded)
        pace.begin()
        first = islice(rest, pace.count)
        compacted = guarded(self.label, lambda: [(compact(accumulator), count) for accumulator, count in first])
        pace.end(len(compacted))
        return [*compacted, *rest]

    def teardown(self) -> None:
        """Tear down the combiner."""
        if self._is_set_up:
            self._is_set_up = False
            self._fold.teardown()


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")
