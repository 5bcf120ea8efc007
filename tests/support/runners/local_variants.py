"""Variants of the local runner as a job, on which the tests of every runner run.

A variant is named by what is different: `local-job` and `local-4` take checkpoints with one and with four subtasks in
this process; those of `local-4` have next to no state in memory.  `local-2` has two subtasks without checkpoints; a
bounded pipeline has two partitions, whose tasks run in turn.  `local-2-processes` has worker processes.
`local-2-simulated` has two workers of a simulation; a seed decides on their turns, delays and checkpoints.  No worker
dies there, since user code that notes calls in this process would note them twice.
"""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import count
from random import Random
from typing import Any
from zlib import crc32

import attrs

from penstock.runners.execution.batch.file_tasks import CollectedViews, run_task
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse, shrinks
from penstock.runners.execution.progress import progress_of
from penstock.runners.execution.sinks.committer import with_dead_letters
from penstock.runners.execution.streaming_options import check_streaming_flags
from penstock.runners.execution.stuck_calls import CallWatch
from penstock.runners.local import LocalStreamingRunner
from penstock.runners.local.batch.worker_tasks import RunInWorkers, WorkerSettings
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.runner import is_streamed
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.sdk.graph import Graph
from penstock.sdk.metrics import MetricResults, MetricsContainer
from penstock.sdk.options import PipelineOptions, StreamingOptions
from penstock.sdk.runner import FinishedResult, PipelineResult

# The runners that a source and a sink of a service are tried on.
EVERY_RUNNER = ["local", "spark-batch", "spark-microbatch"]


@attrs.frozen
class Variant:
    """A variant of the runner: parallelism, number of processes, checkpoints or none, and the memory for state."""

    parallelism: int = 1
    workers: int = 1
    takes_checkpoints: bool = False
    state_memory: str | None = None


IN_THIS_PROCESS = {
    "local-job": Variant(takes_checkpoints=True),
    "local-2": Variant(2),
    "local-4": Variant(4, takes_checkpoints=True, state_memory="4KB"),
}
IN_PROCESSES = {
    "local-2-processes": Variant(2, 2),
}
VARIANTS = IN_THIS_PROCESS | IN_PROCESSES
IN_SIMULATION = {"local-2-simulated": 2}


class SideBySide(LocalStreamingRunner):
    """Runs every pipeline with the settings of a variant, in place of its own options."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run to the end."""
        given = PipelineOptions(options._flags, **options._given)
        streaming = given.view_as(StreamingOptions)
        streaming.parallelism, streaming.workers = self.variant.parallelism, self.variant.workers
        if self.variant.state_memory is not None:
            streaming.state_backend, streaming.state_memory = "rocksdb", self.variant.state_memory
        # No restarts: a failure is reported once.
        streaming.max_restarts = 0
        if not self.variant.takes_checkpoints:
            in_parts = self.variant.parallelism > 1 and self.variant.workers == 1 and not is_streamed(graph, given)
            return in_turn(graph, given) if in_parts else super().run_pipeline(graph, given)
        with tempfile.TemporaryDirectory() as directory:
            streaming.checkpoint_dir = directory
            result = super().run_pipeline(graph, given)
            # A stream runs on in a thread, and needs its directory.
            result.wait_until_finish()
            return result


class RunInTurn(RunInWorkers):
    """Runs the tasks of worker processes one after the other, in this process."""

    def _run_in_workers(self, directory: str) -> None:
        views = CollectedViews()
        for attempt in count():
            number = self._schedule.begin(0)
            if number is None:
                return
            known = views.read(self._files.side_inputs_of(number))
            task = run_task(self._partitioned, number, str(attempt), known, partial(self._schedule.next, 0))
            self._complete(0, task)


def in_turn(graph: Graph, options: PipelineOptions) -> PipelineResult:
    """Run a bounded pipeline on several partitions in this process."""
    check_streaming_flags(options)
    streaming = options.view_as(StreamingOptions)
    metrics = MetricsContainer()
    plan = fuse(with_dead_letters(graph, options), shrinks)
    run = RunInTurn(plan, metrics, WorkerSettings(streaming.parallelism, 1, timeout=streaming.worker_timeout))
    with CallWatch(streaming.worker_timeout), progress_of(run.counts, plan, options, refresh=run.refresh):
        run.run()
    return FinishedResult(MetricResults(metrics))


class InSimulation(LocalStreamingRunner):
    """Runs every pipeline with so many subtasks, each in a worker of a simulation.

    What they say to the job and it to them may come twice, channels are short, and a checkpoint is due every few steps.
    """

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        """Run to the end, under a seed derived from the names of the transforms."""
        seed = crc32("".join(transform.label for transform in graph.transforms).encode())
        world = SimulatedWorld(seed, Faults(repeating=0.1, stopped=0))
        disk = SimulatedDisk(Random(seed))
        job = Job(
            cut(fuse(graph, lambda *_: False), self.parallelism),
            SimulatedWorkers(self.parallelism, world),
            JobSettings(CheckpointSettings(interval=20_000, min_pause=0), restarts=RestartStrategy(0)),
            BarrierDelivery(SnapshotStore(disk, "checkpoints", token=world.token, now=lambda: world.now / 1_000_000)),
            world.clock,
            world.sleep,
            world.token,
        )
        job.run()
        return FinishedResult(MetricResults(job.status.committed.user_metrics), job.state)


def runner_of(name: str) -> Any:
    """Return the runner of a variant, or the name of any other runner."""
    if name in IN_SIMULATION:
        return InSimulation(IN_SIMULATION[name])
    return SideBySide(VARIANTS[name]) if name in VARIANTS else name
