"""A batch run as on Spark, in this process: executors are dictionaries, which lose what a test wants them to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import cloudpickle
from support.runners.segments import spark_plan

from penstock.runners.execution.batch.bounded_program import BoundedProgram
from penstock.runners.execution.batch.segment_program import ReadRow, SegmentProgram, decoded
from penstock.runners.execution.plan.fusion import Source
from penstock.runners.execution.plan.segments import Segment, Stored
from penstock.runners.spark.batch.execution import BatchExecution, TaskReports, pickled_splits
from penstock.runners.spark.batch.partition_function import PartitionFunction, Reports, ShuffleRow
from penstock.sdk.pipeline import Pipeline


class BatchInThisProcess(BatchExecution):
    """A run whose tasks are executed when their output is read, and again if it is lost.

    Args:
      loses: is given the numbers of a segment and of a partition, and how often the output of that task was read; says
        whether it is lost before the next task reads it.
      order: shuffles what a task receives.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        partitions: int = 2,
        loses: Callable[[int, int, int], bool] = lambda segment, partition, read: False,
        order: Random | None = None,
    ) -> None:
        self.reported: Reports = {}
        program = BoundedProgram(spark_plan(pipeline), partitions)
        program.transaction = "run"
        super().__init__(program, None, _Reports(self.reported), 10.0, False)  # type: ignore[arg-type]
        self._loses = loses
        self._order = order
        self._functions: dict[int, PartitionFunction] = {}
        self._inputs: dict[int, list[bytes]] = {}
        # The rows of each task, and how often they were read.
        self.made: dict[tuple[int, int], list[ShuffleRow]] = {}
        self._read: dict[tuple[int, int], int] = {}
        # How often each segment was described.
        self.runs: dict[int, int] = {}
        # The segments of each job.
        self.jobs: list[list[int]] = []

    def _describe(self, number: int, segment: Segment) -> None:
        program = self.program
        function = PartitionFunction(SegmentProgram.of(program, number), program.partitions, {}, 10.0, False)
        # Executors unpickle it.
        self._functions[number] = cloudpickle.loads(cloudpickle.dumps(function))
        if isinstance(segment.root, Source):
            self._inputs[number], _ = pickled_splits(program, number, program.partitions)
        self.runs[number] = self.runs.get(number, 0) + 1

    def _collect(self, numbers: Sequence[int]) -> Iterator[tuple[int, str, Any, bytes]]:
        self.jobs.append(list(numbers))
        for number in numbers:
            for partition in self._partitions(self.program.segments[number]):
                for (kind, where), _, _, block in self._rows(number, partition):
                    if kind in ("sink", "side", "attempt"):
                        yield number, kind, where, block

    def _keep_frame(self, number: int, segment: Segment, label: str) -> Iterator[tuple[str, Any, bytes]]:
        raise NotImplementedError

    def _forget(self, number: int) -> None:
        self.made = {task: rows for task, rows in self.made.items() if task[0] != number}

    def _partitions(self, segment: Segment) -> list[Any]:
        """Return what identifies the partitions of a segment: numbers, or tasks whose output is stored."""
        if isinstance(segment.root, Source):
            return list(range(len(self._inputs[self.program.segments.index(segment)])))
        if isinstance(segment.root, Stored):
            return list(range(len(self._stored(segment.root))))
        return list(range(self.program.partitions))

    def _stored(self, root: Stored) -> list[tuple[int, int]]:
        return [
            (number, partition)
            for number, segment in enumerate(self.program.segments)
            if root.stage.label in segment.stores_for
            for partition in self._partitions(segment)
        ]

    def _rows(self, number: int, partition: int) -> list[ShuffleRow]:
        """Return the rows of a task; execute it if it has none, or they are lost."""
        task = number, partition
        read = self._read[task] = self._read.get(task, 0) + 1
        if task not in self.made or self._loses(number, partition, read):
            rows = list(self._input(self.program.segments[number], partition))
            if self._order is not None:
                self._order.shuffle(rows)
            views = decoded(self.results.side_inputs_of(number))
            self.made[task] = list(self._functions[number].run(partition, rows, lambda: views, self.reported))
        return self.made[task]

    def _input(self, segment: Segment, partition: int) -> Iterator[bytes | ReadRow]:
        root = segment.root
        if isinstance(root, Source):
            yield self._inputs[self.program.segments.index(segment)][partition]
        elif isinstance(root, Stored):
            for where, *row in self._rows(*self._stored(root)[partition]):
                if where == ("stored", root.pcollection):
                    yield tuple(row)
        else:
            for sender, sending in enumerate(self.program.segments):
                if root.transform.label in sending.groupings:
                    for part in self._partitions(sending):
                        for where, group, place, block in self._rows(sender, part):
                            is_own = group % self.program.partitions == partition
                            if where == ("grouping", root.transform.label) and is_own:
                                yield group, place, block

    def _cancel_jobs(self) -> None:
        pass

    def _release(self) -> None:
        pass

    def frames(self) -> dict[str, Any]:
        return {}


class _Reports(TaskReports):
    def __init__(self, reported: Reports) -> None:
        super().__init__()
        self._reported = reported

    def reports(self) -> Reports:
        return self._reported
