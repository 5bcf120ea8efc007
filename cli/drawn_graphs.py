"""The graphs of a program's pipelines, which are built but not run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..sdk.graph import Graph
from ..sdk.metrics import MetricResults, MetricsContainer
from ..sdk.pipeline import Pipeline
from ..sdk.runner import PipelineResult, PipelineState


class NotRun(PipelineResult):
    """Stands for the result of a pipeline that was only drawn, so that its program goes on."""

    @property
    def state(self) -> str:
        return PipelineState.DONE

    def wait_until_finish(self, duration: float | None = None) -> str:
        return self.state

    def cancel(self) -> str:
        return self.state

    def metrics(self) -> MetricResults:
        return MetricResults(MetricsContainer())


@contextmanager
def graphs_instead_of_runs() -> Iterator[list[Graph]]:
    """Inside of the `with` block, running a pipeline only adds its graph to the list."""
    graphs: list[Graph] = []

    def run(pipeline: Pipeline) -> PipelineResult:
        graphs.append(pipeline.graph())
        return NotRun()

    real_run = Pipeline.run
    Pipeline.run = run  # type: ignore[method-assign]
    try:
        yield graphs
    finally:
        Pipeline.run = real_run  # type: ignore[method-assign]
