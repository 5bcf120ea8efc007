"""(f) How long a subtask stands still for a snapshot of a million keys: all of them, and one in a hundred.

A DoFn with state keeps a sum of each key; the barrier comes between two bundles.  Measured is the CPU time, the
kernel's for the fork included, until the next bundle can be taken: other work on the machine counts no more than
in the other benchmarks.  The clock on the wall is shown beside it, without a limit.
"""

from __future__ import annotations

import gc
import tempfile
import time
from statistics import median

from harness.streams import RunningSum
from harness.timing import Figure, Figures, Quantity, Result

import penstock as beam
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import SubtaskId, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.channels.channel import Channel
from penstock.runners.local.channels.messages import Barrier
from penstock.runners.local.workers.protocol import Inject
from penstock.runners.local.workers.slot import Slot, Start
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.sources.bounded import ValuesSource

KEYS = 1_000_000
RUNS = 5


def _in_bundles(keys: int) -> int:
    """The elements of so many keys, in whole bundles: a source gives no less."""
    return -(-keys // BUNDLE_SIZE) * BUNDLE_SIZE


def pauses(share: float, directory: str) -> list[tuple[float, float]]:
    """Milliseconds of CPU time, and by the clock, of several snapshots, before each of which so many keys change."""
    changed = int(KEYS * share)
    all_keys, changes = _in_bundles(KEYS), _in_bundles(changed)

    def element(n: int) -> tuple[int, int]:
        return (n % KEYS, 1) if n < all_keys else ((n - all_keys) % changes % changed, 1)

    p = beam.Pipeline()
    # Not a list: the fork would copy the tables of its pages, too.
    numbers = p | beam.io.Read(ValuesSource(range(all_keys + changes * RUNS)))
    _ = numbers | beam.Map(element) | beam.ParDo(RunningSum())
    store = SnapshotStore(disk_of(directory), directory)
    store.take_over()
    only, reports = SubtaskId(0, 0), []
    start = Start(store, None, "t-1", "t")
    graph = whole(fuse(p.graph(), lambda *_: False))
    slot = Slot(graph, [only], start, Channel, lambda report: reports.append(report[1]), lambda: 0)
    slot.write_in_background()
    slot.start()
    subtask = slot.subtasks[only]
    read, wanted, found = 0, all_keys, []
    for epoch in range(1, RUNS + 2):
        wanted += changes if epoch > 1 else 0
        while read < wanted and slot.step(only):
            read = subtask.readers[0].positions()[0].offset
        store.begin(epoch)
        barrier = Barrier(epoch, is_whole=epoch == 1, epoch=epoch)
        gc.collect()
        before, began = time.process_time(), time.perf_counter()
        slot.obey(Inject(barrier))
        pause = (time.process_time() - before) * 1000, (time.perf_counter() - began) * 1000
        while slot.is_writing:
            time.sleep(0.01)
            slot.tick()
        part = next(report for report in reversed(reports) if hasattr(report, "part")).part
        store.commit(epoch, [part])
        # The first is whole, and of a share it isn't asked.
        if epoch > 1:
            found.append(pause)
    return found


def run() -> list[Result]:
    found: list[Result] = []
    for share in (0.01, 1.0):
        with tempfile.TemporaryDirectory() as directory:
            cpu, wall = map(median, zip(*pauses(share, directory), strict=True))
        found.append(Quantity(f"(f) pause, a million keys, {share:.0%} changed", cpu, 50, "ms"))
        found.append(Figures(f"{share:.0%}", {"CPU": Figure(cpu, "ms"), "wall": Figure(wall, "ms")}, "changed keys"))
    return found
