"""Run of a bounded pipeline in the calling process, without checkpoints, and the commit of sinks at its end.

It runs on the batch engine, one segment after the other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ...sdk import graph
from ...sdk.metrics import MetricsContainer
from ...sdk.sources.bounded import BoundedSource
from ..execution.batch.segment_task import RECEIVED, SegmentTask
from ..execution.counters import Counts
from ..execution.plan.fusion import Plan, Source
from ..execution.plan.segments import Segment, cut
from ..execution.sinks.run_records import recorded
from ..execution.sinks.writer import OutputRun
from ..execution.stages.side_input_views import SideInputViews
from ..execution.user_errors import guarded


class BoundedRun:
    """Run of a bounded plan, as one batch task.

    Attributes:
      counts: elements, by step.
    """

    def __init__(self, plan: Plan, metrics: MetricsContainer) -> None:
        self.plan = plan
        self.counts = Counts()
        self._metrics = metrics
        self._segments = cut(plan)
        self._transaction = uuid.uuid4().hex[:12]
        self._task = SegmentTask(
            plan, self._segments, plan.steps, SideInputViews(), self._transaction, "0", self.counts, metrics
        )

    def run(self) -> None:
        """Run to the end.  After a failure nothing that was written is left."""
        task = self._task
        with committed_at_end(
            self.plan, self._transaction, lambda: staged_by(task.outputs), self._metrics, task.discard
        ):
            for segment in self._segments:
                began = time.monotonic()
                for _ in task.run(segment, splits_of(segment, 1)):
                    pass
                self.counts.busy[segment.label, 0] = time.monotonic() - began
            for _ in task.finish():
                pass


@contextmanager
def committed_at_end(
    plan: Plan,
    transaction: str,
    stage: Callable[[], Mapping[str, Sequence[Any]]],
    metrics: MetricsContainer,
    discard: Callable[[], Any] = bool,
) -> Iterator[None]:
    """Prepare sinks, and commit them after the `with` block, or abort them if anything fails.

    Args:
      stage: returns the tokens that were staged, by the label of a sink.
      metrics: counts what sinks report during the commit.
      discard: frees the resources of the block after a failure.
    """
    with recorded(plan, metrics) as committer:
        try:
            committer.begin(transaction)
            yield
            committer.publish(transaction, stage())
        except BaseException:
            with suppress(Exception):
                discard()
            committer.abort()
            raise
        committer.close()


def staged_by(outputs: Sequence[OutputRun]) -> dict[str, list[Any]]:
    """Stage the output of sinks.  Return the tokens by the sinks' labels."""
    for output in outputs:
        output.stage()
    return {output.label: output.staged for output in outputs}


def splits_of(segment: Segment, desired: int) -> Any:
    """Return the splits of a segment's source, or the one partition of a segment whose input was shuffled."""
    root = segment.root
    if not isinstance(root, Source):
        return RECEIVED
    primitive = root.transform.primitive
    assert isinstance(primitive, graph.Read)
    source = primitive.source
    assert isinstance(source, BoundedSource)
    return guarded(root.transform.label, lambda: source.split(desired))
