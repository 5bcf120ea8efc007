"""Jobs in which a checkpoint, a commit or the store fails: cases found by the simulation."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from simulation.simulated_pipelines import script

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.simulation.graph import with_sinks
from penstock.runners.local.simulation.sink import SimulatedSink, SimulatedTable
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.sdk.errors import SinkError, StaleWriterError
from penstock.sdk.sink import SinkContext

LABEL = "output of Read(ScriptedSource)"


class ObedientDisk(SimulatedDisk):
    """Calls `before` with each path that is to be written."""

    before: Callable[[str], None] = staticmethod(lambda path: None)

    def write_atomically(self, path: str, content: Any) -> None:
        self.before(path)
        super().write_atomically(path, content)


class ObedientSink(SimulatedSink):
    """Calls `before` with the name of each operation."""

    before: Callable[[str], None] = staticmethod(lambda what: None)

    def prepare(self, context: SinkContext) -> None:
        self.before("prepare")
        super().prepare(context)

    def commit(self, context: SinkContext, staged: Any) -> None:
        self.before("commit")
        super().commit(context, staged)

    def abort(self, context: SinkContext) -> None:
        self.before("abort")
        super().abort(context)


class Scene:
    """A job over a scripted source with a table for its sink, in a world without faults."""

    def __init__(self) -> None:
        self.world = SimulatedWorld(5, Faults())
        self.disk = ObedientDisk(Random(1))
        self.table = SimulatedTable("table")
        self.sink = ObedientSink(self.world, self.table)
        self.starts = 0

    def store(self) -> SnapshotStore:
        """The store, as a process that starts now has it."""
        return SnapshotStore(self.disk, "dir", token=self.world.token, now=lambda: self.world.now / 1e6)

    def job(self, restarts: int = 0) -> Job:
        """One that is about to start, with a checkpoint every few steps."""
        pipeline = beam.Pipeline()
        _ = pipeline | beam.io.Read(script(1))
        plan = fuse(with_sinks(pipeline.graph(), {LABEL: self.sink}), lambda *_: False)
        settings = JobSettings(CheckpointSettings(interval=2_000, min_pause=0), restarts=RestartStrategy(restarts))
        workers = SimulatedWorkers(2, self.world)
        start = workers.start

        def counted(*arguments: Any) -> None:
            self.starts += 1
            start(*arguments)

        workers.start = counted  # type: ignore[method-assign]
        delivery = BarrierDelivery(self.store())
        return Job(cut(plan, 2), workers, settings, delivery, self.world.clock, self.world.sleep, self.world.token)

    def check(self) -> None:
        """Everything is there, once."""
        assert [1] * 36 == list(self.table.visible.values())


def once(is_it: Callable[[str], bool], error: Exception) -> Callable[[str], None]:
    """Raises the error the first time that it is called with such a thing."""
    left = [error]

    def before(what: str) -> None:
        if is_it(what) and left:
            raise left.pop()

    return before


@pytest.fixture
def scene() -> Scene:
    """A new one."""
    return Scene()


def test_what_a_durable_checkpoint_has_staged_is_not_aborted_when_the_job_gives_up(scene: Scene) -> None:
    """The commit fails, and no restart is left: the next start publishes it.  It used to be removed, and lost."""
    failures = [SinkError("no answer"), SinkError("no answer")]

    def before(what: str) -> None:
        if what == "commit" and failures:
            raise failures.pop()

    scene.sink.before = before
    with pytest.raises(SinkError, match="no answer"):
        scene.job().run()
    scene.job().run()

    scene.check()


@pytest.mark.parametrize("name", ["manifest-", "transactions"])
def test_a_checkpoint_that_can_not_be_written_fails_alone(scene: Scene, name: str) -> None:
    """The stream goes on, with the same workers.  It used to be the job that failed."""
    seen: list[str] = []

    def before(path: str) -> None:
        if name in path:
            seen.append(path)
            # The very first one of the transactions is no checkpoint's.
            if len(seen) == 3:
                raise OSError(errno.ENOSPC, "disk full")

    scene.disk.before = before
    scene.job().run()

    assert (True, 1) == (len(seen) > 3, scene.starts)
    scene.check()


@pytest.mark.parametrize("ends", ["stop_with_savepoint", "drain"])
def test_a_job_that_fails_at_each_start_can_be_stopped(scene: Scene, ends: str) -> None:
    """It may start again as often as it likes, but not for ever, and without a pause, once it is to end."""
    failures = 0

    def fail(what: str) -> None:
        nonlocal failures
        if what == "prepare" and scene.starts:
            failures += 1
            if failures == 2:
                getattr(job, ends)()
            raise SinkError("each time")

    scene.sink.before = fail
    job = scene.job(restarts=1_000)

    with pytest.raises(SinkError):
        job.run()

    # The second one, and three more that it could have ended with.
    assert 5 == failures


def test_a_job_that_another_has_taken_over_from_leaves_the_sinks_alone(scene: Scene) -> None:
    """It neither restarts nor aborts what the other one may have found staged, and will commit."""
    calls: list[str] = []

    def before(what: str) -> None:
        calls.append(what)
        if what == "prepare" and len(calls) > 3:
            scene.sink.before = calls.append
            scene.store().take_over()
            calls.clear()

    scene.sink.before = before
    with pytest.raises(StaleWriterError):
        scene.job(restarts=3).run()

    assert (1, False) == (scene.starts, "abort" in calls)
    scene.sink.before = once(lambda what: False, SinkError("never"))
    scene.job().run()
    scene.check()
