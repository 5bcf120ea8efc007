"""Groupings of a segment task: those that it runs, and the writers of the shuffles to those of other tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from ....sdk import graph
from ....sdk.elements.bundle import Bundle
from ....sdk.metrics import MetricsContainer
from ..clock import Clock
from ..counters import Counts
from ..operators.dataflow import Cut, Dataflow, Receiver, uncut
from ..operators.grouping import GroupingRun
from ..plan.fusion import Grouping, Plan, is_final, shrinks
from ..plan.segments import Segment
from ..shuffle.blocks import decode_bundle
from ..shuffle.reader import receive
from ..shuffle.writer import TABLE_BYTES, CellWriter, ElementWriter, PairWriter, ShuffleWriter
from ..user_errors import guarded
from ..windows.cell_table import CellTable, WindowOperator
from ..windows.combining import Fold
from ..windows.spilled_groups import GroupSpill

# The blocks of each key group.
KeyGroups: TypeAlias = Iterable[tuple[int, Iterable[bytes]]]

# The memory of a key group's small groups beyond which its keys are divided, into how many parts, and the most parts.
SMALL_BYTES = 128 << 20
_PARTS = 4
_MOST_PARTS = 4**6

# Bytes of accumulators, of successive key groups, whose results are emitted together.  A key group has a few keys in
# each of many windows, and a bundle of them takes longer than their merge: 620,000 sums of 60 windows take 0.50 instead
# of 0.67 s from the shuffle to the file.
TOGETHER_BYTES = 256 << 10


class Groupings:
    """The groupings that some segments begin with, and the writers to those that they end with.

    Args:
      steps: the groupings that the segments begin with.
      clock: of the task.
      metrics: receives user code's metrics.
      counts: counts the elements that come in blocks; None in a task of all segments, where stages count those that
        they fold in place.
    """

    def __init__(
        self, steps: Sequence[Grouping], clock: Clock, metrics: MetricsContainer, counts: Counts | None
    ) -> None:
        self._counts = {} if counts is None else {s.transform.label: counts.of(s.transform.label) for s in steps}
        self._bounded = {s.transform.label: _BoundedGrouping(s) for s in steps if is_final(s.primitive)}
        self._triggered = {
            s.transform.label: GroupingRun(s, clock, metrics) for s in steps if not is_final(s.primitive)
        }
        self._cell_writers: dict[str, CellWriter] = {}
        self._element_writers: dict[str, ElementWriter | PairWriter] = {}

    def open_writers(self, plan: Plan, segments: Iterable[Segment], send: Callable[..., None], groups: int) -> None:
        """Open a writer for each shuffle that the segments send to; see `SegmentTask` for the arguments."""
        transforms = {t.label: t for t in plan.graph.transforms}
        labels = dict.fromkeys(label for segment in segments for label in segment.groupings)
        memory_bytes = TABLE_BYTES // max(1, len(labels))
        for label in labels:
            primitive = transforms[label].primitive
            to_grouping = partial(send, ("grouping", label))
            if isinstance(primitive, graph.GroupByKeyAndWindow) and shrinks(primitive):
                fold = Fold(transforms[label])
                self._cell_writers[label] = CellWriter(fold, to_grouping, groups, memory_bytes)
            elif isinstance(primitive, graph.GroupByKeyAndWindow) and _is_plain(primitive):
                fold = Fold(transforms[label])
                self._element_writers[label] = PairWriter(fold, to_grouping, groups, memory_bytes)
            else:
                self._element_writers[label] = ElementWriter(label, to_grouping, groups, memory_bytes)

    def wired(self, wire: Callable[..., Dataflow]) -> Dataflow:
        """Return the dataflow of the segments.

        Args:
          wire: makes it, given what receives the input of each grouping.
        """
        bundles: dict[str, Receiver] = {label: run.receive for label, run in self._triggered.items()}
        bundles |= {label: writer.receive for label, writer in self._element_writers.items()}
        portions = {label: writer.portions for label, writer in self._writers.items()}
        dataflow = wire({**self._bounded, **self._cell_writers}, bundles=bundles, portions=portions)
        for run in self._triggered.values():
            run.wire(dataflow)
        return dataflow

    @property
    def _writers(self) -> dict[str, ShuffleWriter]:
        return {**self._cell_writers, **self._element_writers}

    def run(self, root: Grouping, key_groups: KeyGroups, dataflow: Dataflow, in_parts: Cut = uncut) -> Iterator[None]:
        """Process a partition of the input of a grouping, pausing regularly: after each part of its results."""
        label = root.transform.label
        if label in self._triggered:
            run = self._triggered[label]
            for _, blocks in key_groups:
                for block in blocks:
                    bundle = decode_bundle(block)
                    self._counts[label].read += len(bundle)
                    run.receive(bundle)
                run.finish()
                yield
            return
        bounded = self._bounded[label]
        send = dataflow.send_to(bounded.output)
        for _, blocks in key_groups:
            for received in bounded.passes(blocks):
                if received:
                    # Elements that were folded in place were counted by their stage.
                    self._counts[label].read += received
                if bounded.waits:
                    yield
                    continue
                for results in bounded.finish():
                    for part in in_parts(results):
                        send(part)
                        yield
        for results in bounded.finish():
            for part in in_parts(results):
                send(part)
                yield

    def finish(self) -> Iterator[None]:
        """Flush the writers, pausing regularly, and tear down user code."""
        for writer in self._writers.values():
            writer.flush()
            yield
        folds = [bounded.fold for bounded in self._bounded.values()]
        folds += [triggered.fold for triggered in self._triggered.values()]
        folds += [writer.fold for writer in self._cell_writers.values()]
        for fold in folds:
            fold.teardown()


class _BoundedGrouping:
    """The window operator of a bounded grouping whose windows have one result each.

    It processes one range of keys after the other.

    Attributes:
      fold, cells: the cells that stages of the same task fold into.
      output: the PCollection of its results.
    """

    def __init__(self, step: Grouping) -> None:
        self.fold = Fold(step.transform)
        self.fold.setup()
        (self.output,) = step.transform.outputs.values()
        self._operator = WindowOperator(self.fold)
        self._spill = GroupSpill(self._operator)
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        self._is_plain = _is_plain(primitive)
        self._bytes = 0

    @property
    def waits(self) -> bool:
        """Return True if the results of the next key group should be emitted with those received so far."""
        return self.fold.combine_fn is not None and self._bytes < TOGETHER_BYTES

    @property
    def cells(self) -> CellTable:
        return self._operator.cells

    def passes(self, blocks: Iterable[bytes]) -> Iterator[int]:
        """Merge the blocks of a key group; yield the number of values or accumulators before the results are taken.

        Small groups aren't spilled.  If they exceed the memory, the blocks are read several times, and each time a part
        of the keys is grouped.
        """
        divides = self._is_plain and not isinstance(blocks, Iterator)
        # Divisor and remainder of the hashes of a part's keys.
        parts = [(1, 0)]
        while parts:
            divisor, remainder = parts.pop()
            received = 0
            for block in blocks:
                received += guarded(self.fold.label, partial(self._receive, block, divisor, remainder))
                if divides and self._spill.small_bytes > SMALL_BYTES and divisor < _MOST_PARTS:
                    self._operator.cells.clear()
                    self._spill.flushed()
                    parts += [(divisor * _PARTS, remainder + i * divisor) for i in range(_PARTS)]
                    break
            else:
                yield received

    def _receive(self, block: bytes, divisor: int, remainder: int) -> int:
        received = receive(self._operator, block, divisor, remainder)
        if self.fold.combine_fn is None:
            self._spill.received(received, len(block) // divisor)
        self._bytes += len(block)
        return received

    def finish(self) -> Iterator[Bundle]:
        """Yield the results; then reset, for the next range of keys."""
        yield from self._operator.flush()
        self._bytes = 0
        self._spill.flushed()


def _is_plain(grouping: graph.GroupByKeyAndWindow) -> bool:
    """Return True for a plain grouping whose windows have one result each, and don't merge."""
    return is_final(grouping) and grouping.combine is None and not grouping.windowing.window_fn.is_merging
