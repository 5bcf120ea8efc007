"""Runs in the calling process, without checkpoints: of bounded pipelines, and of scripts and loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...sdk.graph import Graph
from ...sdk.metrics import MetricsContainer
from ..execution.plan.fusion import fuse, in_place, never
from .batch.run import RunInThisProcess

if TYPE_CHECKING:
    from .scripted_run import ScriptedRun


def in_process(graph: Graph, metrics: MetricsContainer) -> RunInThisProcess | ScriptedRun:
    """Return the run of a pipeline without unbounded sources."""
    if is_batch(graph):
        return RunInThisProcess(fuse(graph, in_place), metrics)
    # The streaming engine, which takes longer to import than a small bounded pipeline runs.
    from .scripted_run import ScriptedRun

    return ScriptedRun(fuse(graph, never), metrics)


def is_batch(graph: Graph) -> bool:
    """Return True if the batch engine can run a pipeline: all input is bounded, and there is no script and no loop."""
    return graph.is_bounded and not graph.has_script and not graph.loops()
