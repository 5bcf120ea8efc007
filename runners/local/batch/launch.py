"""Launch a batch run: build it from the options of a pipeline, and run it to its end."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from ....sdk.graph import Graph
from ....sdk.metrics import MetricResults, MetricsContainer
from ....sdk.options import PageOptions, PipelineOptions, StreamingOptions
from ....sdk.runner import FinishedResult, PipelineResult
from ...execution.counters import loads_of
from ...execution.gc_tuning import rarely_collected
from ...execution.plan.fusion import fuse, in_place, shrinks
from ...execution.progress import progress_of
from ...execution.sinks.committer import with_dead_letters
from ...execution.stuck_calls import CallWatch
from .run import BatchRun, RunInThisProcess


def run_batch(graph: Graph, options: PipelineOptions, has_workers: bool) -> PipelineResult:
    """Run a bounded pipeline, and return its result.  Raises the error that it fails with.

    Args:
      has_workers: whether worker processes run its tasks.
    """
    streaming = options.view_as(StreamingOptions)
    graph = with_dead_letters(graph, options)
    container, began = MetricsContainer(), time.monotonic()
    run: BatchRun
    if has_workers:
        # A small pipeline runs in less time than the import takes.
        from .worker_tasks import RunInWorkers, settings_of

        run = RunInWorkers(fuse(graph, shrinks), container, settings_of(streaming))
    else:
        run = RunInThisProcess(fuse(graph, in_place), container)
    watching: AbstractContextManager[Any] = progress_of(run.counts, run.program.plan, options, refresh=run.refresh)
    page = options.view_as(PageOptions)
    if any(port is not None for port in (page.ui_port, streaming.metrics_port, streaming.health_port)):
        # They take longer to import than a small pipeline runs.
        from ..monitoring.observers import Observers
        from .monitored import MonitoredBatch

        watching = Observers(MonitoredBatch(run), watching, options)
    with rarely_collected(), CallWatch(streaming.worker_timeout, run.note_call), watching:
        run.run()
    loads = loads_of(run.counts, time.monotonic() - began)
    return FinishedResult(MetricResults(container, None, run.counts.seconds, loads), run.state)
