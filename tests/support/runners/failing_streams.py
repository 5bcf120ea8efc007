"""A stream in which a subtask fails at an element, always after a checkpoint, on any machine."""

from __future__ import annotations

import os
import pathlib
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import penstock as beam
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.workers.pool import Workers
from penstock.sdk.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from penstock.testing import ScriptedSource

# So many that every subtask has some.
KEYS = 40

# After everything, in seconds.
LATE = 1_000_000


class GatedSource(ScriptedSource[int]):
    """Numbers with gates: a reader passes a gate once a checkpoint that began at the gate is complete.

    Args:
      numbers: of each partition.
      gates: how many elements of each partition come before each gate.
      checkpoints: the directory where checkpoints are.
    """

    def __init__(self, numbers: Sequence[Sequence[int]], gates: Sequence[int], checkpoints: pathlib.Path) -> None:
        super().__init__([[beam.window.TimestampedValue(n, i) for i, n in enumerate(own)] for own in numbers])
        self._gates = tuple(gates)
        self._checkpoints = checkpoints

    def open(self, partition: int, offset: int | None) -> Any:
        reader = super().open(partition, offset)
        poll = reader.poll

        def gated(max_elements: int, now: Any) -> Any:
            offset = reader.offset()
            passed = sum(gate <= offset for gate in self._gates)
            if not self._is_open(passed, partition):
                return None
            # No poll reads past the next gate.
            return poll(min([max_elements, *(gate - offset for gate in self._gates if gate > offset)]), now)

        reader.poll = gated  # type: ignore[method-assign]
        return reader

    def _is_open(self, passed: int, partition: int) -> bool:
        """Whether a checkpoint is complete that began after a reader reached the last gate."""
        if not passed:
            return True
        mark = self._checkpoints.parent / f"gate-{partition}-{passed}"
        newest = newest_epoch(self._checkpoints)
        if not mark.exists():
            # The next one may have begun already.
            mark.write_text(str(newest + 2))
        return newest >= int(mark.read_text() or 1 << 30)


def newest_epoch(checkpoints: pathlib.Path) -> int:
    """Return the epoch of the newest checkpoint, or 0 without one."""
    return max((int(path.name.split("-")[1]) for path in checkpoints.glob("manifest-*")), default=0)


def once(directory: pathlib.Path, what: str) -> bool:
    """Whether this is the first call for `what`, in any process."""
    try:
        os.close(os.open(directory / f"once-{what}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Sum(beam.DoFn):
    """Emit the sum of each key at the end; fail once at some elements.

    Args:
      directory: for the files that record set-ups and failures.
      label: says whose it is.
      raises, dies: elements at which it raises, or its process is killed.
      again: whether it raises each time that it comes there.
      dies_in_setup: whether the process that takes the place of the first one killed is killed too.
    """

    TOTAL = CombiningValueStateSpec("total", sum)
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def __init__(
        self,
        directory: pathlib.Path,
        label: str = "sum",
        raises: Sequence[int] = (),
        dies: Sequence[int] = (),
        dies_in_setup: bool = False,
        again: bool = False,
    ) -> None:
        self.directory = directory
        self.label = label
        self.raises = frozenset(raises)
        self.dies = frozenset(dies)
        self.dies_in_setup = dies_in_setup
        self.again = again

    def setup(self) -> None:
        with open(self.directory / f"setups-{self.label}", "a") as file:
            file.write(f"{os.getpid()}\n")
        has_died = any((self.directory / f"once-{self.label}-{n}").exists() for n in self.dies)
        if self.dies_in_setup and has_died and once(self.directory, f"{self.label}-setup"):
            os.kill(os.getpid(), signal.SIGKILL)

    def process(
        self,
        element: tuple[int, int],
        total: Any = beam.DoFn.StateParam(TOTAL),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        _, number = element
        if number in self.raises and (self.again or once(self.directory, f"{self.label}-{number}")):
            raise ValueError(f"{number} is not liked")
        if number in self.dies and once(self.directory, f"{self.label}-{number}"):
            os.kill(os.getpid(), signal.SIGKILL)
        total.add(number)
        end.set(LATE)

    @on_timer(END)
    def tell(self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(TOTAL)) -> Any:
        yield {"key": key, "sum": total.read()}


def setups(directory: pathlib.Path, label: str = "sum") -> list[int]:
    """Return the processes in which the DoFn was set up, in order."""
    path = directory / f"setups-{label}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def numbers_of(partitions: int = 2, count: int = 240) -> list[list[int]]:
    """Return the partitions of a source, each number once."""
    return [list(range(start, count, partitions)) for start in range(partitions)]


def add_branch(p: beam.Pipeline, directory: pathlib.Path, source: Any, fn: Sum) -> None:
    """Add a source, a shuffle, sums and a table."""
    label = fn.label
    numbers = p | f"Read {label}" >> beam.io.Read(source)
    keyed = numbers | f"Key {label}" >> beam.Map(lambda n: (n % KEYS, n))
    totals = keyed | f"Sum {label}" >> beam.ParDo(fn)
    _ = totals | f"Write {label}" >> beam.io.WriteToSQLite(
        directory / "out.db", f"table_{label}", ["key"], columns=["key", "sum"]
    )


def job_of(p: beam.Pipeline, directory: pathlib.Path, workers: Workers, parallelism: int, **settings: Any) -> Job:
    """Return a job with region recovery and a checkpoint every `interval` microseconds."""
    disk = settings.pop("disk", None) or LocalDisk()
    interval = settings.pop("interval", 100_000)
    return Job(
        cut(fuse(p.graph(), lambda *_: False), parallelism),
        workers,
        JobSettings(
            CheckpointSettings(interval, min_pause=20_000),
            **{"restarts": RestartStrategy(6, first_delay=0.01), "recovers_regions": True, **settings},
        ),
        BarrierDelivery(SnapshotStore(disk, str(directory / "kept"))),
        time_of_day,
        time.sleep,
    )


def only_until_the_gate_is_open(job: Job, directory: pathlib.Path) -> None:
    """Request savepoints until one has opened the gate of partition 0."""

    def again(answer: Any = None) -> None:
        mark = directory / "gate-0-1"
        if not mark.exists() or newest_epoch(directory / "kept") < int(mark.read_text() or 1 << 30):
            job.take_savepoint(again)

    again()


def written(directory: pathlib.Path, label: str = "sum") -> dict[int, int]:
    """Return the committed sums."""
    connection = sqlite3.connect(directory / "out.db")
    try:
        return dict(connection.execute(f"SELECT key, sum FROM table_{label}"))
    finally:
        connection.close()


def expected(count: int = 240) -> dict[int, int]:
    """Return the sums expected at the end."""
    totals: Counter[int] = Counter()
    for n in range(count):
        totals[n % KEYS] += n
    return dict(totals)
