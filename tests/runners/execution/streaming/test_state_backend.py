"""State backend: a task has no more in memory than it may, also while a snapshot is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.snapshot import Restored, snapshot
from penstock.runners.execution.streaming.snapshot_chunks import chunks_of, records_of
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import BagStateSpec
from penstock.testing import TestStream
from penstock.windowing import IntervalWindow

LIMIT = 100_000
KEYS = 2_000


class Remember(beam.DoFn):
    """Keeps what comes."""

    BAG = BagStateSpec("bag")

    def process(self, element: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> None:
        bag.add(element[1])


class Task:
    """The second half of a pipeline of one grouping and one stateful ParDo, with so much memory."""

    def __init__(self) -> None:
        p = beam.Pipeline()
        pairs = p | TestStream().add_elements([("a", 1)]) | beam.WindowInto(beam.window.FixedWindows(10))
        pairs | beam.CombinePerKey(sum) | beam.io.Write(Recording())
        pairs | "remember" >> beam.ParDo(Remember()) | "write" >> beam.io.Write(Recording())
        graph = cut(fuse(p.graph(), lambda *_: False), 1, by_level=True)
        self.task = graph.tasks[1]
        self.execution = TaskProgram(
            graph.plan, self.task, Clock(0), MetricsContainer(), Counts(), "t", state=StateSettings(LIMIT)
        )
        assert self.execution.backend is not None
        self.backend = self.execution.backend

    def take(self, keys: range) -> None:
        """A bundle on each edge."""
        for start in range(keys.start, keys.stop, 100):
            for edge in self.task.inputs:
                pairs = [(f"key {n}", n) for n in range(start, min(start + 100, keys.stop))]
                self.execution.receiver(edge)(Bundle(pairs, 5_000_000, (IntervalWindow(0, 10),)))
                self.backend.spill_excess()

    def in_memory(self) -> int:
        """How many windows and cells."""
        (grouping,), (keyed,) = self.execution.groupings.values(), self.execution.keyed.values()
        assert grouping.windows is not None
        return len(grouping.windows.table) + len(keyed.executor.state)

    def records(self, is_whole: bool) -> Iterator[bytes]:
        self.backend.remeasure()
        yield from records_of(snapshot(self.execution, is_whole))
        for chunk in self.backend.chunks(is_whole):
            yield from records_of([chunk])


@pytest.fixture
def tasks() -> Iterator[list[Task]]:
    tasks = [Task(), Task()]
    yield tasks
    for task in tasks:
        task.execution.close_backend()


def test_there_is_never_more_in_memory_than_there_may_be(tasks: list[Task]) -> None:
    """While keys come, while a whole snapshot and one of changes are written, and while they are read."""
    one, other = tasks
    one.take(range(KEYS))
    few = one.in_memory()
    assert 0 < few < KEYS / 4
    assert [KEYS, KEYS] == list(one.execution.kept().values())

    files: list[list[bytes]] = [[], []]
    for record in one.records(True):
        files[0].append(record)
        assert few >= one.in_memory()
    one.take(range(10, 20))
    files[1] += one.records(False)
    assert sum(map(len, files[1])) < sum(map(len, files[0])) / 10

    restored = Restored(0, 1, backend=other.backend)
    restored.add([chunks_of(file) for file in files], 0, 1)
    assert 2 * few > other.in_memory()
    restored.into(other.execution)
    other.backend.remeasure()
    assert 2 * few > other.in_memory()

    def contents(task: Task) -> list[Any]:
        chunks = chunks_of(task.records(True))
        return sorted((c.kind, c.label, repr(record)) for c in chunks if c.group is not None for record in c.data)

    assert contents(one) == contents(other)


def test_the_least_recently_used_entries_are_spilled_first(tasks: list[Task]) -> None:
    """The newest entries stay in memory."""
    task, _ = tasks
    task.take(range(KEYS))
    task.take(range(5))
    (grouping,) = task.execution.groupings.values()
    assert grouping.windows is not None
    here = {state.key for state in grouping.windows.table.all()}
    assert {f"key {n}" for n in range(5)} <= here
    assert "key 1000" not in here
