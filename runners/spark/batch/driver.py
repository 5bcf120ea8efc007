"""A batch run: the segments as one graph of RDDs, and what comes back to the driver.

An RDD's elements are blocks (hundreds of elements each, as bytes), so Spark moves few and
large things.  Segments are chained lazily; a job runs where something has to come back: a
side input's contents, or what a sink has staged.  Sinks commit when all jobs are done.

RDDs, not DataFrames: see docs/decisions/005-rdds-of-blocks.md.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....sdk import graph
from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.serialization import dumps, local_modules_by_value
from ....sdk.sources.bounded import BoundedSource
from ....sdk.spark_interfaces import Block, BoundedFrame, FrameSink
from ...execution.plan.fusion import Grouping, Keyed, Plan, Source
from ...execution.plan.segments import Segment, Stored, cut
from ...execution.sinks.committer import SinkCommitter, sinks_of
from ...execution.user_errors import Attribution, attributed, reraise
from ..dataframes import blocks, check_packages, each_as, frame_of, opened
from ..jobs import Jobs, raise_original, stage_named
from .accumulators import TaskReports
from .task import PartitionFunction

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast
    from pyspark.sql import SparkSession

# How many bytes of input a task is given, where there is that much.
SPLIT_BYTES = 64 << 20

# Where a source has many small splits, how many tasks each core is given them in.
TASKS_A_CORE = 4


class SparkBatchExecution:
    """One run of a plan on Spark.

    Args:
      timeout: seconds after which a call that has not returned is named in the log.

    Attributes:
      jobs: its Spark jobs.
      reports: what their tasks have reported.
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
        # As many in each partition.
        self._groups = -(-KEY_GROUPS // self._partitions) * self._partitions
        self._rdds: list[tuple[Segment, RDD[Any]]] = []
        self._persisted: list[RDD[Any]] = []
        self._broadcasts: list[Broadcast[Any]] = []
        # Of each side input, the blocks that its elements came back in.
        self._side_inputs: dict[int, list[bytes]] = {i: [] for i in plan.side_input_ids()}
        sinks = sinks_of(plan)
        self._frame_sinks = {label: sink for label, sink in sinks.items() if isinstance(sink, FrameSink)}
        self._schemas: dict[str, Any] = {}
        # Of each DataFrame that is made, its rows, packed, as the segments have made them.
        self._rows_made: dict[str, list[RDD[bytes]]] = {label: [] for label in self._frame_sinks}
        self._staged: dict[str, list[Any]] = {label: [] for label in sinks}

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
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
            for made in self._rows_made.values():
                for rdd in made:
                    rdd.unpersist()
            committer.abort()
            if isinstance(error, Exception):
                raise_original(error)
            raise
        finally:
            self._release()

    def _release(self) -> None:
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
                self._groups,
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
            rows = self.jobs.run(segment.label, rdd.filter(_comes_back).collect)
        for (kind, where), _, block in rows:
            if kind == "sink":
                self._staged[where].append(pickle.loads(block))
            else:
                self._side_inputs[where].append(block)
        for label in frames:
            self._keep_rows(segment, label)

    def _keep_rows(self, segment: Segment, label: str) -> None:
        """Have the executors keep what a segment has made of a DataFrame, and nothing of how it was made."""
        made = self._rows(("frame", label), [rdd for s, rdd in self._rdds if s is segment]).map(_block)
        made.localCheckpoint()
        self.jobs.run(label, made.count)
        self._rows_made[label].append(made)

    def frames(self) -> dict[str, Any]:
        """The DataFrames that were made, by the labels of their sinks."""
        return {
            label: frame_of(self._session, self._context.union(made), self._schemas[label])
            for label, made in self._rows_made.items()
        }

    def _input(self, segment: Segment) -> RDD[Any]:
        root = segment.root
        if isinstance(root, Source):
            return self._splits(root)
        if isinstance(root, (Grouping, Keyed)):
            label = root.transform.label
            sending = [(s.label, rdd) for s, rdd in self._rdds if label in s.groupings]
            blocks = self._rows(("grouping", label), [rdd for _, rdd in sending])
            partitions = self._partitions
            with stage_named(self._context, ", ".join(sent for sent, _ in sending)):
                return blocks.partitionBy(partitions, lambda group: group % partitions)
        assert isinstance(root, Stored)
        storing = [rdd for s, rdd in self._rdds if root.stage.label in s.left]
        return self._rows(("stored", root.pcollection), storing)

    def _rows(self, output: tuple[str, Any], rdds: list[RDD[Any]]) -> RDD[Any]:
        def select(rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
            return ((number, block) for where, number, block in rows if where == output)

        if not rdds:
            return self._context.parallelize([], 1)
        selected = [rdd.mapPartitions(select) for rdd in rdds]
        return selected[0] if len(selected) == 1 else self._context.union(selected)

    def _splits(self, root: Source) -> RDD[Any]:
        """What a source is to be read in, a few at a time if they are many."""
        primitive = root.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        if isinstance(primitive.source, BoundedFrame):
            label = root.transform.label
            messages, schema = blocks(label, opened(label, primitive.source, self._session))
            return messages.mapPartitions(each_as(_split, schema))
        cores = self._context.defaultParallelism
        try:
            desired = max(cores, (primitive.source.estimate_size() or 0) // SPLIT_BYTES)
            splits = primitive.source.split(desired)
        except BaseException as error:
            reraise(attributed(error, Attribution(root.transform.label, None)))
        with local_modules_by_value():
            rows = [dumps(split, root.transform.label) for split in splits]
        return self._context.parallelize(rows, max(1, min(len(rows), max(desired, cores * TASKS_A_CORE))))


def _split(block: Block) -> bytes:
    return pickle.dumps(block, protocol=5)


def _block(row: Any) -> bytes:
    packed: bytes = row[1]
    return packed


def _comes_back(row: Any) -> bool:
    return row[0][0] in ("sink", "side")
