"""The pipeline that is killed: two groupings, the second over retractions, into tables and files.

    python killed_pipeline.py --start_time=1700000000 --numbers=2000 --rate=1000 --checkpoint_dir=kept ...

With `--die=POINT:N` whichever process comes to a point for its Nth time kills itself there, once in all starts in
this directory.  Points are wrapped around the disk and the sink here; the library knows nothing of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import penstock as beam
from penstock.io.sql.staging import TableSinkWriter
from penstock.io.sql.table_sink import TableSink
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import Disk, LocalDisk
from penstock.runners.execution.spilling.rocksdb import SpillDatabase
from penstock.runners.local import launch as streaming

# Seconds: the windows of the first grouping, and of the second.
FIRST, SECOND = 0.1, 0.5
KEYS = 7

# Where a process can kill itself.
WORKER_POINTS = ("before-part", "within-part", "after-part", "before-stage", "after-stage", "restoring")
# With --state_backend=rocksdb as well.
TABLE_POINTS = ("before-links", "after-links", "before-table", "after-table", "fetching")
COORDINATOR_POINTS = (
    "before-manifest",
    "after-manifest",
    "before-transactions",
    "after-transactions",
    "before-prepare",
    "after-prepare",
    "before-commit",
    "after-commit",
    "before-abort",
    "after-abort",
    "removing",
)


class Death:
    """A point at which to kill the process, and the number of times to reach it."""

    def __init__(self, where: str | None) -> None:
        point, _, count = (where or "").partition(":")
        self._point = point
        self._left = int(count or 1)

    def come_to(self, point: str) -> None:
        """Kill this process at the Nth time that the point is reached, unless another process has died before."""
        if point != self._point:
            return
        self._left -= 1
        if self._left > 0:
            return
        try:
            died = os.open("died", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return
        # The test reads the process id from this file.
        os.write(died, str(os.getpid()).encode())
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyDisk(LocalDisk):
    """A disk that kills the process before, after, or during a write."""

    def __init__(self, death: Death) -> None:
        self._death = death

    def __setstate__(self, state: dict[str, Any]) -> None:
        # It has arrived in a worker.
        vars(self).update(state)
        make_writers_deadly(self._death)

    def write_atomically(self, path: str, content: Any) -> None:
        name = os.path.basename(path)
        kind = "part" if "/files/" in path else name.partition("-")[0]
        self._death.come_to(f"before-{kind}")
        if not isinstance(content, bytes):
            content = self._torn(content)
        super().write_atomically(path, content)
        self._death.come_to(f"after-{kind}")

    def take_in(self, source: str, path: str) -> None:
        self._death.come_to("before-table")
        super().take_in(source, path)
        self._death.come_to("after-table")

    def give_out(self, path: str, target: str, is_shared: bool = False) -> None:
        super().give_out(path, target, is_shared)
        self._death.come_to("fetching")

    def remove(self, *paths: str) -> None:
        for path in paths:
            super().remove(path)
            self._death.come_to("removing")

    def open(self, path: str) -> Any:
        if "/files/" in path:
            self._death.come_to("restoring")
        return super().open(path)

    def _torn(self, content: Iterable[bytes]) -> Iterator[bytes]:
        for piece in content:
            yield piece
            self._death.come_to("within-part")


def deadly(action: Callable[..., Any], name: str, death: Death) -> Callable[..., Any]:
    """Wrap a method so that the process may die before and after it."""

    def method(*arguments: Any) -> Any:
        death.come_to(f"before-{name}")
        result = action(*arguments)
        death.come_to(f"after-{name}")
        return result

    return method


def make_deadly(death: Death) -> None:
    """Wrap the disk and the sinks of this program; the disk wraps the writers of sinks in workers."""

    def disk_of(path: str) -> Disk:
        return DeadlyDisk(death)

    streaming.disk_of = disk_of  # type: ignore[attr-defined]
    for name in ("prepare", "commit", "abort"):
        setattr(TableSink, name, deadly(getattr(TableSink, name), name, death))
    make_writers_deadly(death)


def make_writers_deadly(death: Death) -> None:
    """Wrap the writers of sinks in this process."""
    TableSinkWriter.stage = deadly(TableSinkWriter.stage, "stage", death)  # type: ignore[method-assign]
    SpillDatabase.links = deadly(SpillDatabase.links, "links", death)  # type: ignore[method-assign]


def build(p: beam.Pipeline, start_time: int, numbers: int, rate: int, directory: str = ".") -> None:
    """Numbers at a rate; their sums by key and window; how many sums there are by remainder; and the numbers."""
    database = os.path.join(directory, "out.db")
    all_numbers = p | beam.io.GenerateSequence(0, numbers, rate, 1, partitions=3, start_time=start_time)
    _ = (
        all_numbers
        | "Row" >> beam.Map(lambda n: {"n": n})
        | "Numbers" >> beam.io.WriteToSQLite(database, "numbers", columns=["n"], count_column="times")
    )
    by_key = all_numbers | "Key" >> beam.Map(lambda n: (n % KEYS, n))
    sums = (
        by_key
        | "Early" >> beam.WindowInto(beam.window.FixedWindows(FIRST), **corrected(4))
        | "Sum" >> beam.CombinePerKey(sum)
    )
    key = ["key", "window_start"]
    _ = sums | "Sums" >> beam.io.WriteToSQLite(database, "sums", key, columns=["key", "sum"], with_window=True)
    _ = (
        sums
        | "Remainder" >> beam.MapTuple(lambda key, total: (total % 3, total))
        | "Coarse" >> beam.WindowInto(beam.window.FixedWindows(SECOND), **corrected(3))
        | "Count" >> beam.combiners.Count.PerKey()
        | "Counts"
        >> beam.io.WriteToSQLite(
            database, "counts", ["remainder", "window_start"], columns=["remainder", "n"], with_window=True
        )
    )
    _ = (
        by_key
        | "On time" >> beam.WindowInto(beam.window.FixedWindows(FIRST))
        | "Sum on time" >> beam.CombinePerKey(sum)
        | "Line" >> beam.MapTuple(lambda key, total, w=beam.DoFn.WindowParam: f"{w.start.micros} {key} {total}")
        | "Files" >> beam.io.WriteToText(os.path.join(directory, "sums"), ".txt")
    )


def corrected(early: int) -> dict[str, Any]:
    """A trigger with early panes, which are retracted."""
    trigger = beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(early))
    return {"trigger": trigger, "accumulation_mode": beam.trigger.AccumulationMode.RETRACTING}


class KillOptions(PipelineOptions):
    """Options of the pipeline and of the kill."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--start_time", type=int)
        parser.add_argument("--numbers", type=int)
        parser.add_argument("--rate", type=int)
        parser.add_argument("--die")


def main() -> None:
    """Run until all numbers are processed."""
    options = PipelineOptions(sys.argv[1:])
    own = options.view_as(KillOptions)
    make_deadly(Death(own.die))
    with beam.Pipeline(options=options) as p:
        build(p, own.start_time, own.numbers, own.rate)
    print("ended:", p.result.state, flush=True)


if __name__ == "__main__":
    main()
