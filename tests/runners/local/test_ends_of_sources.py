"""Ends of sources are reported at once and due timers fire, however busy the subtasks are."""

from __future__ import annotations

import pathlib
import time
from itertools import count

import pytest
from support.execution.subtasks import ByHand, graph_of

import penstock as beam
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.channels.channel import Channel, ChannelId
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.subtask.reports import Completed
from penstock.runners.local.workers.pool import Workers, WorkersInThisProcess, ids_of
from penstock.runners.local.workers.process_pool import WorkersInProcesses
from penstock.runners.local.workers.slot import Start
from penstock.sdk.elements.bundle import BUNDLE_SIZE


class TooManyError(Exception):
    """Raised after so many checkpoints if the job hasn't ended."""


class CountingStore(SnapshotStore):
    """Takes so many checkpoints, and no more."""

    most = 100

    def begin(self, epoch: int) -> None:
        if epoch > self.most:
            raise TooManyError
        super().begin(epoch)


@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
@pytest.mark.parametrize(("parallelism", "processes"), [(1, 1), (2, 1), (2, 2)])
def test_what_ends_does_so_when_the_next_checkpoint_is_always_due(
    tmp_path: pathlib.Path, mode: str, parallelism: int, processes: int
) -> None:
    """Each checkpoint starts as soon as the one before is complete, so no subtask is ever idle."""
    p = beam.Pipeline()
    numbers = p | beam.Create(list(range(3 * BUNDLE_SIZE)))
    _ = numbers | beam.Map(lambda n: (n % 3, n)) | beam.CombinePerKey(sum) | beam.io.WriteToText(str(tmp_path / "sums"))
    workers: Workers = (
        WorkersInThisProcess(time_of_day) if processes == 1 else WorkersInProcesses(processes, time_of_day)
    )
    settings = JobSettings(
        CheckpointSettings(interval=1, min_pause=0),
        unaligned=mode == "unaligned",
    )
    graph = cut(fuse(p.graph(), lambda *_: False), parallelism)

    store = CountingStore(LocalDisk(), str(tmp_path / "kept"))
    # How many turns a process has meanwhile is for the machine to say.
    store.most *= 1 if processes == 1 else 10

    job = Job(graph, workers, settings, BarrierDelivery(store), time_of_day, time.sleep)
    job.run()

    assert "DONE" == job.state
    sums = [line for file in tmp_path.glob("sums*") for line in file.read_text().splitlines()]
    assert sorted(str((key, sum(range(key, 3 * BUNDLE_SIZE, 3)))) for key in range(3)) == sorted(sums)


def test_the_end_of_a_source_is_a_step() -> None:
    """It doesn't wait for an idle moment."""
    subtasks = ByHand(graph_of(lambda p: p | beam.Create([1, 2]) | beam.Map(print), parallelism=1))
    steps = []
    while subtasks[0, 0].step():
        steps.append([type(news) for _, news in subtasks.reports])
    assert [[], [Completed]] == steps


def test_what_time_makes_due_is_done_while_others_are_busy() -> None:
    """A window ends in which nothing more comes, in a slot of which another subtask never has nothing to do."""
    p = beam.Pipeline()
    _ = p | "Busy" >> beam.io.GenerateSequence(0) | "Drop" >> beam.Filter(lambda n: False)
    quiet = p | "Quiet" >> beam.io.GenerateSequence(0, 10**9, 1, 3600, start_time=0)
    windowed = quiet | beam.WindowInto(beam.window.FixedWindows(1)) | beam.Map(lambda n: ("key", n))
    _ = windowed | "Sum" >> beam.CombinePerKey(sum)
    graph = cut(fuse(p.graph(), lambda *_: False), parallelism=2)
    times = count(0, 10_000)
    channels: dict[ChannelId, Channel] = {}

    def channel(id: ChannelId) -> Channel:
        return channels.setdefault(id, Channel(id))

    start = Start(None, None, "", "attempt")
    slot = start.slot_type(graph, ids_of(graph), start, channel, lambda report: None, lambda: next(times))
    slot.start()
    for _ in range(100):
        # It is never idle.
        assert slot.work()
    watermarks = slot.counted().watermarks
    slot.abandon()
    assert watermarks["Sum"] > 1_000_000
