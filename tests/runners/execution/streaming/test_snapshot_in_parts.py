"""Snapshots in two parts: what may be serialized later is the state of the barrier, whatever comes meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.checkpoints.store import Tables
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.snapshot import snapshot, snapshot_in_parts
from penstock.runners.execution.streaming.snapshot_chunks import Chunk, Origin, chunks_of, records_of
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.execution.streaming.tables import OpenTables
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.coders.key_encoding import KEY_GROUPS
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
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
from penstock.testing import TestStream
from penstock.windowing import IntervalWindow

# Enough keys for columns of their own.
KEYS = 1_000


class Longest(beam.CombineFn):
    """Keeps all numbers in a list that it changes in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], number: int) -> list[int]:
        accumulator.append(number)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [number for accumulator in accumulators for number in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return accumulator


class Keep(beam.DoFn):
    """Every kind of state, some values of which user code changes after it has written them."""

    ONE = ReadModifyWriteStateSpec("one")
    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    MAP = MapStateSpec("map")
    LIST = OrderedListStateSpec("list")
    ALL = CombiningValueStateSpec("all", Longest())
    LATER = TimerSpec("later", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        one: Any = beam.DoFn.StateParam(ONE),
        bag: Any = beam.DoFn.StateParam(BAG),
        all_of: Any = beam.DoFn.StateParam(ALL),
        own: Any = beam.DoFn.StateParam(SET),
        mapped: Any = beam.DoFn.StateParam(MAP),
        listed: Any = beam.DoFn.StateParam(LIST),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> None:
        _, number = element
        held = one.read() or []
        held.append(number)
        one.write(held)
        held.append("not written")
        bag.add([number])
        all_of.add(number)
        own.add(number)
        mapped.put("newest", [number])
        listed.add((number, number))
        later.set(8 + number)
        if number == 2:
            own.clear()

    @on_timer(LATER)
    def at_time(self) -> None:
        pass


def program(state: StateSettings | None) -> TaskProgram:
    """Sums and lists in windows, and keyed state."""
    p = beam.Pipeline()
    pairs = p | TestStream().add_elements([("a", 1)]) | beam.WindowInto(beam.window.FixedWindows(10))
    pairs | "Sums" >> beam.CombinePerKey(sum) | "Write sums" >> beam.io.Write(Recording())
    pairs | "Lists" >> beam.CombinePerKey(Longest()) | "Write lists" >> beam.io.Write(Recording())
    pairs | "Keep" >> beam.ParDo(Keep()) | "Write kept" >> beam.io.Write(Recording())
    graph = cut(fuse(p.graph(), lambda *_: False), 1, by_level=True)
    return TaskProgram(graph.plan, graph.tasks[1], Clock(0), MetricsContainer(), Counts(), "t", state=state)


def take(execution: TaskProgram, number: int, keys: Iterable[int] = range(KEYS)) -> None:
    """A number for each key."""
    for edge in execution.task.inputs:
        pairs = [(f"key {key}", number) for key in keys]
        execution.receiver(edge)(Bundle(pairs, 5_000_000, (IntervalWindow(0, 10),)))
    execution.spill_excess()


def contents(chunks: Iterable[Chunk]) -> list[Any]:
    return sorted(
        (chunk.kind, chunk.label, repr(record)) for chunk in chunks if chunk.group is not None for record in chunk.data
    )


def on_disk(execution: TaskProgram, is_whole: bool) -> tuple[Iterator[Chunk], Tables | None]:
    return (iter(()), None) if execution.backend is None else execution.backend.snapshot(is_whole)


def entries(tables: Tables | None) -> list[Chunk]:
    if tables is None:
        return []
    with contextlib.closing(OpenTables(tables.directory, Origin("here"))) as opened:
        return list(opened.decoded(range(KEY_GROUPS)))


@pytest.mark.parametrize("state", [None, StateSettings(100_000)], ids=["memory", "rocksdb"])
def test_later_chunks_are_those_of_the_barrier(state: StateSettings | None) -> None:
    """Of a whole snapshot, and of changes."""
    one, other = program(state), program(state)
    for number, is_whole in enumerate([True, False, False], 1):
        some = range(0, KEYS, number)
        take(one, number, some)
        take(other, number, some)
        known = contents(chunks_of(records_of(snapshot(one, is_whole))))
        spilled, tables = on_disk(one, is_whole)
        known_on_disk = contents([*spilled, *entries(tables)])

        now, later = snapshot_in_parts(other, is_whole)
        found = list(records_of(now))
        spilled, tables = on_disk(other, is_whole)
        take(other, 10 * number)
        take(one, 10 * number)
        assert known == contents(chunks_of([*found, *records_of(later)]))
        assert known_on_disk == contents([*spilled, *entries(tables)])
        assert len(known) + len(known_on_disk) > 3 * KEYS / number
    for each in (one, other):
        each.close_backend()
