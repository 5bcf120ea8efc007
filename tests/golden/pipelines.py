"""Pipelines whose checkpoints are kept under `files`: interrupted by `write.py`, resumed by the tests.

A pipeline must stay as it is: its checkpoints were written by earlier versions.  A new kind of state gets a new one.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import attrs
from support.runners.micro_batches import RunnerInThisProcess
from support.runners.restartable_streams import Crash

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.control_requests import Answer
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.execution_graph import cut, whole
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.sinks.committer import SinkCommitter, committing_often
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.local.job.barrier_delivery import BarrierDelivery
from penstock.runners.local.job.checkpoint_coordinator import CheckpointSettings
from penstock.runners.local.job.context import JobSettings
from penstock.runners.local.job.job import Job
from penstock.runners.local.job.restart_strategy import RestartStrategy
from penstock.runners.local.productions.delivery import ProductionDelivery
from penstock.runners.local.productions.directory import Productions
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.runners.spark.micro_batch.commit_log import Reached
from penstock.runners.spark.micro_batch.unbounded_source import Admission
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from penstock.testing import ScriptedSource
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import (
    Duration,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    Timestamp,
)

# Numbers with their times in seconds, in two partitions.
NUMBERS = [[beam.window.TimestampedValue(2 * i + part, i) for i in range(80)] for part in range(2)]


@dataclasses.dataclass(frozen=True)
class Note:
    """A value of a user's own."""

    text: str
    at: Timestamp


