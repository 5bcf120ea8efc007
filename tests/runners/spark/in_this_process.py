"""What `SparkBatchExecution` does, with lists in the place of RDDs: the tasks, without a JVM."""

from __future__ import annotations

import pickle
from typing import Any

from penstock.runners.execution.counters import Counts
from penstock.runners.execution.fusion import Grouping, Output, Plan, Source, fuse
from penstock.runners.execution.output import OutputRun
from penstock.runners.execution.shuffle_blocks import decode_bundle
from penstock.runners.execution.side_input_views import SideInputViews
from penstock.runners.spark.batch_runner import folds_before_the_shuffle
from penstock.runners.spark.segments import Segment, Stored, cut
from penstock.runners.spark.task import SegmentRun
from penstock.sdk.pipeline import Pipeline


class ListsForRdds:
    """A run of a plan; `partitions` is how many tasks each segment has, at most."""

    def __init__(self, plan: Plan, partitions: int = 2) -> None:
        self.plan = plan
        self.partitions = partitions
        self.rows: list[Any] = []
        self.views = SideInputViews()

    def run(self) -> None:
        steps = [step for step in self.plan.steps if isinstance(step, Output)]
        outputs = {step.transform.label: OutputRun(step.transform, "test", Counts()) for step in steps}
        for output in outputs.values():
            output.prepare()
        for segment in cut(self.plan):
            for number, partition in enumerate(self._input(segment)):
                run = SegmentRun(self.plan, segment, self.views, "test", str(number), Counts())
                self.rows += run.rows(iter(partition))
            for (kind, where), _, block in self.rows:
                if kind == "side" and where in segment.side_outputs:
                    self.views.add(where, decode_bundle(block))
        for label, output in outputs.items():
            output.commit([pickle.loads(block) for where, _, block in self.rows if where == ("sink", label)])

    def _input(self, segment: Segment) -> list[list[Any]]:
        root = segment.root
        if isinstance(root, Source):
            splits = root.transform.primitive.source.split(self.partitions)
            return [[pickle.dumps(split)] for split in splits]
        where: Any = ("stored", root.pcollection) if isinstance(root, Stored) else ("grouping", root.transform.label)
        rows = [(number, block) for w, number, block in self.rows if w == where]
        assert isinstance(root, (Stored, Grouping))
        return [[row for row in rows if row[0] % self.partitions == i] for i in range(self.partitions)]


def run_in_this_process(pipeline: Pipeline, partitions: int = 2) -> None:
    """Run a pipeline as Spark would."""
    ListsForRdds(fuse(pipeline.graph(), shrinks), partitions).run()
