"""A killed worker is replaced, and resumes from its logs; the others continue."""

from __future__ import annotations

import os
import pathlib
import time
from multiprocessing import Pipe

import pytest
from support.runners.failing_streams import Sum, add_branch, expected, numbers_of, setups, written

import penstock as beam
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.sinks.committer import committing_often
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.productions.delivery import ProductionDelivery
from penstock.runners.local.productions.directory import Productions
from penstock.runners.local.workers.pool import Workers
from penstock.runners.local.workers.process_pool import WorkersInProcesses
from penstock.runners.local.workers.processes import WorkerDied
from penstock.runners.local.workers.protocol import FencedEndpoint
from penstock.sdk.runner import PipelineState
from penstock.testing import ScriptedSource


def job_of(directory: pathlib.Path, fn: Sum, workers: Workers, parallelism: int) -> Job:
    """Return a job that sums a stream with strong productions."""
    p = beam.Pipeline()
    numbers = [[beam.window.TimestampedValue(n, i) for i, n in enumerate(own)] for own in numbers_of()]
    add_branch(p, directory, ScriptedSource(numbers), fn)
    return Job(
        cut(fuse(committing_often(p.graph()), lambda *_: False), parallelism),
        workers,
        JobSettings(restarts=RestartStrategy(8, first_delay=0.01)),
        ProductionDelivery(Productions(LocalDisk(), str(directory / "kept"))),
        time_of_day,
        time.sleep,
    )


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_killed_worker_is_replaced_and_the_others_continue(
    tmp_path: pathlib.Path, start_method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of three keyed subtasks only the one of the killed process restarts, in another process."""
    job = job_of(tmp_path, Sum(tmp_path, dies=[150]), WorkersInProcesses(3, time_of_day, start_method=start_method), 3)
    job.run()

    assert (PipelineState.DONE, expected(), 1) == (job.state, written(tmp_path), job.status.restarts)
    processes = setups(tmp_path)
    assert (4, 4) == (len(processes), len(set(processes)))
    assert os.getpid() not in processes
    assert "2 of its 6 subtasks resume from their logs" in caplog.text


def test_several_workers_and_a_replacement_are_killed(tmp_path: pathlib.Path) -> None:
    """One after the other, and during a recovery."""
    fn = Sum(tmp_path, dies=[90, 91, 150, 211, 218], dies_in_setup=True)
    job = job_of(tmp_path, fn, WorkersInProcesses(2, time_of_day), 2)
    job.run()

    assert (PipelineState.DONE, expected()) == (job.state, written(tmp_path))
    assert 6 == len(list(tmp_path.glob("once-*")))
    # Both workers may be killed before one restart replaces them.
    assert job.status.restarts >= 3


def test_reports_of_the_others_are_processed_before_a_worker_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """They don't repeat them: the job would wait for a lost acknowledgement for ever."""
    ours, theirs = Pipe()
    workers = WorkersInProcesses(1, time_of_day)
    monkeypatch.setattr(workers, "_controls", [ours])
    monkeypatch.setattr(workers, "_endpoints", [FencedEndpoint("aa")])
    theirs.send(FencedEndpoint("aa").message((None, "news")))

    def listen(stopped: object) -> None:
        raise WorkerDied("worker 0 hangs", 0)

    monkeypatch.setattr(workers, "_check_heartbeats", listen)

    assert [(None, "news")] == workers.poll(10)
    with pytest.raises(WorkerDied, match="worker 0 hangs"):
        workers.poll(0)
