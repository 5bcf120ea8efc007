"""A plain run of a pipeline, with whose results a simulation compares: in the calling process, without faults."""

from __future__ import annotations

from ....sdk.graph import Graph
from ....sdk.metrics import MetricsContainer
from ....sdk.options import PipelineOptions
from ...execution.plan.fusion import fuse, in_place
from ..batch.run import RunInThisProcess, is_batch
from ..launch import job_of


def run_plainly(graph: Graph) -> None:
    """Run a pipeline without unbounded sources to its end."""
    if is_batch(graph):
        RunInThisProcess(fuse(graph, in_place), MetricsContainer()).run()
    else:
        job_of(graph, PipelineOptions([])).run()
