"""One segment on one partition, in an executor."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import cloudpickle

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.coders import registry
from ...sdk.coders.key_encoding import KEY_GROUPS
from ...sdk.metrics import MetricsContainer, scoped
from ...sdk.serialization import dumps
from ...sdk.sources.bounded import BoundedSource
from ...windowing.timestamp import MAX_MICROS
from ..execution.counters import Counts
from ..execution.dataflow import Dataflow
from ..execution.element_shuffle import ElementWriter, in_order_of_time
from ..execution.fold import Fold
from ..execution.fusion import Grouping, Keyed, Output, Plan, Source, is_final
from ..execution.garbage import rarely_collected
from ..execution.grouped_values import GroupSpill
from ..execution.output import OutputRun
from ..execution.portions import Portions
from ..execution.remote_error import wrapped
from ..execution.shuffle_blocks import ShuffleWriter, decode_bundle, encode_bundle, receive_block
from ..execution.side_input_views import SideInputViews
from ..execution.stateful import StatefulExecutor
from ..execution.stuck_calls import CallWatch
from ..execution.triggered_windows import TriggeredWindows
from ..execution.user_code import Attribution, as_exception, attributed, guarded, reraise
from ..execution.window_operator import WindowOperator
from .block_spool import BlockSpool
from .frame_output import FrameOutput, Pack
from .segments import Segment

if TYPE_CHECKING:
    from pyspark import Broadcast

# What a row is: the output that it belongs to, and there a number and bytes.  An output is
# ("grouping", label), ("stored", pcollection), ("side", pcollection), ("sink", label), ("frame", label).
Row = tuple[tuple[str, Any], int, bytes]


class SegmentTask:
    """The function that Spark calls with each partition of a segment's input.

    Args:
      plan, segment: what is to be done.
      transaction: the run's, for its sinks.
      side_inputs: a broadcast of the blocks of the segment's side inputs.
      reports: an accumulator of `Reports`.
      number: the segment's.
      groups: how many key groups there are.
      packs: what packs the rows of a DataFrame, by the label of its sink.
      timeout: seconds after which a call that has not returned is named in the worker's log.

    Raises `SerializationError` when something in the segment can't be pickled.
    """

    def __init__(
        self,
        plan: Plan,
        segment: Segment,
        transaction: str,
        side_inputs: Broadcast[dict[int, list[bytes]]] | None,
        reports: Any,
        number: int,
        groups: int,
        packs: Mapping[str, Pack],
        timeout: float,
    ) -> None:
        # Of the plan a task needs what the segment sends to.  With the coders that users
        # registered: they decide what can be a key.
        targets = tuple(t for t in plan.graph.transforms if t.label in segment.groupings)
        needed = Plan((), graph.Graph(targets, plan.graph.pcollections))
        self._payload = dumps((needed, segment, registry.registered(), packs), segment.label)
        self._transaction = transaction
        self._side_inputs = side_inputs
        self._reports = reports
        self._number = number
        self._groups = groups
        self._timeout = timeout

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Row]:
        """The rows that the segment makes of one partition of its input."""
        container, counts = MetricsContainer(), Counts()
        try:
            with scoped(container), rarely_collected(), CallWatch(self._timeout):
                plan, segment, coders, packs = cloudpickle.loads(self._payload)
                registry.register_all(coders)
                views = SideInputViews()
                if self._side_inputs is not None:
                    for pcollection, blocks in self._side_inputs.value.items():
                        for block in blocks:
                            views.add(pcollection, decode_bundle(block))
                # What another attempt writes has other names.
                unit = f"{partition}-{uuid.uuid4().hex[:8]}"
                run = SegmentRun(plan, segment, views, self._transaction, unit, counts, self._groups, packs)
                yield from run.rows(rows)
        except GeneratorExit:
            # Spark wants no more of the rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        self._reports.add({(self._number, partition): (container, counts)})


class SegmentRun:
    """A segment at work on one partition.

    Args:
      views: its side inputs, complete.
      unit: what its sinks call this attempt.
      counts: what to count in.
      packs: what packs the rows of a DataFrame, by the label of its sink.
      groups: how many key groups there are.
    """

    def __init__(
        self,
        plan: Plan,
        segment: Segment,
        views: SideInputViews,
        transaction: str,
        unit: str,
        counts: Counts,
        groups: int = KEY_GROUPS,
        packs: Mapping[str, Pack] | None = None,
    ) -> None:
        self.segment = segment
        self.counts = counts
        self.made: list[Row] = []
        transforms = {t.label: t for t in plan.graph.transforms}
        self.writers: dict[str, ShuffleWriter] = {}
        self.element_writers: dict[str, ElementWriter] = {}
        for label in segment.groupings:
            primitive = transforms[label].primitive
            is_folded = isinstance(primitive, graph.GroupByKeyAndWindow) and is_final(primitive)
            if not is_folded:
                self.element_writers[label] = ElementWriter(label, self._send_to(label), groups)
            else:
                self.writers[label] = ShuffleWriter(Fold(transforms[label]), self._send_to(label), groups)
        outputs = [step.transform for step in segment.steps if isinstance(step, Output)]
        packs = packs or {}
        self.outputs = [OutputRun(t, transaction, counts, unit) for t in outputs if t.label not in packs]
        self.frames = [FrameOutput(label, pack, self._rows_of(label), counts) for label, pack in packs.items()]
        receivers = {output.label: output.receive for output in self.outputs}
        receivers |= {frame.label: frame.receive for frame in self.frames}
        bundles = {label: writer.receive for label, writer in self.element_writers.items()}
        portions = {label: Portions(writer) for label, writer in self.writers.items()}
        self.dataflow = Dataflow(plan, segment.steps, views, self.writers, receivers, counts, bundles, portions)
        self._views = views
        for pcollection in segment.stores:
            self._keep_all("stored", plan.graph.pcollections[pcollection])
        for pcollection in segment.side_outputs:
            self._keep_all("side", plan.graph.pcollections[pcollection])
        for run in self.dataflow.stages.values():
            run.unblock()

    def _send_to(self, label: str) -> Any:
        output = ("grouping", label)

        def send(group: int, block: bytes) -> None:
            self.made.append((output, group, block))

        return send

    def _rows_of(self, label: str) -> Any:
        output = ("frame", label)

        def keep(packed: bytes) -> None:
            self.made.append((output, 0, packed))

        return keep

    def _keep_all(self, kind: str, node: graph.PCollectionNode) -> None:
        output = (kind, node.id)

        def keep(bundle: Bundle) -> None:
            for block in guarded(node.producer, lambda: list(encode_bundle(bundle))):
                self.made.append((output, len(self.made), block))

        self.dataflow.attach(node.id, keep)

    def rows(self, rows: Iterable[Any]) -> Iterator[Row]:
        """Run to the end of the partition."""
        try:
            for _ in self._run(rows):
                yield from self._taken()
            for writer in self.writers.values():
                writer.flush()
                writer.fold.teardown()
                yield from self._taken()
            for element_writer in self.element_writers.values():
                element_writer.flush()
                yield from self._taken()
            self.dataflow.teardown()
            for frame in self.frames:
                frame.flush()
                yield from self._taken()
            for output in self.outputs:
                output.stage()
                for token in output.staged:
                    yield ("sink", output.label), 0, dumps(token, output.label)
        except BaseException:
            for output in self.outputs:
                output.discard()
            with suppress(Exception):
                self.dataflow.teardown()
            raise

    def _taken(self) -> list[Row]:
        made, self.made[:] = list(self.made), []
        return made

    def _run(self, rows: Iterable[Any]) -> Iterator[None]:
        """Push the partition through, stopping now and then to have rows taken."""
        root = self.segment.root
        if isinstance(root, Source):
            yield from self._read(root, rows)
        elif isinstance(root, Grouping) and is_final(root.primitive):
            yield from self._group(root, rows)
        elif isinstance(root, Grouping):
            yield from self._trigger(root, rows)
        elif isinstance(root, Keyed):
            yield from self._keyed(root, rows)
        else:
            # Others that take this PCollection have been given it where it was stored.
            receive = self.dataflow.stages[id(root.stage)].receive
            for _, block in rows:
                receive(decode_bundle(block))
                yield

    def _read(self, root: Source, rows: Iterable[bytes]) -> Iterator[None]:
        primitive = root.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        (output,) = root.transform.outputs.values()
        send = self.dataflow.send_to(output)
        label = root.transform.label
        count = self.counts.of(label)
        for row in rows:
            split = cloudpickle.loads(row)
            bundles = iter(guarded(label, partial(primitive.source.read_bundles, split)))
            while True:
                bundle = guarded(label, partial(next, bundles, None))
                if bundle is None:
                    break
                count.read += len(bundle)
                count.written += len(bundle)
                send(bundle)
                yield

    def _group(self, root: Grouping, rows: Iterable[tuple[int, bytes]]) -> Iterator[None]:
        fold = Fold(root.transform)
        fold.setup()
        operator = WindowOperator(fold)
        (output,) = root.transform.outputs.values()
        send = self.dataflow.send_to(output)
        count = self.counts.of(root.transform.label)
        spool, spill = BlockSpool(), GroupSpill(operator)
        for group, block in rows:
            spool.add(group, block)
        for _, blocks in spool.groups():
            for block in blocks:
                try:
                    received = receive_block(operator, block)
                    count.read += received
                    if fold.combine_fn is None:
                        spill.received(received, len(block))
                except BaseException as error:
                    reraise(attributed(error, Attribution(fold.label, None)))
            for bundle in operator.flush():
                count.written += len(bundle)
                send(bundle)
                yield
            spill.flushed()
        fold.teardown()

    def _trigger(self, root: Grouping, rows: Iterable[tuple[int, bytes]]) -> Iterator[None]:
        """Key group by key group: the elements in the order in which they came, then the end of the input."""
        fold = Fold(root.transform)
        fold.setup()
        send = self.dataflow.send_to(root.transform.outputs[None])
        count = self.counts.of(root.transform.label)
        spool = BlockSpool()
        for group, block in rows:
            spool.add(group, block)
        for _, blocks in spool.groups():
            windows = TriggeredWindows(fold, root.primitive.retracted)
            for block in blocks:
                bundle = decode_bundle(block)
                count.read += len(bundle)
                try:
                    windows.process(bundle)
                except BaseException as error:
                    reraise(attributed(error, Attribution(fold.label, None)))
            windows.advance_watermark(MAX_MICROS)
            fired = windows.taken()
            if fired is not None:
                count.written += len(fired)
                send(fired)
            yield
        fold.teardown()

    def _keyed(self, root: Keyed, rows: Iterable[tuple[int, bytes]]) -> Iterator[None]:
        """Key group by key group: the elements in order of their times, then all that is due in the end."""
        executor = StatefulExecutor(root.transform, self.dataflow.emit_of(root.stage, self.counts), self._views)
        count = self.counts.of(root.transform.label)
        spool = BlockSpool()
        for group, block in rows:
            spool.add(group, block)
        try:
            for _, blocks in spool.groups():
                for bundle in in_order_of_time(blocks):
                    count.read += len(bundle)
                    executor.process(bundle)
                    yield
                executor.finish()
                yield
        finally:
            executor.teardown()