class Remember(beam.DoFn):
    """Keeps state of each kind, and puts it out when its timer fires."""

    BAG, SET, MAP = BagStateSpec("bag"), SetStateSpec("set"), MapStateSpec("map")
    MEAN, LIST = CombiningValueStateSpec("mean", beam.combiners.MeanCombineFn()), OrderedListStateSpec("list")
    LAST, END = ReadModifyWriteStateSpec("last"), TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        bag: Any = beam.DoFn.StateParam(BAG),
        set: Any = beam.DoFn.StateParam(SET),
        map: Any = beam.DoFn.StateParam(MAP),
        mean: Any = beam.DoFn.StateParam(MEAN),
        list: Any = beam.DoFn.StateParam(LIST),
        last: Any = beam.DoFn.StateParam(LAST),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        _, n = element
        at = Timestamp(n // 2)
        bag.add(Note(f"number {n}", at))
        set.add(n % 7)
        map.put(n % 3, IntervalWindow(at, at + Duration(1)))
        mean.add(n)
        list.add((at, beam.Row(n=n)))
        known = last.read()
        last.write((max(n, 0 if known is None else known[0]), Duration(5)))
        end.set(1_000_000)

    @on_timer(END)
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        set: Any = beam.DoFn.StateParam(SET),
        map: Any = beam.DoFn.StateParam(MAP),
        mean: Any = beam.DoFn.StateParam(MEAN),
        list: Any = beam.DoFn.StateParam(LIST),
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Iterator[Any]:
        notes = sorted((note.text, float(note.at)) for note in bag.read())
        # Which of the numbers of a key was the last to come is the runner's business.
        windows = sorted((k, type(v).__name__) for k, v in map.items())
        rows = [(float(at), row.n) for at, row in list.read()]
        yield "state", key, (notes, sorted(set.read()), windows, mean.read(), rows, str(last.read()))


class Unsure(beam.DoFn):
    """Declared not to be deterministic, so that its outputs are kept."""

    deterministic = False

    def process(self, element: Any) -> Iterator[Any]:
        yield element


def key(n: int) -> tuple[str, int]:
    return f"key {n % 5}", n


def row(found: tuple[str, Any, Any]) -> dict[str, str]:
    what, of, value = found
    return {"what": what, "key": str(of), "value": str(value)}


def line(found: tuple[str, Any, Any]) -> str:
    return json.dumps(row(found))


def grew(n: int) -> int:
    return n * 2


def is_large(n: int) -> bool:
    return n >= 1000


@attrs.frozen
class Label:
    """Makes of a key and a value what is written."""

    what: str

    def __call__(self, pair: Any) -> tuple[str, Any, Any]:
        return self.what, pair[0], sorted(pair[1]) if isinstance(pair[1], list) else pair[1]


def below(pair: Any, limits: Any) -> tuple[str, Any]:
    return pair[0], (pair[1], len(limits))


def windows(numbers: Any) -> Any:
    """Fixed windows with early panes that are retracted, sessions, sliding windows, a side input, kept outputs."""
    pairs = numbers | "Key" >> beam.Map(key)
    early = beam.WindowInto(
        FixedWindows(20), trigger=AfterWatermark(early=AfterCount(3)), accumulation_mode=AccumulationMode.RETRACTING
    )
    fixed = pairs | "Fixed" >> early | "Sum" >> beam.CombinePerKey(sum) | "Unsure" >> beam.ParDo(Unsure())
    sessions = pairs | "Sessions" >> beam.WindowInto(Sessions(4)) | "Group" >> beam.GroupByKey()
    sliding = pairs | "Sliding" >> beam.WindowInto(SlidingWindows(30, 10)) | "Mean" >> beam.combiners.Mean.PerKey()
    in_tens = numbers | "Tens" >> beam.WindowInto(FixedWindows(10))
    sums = pairs | "By ten" >> beam.WindowInto(FixedWindows(10)) | "Count" >> beam.combiners.Count.PerKey()
    aside = sums | "Below" >> beam.Map(below, beam.pvalue.AsList(in_tens))
    found = {"fixed": fixed, "sessions": sessions, "sliding": sliding, "aside": aside}
    labelled = {what: own | f"Label {what}" >> beam.Map(Label(what)) for what, own in found.items()}
    return [
        own | f"Global {what}" >> beam.WindowInto(GlobalWindows()) for what, own in labelled.items()
    ] | beam.Flatten()


def state(numbers: Any) -> Any:
    """State of each kind, and timers."""
    return numbers | "Key" >> beam.Map(key) | "Remember" >> beam.ParDo(Remember())


def loop(numbers: Any) -> Any:
    """Numbers that go round in a loop, and are grouped behind it."""
    large = numbers | "Positive" >> beam.Filter(bool) | "Grow" >> beam.Feedback(beam.Map(grew), until=is_large)
    pairs = large | "Key" >> beam.Map(key) | beam.WindowInto(FixedWindows(20))
    return pairs | "Sum" >> beam.CombinePerKey(sum) | "Label" >> beam.Map(Label("loop"))


def to_table(rows: Any, directory: pathlib.Path) -> None:
    columns = ["what", "key", "value"]
    sink = beam.io.WriteToSQLite(directory / "out.db", "rows", columns=columns, count_column="n")
    _ = rows | "Row" >> beam.Map(row) | "Table" >> sink


def to_text(rows: Any, directory: pathlib.Path) -> None:
    _ = rows | "Line" >> beam.Map(line) | "Text" >> beam.io.WriteToText(str(directory / "out" / "lines"))


def to_both(rows: Any, directory: pathlib.Path) -> None:
    to_table(rows, directory)
    to_text(rows, directory)


@attrs.frozen
class Golden:
    """A pipeline, and how it is run.

    Attributes:
      name: that of its file.
      build: what it computes of the numbers.
      write: where the results go.
      runner: "barriers", "productions" or "batches".
      commits: it is interrupted in the commit of this number, or in this batch at `point`.
      point: one of the `commit_points` of a batch.
      parallelisms: of the runs that resume it.
      savepoint: it is cancelled behind a savepoint instead, which is taken after so many commits.
      kinds: chunks that have to be in its snapshots.
    """

    name: str
    build: Callable[[Any], Any]
    write: Callable[[Any, pathlib.Path], None]
    runner: str
    commits: int
    point: str | None = None
    parallelisms: tuple[int, ...] = (2,)
    bounded: bool = False
    unaligned: bool = False
    state_memory: int | None = None
    savepoint: bool = False
    kinds: frozenset[str] = frozenset()

    def pipeline(self, directory: pathlib.Path) -> beam.Pipeline:
        """Return the pipeline, with its results in a directory."""
        p = beam.Pipeline()
        self._onto(p, directory)
        return p

    def _onto(self, p: Any, directory: pathlib.Path) -> None:
        bounded = beam.Create([number for numbers in NUMBERS for number in numbers])
        source = bounded if self.bounded else beam.io.Read(ScriptedSource(NUMBERS))
        self.write(self.build(p | "Read" >> source), directory)

    def run(
        self,
        directory: pathlib.Path,
        parallelism: int = 2,
        seed: int = 5,
        reached: Reached | None = None,
        visit: Callable[[Any], None] = lambda job: None,
    ) -> None:
        """Run to the end, from what is in the directory.

        Args:
          visit: called with a streaming job between two steps of its workers.
        """
        if self.runner == "batches":
            store = SnapshotStore(LocalDisk(), str(directory / "kept"))
            runner = RunnerInThisProcess(
                parallelism, self.state_memory, store=store, admission=Admission(records=20), reached=reached
            )
            p = beam.Pipeline(runner, options=PipelineOptions([]))
            self._onto(p, directory)
            p.run()
            return
        world = SimulatedWorld(seed, Faults())
        graph = self.pipeline(directory).graph()
        # A savepoint of productions is resumed by a job with barriers.
        is_barriers = self.runner == "barriers" or any((directory / "kept").glob("manifest-*"))
        plan = fuse(graph if is_barriers else committing_often(graph), lambda *_: False)
        execution_graph = whole(plan) if parallelism == 1 else cut(plan, parallelism)
        job: Any = None
        workers = SimulatedWorkers(parallelism, world, lambda: visit(job))
        kept = str(directory / "kept")
        if is_barriers:
            settings = JobSettings(
                CheckpointSettings(interval=1_000, min_pause=0),
                unaligned=self.unaligned,
                restarts=RestartStrategy(0),
                state=None if self.state_memory is None else StateSettings(self.state_memory),
            )
            store = SnapshotStore(LocalDisk(), kept)
            job = Job(execution_graph, workers, settings, BarrierDelivery(store), world.clock, world.sleep)
        else:
            productions = Productions(LocalDisk(), kept)
            settings = JobSettings(restarts=RestartStrategy(0))
            job = Job(execution_graph, workers, settings, ProductionDelivery(productions), world.clock, world.sleep)
        job.run()

    def interrupt(self, directory: pathlib.Path, seed: int = 5) -> None:
        """Run until a commit of sinks, in which the process dies."""
        commits = 0

        def dies(self_: Any, *arguments: Any) -> Any:
            nonlocal commits
            commits += 1
            if commits >= self.commits and self.point is None:
                raise Crash
            return own(self_, *arguments)

        def reached(point: str, number: int) -> None:
            if (point, number) == (self.point, self.commits):
                raise Crash

        answers: list[Answer] = []

        def cancelled_behind_a_savepoint(job: Any) -> None:
            if any(answer.is_done for answer in answers):
                job.cancel()
            elif job.checkpoints_completed == self.commits:
                job.take_savepoint(answers.append)

        if self.savepoint:
            self.run(directory, seed=seed, visit=cancelled_behind_a_savepoint)
            assert any(answer.is_done for answer in answers), answers
            if self.runner == "productions":
                # Only the savepoint is kept, without the logs.
                (directory / "kept" / "savepoints").rename(directory / "savepoints")
                shutil.rmtree(directory / "kept")
                (directory / "savepoints").rename(directory / "kept")
            return
        own = SinkCommitter.commit
        with patch.object(SinkCommitter, "commit", dies):
            try:
                self.run(directory, seed=seed, reached=reached)
            except Crash:
                return
        raise AssertionError(f"{self.name}: it ended after {commits} commits")


GOLDEN = [
    Golden(
        "windows, aligned",
        windows,
        to_table,
        "barriers",
        5,
        parallelisms=(2, 1, 3),
        kinds=frozenset({"windows", "outputs", "side input"}),
    ),
    Golden(
        "windows, unaligned",
        windows,
        to_table,
        "barriers",
        5,
        parallelisms=(2, 1),
        unaligned=True,
        kinds=frozenset({"by key on its way"}),
    ),
    Golden(
        "state, aligned", state, to_text, "barriers", 3, parallelisms=(2, 3), kinds=frozenset({"state", "set timers"})
    ),
    Golden("state, bounded", state, to_both, "barriers", 2, bounded=True),
    Golden("state, ended", state, to_text, "productions", 1, bounded=True),
    Golden("loop", loop, to_table, "barriers", 4),
    # With the file of sinks, windows of a side input that were freed, and numbers of outputs that no subtask has twice.
    Golden("windows, freed", windows, to_table, "barriers", 5, parallelisms=(2, 1, 3), kinds=frozenset({"side input"})),
    Golden("windows, savepoint", windows, to_table, "barriers", 1, parallelisms=(2, 3), savepoint=True),
    Golden("savepoint of productions", windows, to_table, "productions", 3, parallelisms=(2, 3), savepoint=True),
    Golden("windows, productions", windows, to_table, "productions", 4, parallelisms=(2, 3)),
    Golden("state, productions", state, to_both, "productions", 1),
    Golden("windows, batches", windows, to_table, "batches", 4, parallelisms=(2, 3)),
    Golden("windows, planned batch", windows, to_table, "batches", 5, "before-state"),
    Golden("state, batches", state, to_text, "batches", 8, "before-publication"),
    Golden("state, spilled", state, to_table, "batches", 6, "before-manifest", state_memory=2_000),
    Golden("state, tables", state, to_text, "barriers", 3, parallelisms=(2, 3, 1), state_memory=2_000),
    Golden("windows, tables", windows, to_table, "barriers", 5, parallelisms=(2, 3, 1), state_memory=2_000),
    Golden("windows, tables of batches", windows, to_table, "batches", 4, parallelisms=(2, 3), state_memory=2_000),
    Golden("timers, tables", state, to_text, "barriers", 3, parallelisms=(2, 3, 1), state_memory=2_000),
    Golden("window runs, tables", windows, to_table, "barriers", 5, parallelisms=(2, 3, 1), state_memory=2_000),
]


def results(directory: pathlib.Path) -> list[list[Any]]:
    """Return what the sinks have, in order."""
    found: list[list[Any]] = []
    if (directory / "out.db").exists():
        connection = sqlite3.connect(directory / "out.db")
        try:
            found += map(list, connection.execute("SELECT what, key, value, n FROM rows"))
        finally:
            connection.close()
    for path in sorted((directory / "out").glob("lines*")):
        found += [list(json.loads(text).values()) for text in path.read_text().splitlines()]
    return sorted(found)
