"""Segments on lists in place of RDDs, run as on Spark but in this process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.runners.execution.batch.bounded_program import BoundedProgram
from penstock.runners.execution.batch.segment_program import SegmentProgram, TaskReport, TaskTraffic, decoded
from penstock.runners.execution.plan.fusion import Plan, Source, fuse, shrinks
from penstock.runners.execution.plan.segments import Segment, Stored
from penstock.runners.execution.sinks.committer import SinkCommitter
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.pipeline import Pipeline
from penstock.sdk.sink import Sink, SinkContext, SinkWriter


class MemorySink(Sink[Any]):
    """Keeps the values that a run commits in `values`."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def prepare(self, context: SinkContext) -> None:
        self.values = []

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return MemoryWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.values = [value for values in staged for value in values]

    def abort(self, context: SinkContext) -> None:
        self.values = []


class MemoryWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.values += bundle.values

    def stage(self) -> list[Any]:
        return self.values

    def discard(self) -> None:
        self.values = []


def spark_plan(pipeline: Pipeline) -> Plan:
    """Return the plan of a pipeline, as Spark's batch runner fuses it."""
    return fuse(pipeline.graph(), shrinks)


def run_in_this_process(pipeline: Pipeline, partitions: int = 2, has_page: bool = False) -> TaskTraffic:
    """Run a pipeline segment by segment, each in at most this many tasks; return what these have read and sent."""
    program = BoundedProgram(spark_plan(pipeline), partitions)
    total = TaskTraffic()
    side_inputs: dict[int, list[bytes]] = {}
    rows: list[tuple[Segment, Any]] = []
    for index, segment in enumerate(program.segments):
        for number, partition in enumerate(_partitions(segment, rows, partitions)):
            report = TaskReport.empty()
            task = SegmentProgram.of(program, index)
            made = list(task.rows(number, iter(partition), decoded(side_inputs), report, counts_all=has_page))
            total.add(report.traffic)
            rows += [(segment, row) for row in made]
            for (kind, where), _, block in made:
                if kind == "side":
                    side_inputs.setdefault(where, []).append(block)
    plan = program.plan
    committer, staged = SinkCommitter(plan), [(where[1], block) for _, (where, _, block) in rows if where[0] == "sink"]
    committer.publish(
        "test", {label: [pickle.loads(block) for own, block in staged if own == label] for label in committer.labels}
    )
    return total


def _partitions(segment: Segment, rows: list[tuple[Segment, Any]], partitions: int) -> Iterator[list[Any]]:
    root = segment.root
    if isinstance(root, Source):
        source: Any = root.transform.primitive
        yield from ([pickle.dumps(split)] for split in source.source.split(partitions))
        return
    if isinstance(root, Stored):
        where: Any = ("stored", root.pcollection)
        chosen = [row for maker, row in rows if row[0] == where and root.stage.label in maker.stores_for]
    else:
        where = ("grouping", root.transform.label)
        chosen = [row for _, row in rows if row[0] == where]
    for part in range(partitions):
        yield [(number, i, block) for i, (_, number, block) in enumerate(chosen) if number % partitions == part]
