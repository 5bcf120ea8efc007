"""Tasks of the batch engine: segments of a bounded plan at work.

A task either has one segment, and runs it on partitions of its input: a source's splits, the blocks of a shuffle, or
those of a stored PCollection.  The outputs of the segment are sent as blocks.  Or it has all segments of a plan: then
its steps are wired once, elements pass from each grouping's input to its cells without being encoded, and the segments
run one after the other.

It is independent of processes, files and Spark.  A grouping with triggers and a ParDo with state are the steps of the
streaming engine, with the watermark advancing from minus to plus infinity at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ....sdk import graph
from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.elements.bundle import Bundle
from ....sdk.metrics import MetricsContainer
from ....sdk.sources.bounded import BoundedSource
from ..clock import Clock, Pace
from ..counters import Counts, StepCount
from ..operators.dataflow import Cut, Dataflow, Receiver, uncut
from ..plan.execution_graph import outputs_of
from ..plan.fusion import Grouping, Keyed, Output, Plan, Source, Stage, Step, has_async
from ..plan.segments import Segment, Stored
from ..sinks.writer import OutputRun
from ..stages.side_input_views import SideInputViews
from ..stages.traffic import Traffic
from ..user_errors import guarded, guarded_items

if TYPE_CHECKING:
    from ..operators.async_run import AsyncRuns
    from ..operators.edge_sampler import EdgeSampler, HotKeys
    from ..operators.keyed import KeyedRun
    from ..operators.traffic import WorkerTraffic
    from .groupings import Groupings

# The output that a block belongs to: ("grouping", label), ("stored", pcollection) or ("side", pcollection).
Destination = tuple[str, Any]

# A partition of a shuffle: its key groups, each with its blocks, which are read before the next one's.
KeyGroups = Iterable[tuple[int, Iterable[bytes]]]

# The partition of a grouping that has received its input in the same task.
RECEIVED: KeyGroups = ((0, ()),)

# Microseconds between two pauses, about.
_TURN = 100_000


class Send(Protocol):
    """Sends a block, with its key group, to its destination."""

    def __call__(self, destination: Destination, group: int, block: bytes, /) -> None: ...


class SinkOutput(Protocol):
    """Receives the elements of a sink that the task doesn't write to itself."""

    def receive(self, bundle: Bundle) -> None: ...

    def flush(self) -> None:
        """Called when the input is complete."""


