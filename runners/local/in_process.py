"""Runs in the calling process, without checkpoints: which engine they have."""

from __future__ import annotations

from ...sdk.graph import Graph
from ...sdk.metrics import MetricsContainer
from ..execution.plan.fusion import fuse, is_final, never
from .bounded_run import BoundedRun
from .scripted_run import ScriptedRun


def in_process(graph: Graph, metrics: MetricsContainer) -> BoundedRun | ScriptedRun:
    """Return the run of a pipeline without unbounded sources: in batch, unless it has a script or a loop."""
    if is_batch(graph):
        return BoundedRun(fuse(graph, is_final), metrics)
    return ScriptedRun(fuse(graph, never), metrics)


def is_batch(graph: Graph) -> bool:
    """Return True for what the batch engine can run: all input ends, no script has the clock, and nothing goes back."""
    return graph.is_bounded and not graph.has_script and not graph.loops()
