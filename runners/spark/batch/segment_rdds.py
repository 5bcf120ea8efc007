"""A batch run on Spark: one RDD for each segment of the plan.

The elements of an RDD are blocks: hundreds of elements each, as bytes.  RDDs are chained lazily.  A job runs for each
segment whose output the driver needs: side inputs and staged output of sinks.  Sinks commit after all jobs.

RDDs, not DataFrames: see docs/decisions/005-rdds-of-blocks.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ....sdk.spark_interfaces import BoundedFrame
from ....sdk.user_code.serialization import local_modules_by_value
from ...execution.batch.bounded_program import BoundedProgram, source_of
from ...execution.batch.segment_program import ReadRow, SegmentProgram, decoded
from ...execution.batch.segment_task import Destination
from ...execution.plan.fusion import Plan
from ...execution.plan.segments import Segment
from ...execution.stages.side_input_views import SideInputViews
from ..dataframes import blocks, each_as, frame_of, opened
from ..jobs import Jobs
from ..private import Exchange, exchange_of, stage_named
from .execution import BatchExecution, TaskReports, job_name, pickled_splits, uses_of
from .partition_function import PartitionFunction, Reports, ShuffleRow, is_attempt, pickled_split, segment_of

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession


class SparkBatchExecution(BatchExecution):
    """One run of a plan on Spark, with RDDs.

    Args:
      timeout: seconds after which a call that has not returned is named in the log.
      has_page: whether tasks report the stacks of their steps.

    Attributes:
      jobs: its Spark jobs.
    """

    def __init__(
        self,
        plan: Plan,
        session: SparkSession,
        shuffle_partitions: int | None = None,
        timeout: float = 10.0,
        has_page: bool = False,
    ) -> None:
        self._context = session.sparkContext
        program = BoundedProgram(plan, shuffle_partitions or self._context.defaultParallelism)
        accumulated = AccumulatedReports(self._context)
        super().__init__(program, session, accumulated, timeout, has_page)
        self.jobs = Jobs(self._context, f"penstock-{program.transaction}")
        self._accumulator = accumulated.accumulator
        # By the number of a segment, its rows, and the packed rows of each DataFrame that it writes.
        self._rdds: dict[int, RDD[Any]] = {}
        self._frame_rows: dict[int, dict[str, RDD[Any]]] = {}
        # By PCollection.
        self._side_inputs: dict[int, SideInput] = {}

    def refresh(self) -> str:
        self.reports.update()
        return self.jobs.activity()

    def _cancel_jobs(self) -> None:
        self.jobs.cancel()

    def _discard(self) -> None:
        for number in self._rdds:
            self._forget_frames(number)

    def _release(self) -> None:
        for rdd in self._rdds.values():
            _unpersist(rdd)
        self._destroy(list(self._side_inputs))

    def _destroy(self, side_inputs: Iterable[int]) -> None:
        for pcollection in side_inputs:
            if pcollection in self._side_inputs:
                self._side_inputs.pop(pcollection).blocks.destroy()

    def _release_side_inputs(self) -> None:
        read = {pcollection for i in self._coming() for pcollection in self.program.segments[i].side_inputs}
        self._destroy(self._side_inputs.keys() - read)

    def _forget(self, number: int) -> None:
        self._destroy(self.program.segments[number].side_outputs)
        rdd = self._rdds.pop(number, None)
        if rdd is not None:
            _unpersist(rdd)
        self._forget_frames(number)

    def _forget_frames(self, number: int) -> None:
        for rdd in self._frame_rows.pop(number, {}).values():
            rdd.unpersist()

    def _describe(self, number: int, segment: Segment) -> None:
        for pcollection, own in self.results.side_inputs_of(number).items():
            if pcollection not in self._side_inputs:
                self._side_inputs[pcollection] = SideInput(uuid4().hex, self._context.broadcast(own))
        side_inputs = {i: self._side_inputs[i] for i in segment.side_inputs}
        packs = self._frames_of(segment)
        with local_modules_by_value():
            task = RddFunction(
                *(
                    SegmentProgram.of(self.program, number),
                    self.program.partitions,
                    packs,
                    self._timeout,
                    self._has_page,
                ),
                side_inputs=side_inputs,
                reports=self._accumulator,
            )
        rdd = self._input(number, segment).mapPartitionsWithIndex(task)
        if uses_of(segment, len(packs)) > 1:
            from pyspark import StorageLevel

            # Spark's UI shows the name among the RDDs that are kept.
            rdd = rdd.setName(segment.label).persist(StorageLevel.MEMORY_AND_DISK)
        self._rdds[number] = rdd

    def _collect(self, numbers: Sequence[int]) -> Iterator[tuple[int, str, Any, bytes]]:
        name = job_name([self.program.segments[number].label for number in numbers])
        rows = self._union([self._rdds[number].filter(_is_for_driver) for number in numbers])
        with stage_named(self._context, name):
            found = self.jobs.run(name, rows.collect)
        return ((segment_of(position), kind, where, block) for (kind, where), _, position, block in found)

    def _keep_frame(self, number: int, segment: Segment, label: str) -> Iterator[tuple[str, Any, bytes]]:
        from pyspark import StorageLevel

        # Without their lineage: user code would run again, and what it returns may differ.  Where there is a reliable
        # place for them, they are there; elsewhere two executors keep them.
        context = self._context
        packed = self._rows(("frame", label), [self._rdds[number]])
        is_local = str(context.master).partition("[")[0] == "local"
        packed.persist(StorageLevel.MEMORY_AND_DISK if is_local else StorageLevel.MEMORY_AND_DISK_2)
        is_reliable = context.getCheckpointDir() is not None
        if is_reliable:
            packed.checkpoint()
        else:
            packed.localCheckpoint()
        self._frame_rows.setdefault(number, {})[label] = packed
        self.jobs.run(label, packed.count)
        if is_reliable:
            packed.unpersist()
        # Of what is kept, since another attempt may have been packed.
        rows = self.jobs.run(label, packed.filter(_is_of_attempt).collect)
        return (("attempt", None, block) for _, (_, block) in rows)

    def frames(self) -> dict[str, Any]:
        """Return the DataFrames that were written, by the labels of their sinks."""
        found = {}
        for label in self._frame_sinks:
            rows = [own[label].filter(_is_of_block).map(_block) for own in self._frame_rows.values() if label in own]
            found[label] = frame_of(self._session, self._context.union(rows), self._schemas[label])
        return found

    def _input(self, number: int, segment: Segment) -> RDD[Any]:
        if self.program.is_source(number):
            return self._splits(number, segment)
        destination, senders = self.program.senders(number)
        rows, partitions = self._rows(destination, [self._rdds[i] for i in senders]), self.program.partitions
        if self.program.is_stored(number):
            return rows.map(_flat)
        with stage_named(self._context, ", ".join(self.program.segments[i].label for i in senders)):
            sent = self._exchange.sent(rows.map(lambda row: (row[0] % partitions, _packed(row))))
            return self._exchange.shuffled([sent], partitions).map(_unpacked)

    @cached_property
    def _exchange(self) -> Exchange:
        return exchange_of(self._context)

    def _rows(self, destination: Destination, rdds: list[RDD[Any]]) -> RDD[Any]:
        def select(rows: Iterable[ShuffleRow]) -> Iterator[tuple[int, tuple[int, bytes]]]:
            return ((number, (position, block)) for where, number, position, block in rows if where == destination)

        if not rdds:
            return self._context.parallelize([], 1)
        return self._union([rdd.mapPartitions(select) for rdd in rdds])

    def _union(self, rdds: list[RDD[Any]]) -> RDD[Any]:
        return rdds[0] if len(rdds) == 1 else self._context.union(rdds)

    def _splits(self, number: int, segment: Segment) -> RDD[Any]:
        """Return an RDD of a source's splits, with several in a partition if there are many."""
        label, source = source_of(segment)
        if isinstance(source, BoundedFrame):
            messages, schema = blocks(label, opened(label, source, self._session))
            return messages.mapPartitions(each_as(pickled_split, schema))
        rows, partitions = pickled_splits(self.program, number, self._context.defaultParallelism)
        return self._context.parallelize(rows, partitions)


