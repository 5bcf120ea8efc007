"""Workers that hang, and those that are merely slow."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.local.workers.heartbeats import BEAT, SILENCE, Heartbeats


def started(directory: pathlib.Path, **flags: Any) -> Any:
    """A stream on two workers, whose numbers go to a table."""
    options = PipelineOptions(parallelism=2, checkpoint_interval=0.1, checkpoint_dir=str(directory / "kept"), **flags)
    p = beam.Pipeline(options=options)
    numbers = p | beam.io.GenerateSequence(0, None, 200, 1, partitions=2) | beam.Map(lambda n: {"n": n})
    _ = numbers | beam.io.WriteToSQLite(directory / "out.db", "numbers", columns=["n"], count_column="times")
    return p.run()


def rows(directory: pathlib.Path) -> list[Any]:
    """The rows of the table.

    To be called when the job has ended: forked workers would inherit the connection.
    """
    connection = sqlite3.connect(directory / "out.db")
    try:
        return connection.execute("SELECT n, times FROM numbers ORDER BY n").fetchall()
    finally:
        connection.close()


def wait_for_checkpoints(result: Any, n: int) -> None:
    """Until there are so many more."""
    before = result._job.checkpoints_completed
    wait_until(lambda: result._job.checkpoints_completed >= before + n, f"{n} checkpoints")


def said_of(pid: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines about a worker: on a busy machine another one may miss heartbeats for a moment."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if f"(pid {pid})" in message]


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Process ids that are to be continued at the end, whatever happens."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def test_a_worker_that_is_stopped_is_named_killed_and_recovered_from(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, stopped: list[int]
) -> None:
    """First a warning with its pid; after --worker_timeout another worker does its work, and nothing comes twice."""
    result = started(tmp_path, worker_timeout=2)
    wait_for_checkpoints(result, 1)
    pid = result._job.context.workers.pids[1]
    stopped.append(pid)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: said_of(pid, caplog), "a warning")
    wait_until(lambda: len(said_of(pid, caplog)) > 1, "its end")
    wait_for_checkpoints(result, 3)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    result.drain()

    name = re.escape(f"worker 1 (pid {pid})")
    expected = [
        rf"{name} sends no heartbeat; it is killed after 2 s \(--worker_timeout\)",
        rf"The pipeline failed, and restarts in 0\.1 s: {name} hangs: no heartbeat for 2\.\d s .*",
    ]
    # Behind them is what recovery has to say.
    messages = said_of(pid, caplog)[:2]
    assert [True, True] == [bool(re.fullmatch(*pair)) for pair in zip(expected, messages, strict=True)]
    assert {1} == {times for _, times in rows(tmp_path)}


def test_a_worker_that_goes_on_in_time_is_left_alone(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, stopped: list[int]
) -> None:
    """Its return is logged as well."""
    result = started(tmp_path, worker_timeout=60)
    wait_for_checkpoints(result, 1)
    pids = result._job.context.workers.pids
    stopped.append(pids[0])
    os.kill(pids[0], signal.SIGSTOP)
    wait_until(lambda: said_of(pids[0], caplog), "a warning")
    os.kill(pids[0], signal.SIGCONT)
    wait_until(lambda: len(said_of(pids[0], caplog)) > 1, "the news of its return")
    wait_for_checkpoints(result, 2)
    assert pids == result._job.context.workers.pids
    result.drain()
    assert f"worker 0 (pid {pids[0]}) sends heartbeats again" == said_of(pids[0], caplog)[1]


class Slow(beam.DoFn):
    """Takes as long as it is let: until there is a file of that name."""

    def __init__(self, goes_on: pathlib.Path) -> None:
        self.goes_on = goes_on

    def process(self, element: int) -> Iterator[int]:
        self.goes_on.with_name(f"begun-{os.getpid()}").touch()
        wait_until(self.goes_on.exists, "leave to go on")
        yield element


def test_user_code_that_is_slow_is_left_alone(tmp_path: pathlib.Path) -> None:
    """Its worker is heard all the while, for longer than one that is silent is warned of, and stays."""
    options = PipelineOptions(parallelism=2, worker_timeout=60)
    p = beam.Pipeline(options=options)
    _ = p | beam.io.GenerateSequence(0, None, 100, 1, partitions=2) | beam.ParDo(Slow(tmp_path / "goes-on"))
    result = p.run()
    workers = result._job.context.workers
    wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, "two workers in user code")
    pids, before = workers.pids, beats_of(workers)
    enough = round(2 * SILENCE / BEAT)
    wait_until(
        lambda: all(now - then > enough for then, now in zip(before, beats_of(workers), strict=True)), "heartbeats"
    )
    assert pids == workers.pids
    (tmp_path / "goes-on").touch()
    assert "DRAINED" == result.drain()


def beats_of(workers: Any) -> list[int]:
    """How often the job has seen each worker's heart beat."""
    return [count for count, _ in workers._beats._seen]


def test_a_monitor_that_was_stopped_itself_reports_no_hung_worker() -> None:
    """When the whole process group was stopped, as by Ctrl-Z, all begin anew."""
    now = 0.0
    beats = Heartbeats(2, clock=lambda: now)
    beats.beat(0)
    beats.beat(1)
    assert [0.0, 0.0] == beats.silences()
    now = 100.0
    assert [0.0, 0.0] == beats.silences()
    now = 100.4
    beats.beat(1)
    assert [100.4 - 100.0, 0.0] == beats.silences()


def test_a_worker_that_has_not_begun_is_waited_for() -> None:
    """Importing what a pipeline needs may take a while."""
    now = 0.0
    beats = Heartbeats(1, clock=lambda: now)
    found = set()
    while now < 100:
        now += 0.4
        found.update(beats.silences())
    assert {0.0} == found
