"""The traffic of some steps that are wired together, while a page shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ....sdk.elements.bundle import Bundle
from ..clock import Clock
from ..plan.fusion import Stage
from ..stages.traffic import BYTES, EdgeTraffic, StageTraffic, Traffic
from .dataflow import Dataflow


class WorkerTraffic:
    """What has passed the edges of the graph in one worker, whose subtasks count it together.

    >>> WorkerTraffic().traffic()
    {}
    """

    def __init__(self) -> None:
        self._between: dict[int, EdgeTraffic] = {}
        self._within: dict[str, StageTraffic] = {}

    def edge(self, pcollection: int) -> EdgeTraffic:
        """Return the count of a PCollection between steps."""
        return self._between.setdefault(pcollection, EdgeTraffic())

    def stage(self, stage: Stage, clock: Clock) -> StageTraffic:
        """Return the counts within a fused stage."""
        found = self._within.get(stage.id)
        if found is None:
            found = self._within[stage.id] = StageTraffic(stage, clock)
        return found

    def traffic(self) -> dict[int, Traffic]:
        """Return what has passed, by PCollection."""
        found = {pcollection: edge.traffic(BYTES) for pcollection, edge in self._between.items()}
        for stage in self._within.values():
            found |= stage.traffic()
        return found


class DataflowTraffic:
    """Counts what passes some PCollections, and the edges within fused stages, until it is detached.

    Args:
      pcollections: those that are outputs of the steps.
      clock: processing time.
      counted: where it is counted.
    """

    def __init__(self, dataflow: Dataflow, pcollections: Iterable[int], clock: Clock, counted: WorkerTraffic) -> None:
        self._dataflow = dataflow
        self._listeners: list[tuple[int, Callable[[Bundle], None]]] = []
        for pcollection in pcollections:
            listener = partial(counted.edge(pcollection).count, clock)
            dataflow.add_listener(pcollection, listener)
            self._listeners.append((pcollection, listener))
        for run in dataflow.stages.values():
            if len(run.executor.stage.operations) > 1:
                run.traffic = counted.stage(run.executor.stage, clock)

    def detach(self) -> None:
        """Count no more."""
        for pcollection, listener in self._listeners:
            self._dataflow.remove_listener(pcollection, listener)
        for run in self._dataflow.stages.values():
            run.stop_counting()
        self._listeners = []