def _unpersist(rdd: RDD[Any]) -> None:
    # PySpark would make one in the JVM of an RDD that it has only described, with its pickled function.
    if rdd.is_cached:
        rdd.unpersist()


# The key group and the position of a row that is shuffled.
_HEAD = struct.Struct("<qq")


def _packed(row: tuple[int, tuple[int, bytes]]) -> bytes:
    return _HEAD.pack(row[0], row[1][0]) + row[1][1]


def _unpacked(row: bytes) -> ReadRow:
    return (*_HEAD.unpack_from(row), row[_HEAD.size :])


def _flat(row: tuple[int, tuple[int, bytes]]) -> ReadRow:
    return (row[0], *row[1])


def _block(row: tuple[int, tuple[int, bytes]]) -> bytes:
    return row[1][1]


def _is_of_attempt(row: tuple[int, tuple[int, bytes]]) -> bool:
    return is_attempt(row[1][0])


def _is_of_block(row: tuple[int, tuple[int, bytes]]) -> bool:
    return not _is_of_attempt(row)


def _is_for_driver(row: ShuffleRow) -> bool:
    return row[0][0] in ("sink", "side", "attempt")


# --- Metrics and counts


class AccumulatedReports(TaskReports):
    """Reports that an accumulator carries to the driver, as tasks end.

    Attributes:
      accumulator: tasks add a `Reports` of one entry to it.
    """

    def __init__(self, context: SparkContext) -> None:
        super().__init__()
        from pyspark.accumulators import AccumulatorParam

        # The latest report of a partition replaces earlier ones, so that a retry or a second job isn't counted twice.
        class Latest(AccumulatorParam):  # type: ignore[type-arg]
            def zero(self, value: Reports) -> Reports:
                return {}

            def addInPlace(self, value1: Reports, value2: Reports) -> Reports:
                value1.update(value2)
                return value1

        self.accumulator: Any = context.accumulator({}, Latest())

    def reports(self) -> Reports:
        accumulated: Reports = self.accumulator.value
        return accumulated


# --- Tasks


class SideInput(NamedTuple):
    """A side input on the executors.

    Attributes:
      name: unique.
    """

    name: str
    blocks: Broadcast[list[bytes]]


# The side inputs of the last segment that this worker has run, by the names of all of them.
_views: dict[tuple[str, ...], SideInputViews] = {}


def _views_of(side_inputs: Mapping[int, SideInput]) -> SideInputViews:
    names = tuple(each.name for each in side_inputs.values())
    if names not in _views:
        _views.clear()
        _views[names] = decoded({i: each.blocks.value for i, each in side_inputs.items()})
    return _views[names].again()


class RddFunction(PartitionFunction):
    """The function that Spark calls with each partition of a segment's input.

    Args:
      side_inputs: the segment's side inputs, by PCollection.
      reports: an accumulator of `Reports`.
    """

    def __init__(self, *arguments: Any, side_inputs: Mapping[int, SideInput], reports: Any) -> None:
        super().__init__(*arguments)
        self._side_inputs = side_inputs
        self._reports = reports

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[ShuffleRow]:
        """Yield the rows that the segment outputs for a partition."""
        reports: Reports = {}
        yield from self.run(partition, rows, lambda: _views_of(self._side_inputs), reports)
        self._reports.add(reports)
