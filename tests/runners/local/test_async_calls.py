"""Calls of async DoFns in a stream: in flight across checkpoints, kills, rescalings and the end of a stream.

`Asking` holds some calls until a file exists, so that they are certainly in flight when a checkpoint is taken.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording
from support.programs.running_program import wait_until
from support.runners.failing_streams import GatedSource, Sum, expected, job_of, numbers_of, once, written

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.clock import StepClock, time_of_day
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.channels.messages import Barrier, BarrierKind
from penstock.runners.local.job.failover_region import why_not_repeatable
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.runners.local.workers.pool import WorkersInThisProcess
from penstock.runners.local.workers.process_pool import WorkersInProcesses
from penstock.sdk.runner import PipelineState
from penstock.testing import ScriptedSource, assert_that, equal_to
from penstock.windowing import FixedWindows, TimestampedValue

# Held from before the gate of `stream` until a call fails behind it.
HELD = (10, 25, 31)

# Checkpoints that don't wait for calls.
UNALIGNED = {"unaligned": True, "recovers_regions": False}


class Asking(beam.DoFn):
    """Answers each number with itself, later.

    Args:
      directory: where it logs calls; `go` there releases held calls.
      held: the numbers whose calls are held.
      dies, raises: the numbers at which, once, its process is killed, or it raises; both release held calls.
    """

    concurrency = 8

    def __init__(
        self,
        directory: pathlib.Path,
        held: Sequence[int] = HELD,
        dies: Sequence[int] = (),
        raises: Sequence[int] = (),
        ordered: bool | str = False,
    ) -> None:
        self.directory = directory
        self.held = held
        self.dies = dies
        self.raises = raises
        self.ordered = ordered

    async def process(self, n: int) -> AsyncIterator[int]:
        with open(self.directory / "calls", "a") as file:
            file.write(f"{n}\n")
        go = self.directory / "go"
        while n in self.held and not go.exists():
            await asyncio.sleep(0.002)
        if n in self.dies and once(self.directory, f"call-{n}"):
            go.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if n in self.raises and once(self.directory, f"call-{n}"):
            go.touch()
            raise ConnectionError(f"no answer to {n}")
        await asyncio.sleep(0.0005)
        yield n


def calls(directory: pathlib.Path) -> Counter[int]:
    return Counter(int(line) for line in (directory / "calls").read_text().split())


def stream(directory: pathlib.Path, asking: Asking) -> beam.Pipeline:
    """Numbers, with a gate behind the sixtieth; answers; sums of keys in a table."""
    p = beam.Pipeline()
    source = GatedSource(numbers_of(), [30], directory / "kept")
    answers = p | beam.io.Read(source) | "Ask" >> beam.ParDo(asking)
    totals = answers | beam.Map(lambda n: (n % 40, n)) | "Sum" >> beam.ParDo(Sum(directory))
    _ = totals | beam.io.WriteToSQLite(directory / "out.db", "table_sum", ["key"], columns=["key", "sum"])
    return p


def test_elements_in_flight_are_called_again_after_a_worker_is_killed(tmp_path: pathlib.Path) -> None:
    """They were part of the checkpoint; each result is there once."""
    pipeline, workers = stream(tmp_path, Asking(tmp_path, dies=[150])), WorkersInProcesses(2, time_of_day)
    job = job_of(pipeline, tmp_path, workers, 2, **UNALIGNED)
    job.run()

    assert (expected(), 1) == (written(tmp_path), job.status.restarts)
    assert {2} == {calls(tmp_path)[n] for n in HELD}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_elements_in_flight_are_called_again_with_another_parallelism(tmp_path: pathlib.Path, parallelism: int) -> None:
    """After a failure, whose error has the label of the transform."""
    workers = WorkersInThisProcess(time_of_day)
    asking = stream(tmp_path, Asking(tmp_path, raises=[150]))
    first = job_of(asking, tmp_path, workers, 2, restarts=RestartStrategy(0), **UNALIGNED)
    with pytest.raises(ConnectionError, match="no answer to 150 .*while running 'Ask'"):
        first.run()
    before = calls(tmp_path)
    second = job_of(stream(tmp_path, Asking(tmp_path)), tmp_path, WorkersInThisProcess(time_of_day), parallelism)
    second.run()

    assert expected() == written(tmp_path)
    assert ({1}, {2}) == ({before[n] for n in HELD}, {calls(tmp_path)[n] for n in HELD})


class Slow(beam.DoFn):
    """Answers each number with itself, after a time that depends on it."""

    concurrency = 20

    def __init__(self, marker: pathlib.Path | None = None) -> None:
        self.marker = marker

    async def process(self, n: int) -> list[int]:
        await asyncio.sleep(0.001 * (n % 7))
        if self.marker is not None and n == 150 and once(self.marker, "failure"):
            raise ConnectionError(n)
        return [n]


@pytest.mark.parametrize(
    "options",
    [{"checkpoint_mode": "unaligned"}, {"delivery": "strong"}, {"delivery": "weak"}, {"parallelism": 1}],
    ids=str,
)
def test_each_result_is_there_once_in_every_mode(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    """Although a call fails, and its stream restarts."""
    given = {"parallelism": 2, "checkpoint_interval": 0.05, "checkpoint_dir": str(tmp_path / "kept"), **options}
    recording = Recording()
    with beam.Pipeline(options=PipelineOptions([], restart_delay=0.01, **given)) as p:
        numbers = p | beam.io.GenerateSequence(0, 200, 1000, 1, partitions=2)
        _ = numbers | beam.ParDo(Slow(tmp_path)) | beam.Map(lambda n: n) | beam.io.Write(recording)
    assert list(range(200)) == sorted(change.value for change in recording.changes)
    assert not once(tmp_path, "failure")


def test_a_window_closes_only_when_its_calls_have_ended(tmp_path: pathlib.Path) -> None:
    """The watermark waits for them, so that no answer is late; windows before it close."""

    async def answer(n: int) -> int:
        while n == 5 and not (tmp_path / "closed-0").exists():
            await asyncio.sleep(0.002)
        return n

    def close(n: int, window: Any = beam.DoFn.WindowParam) -> tuple[float, int]:
        (tmp_path / f"closed-{float(window.start):g}").touch()
        return float(window.start), n

    source = ScriptedSource([[TimestampedValue(n, n) for n in (0, 1, 5, 6, 12)]])
    recording = Recording()
    with beam.Pipeline() as p:
        answers = p | beam.io.Read(source) | beam.AsyncMap(answer)
        sums = answers | beam.WindowInto(FixedWindows(4)) | beam.CombineGlobally(sum).without_defaults()
        _ = sums | beam.Map(close) | beam.io.Write(recording)
    assert [(0.0, 1), (4.0, 11), (12.0, 12)] == [change.value for change in recording.changes]


def test_a_drained_stream_ends_when_its_calls_have_ended(tmp_path: pathlib.Path) -> None:
    """All answers to what was read are there."""
    recording = Recording()
    p = beam.Pipeline(options=PipelineOptions([], checkpoint_dir=str(tmp_path / "kept")))
    numbers = p | beam.io.GenerateSequence(0, None, 200, 1)
    asking = Asking(tmp_path, held=(10, 11))
    _ = numbers | beam.ParDo(asking) | beam.io.Write(recording)
    result = p.run()
    wait_until(lambda: (tmp_path / "calls").exists() and calls(tmp_path)[12], "the calls")
    timer = threading.Timer(0.3, (tmp_path / "go").touch)
    timer.start()
    assert PipelineState.DRAINED == result.drain()

    found = sorted(change.value for change in recording.changes)
    assert list(range(len(found))) == found
    assert len(found) > 12


def test_elements_wait_for_calls_and_no_more_than_twice_the_concurrency_are_started(tmp_path: pathlib.Path) -> None:
    """The rest is pending: it is in the snapshot, and the subtask takes no input meanwhile."""
    asking = Asking(tmp_path, held=range(100))
    asking.concurrency = 2

    def build(p: Any) -> None:
        source = ScriptedSource([[TimestampedValue(n, n) for n in range(30)]])
        _ = p | beam.io.Read(source) | "Ask" >> beam.ParDo(asking) | beam.io.Write(Recording())

    jobs = ByHand(graph_of(build, 1), step_clock=StepClock())
    subtask = jobs[0, 0]
    wait_until(lambda: subtask.step() is False and (tmp_path / "calls").exists(), "the calls")
    time.sleep(0.05)
    assert ([0, 1], True, False) == (sorted(calls(tmp_path)), subtask.execution.has_pending, subtask.step())
    jobs.inject(Barrier(1, BarrierKind.UNALIGNED, transaction="1"))
    (kept,) = [chunk.data for chunk in jobs.chunks[subtask.id] if chunk.kind == "left"]
    assert list(range(len(kept))) == [row[0] for row in kept]
    assert 4 < len(kept) < 30
    (tmp_path / "go").touch()
    wait_until(lambda: (subtask.step(), subtask.tick(), subtask.is_complete())[2], "the end")
    jobs.inject(Barrier(2, transaction="2"))
    assert list(range(30)) == sorted(jobs.written())
    subtask.stop()


def test_an_aligned_barrier_waits_for_the_calls_before_it(tmp_path: pathlib.Path) -> None:
    """Their outputs are in the transaction that it ends; meanwhile the source reads nothing more."""
    asking = Asking(tmp_path, held=(3,))

    def build(p: Any) -> None:
        source = ScriptedSource([[TimestampedValue(n, n) for n in range(5)]], at_a_time=5)
        _ = p | beam.io.Read(source) | "Ask" >> beam.ParDo(asking) | beam.io.Write(Recording())

    jobs = ByHand(graph_of(build, 1), step_clock=StepClock())
    subtask = jobs[0, 0]
    wait_until(lambda: (subtask.step(), (tmp_path / "calls").exists() and len(calls(tmp_path)) == 5)[1], "the calls")
    barrier = Barrier(1, transaction="1")
    subtask.expect(barrier)
    jobs.inject(barrier)
    for _ in range(5):
        subtask.step()
    assert {} == jobs.chunks
    (tmp_path / "go").touch()
    wait_until(lambda: (subtask.step(), bool(jobs.chunks))[1], "the snapshot")
    assert list(range(5)) == sorted(jobs.written())
    assert [] == [chunk for chunk in jobs.chunks[subtask.id] if chunk.kind == "left"]
    subtask.stop()


def test_a_task_with_async_calls_is_not_repeatable() -> None:
    """Its outputs may come in another order, so that receivers can't drop repetitions by their numbers."""
    p = beam.Pipeline()
    read = p | beam.io.Read(ScriptedSource([[TimestampedValue(1, 1)]]))
    _ = read | "Ask" >> beam.ParDo(Slow()) | beam.Map(lambda n: (n, n)) | beam.ParDo(Sum(pathlib.Path()))
    why = why_not_repeatable(cut(fuse(p.graph()), 2))
    assert {0: "the calls of Ask may end in another order when they are repeated"} == why


