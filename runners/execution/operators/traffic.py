"""The traffic of some steps that are wired together, while a page shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ....sdk.elements.bundle import Bundle
from ..clock import Clock
from ..stages.traffic import BYTES, EdgeTraffic, StageTraffic, Traffic
from .dataflow import Dataflow, StageRun


class DataflowTraffic:
    """Counts what passes some PCollections, and the edges within fused stages, until it is detached.

    Args:
      pcollections: those that are outputs of the steps.
      clock: processing time.
    """

    def __init__(self, dataflow: Dataflow, pcollections: Iterable[int], clock: Clock) -> None:
        self._dataflow = dataflow
        self._clock = clock
        self._edges = {pcollection: EdgeTraffic() for pcollection in pcollections}
        self._taps: list[tuple[int, Callable[[Bundle], None]]] = []
        for pcollection, edge in self._edges.items():
            tap = partial(self._count, edge)
            dataflow.tap(pcollection, tap)
            self._taps.append((pcollection, tap))
        self._stages: list[tuple[StageRun, StageTraffic]] = []
        for run in dataflow.stages.values():
            if len(run.executor.stage.operations) > 1:
                run.traffic = StageTraffic(run.executor, clock)
                self._stages.append((run, run.traffic))

    def _count(self, edge: EdgeTraffic, bundle: Bundle) -> None:
        edge.count(bundle, self._clock.now)

    def detach(self) -> None:
        """Count no more."""
        for pcollection, tap in self._taps:
            self._dataflow.untap(pcollection, tap)
        for run, traffic in self._stages:
            traffic.detach()
            run.traffic = None
        self._taps, self._stages = [], []

    def traffic(self) -> dict[int, Traffic]:
        """Return what has passed, by PCollection."""
        found = {pcollection: edge.traffic(BYTES) for pcollection, edge in self._edges.items()}
        for _, traffic in self._stages:
            found |= traffic.traffic()
        return found
