"""A batch run on Spark: one RDD for each segment of the plan.

The elements of an RDD are blocks: hundreds of elements each, as bytes.  RDDs are chained lazily.  A job runs for each
segment whose output the driver needs: side inputs and staged output of sinks.  Sinks commit after all jobs.

RDDs, not DataFrames: see docs/decisions/005-rdds-of-blocks.md.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import cloudpickle

from ....sdk import graph
from ....sdk.coders import registry
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.sources.bounded import BoundedSource
from ....sdk.spark_interfaces import Block, BoundedFrame, FrameSink
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ...execution.batch.block_spool import BlockSpool
from ...execution.batch.segment_task import Destination, KeyGroups, SegmentTask, key_groups_for, steps_of
from ...execution.counters import Counts
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import rarely_collected
from ...execution.plan.fusion import Grouping, Keyed, Plan, Source
from ...execution.plan.segments import Segment, Stored, cut
from ...execution.shuffle.blocks import decode_bundle
from ...execution.sinks.committer import SinkCommitter, sinks_of
from ...execution.stages.side_input_views import SideInputViews
from ...execution.step_times import StepSampler
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import Attribution, as_exception, attributed, reraise
from ..dataframes import FrameOutput, Pack, blocks, check_packages, each_as, frame_of, opened
from ..executor_functions import ExecutorFunction
from ..jobs import Jobs, raise_original, stage_named

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession

# The size of a task's input, in bytes, if the source is large enough.
SPLIT_BYTES = 64 << 20

# The most tasks for each core, if a source has many small splits.
TASKS_PER_CORE = 4

# A row of an RDD: its destination, a number in it, and bytes.  Besides the destinations of blocks there are
# ("sink", label), for tokens, and ("frame", label), for rows of DataFrames.
Row = tuple[Destination, int, bytes]


class SparkBatchExecution:
    """One run of a plan on Spark.

    Args:
      timeout: seconds after which a call that has not returned is named in the log.

    Attributes:
      jobs: its Spark jobs.
      reports: metrics and counts of their tasks.
    """

    def __init__(
        self, plan: Plan, session: SparkSession, shuffle_partitions: int | None = None, timeout: float = 10.0
    ) -> None:
        self.plan = plan
        self._session = session
        self._timeout = timeout
        self.transaction = uuid.uuid4().hex[:12]
        self._context = session.sparkContext
        self.jobs = Jobs(self._context, f"penstock-{self.transaction}")
        self.reports = TaskReports(self._context)
        self._partitions = shuffle_partitions or self._context.defaultParallelism
        self._rdds: list[tuple[Segment, RDD[Any]]] = []
        self._persisted: list[RDD[Any]] = []
        self._broadcasts: list[Broadcast[Any]] = []
        # The blocks of each side input.
        self._side_inputs: dict[int, list[bytes]] = {i: [] for i in plan.side_input_ids()}
        sinks = sinks_of(plan)
        self._frame_sinks = {label: sink for label, sink in sinks.items() if isinstance(sink, FrameSink)}
        self._schemas: dict[str, Any] = {}
        # The packed rows of each DataFrame that is written.
        self._frame_rows: dict[str, list[RDD[bytes]]] = {label: [] for label in self._frame_sinks}
        self._staged: dict[str, list[Any]] = {label: [] for label in sinks}

    def run(self) -> None:
        """Run to the end; on failure remove all output."""
        committer = SinkCommitter(self.plan)
        try:
            committer.begin(self.transaction)
            if self._frame_sinks:
                check_packages()
            self._schemas = {label: sink.schema(self._session) for label, sink in self._frame_sinks.items()}
            for number, segment in enumerate(cut(self.plan)):
                self._run_segment(number, segment)
            committer.publish(self.transaction, self._staged)
        except BaseException as error:
            self.jobs.cancel()
            for rdds in self._frame_rows.values():
                for rdd in rdds:
                    rdd.unpersist()
            committer.abort()
            if isinstance(error, Exception):
                raise_original(error)
            raise
        finally:
            for rdd in self._persisted:
                rdd.unpersist()
            for broadcast in self._broadcasts:
                broadcast.destroy()

    def _run_segment(self, number: int, segment: Segment) -> None:
        side_inputs = None
        if segment.side_inputs:
            side_inputs = self._context.broadcast({i: self._side_inputs[i] for i in segment.side_inputs})
            self._broadcasts.append(side_inputs)
        frames = [label for label in segment.sinks if label in self._frame_sinks]
        packs = {label: self._frame_sinks[label].packer(self._schemas[label]) for label in frames}
        with local_modules_by_value():
            task = PartitionFunction(
                self.plan,
                segment,
                self.transaction,
                side_inputs,
                self.reports.accumulator,
                number,
                key_groups_for(self._partitions),
                packs,
                self._timeout,
            )
        rdd = self._input(segment).mapPartitionsWithIndex(task).setName(segment.label)
        uses = len(segment.groupings) + len(segment.left) + segment.is_eager + len(frames)
        if uses > 1:
            from pyspark import StorageLevel

            rdd = rdd.persist(StorageLevel.MEMORY_AND_DISK)
            self._persisted.append(rdd)
        self._rdds.append((segment, rdd))
        if not segment.is_eager:
            return
        with stage_named(self._context, segment.label):
            rows = self.jobs.run(segment.label, rdd.filter(_is_for_driver).collect)
        for (kind, where), _, block in rows:
            if kind == "sink":
                self._staged[where].append(pickle.loads(block))
            else:
                self._side_inputs[where].append(block)
        for label in frames:
            self._checkpoint_frame(segment, label)

    def _checkpoint_frame(self, segment: Segment, label: str) -> None:
        """Keep the rows of a DataFrame in the executors, without their lineage."""
        packed = self._rows(("frame", label), [rdd for s, rdd in self._rdds if s is segment]).map(_block)
        packed.localCheckpoint()
        self.jobs.run(label, packed.count)
        self._frame_rows[label].append(packed)

    def frames(self) -> dict[str, Any]:
        """Return the DataFrames that were written, by the labels of their sinks."""
        return {
            label: frame_of(self._session, self._context.union(rows), self._schemas[label])
            for label, rows in self._frame_rows.items()
        }

    def _input(self, segment: Segment) -> RDD[Any]:
        root = segment.root
        if isinstance(root, Source):
            return self._splits(root)
        if isinstance(root, (Grouping, Keyed)):
            label = root.transform.label
            senders = [(s.label, rdd) for s, rdd in self._rdds if label in s.groupings]
            rows = self._rows(("grouping", label), [rdd for _, rdd in senders])
            partitions = self._partitions
            with stage_named(self._context, ", ".join(sender for sender, _ in senders)):
                return rows.partitionBy(partitions, lambda group: group % partitions)
        assert isinstance(root, Stored)
        storing = [rdd for s, rdd in self._rdds if root.stage.label in s.left]
        return self._rows(("stored", root.pcollection), storing)

    def _rows(self, destination: Destination, rdds: list[RDD[Any]]) -> RDD[Any]:
        def select(rows: Iterable[Row]) -> Iterator[tuple[int, bytes]]:
            return ((number, block) for where, number, block in rows if where == destination)

        if not rdds:
            return self._context.parallelize([], 1)
        selected = [rdd.mapPartitions(select) for rdd in rdds]
        return selected[0] if len(selected) == 1 else self._context.union(selected)

    def _splits(self, root: Source) -> RDD[Any]:
        """Return an RDD of a source's splits, with several in a partition if there are many."""
        primitive = root.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        label = root.transform.label
        if isinstance(primitive.source, BoundedFrame):
            messages, schema = blocks(label, opened(label, primitive.source, self._session))
            return messages.mapPartitions(each_as(_split, schema))
        cores = self._context.defaultParallelism
        try:
            desired = max(cores, (primitive.source.estimate_size() or 0) // SPLIT_BYTES)
            splits = primitive.source.split(desired)
        except BaseException as error:
            reraise(attributed(error, Attribution(label, None)))
        with local_modules_by_value():
            rows = [dumps(split, label) for split in splits]
        return self._context.parallelize(rows, max(1, min(len(rows), max(desired, cores * TASKS_PER_CORE))))


def _split(block: Block) -> bytes:
    return pickle.dumps(block, protocol=5)


def _block(row: Any) -> bytes:
    packed: bytes = row[1]
    return packed


def _is_for_driver(row: Row) -> bool:
    return row[0][0] in ("sink", "side")


# --- Metrics and counts

# By segment and partition.
Reports = dict[tuple[int, int], tuple[MetricsContainer, Counts]]


class TaskReports:
    """The metrics and counts of a run's tasks, on the driver.

    Attributes:
      accumulator: tasks add a `Reports` of one entry to it.
      counts: elements by step, as of the last `update`.
    """

    def __init__(self, context: SparkContext) -> None:
        from pyspark.accumulators import AccumulatorParam

        # The latest report of a partition replaces earlier ones, so that a retry or a second job isn't counted twice.
        class Latest(AccumulatorParam):  # type: ignore[type-arg]
            def zero(self, value: Reports) -> Reports:
                return {}

            def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
                value1.update(value2)
                return value1

        self.accumulator: Any = context.accumulator({}, Latest())
        self.counts = Counts()

    def update(self) -> None:
        """Update `counts`."""
        merged = Counts()
        for _, counts in list(self.accumulator.value.values()):
            merged.add(counts)
        self.counts.steps, self.counts.seconds = merged.steps, merged.seconds

    @property
    def metrics(self) -> MetricsContainer:
        """The metrics of all tasks."""
        merged = MetricsContainer()
        for container, _ in list(self.accumulator.value.values()):
            merged.merge(container)
        return merged


# --- Tasks


class PartitionFunction(ExecutorFunction):
    """The function that Spark calls with each partition of a segment's input.

    Args:
      transaction: the transaction of the run's sinks.
      side_inputs: a broadcast of the blocks of the segment's side inputs.
      reports: an accumulator of `Reports`.
      number: the number of the segment.
      groups: the number of key groups.
      packs: by the labels of DataFrame sinks, the functions that pack their rows.
      timeout: seconds after which a call that has not returned is named in the worker's log.

    Raises `SerializationError` if a part of the segment can't be pickled.
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
        # A task needs only the groupings that the segment sends to, and the registered coders of keys.
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
        """Yield the rows that the segment outputs for a partition."""
        container, counts = MetricsContainer(), Counts()
        try:
            with scoped(container), rarely_collected(), CallWatch(self._timeout) as watch:
                watch.sample = StepSampler(counts).sample
                plan, segment, coders, packs = cloudpickle.loads(self._payload)
                registry.register_all(coders)
                views = SideInputViews()
                if self._side_inputs is not None:
                    for pcollection, own in self._side_inputs.value.items():
                        for block in own:
                            views.add(pcollection, decode_bundle(block))
                # Each attempt writes under another name.
                unit = f"{partition}-{uuid.uuid4().hex[:8]}"
                arguments = views, self._transaction, unit, counts, container, self._groups
                yield from rows_of(plan, segment, rows, *arguments, packs)
        except GeneratorExit:
            # Spark needs no more rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        self._reports.add({(self._number, partition): (container, counts)})


def rows_of(
    plan: Plan,
    segment: Segment,
    rows: Iterable[Any],
    views: SideInputViews,
    transaction: str,
    unit: str,
    counts: Counts,
    metrics: MetricsContainer,
    groups: int,
    packs: Mapping[str, Pack],
) -> Iterator[Row]:
    """Run a segment on one partition, and yield its output.

    Args:
      rows: the rows of the partition: pickled splits, or numbers with blocks.
      groups: the number of key groups.
      packs: by the labels of DataFrame sinks, the functions that pack their rows.
    """
    output: list[Row] = []

    def send(destination: Destination, number: int, block: bytes) -> None:
        output.append((destination, number, block))

    def take() -> list[Row]:
        taken, output[:] = list(output), []
        return taken

    frames = {
        label: FrameOutput(label, pack, partial(send, ("frame", label), 0), counts) for label, pack in packs.items()
    }
    task = SegmentTask(
        plan, [segment], steps_of(segment), views, transaction, unit, counts, metrics, send, groups, frames
    )
    try:
        for _ in task.run(segment, _partition(segment, rows)):
            yield from take()
        for _ in task.finish():
            yield from take()
        yield from take()
        for label, token in task.stage():
            yield ("sink", label), 0, dumps(token, label)
    except BaseException:
        task.discard()
        raise


def _partition(segment: Segment, rows: Iterable[Any]) -> Iterable[Any]:
    """Return the rows of a partition as `SegmentTask.run` takes them."""
    if isinstance(segment.root, Source):
        return map(cloudpickle.loads, rows)
    if not isinstance(segment.root, (Grouping, Keyed)):
        stored: KeyGroups = [(0, (block for _, block in rows))]
        return stored
    spool = BlockSpool()
    for group, block in rows:
        spool.add(group, block)
    return spool.groups()