class SegmentTask:
    """A segment on partitions of its input, or all segments of a plan.

    Args:
      plan: the whole plan, or the part that describes the PCollections and the destinations of the segment.
      segments: one, or all of the plan's.
      steps: their steps.
      views: side inputs.  Those of one segment are complete; those of a whole plan are collected here.
      transaction, unit: identify the output of the sinks' writers.
      counts: counts elements.
      metrics: receives user code's metrics.
      send: sends the blocks that leave the segment; None for a whole plan, which no block leaves.
      groups: the number of key groups.
      sinks: by label, the receivers of the elements of sinks that aren't written to here.
      cut: divides the bundles of a source and of results, to pause behind each part.

    Attributes:
      outputs: its sinks at work.
      sent: what it has sent of stored PCollections and side inputs.
    """

    def __init__(
        self,
        plan: Plan,
        segments: Sequence[Segment],
        steps: Sequence[Step],
        views: SideInputViews,
        transaction: str,
        unit: str,
        counts: Counts,
        metrics: MetricsContainer,
        send: Send | None = None,
        groups: int = KEY_GROUPS,
        sinks: Mapping[str, SinkOutput] | None = None,
        cut: Cut = uncut,
    ) -> None:
        self._in_parts = cut
        self._plan = plan
        self._counts = counts
        self._send = send
        self.sent: dict[int, Traffic] = {}
        self._clock = clock = Clock()
        self._sinks = sinks or {}
        roots = [s.root for s in segments]
        groupings = [root for root in roots if isinstance(root, Grouping)]
        self._groupings: Groupings | None = None
        if groupings or send is not None:
            # Takes longer to import than a small pipeline without groupings runs.
            from .groupings import Groupings

            self._groupings = Groupings(groupings, clock, metrics, None if send is None else counts)
            if send is not None:
                self._groupings.open_writers(plan, segments, send, groups)
        outputs = [step.transform for step in steps if isinstance(step, Output)]
        self.outputs = [OutputRun(t, transaction, counts, unit) for t in outputs if t.label not in self._sinks]
        receivers: dict[str, Receiver] = {output.label: output.receive for output in self.outputs}
        receivers |= {label: sink.receive for label, sink in self._sinks.items()}
        self._async_runs: AsyncRuns | None = None
        if has_async(steps):
            # As `Groupings`.
            from ..operators.async_run import AsyncRuns

            self._async_runs = AsyncRuns()
        wire = partial(Dataflow, plan, steps, views, outputs=receivers, counts=counts, async_stages=self._async_runs)
        if self._groupings is None:
            self._dataflow = wire({}, bundles={})
        else:
            self._dataflow = self._groupings.wired(wire)
        self._keyed: dict[str, KeyedRun] = {}
        for root in roots:
            if isinstance(root, Keyed):
                # As `Groupings`.
                from ..operators.keyed import KeyedRun

                stage = self._dataflow.stages[root.id]
                self._keyed[root.transform.label] = KeyedRun(stage, clock, True, metrics)
        self._waiting = _Waiting(segments, steps) if send is None else None
        if self._waiting is not None:
            for pcollection in plan.side_input_ids():
                self._dataflow.attach(pcollection, partial(views.add, pcollection))
            self._unblock(self._waiting.ready())
            return
        for segment in segments:
            for pcollection in segment.stores:
                self._send_all("stored", plan.graph.pcollections[pcollection])
            for pcollection in segment.side_outputs:
                self._send_all("side", plan.graph.pcollections[pcollection])
        for root in groupings:
            # The input is counted block by block, and the results here.
            written = partial(_count_written, counts.of(root.transform.label))
            self._dataflow.attach(root.transform.outputs[None], written)
        for stage in self._dataflow.stages.values():
            stage.unblock()

    def _send_all(self, kind: str, node: graph.PCollectionNode) -> None:
        """Send all elements of a PCollection, in numbered blocks."""
        from ..shuffle.blocks import encode_bundle

        assert self._send is not None
        send = partial(self._send, (kind, node.id))
        sent = elements = size = 0

        def receive(bundle: Bundle) -> None:
            nonlocal sent, elements, size
            elements += len(bundle)
            for block in guarded(node.producer, lambda: list(encode_bundle(bundle))):
                size += len(block)
                send(sent, block)
                sent += 1
            self.sent[node.id] = Traffic(elements, size)

        self._dataflow.attach(node.id, receive)

    def sampled(
        self, segments: Iterable[Segment], traffic: WorkerTraffic, keys: dict[str, HotKeys] | None = None
    ) -> EdgeSampler:
        """Count what passes all edges of the segments from now on, and sample the keys before groupings."""
        # As `Groupings`.
        from ..operators.edge_sampler import EdgeSampler

        steps = [
            step for segment in segments for step in (segment.root, *segment.steps) if not isinstance(step, Stored)
        ]
        produced = {pcollection for step in steps for pcollection in outputs_of(step)}
        return EdgeSampler(self._dataflow, self._plan, produced, self._clock, traffic, {} if keys is None else keys)

    # Roots

    def run(self, segment: Segment, partition: Iterable[Any] = RECEIVED) -> Iterator[None]:
        """Process a partition of a segment's input, pausing regularly.

        Args:
          partition: splits of a source, or `KeyGroups`.
        """
        root = segment.root
        if isinstance(root, Source):
            yield from self._read(root, partition)
        elif isinstance(root, Stored):
            from ..shuffle.blocks import decode_bundle

            # Other consumers of this PCollection ran in the segment that stored it.
            receive = self._dataflow.stages[root.stage.id].receive
            for _, blocks in partition:
                for block in blocks:
                    for bundle in self._in_parts(decode_bundle(block)):
                        receive(bundle)
                        yield
        elif isinstance(root, Keyed):
            keyed = self._keyed[root.transform.label]
            for _, blocks in partition:
                yield from keyed.receive_blocks(blocks)
                keyed.finish()
                yield
        else:
            assert self._groupings is not None
            yield from self._groupings.run(root, partition, self._dataflow, self._in_parts)
        self._drain()
        if self._waiting is not None:
            self._unblock(self._waiting.ready_after(segment))

    def _unblock(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self._dataflow.stages[step.id].unblock()
            self._drain()

    def _drain(self) -> None:
        """Wait for the calls of async stages."""
        if self._async_runs is not None:
            self._async_runs.drain()

    def _read(self, root: Source, splits: Iterable[Any]) -> Iterator[None]:
        primitive = root.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        (output,) = root.transform.outputs.values()
        send = self._dataflow.send_to(output)
        label = root.transform.label
        count = self._counts.of(label)
        for split in splits:
            for read in guarded_items(label, partial(primitive.source.read_bundles, split)):
                for bundle in self._in_parts(read):
                    count.read += len(bundle)
                    count.written += len(bundle)
                    send(bundle)
                    yield

    # The end

    def finish(self) -> Iterator[None]:
        """Flush the writers, pausing regularly, and tear down user code."""
        if self._groupings is not None:
            yield from self._groupings.finish()
        self._dataflow.teardown()
        for sink in self._sinks.values():
            sink.flush()
            yield

    def stage(self) -> Iterator[tuple[str, Any]]:
        """Stage the output of sinks; yield each sink's label and token."""
        for output in self.outputs:
            output.stage()
            for token in output.staged:
                yield output.label, token

    def discard(self) -> None:
        """Remove the output of sinks: the task has failed."""
        for output in self.outputs:
            output.discard()
        with suppress(Exception):
            self._dataflow.teardown()


def pace_of_tasks() -> Pace:
    """Return a pace with which a task pauses some ten times a second."""
    return Pace(1 << 30, target=_TURN, growth=1024)


def key_groups_for(partitions: int) -> int:
    """Return the number of key groups of a shuffle, a multiple of the number of partitions."""
    return -(-KEY_GROUPS // partitions) * partitions


def steps_of(segment: Segment) -> tuple[Step, ...]:
    """Return the steps of a task that has this segment only."""
    return (*segment.steps, segment.root) if isinstance(segment.root, Keyed) else segment.steps


def _count_written(count: StepCount, bundle: Bundle) -> None:
    count.written += len(bundle)


class _Waiting:
    """The steps of a whole plan that wait for side inputs, and the side inputs that each of them waits for."""

    def __init__(self, segments: Iterable[Segment], steps: Iterable[Step]) -> None:
        # By side input, the number of segments that have yet to add to it, and the steps that wait for it.
        self._missing = Counter(pcollection for segment in segments for pcollection in segment.side_outputs)
        self._by_side_input: dict[int, list[Step]] = {}
        self._needs: dict[str, int] = {}
        self._ready: list[Step] = []
        for step in steps:
            if isinstance(step, (Stage, Keyed)) and step.side_inputs:
                # No segment produces a Flatten of nothing.
                needed = {s.pcollection for s in step.side_inputs if s.pcollection in self._missing}
                self._needs[step.id] = len(needed)
                for pcollection in needed:
                    self._by_side_input.setdefault(pcollection, []).append(step)
                if not needed:
                    self._ready.append(step)

    def ready(self) -> list[Step]:
        """Return the steps whose side inputs are complete from the start."""
        return self._ready

    def ready_after(self, segment: Segment) -> Iterator[Step]:
        """Yield the steps whose side inputs this segment has completed."""
        for pcollection in segment.side_outputs:
            self._missing[pcollection] -= 1
            if not self._missing[pcollection]:
                for step in self._by_side_input.get(pcollection, ()):
                    self._needs[step.id] -= 1
                    if not self._needs[step.id]:
                        yield step
