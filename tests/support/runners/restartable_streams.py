"""A stream that restarts in one directory, with a real table and checkpoints on a disk with injected faults."""

from __future__ import annotations

import pathlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import penstock as beam
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import cut, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.testing import ScriptedSource


class Crash(BaseException):
    """Raised in place of the death of the process; a BaseException, so that the process can't handle it."""


class FailingDisk(LocalDisk):
    """Calls `before` with each path that is to be written, and `midway` when half of its first piece has been.

    When either has raised `Crash`, nothing works any more.  Both are for the process that has made it; in a worker
    nothing fails.
    """

    def __init__(self) -> None:
        self.before: Callable[[str], None] = lambda path: None
        self.midway: Callable[[str], None] = lambda path: None
        self.is_gone = False

    def __reduce__(self) -> tuple[Any, ...]:
        return FailingDisk, ()

    def write_atomically(self, path: str, content: Any) -> None:
        self._alive()
        self._call(self.before, path)
        super().write_atomically(path, content if isinstance(content, bytes) else self._pieces(path, content))

    def _pieces(self, path: str, content: Any) -> Iterator[bytes]:
        for i, piece in enumerate(content):
            yield piece[: len(piece) // 2]
            if i == 0:
                self._call(self.midway, path)
            yield piece[len(piece) // 2 :]

    def _call(self, hook: Callable[[str], None], path: str) -> None:
        try:
            hook(path)
        except Crash:
            self.is_gone = True
            raise

    def _alive(self) -> None:
        if self.is_gone:
            raise Crash

    def open(self, path: str) -> BinaryIO:
        self._alive()
        return super().open(path)

    def list(self, directory: str) -> list[str]:
        self._alive()
        return super().list(directory)


# Numbers with their times in seconds, in two partitions.
NUMBERS = [
    [beam.window.TimestampedValue(2 * i, i) for i in range(150)],
    [beam.window.TimestampedValue(2 * i + 1, i) for i in range(150)],
]


def sums(p: beam.Pipeline, label: str = "Sum") -> Any:
    """Sums by remainder and window."""
    numbers = p | "Read" >> beam.io.Read(ScriptedSource(NUMBERS))
    keyed = numbers | "Key" >> beam.Map(lambda n: (n % 4, n))
    return keyed | beam.WindowInto(beam.window.FixedWindows(10)) | label >> beam.CombinePerKey(sum)


class Stream:
    """Sums into a table.

    Attributes:
      disk: what the next start has its checkpoints on.
      starts: how often workers were started.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.checkpoints = directory / "kept"
        self.starts = 0

    def pipeline(self, label: str = "Sum") -> beam.Pipeline:
        """The sums, written; the last step's label may be another."""
        p = beam.Pipeline()
        key = ["key", "window_start"]
        path = self.directory / "out.db"
        _ = sums(p, label) | "Write" >> beam.io.WriteToSQLite(
            path, "sums", key, columns=["key", "sum"], with_window=True
        )
        return p

    def job(
        self, parallelism: int = 2, pipeline: beam.Pipeline | None = None, restarts: int = 0, **settings: Any
    ) -> Job:
        """Return a job that is ready to start, with a new disk as in a new process."""
        self.disk = FailingDisk()
        world = self.world = SimulatedWorld(5, Faults())
        plan = fuse((self.pipeline() if pipeline is None else pipeline).graph(), lambda *_: False)
        workers = SimulatedWorkers(parallelism, world)
        start = workers.start

        def counted(*arguments: Any) -> None:
            self.starts += 1
            start(*arguments)

        workers.start = counted  # type: ignore[method-assign]
        graph = whole(plan) if parallelism == 1 else cut(plan, parallelism)
        settings = {"restarts": RestartStrategy(restarts)} | settings
        return Job(
            graph,
            workers,
            JobSettings(CheckpointSettings(interval=1_000, min_pause=0), **settings),
            BarrierDelivery(SnapshotStore(self.disk, str(self.checkpoints))),
            world.clock,
            world.sleep,
        )

    def crash_after(self, checkpoints: int, **options: Any) -> None:
        """Run until so many checkpoints are complete, and crash during the next one."""
        job = self.job(**options)

        def before(path: str) -> None:
            if "manifest-" in path and job.checkpoints_completed == checkpoints:
                raise Crash

        self.disk.before = before
        try:
            job.run()
        except Crash:
            return
        raise AssertionError(f"it ended after {job.checkpoints_completed} checkpoints")

    def manifests(self) -> list[pathlib.Path]:
        """The newest first."""
        return sorted(self.checkpoints.glob("manifest-*"), reverse=True)

    def files(self) -> list[pathlib.Path]:
        """Return the snapshot files that only the newest checkpoint uses."""
        epoch = self.manifests()[0].name.split("-")[1]
        return sorted((self.checkpoints / "files").glob(f"{epoch}-*"))

    def rows(self) -> list[tuple[int, int, int]]:
        """Return the committed rows."""
        connection = sqlite3.connect(self.directory / "out.db")
        try:
            return sorted(connection.execute("SELECT window_start, key, sum FROM sums"))
        finally:
            connection.close()

    def expected(self) -> list[tuple[int, int, int]]:
        """Return the rows expected at the end."""
        found: Counter[tuple[int, int]] = Counter()
        for partition in NUMBERS:
            for number in partition:
                found[number.timestamp.micros // 10_000_000 * 10_000_000, number.value % 4] += number.value
        return sorted((start, key, total) for (start, key), total in found.items())
