"""The last reports of a worker, which arrive even if commands to it fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.workers.process_pool import WorkersInProcesses
from penstock.runners.local.workers.protocol import Drain, Failed
from penstock.runners.local.workers.slot import Start
from penstock.runners.local.workers.template import ForkedWorker


class FailsInSetup(beam.DoFn):
    """Fails when it is set up."""

    def setup(self) -> None:
        raise LookupError("no table")

    def process(self, element: int) -> Iterator[int]:
        yield element


@pytest.fixture
def workers() -> Iterator[WorkersInProcesses]:
    """Two worker processes."""
    workers = WorkersInProcesses(2, time_of_day)
    yield workers
    workers.end()


def test_the_error_of_a_worker_is_reported_after_a_command_to_it_has_failed(workers: WorkersInProcesses) -> None:
    """Regression test: only the broken pipe was reported."""
    p = beam.Pipeline()
    _ = p | beam.Create([1, 2]) | beam.ParDo(FailsInSetup())
    workers.start(cut(fuse(p.graph(), lambda *_: False), 2), Start(None, None, "", "aa", has_script=True))
    wait_until(lambda: workers.gone() == {0, 1}, "the end of both workers")

    workers.send(Drain())
    (_, report), *_ = workers.poll(10)

    assert isinstance(report, Failed)
    assert "no table" in str(report.error)


def test_workers_can_be_ended_again_after_an_interrupt(
    workers: WorkersInProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression test: a second Ctrl-C raised an error of closed processes."""
    p = beam.Pipeline()
    _ = p | beam.Create([1, 2]) | beam.Map(lambda n: n)
    workers.start(cut(fuse(p.graph(), lambda *_: False), 2), Start(None, None, "", "aa", has_script=True))
    pids = list(workers.pids)
    joined: list[int | None] = []
    join = ForkedWorker.join

    def interrupted(process: ForkedWorker, timeout: float | None = None) -> None:
        join(process, timeout)
        joined.append(process.pid)
        if len(joined) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ForkedWorker, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        workers.end()
    workers.end()

    assert [*pids, pids[1]] == joined
