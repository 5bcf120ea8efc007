"""A plain run of a pipeline, with whose results a simulation compares: in the calling process, without faults."""

from __future__ import annotations

from ....sdk.graph import Graph
from ....sdk.options import PipelineOptions
from ..batch.launch import run_batch
from ..launch import job_of


def run_plainly(graph: Graph) -> None:
    """Run a pipeline without unbounded sources to its end."""
    options = PipelineOptions([])
    if graph.is_batch:
        run_batch(graph, options, has_workers=False)
    else:
        job_of(graph, options).run()
