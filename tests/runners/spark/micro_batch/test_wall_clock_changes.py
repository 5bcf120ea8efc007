"""Micro-batches while the wall clock is set.  Spark isn't needed: only the query reads the clock."""

from __future__ import annotations

import logging
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from support.pipelines.recording import Recording
from support.runners.micro_batches import BatchesInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import ProcessingTime
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.spark.micro_batch import query as micro_batch_query
from penstock.runners.spark.micro_batch.query import MicroBatchQuery, QuerySettings
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimeDomain, TimerSpec, on_timer

SECOND = 1_000_000
HOUR = 3_600 * SECOND


class Machine:
    """A wall clock, a monotonic clock, and a disk."""

    def __init__(self) -> None:
        self.steady = 0
        self.wall = 1_700_000_000 * SECOND
        self.disk = SimulatedDisk(Random(0))

    def sleep(self, seconds: float) -> None:
        self.steady += round(seconds * SECOND)
        self.wall += round(seconds * SECOND)
        assert self.steady < 60 * SECOND, "it stands still"


class Echo(beam.DoFn):
    """Outputs a number when it arrives, and again a second later when its timer fires."""

    NUMBER = ReadModifyWriteStateSpec("number", beam.coders.VarIntCoder())
    TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)

    def process(
        self, element: Any, number: Any = beam.DoFn.StateParam(NUMBER), timer: Any = beam.DoFn.TimerParam(TIMER)
    ):
        number.write(element[1])
        timer.set_relative(1)
        yield "came", element[1]

    @on_timer(TIMER)
    def fire(self, number: Any = beam.DoFn.StateParam(NUMBER)):
        yield "fired", number.read()


class Stopped(Exception):
    """The process has died."""


def run(machine: Machine, sink: Recording, set_at: dict[int, int], stop_at: int | None = None) -> list[int]:
    """Run numbers from 0 to 299, a hundred a second.

    Args:
      set_at: the change of the wall clock after the commit of a batch, by the batch's number.
      stop_at: the batch after whose commit the process dies.

    Returns the processing times of the batches.
    """
    p = beam.Pipeline("spark-microbatch")
    numbers = p | beam.io.GenerateSequence(0, 300, 100, 1)
    numbers | beam.Map(lambda n: (f"key {n}", n)) | beam.ParDo(Echo()) | beam.io.Write(sink)
    times = []

    def reached(point: str, number: int) -> None:
        if point == "after-plan":
            times.append(query._ahead.read().now)
        if point == "after-manifest":
            machine.wall += set_at.get(number, 0)
            if number == stop_at:
                raise Stopped

    clock = ProcessingTime(lambda: machine.wall, lambda: machine.steady)
    settings = QuerySettings(interval=SECOND // 2, reached=reached)
    store = SnapshotStore(machine.disk, "checkpoints")
    graph = cut(fuse(p.graph(), lambda *_: False), 2, by_level=True)
    session: Any = None
    query = MicroBatchQuery(graph, session, store, clock, settings, machine.sleep)
    with patch.object(
        micro_batch_query, "MicroBatches", lambda *given: BatchesInThisProcess(*given, lambda number: False)
    ):
        query.run()
    return times


def shown(sink: Recording) -> list[tuple[str, int]]:
    return sorted(change.value for change in sink.changes)


EXPECTED = sorted([("came", n) for n in range(300)] + [("fired", n) for n in range(300)])


def test_batches_continue_when_the_wall_clock_is_set_back_and_forward() -> None:
    """No batch has an earlier processing time than the one before, and numbers arrive at their rate."""
    machine, sink = Machine(), Recording()
    times = run(machine, sink, {2: -HOUR, 4: 2 * HOUR})

    assert EXPECTED == shown(sink)
    assert sorted(times) == times
    assert 6 <= len(times) <= 12


def test_a_stream_continues_from_the_time_of_its_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    """The wall clock is set back between two runs; the log has the time that the run continues from."""
    machine, sink = Machine(), Recording()
    try:
        run(machine, sink, {}, stop_at=3)
    except Stopped:
        machine.wall -= HOUR
    caplog.set_level(logging.INFO, "penstock")
    times = run(machine, sink, {})

    assert EXPECTED == shown(sink)
    assert times[0] > 1_700_000_000 * SECOND
    (line,) = [message for message in caplog.messages if "resumes from" in message]
    assert "checkpoints: resumes from batch 3, which is" in line
    assert "s old, with parallelism 2; GenerateSequence/Read(SequenceSource): 0 at (" in line
