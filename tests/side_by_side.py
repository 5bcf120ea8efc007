"""The local runner as a job: variants that what is true of every runner is tried on.

A variant is named by what is different: `local-job` takes checkpoints with one subtask, `local-2`
and `local-4` have so many subtasks in this process, and `local-2-processes` and `local-4-processes`
have them in forked ones.
"""

from __future__ import annotations

import tempfile
from typing import Any

import attrs

from penstock.runners.local import LocalStreamingRunner
from penstock.sdk.graph import Graph
from penstock.sdk.options import PipelineOptions, StreamingOptions
from penstock.sdk.runner import PipelineResult


@attrs.frozen
class Variant:
    """How a job is run: so many subtasks for each task, in so many processes, maybe with checkpoints."""

    parallelism: int = 1
    workers: int = 1
    takes_checkpoints: bool = False


IN_THIS_PROCESS = {
    "local-job": Variant(takes_checkpoints=True),
    "local-2": Variant(2),
    "local-4": Variant(4),
}
IN_PROCESSES = {
    "local-2-processes": Variant(2, 2),
    "local-4-processes": Variant(4, 4),
}
VARIANTS = IN_THIS_PROCESS | IN_PROCESSES


class SideBySide(LocalStreamingRunner):
    """Runs every pipeline as a variant says, whatever its own options are."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run to the end."""
        given = PipelineOptions(options._flags, **options._given)
        streaming = given.view_as(StreamingOptions)
        streaming.parallelism, streaming.workers = self.variant.parallelism, self.variant.workers
        # Somebody who looks for a failure needn't see it four times.
        streaming.max_restarts = 0
        if not self.variant.takes_checkpoints:
            return super().run_pipeline(graph, given)
        with tempfile.TemporaryDirectory() as directory:
            streaming.checkpoint_dir = directory
            return super().run_pipeline(graph, given)


def runner_of(name: str) -> Any:
    """A variant's runner, or the name of any other runner."""
    return SideBySide(VARIANTS[name]) if name in VARIANTS else name
