"""Recovery of a failover region: the other subtasks keep their state, and results are exactly once."""

from __future__ import annotations

import os
import pathlib
import signal
from typing import Any

import pytest
from simulation.negative_controls import SubtaskWithoutReplayDedup
from support.runners.failing_streams import (
    GatedSource,
    Sum,
    add_branch,
    expected,
    job_of,
    numbers_of,
    only_until_the_gate_is_open,
    setups,
    written,
)
from support.runners.restartable_streams import FailingDisk

import penstock as beam
from penstock.runners.execution.clock import time_of_day
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.workers.pool import Workers, WorkersInThisProcess
from penstock.runners.local.workers.process_pool import WorkersInProcesses
from penstock.runners.local.workers.slot import Slot
from penstock.sdk.errors import PenstockError


def stream(directory: pathlib.Path, *fns: Sum, gates: tuple[int, ...] = (40,)) -> beam.Pipeline:
    """Return a pipeline with a branch for each function; no channel connects the branches."""
    p = beam.Pipeline()
    for fn in fns:
        add_branch(p, directory, GatedSource(numbers_of(), gates, directory / "kept"), fn)
    return p


@pytest.fixture(params=["in this process", "forked"])
def workers(request: pytest.FixtureRequest) -> Workers:
    """Return workers for two subtasks of each task."""
    return (
        WorkersInThisProcess(time_of_day) if request.param == "in this process" else WorkersInProcesses(2, time_of_day)
    )


def restarts_of(job: Job) -> int:
    """Return the number of restarts."""
    return job.status.restarts


def test_a_failure_restarts_subtasks_of_its_component_only(tmp_path: pathlib.Path, workers: Workers) -> None:
    """No subtask of the other component is set up again, and both tables are right."""
    left, right = Sum(tmp_path, "left", raises=[150]), Sum(tmp_path, "right")
    job = job_of(stream(tmp_path, left, right), tmp_path, workers, 2)
    job.run()

    assert (expected(), expected()) == (written(tmp_path, "left"), written(tmp_path, "right"))
    assert 1 == restarts_of(job)
    # Both subtasks of each, and once more the one that has failed: the other kept its state.
    assert (3, 2) == (len(setups(tmp_path, "left")), len(setups(tmp_path, "right")))


def test_a_repeated_error_fails_the_job_with_the_users_frame(tmp_path: pathlib.Path, workers: Workers) -> None:
    """Restarts of regions are limited, too."""

    fn = Sum(tmp_path, raises=[150], again=True)
    job = job_of(stream(tmp_path, fn), tmp_path, workers, 2, restarts=RestartStrategy(2, first_delay=0.01))
    with pytest.raises(PenstockError, match="150 is not liked.*Sum sum"):
        job.run()
    assert restarts_of(job) >= 2


def test_a_killed_worker_is_replaced_and_the_others_keep_their_state(tmp_path: pathlib.Path) -> None:
    """Of three keyed subtasks only the one of the killed process restarts, in another process."""
    workers = WorkersInProcesses(3, time_of_day)
    job = job_of(stream(tmp_path, Sum(tmp_path, dies=[150])), tmp_path, workers, 3)
    job.run()

    assert (expected(), 1) == (written(tmp_path), restarts_of(job))
    processes = setups(tmp_path)
    assert (4, 4) == (len(processes), len(set(processes)))


def test_several_workers_and_a_replacement_are_killed(tmp_path: pathlib.Path) -> None:
    """One after the other, and during a recovery."""
    fn = Sum(tmp_path, dies=[90, 91, 150, 211, 218], dies_in_setup=True)
    workers = WorkersInProcesses(2, time_of_day)
    job = job_of(stream(tmp_path, fn, gates=(40, 70, 100)), tmp_path, workers, 2)
    job.run()

    assert expected() == written(tmp_path)
    assert restarts_of(job) >= 4


@pytest.mark.parametrize("when", ["transactions", "manifest-"])
def test_a_worker_is_killed_during_a_checkpoint(tmp_path: pathlib.Path, when: str) -> None:
    """As one begins, which never completes, and as one is committed."""
    workers = WorkersInProcesses(2, time_of_day)
    disk, own, victims = FailingDisk(), os.getpid(), [(1, 0), (3, 1)]

    def before(path: str) -> None:
        if when in path and os.getpid() == own and victims and job.checkpoints_completed >= victims[0][0]:
            os.kill(workers.pids[victims.pop(0)[1]], signal.SIGKILL)

    disk.before = before
    job = job_of(stream(tmp_path, Sum(tmp_path), gates=(30, 60, 90)), tmp_path, workers, 2, disk=disk)
    job.run()

    assert (expected(), 2) == (written(tmp_path), restarts_of(job))


MANY = 1_200


def one_partition(directory: pathlib.Path, **settings: Any) -> Job:
    """Return a job that takes no checkpoint between the gate and the element that fails."""
    p, source = beam.Pipeline(), GatedSource(numbers_of(1, MANY), [80], directory / "kept")
    add_branch(p, directory, source, Sum(directory, raises=[600]))
    job = job_of(p, directory, WorkersInThisProcess(time_of_day), 2, interval=None, **settings)
    only_until_the_gate_is_open(job, directory)
    return job


@pytest.mark.parametrize("drops", [True, False])
def test_numbers_of_elements_prevent_duplicates(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, drops: bool
) -> None:
    """Without dropping repetitions the subtasks that kept their state have wrong sums, and the others right ones."""
    if not drops:
        monkeypatch.setattr(Slot, "subtask_type", SubtaskWithoutReplayDedup)
    one_partition(tmp_path).run()

    found = {key: total - expected(MANY)[key] for key, total in written(tmp_path).items()}
    assert drops is (not any(found.values()))
    assert all(more >= 0 for more in found.values())
    assert 0 in found.values()


def test_restarted_subtasks_catch_up_before_the_next_checkpoint(tmp_path: pathlib.Path) -> None:
    """A savepoint that is requested at the failure is resumed with another parallelism, without duplicates."""
    job = one_partition(tmp_path)
    restarted = job.context.status.restarted

    def stops_then(why: str) -> None:
        restarted(why)
        job.stop_with_savepoint()

    job.context.status.restarted = stops_then  # type: ignore[method-assign]
    job.run()
    before = written(tmp_path) if (tmp_path / "out.db").exists() else {}
    p, source = beam.Pipeline(), GatedSource(numbers_of(1, MANY), [80], tmp_path / "kept")
    add_branch(p, tmp_path, source, Sum(tmp_path, raises=[600]))
    again = job_of(p, tmp_path, WorkersInThisProcess(time_of_day), 3)
    again.run()

    assert (1, 0) == (restarts_of(job), restarts_of(again))
    assert ({}, expected(MANY)) == (before, written(tmp_path))


def test_spawned_workers_are_replaced(tmp_path: pathlib.Path) -> None:
    """Pipes are passed to processes with interpreters of their own."""
    workers = WorkersInProcesses(2, time_of_day, start_method="spawn")
    job = job_of(stream(tmp_path, Sum(tmp_path, dies=[150])), tmp_path, workers, 2)
    job.run()

    assert (expected(), 1) == (written(tmp_path), restarts_of(job))
    assert 3 == len(setups(tmp_path))
