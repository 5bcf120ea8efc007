"""(f) How long a subtask stands still for a snapshot of a million keys: all of them, and one in a hundred.

A DoFn with state keeps a sum of each key; the barrier comes between two bundles.  Measured is what
passes by the clock on the wall until the next bundle can be taken: as in a worker process, which forks.
A whole snapshot and one of which every key has changed are alike: everything is to be written.
"""

from __future__ import annotations

import gc
import tempfile
import time
from statistics import median

from streams import RunningSum
from timing import Quantity

import penstock as beam
from penstock.runners.execution.disk import disk_of
from penstock.runners.execution.execution_graph import whole
from penstock.runners.execution.fusion import fuse
from penstock.runners.execution.snapshot_store import SnapshotStore
from penstock.runners.local.channel import Channel
from penstock.runners.local.commands import Inject
from penstock.runners.local.messages import Barrier
from penstock.runners.local.slot import Slot, Start
from penstock.runners.local.subtask import SubtaskId

KEYS = 1_000_000
RUNS = 5


def pauses(share: float, directory: str) -> list[float]:
    """Milliseconds, of several snapshots, before each of which so many keys change."""
    changes = [(key, 1) for key in range(int(KEYS * share))]
    p = beam.Pipeline()
    _ = p | beam.Create([(key, 1) for key in range(KEYS)] + changes * RUNS) | beam.ParDo(RunningSum())
    store = SnapshotStore(disk_of(directory), directory)
    store.take_over()
    only, reports = SubtaskId(0, 0), []
    start = Start(store, None, "t-1", "t")
    graph = whole(fuse(p.graph(), lambda grouping: False))
    slot = Slot(graph, [only], start, Channel, lambda report: reports.append(report[1]), lambda: 0)
    slot.fork()
    slot.start()
    subtask = slot.subtasks[only]
    read, found = 0, []
    for epoch in range(1, RUNS + 2):
        wanted = KEYS if epoch == 1 else read + len(changes)
        while read < wanted and slot.step(only):
            read = subtask.injectors[0].positions()[0].offset
        store.begin(epoch)
        barrier = Barrier(epoch, is_whole=epoch == 1, epoch=epoch)
        gc.collect()
        before = time.perf_counter()
        slot.obey(Inject(barrier))
        pause = (time.perf_counter() - before) * 1000
        while slot.is_writing:
            time.sleep(0.01)
            slot.tick()
        part = next(report for report in reversed(reports) if hasattr(report, "part")).part
        store.commit(epoch, [part])
        # The first is whole, and of a share it isn't asked.
        if epoch > 1:
            found.append(pause)
    return found


def run() -> list[Quantity]:
    found = []
    for share in (0.01, 1.0):
        with tempfile.TemporaryDirectory() as directory:
            pause = median(pauses(share, directory))
        found.append(Quantity(f"(f) pause, a million keys, {share:.0%} changed", pause, 50, "ms"))
    return found
