"""A batch run: the segments as one graph of RDDs, and what comes back to the driver.

An RDD's elements are blocks (hundreds of elements each, as bytes), so Spark moves few and
large things.  Segments are chained lazily; a job runs where something has to come back: a
side input's contents, or what a sink has staged.  Sinks commit when all jobs are done.

RDDs, not DataFrames: blocks through `mapInArrow` took 1.7 to 2 times as long as through
`mapPartitions`, measured on both 1 KB and 10 KB blocks (docs/decisions/020).
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import cloudpickle

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.metrics import MetricsContainer
from ...sdk.serialization import local_modules_by_value
from ...sdk.source import BoundedSource
from ..execution.counters import Counts
from ..execution.fusion import Grouping, Keyed, Output, Plan, Source
from ..execution.output import OutputRun
from ..execution.shuffle_blocks import KEY_GROUPS, decode_bundle
from ..execution.side_input_views import SideInputViews
from ..execution.user_code import Attribution, attributed, reraise
from .remote_error import original
from .segments import Segment, Stored, cut
from .task import SegmentTask

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# How many bytes of input a task is given, where there is that much.
SPLIT_BYTES = 64 << 20


class SparkBatchExecution:
    """One run of a plan on Spark.

    Attributes:
      counts, metrics: what the tasks have counted, of each partition once.
    """

    def __init__(self, plan: Plan, session: SparkSession, shuffle_partitions: int | None = None) -> None:
        from pyspark.accumulators import AccumulatorParam

        # A partition that is computed again, for a retry or a second job, replaces what it
        # had counted.
        class Latest(AccumulatorParam):  # type: ignore[type-arg]
            def zero(self, value: Any) -> Any:
                return {}

            def addInPlace(self, value1: Any, value2: Any) -> Any:
                value1.update(value2)
                return value1

        self.plan = plan
        self.transaction = uuid.uuid4().hex[:12]
        self._context = session.sparkContext
        self._partitions = min(KEY_GROUPS, shuffle_partitions or self._context.defaultParallelism)
        self._accumulator = self._context.accumulator({}, Latest())
        self._views = SideInputViews()
        self._rdds: list[tuple[Segment, RDD[Any]]] = []
        self._persisted: list[RDD[Any]] = []
        self._outputs = {
            s.transform.label: OutputRun(s.transform, self.transaction, Counts())
            for s in plan.steps
            if isinstance(s, Output)
        }
        self._staged: dict[str, list[Any]] = {label: [] for label in self._outputs}

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        try:
            for output in self._outputs.values():
                output.prepare()
            for number, segment in enumerate(cut(self.plan)):
                self._run_segment(number, segment)
        except BaseException as error:
            for output in self._outputs.values():
                output.abort()
            found = original(str(error)) if isinstance(error, Exception) else None
            if found is not None:
                raise found from found.__cause__
            raise
        finally:
            for rdd in self._persisted:
                rdd.unpersist()
        for label, output in self._outputs.items():
            output.commit(self._staged[label])

    @property
    def metrics(self) -> MetricsContainer:
        """What user code has reported."""
        merged = MetricsContainer()
        for container, _ in self._accumulator.value.values():
            merged.merge(container)
        return merged

    @property
    def counts(self) -> Counts:
        """Elements, by step."""
        merged = Counts()
        for _, counts in self._accumulator.value.values():
            for label, step in counts.steps.items():
                count = merged.of(label)
                count.read += step.read
                count.written += step.written
        return merged

    def _run_segment(self, number: int, segment: Segment) -> None:
        side_inputs = None
        if segment.side_inputs:
            contents = {i: self._views.values(i) for i in segment.side_inputs}
            side_inputs = self._context.broadcast(_dumps(contents))
        with local_modules_by_value():
            task = SegmentTask(self.plan, segment, self.transaction, side_inputs, self._accumulator, number)
        rdd = self._input(segment).mapPartitionsWithIndex(task).setName(segment.label)
        uses = len(segment.groupings) + len(segment.stores) + segment.is_eager
        if uses > 1:
            from pyspark import StorageLevel

            rdd = rdd.persist(StorageLevel.MEMORY_AND_DISK)
            self._persisted.append(rdd)
        self._rdds.append((segment, rdd))
        if not segment.is_eager:
            return
        self._context.setJobDescription(segment.label)
        try:
            rows = rdd.filter(_comes_back).collect()
        finally:
            self._context.setJobDescription(None)  # type: ignore[arg-type]
        side_outputs: dict[int, list[Bundle]] = {}
        for (kind, where), _, block in rows:
            if kind == "sink":
                self._staged[where].append(pickle.loads(block))
            else:
                side_outputs.setdefault(where, []).append(decode_bundle(block))
        for pcollection, bundles in side_outputs.items():
            for bundle in bundles:
                self._views.add(pcollection, bundle)

    def _input(self, segment: Segment) -> RDD[Any]:
        root = segment.root
        if isinstance(root, Source):
            splits = self._splits(root)
            return self._context.parallelize([_dumps(s) for s in splits], max(1, len(splits)))
        if isinstance(root, (Grouping, Keyed)):
            label = root.transform.label
            blocks = self._rows(("grouping", label), [rdd for s, rdd in self._rdds if label in s.groupings])
            partitions = self._partitions
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

    def _splits(self, root: Source) -> list[Any]:
        primitive = root.transform.primitive
        assert isinstance(primitive, graph.Read)
        source = primitive.source
        assert isinstance(source, BoundedSource)
        try:
            desired = max(self._context.defaultParallelism, (source.estimate_size() or 0) // SPLIT_BYTES)
            return list(source.split(desired))
        except Exception as error:
            reraise(attributed(error, Attribution(root.transform.label, None)))


def _comes_back(row: Any) -> bool:
    return row[0][0] in ("sink", "side")


def _dumps(value: Any) -> bytes:
    with local_modules_by_value():
        data: bytes = cloudpickle.dumps(value, protocol=5)
    return data
