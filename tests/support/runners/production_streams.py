"""Streams of productions in one directory, with a hook that runs while a job waits."""

from __future__ import annotations

from collections.abc import Callable

from support.runners.restartable_streams import FailingDisk, Stream

from penstock.runners.execution.plan.execution_graph import cut, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.sinks.committer import committing_often
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.productions.delivery import ProductionDelivery
from penstock.runners.local.productions.directory import Productions
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.sdk.runner import PipelineState

Visit = Callable[[Job], object]


def job_of(stream: Stream, parallelism: int, visit: Visit, label: str = "Sum", delivery: str = "strong") -> Job:
    """Return a job that is ready to start, with `visit` called whenever it waits."""
    stream.disk = FailingDisk()
    world = SimulatedWorld(5, Faults())
    plan = fuse(committing_often(stream.pipeline(label).graph()), lambda *_: False)
    job = Job(
        whole(plan) if parallelism == 1 else cut(plan, parallelism),
        SimulatedWorkers(parallelism, world, lambda: visit(job)),
        JobSettings(restarts=RestartStrategy(0)),
        ProductionDelivery(Productions(stream.disk, str(stream.checkpoints), delivery=delivery)),
        world.clock,
        world.sleep,
    )
    return job


def stopped(stream: Stream, parallelism: int, commits: int, delivery: str = "strong") -> Job:
    """Run with so many subtasks until sinks have committed so often, and then stop at once."""

    def visit(job: Job) -> None:
        if job.checkpoints_completed >= commits:
            job.cancel()

    job = job_of(stream, parallelism, visit, delivery=delivery)
    job.run()
    assert PipelineState.CANCELLED == job.state
    assert len(stream.rows()) < len(stream.expected())
    return job