def test_calls_are_cancelled_and_their_thread_ends_with_a_failed_run() -> None:
    """Those that hang too."""

    async def call(n: int) -> None:
        if n:
            raise ConnectionError(n)
        await asyncio.sleep(1000)

    for options in ({}, {"parallelism": 1, "max_restarts": 0}):
        p = beam.Pipeline(options=PipelineOptions([], **options))
        _ = p | (beam.io.GenerateSequence(0, 2, 1000, 1) if options else beam.Create([0, 1])) | beam.ParDo(call)
        with pytest.raises(ConnectionError):
            p.run().wait_until_finish()
        assert "async-calls" not in [thread.name for thread in threading.enumerate()]


def test_a_loop_with_an_async_step_ends() -> None:
    """Feedback waits for the calls."""

    async def less(n: int) -> int:
        await asyncio.sleep(0.001)
        return n - 1

    with beam.Pipeline() as p:
        numbers = p | beam.Create([3, 50, 7])
        done = numbers | beam.Feedback(beam.AsyncMap(less), until=lambda n: n % 5 == 0)
        assert_that(done, equal_to([0, 45, 5]))


def test_a_simulation_with_async_calls_has_one_trace_for_each_seed() -> None:
    """With faults, and with calls that end in another order each time."""
    p = beam.Pipeline()
    numbers = p | beam.io.Read(ScriptedSource([[TimestampedValue(n, n) for n in range(s, 20, 2)] for s in range(2)]))
    answers = numbers | beam.ParDo(Slow()) | beam.Map(lambda n: (n % 3, n)) | beam.WindowInto(FixedWindows(10))
    _ = answers | beam.CombinePerKey(sum) | beam.io.Write(Recording())
    simulation = Simulation(p.graph(), SimulationSettings())
    for seed in range(3):
        assert simulation.run(seed) == simulation.run(seed)
