"""The graphs of a program's pipelines, which are built without being run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from ..sdk.graph import Graph
from ..sdk.metrics import MetricResults, MetricsContainer
from ..sdk.pipeline import Pipeline
from ..sdk.runner import PipelineResult, PipelineState, RunState
from .program import run_program


class _NotRun(PipelineResult):
    """Result of a pipeline that is not run, so that its program continues."""

    @property
    def state(self) -> RunState:
        return RunState(PipelineState.DONE)

    def wait_until_finish(self, duration: Any = None) -> str:
        return self.state

    def cancel(self) -> str:
        return self.state

    def metrics(self) -> MetricResults:
        return MetricResults(MetricsContainer())


def graphs_of(file: str, arguments: Sequence[str], beam: bool = False) -> tuple[list[Graph], Exception | None]:
    """Return the graph of each pipeline that a program would run, and the error that the program ended with.

    The cause of an error may be the missing results.  The program's output goes to standard error, since standard
    output is for the drawing.
    """
    error: Exception | None = None
    with _graphs_instead_of_runs() as graphs, redirect_stdout(sys.stderr):
        try:
            run_program(file, arguments, beam)
        except SystemExit:
            if not graphs:
                raise
        except Exception as raised:
            error = raised
    return graphs, error


@contextmanager
def _graphs_instead_of_runs() -> Iterator[list[Graph]]:
    """Collect the graphs of pipelines instead of running them, within the block."""
    graphs: list[Graph] = []

    def run(self: Pipeline) -> PipelineResult:
        graphs.append(self.outline(with_settings=True))
        return _NotRun()

    real_run = Pipeline.run
    Pipeline.run = run  # type: ignore[method-assign]
    try:
        yield graphs
    finally:
        Pipeline.run = real_run  # type: ignore[method-assign]
