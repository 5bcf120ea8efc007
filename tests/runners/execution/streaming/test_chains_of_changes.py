"""A snapshot and the changes after it say what a snapshot would: of timers, side inputs and remembered outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import ExecutionGraph, whole
from penstock.runners.execution.plan.fusion import Stage, fuse
from penstock.runners.execution.shuffle.partitioner import owner
from penstock.runners.execution.stages.recorded_outputs import OutputMemory
from penstock.runners.execution.stages.side_inputs import SideInputContents
from penstock.runners.execution.state.timers import EVENT_TIME, PROCESSING_TIME
from penstock.runners.execution.streaming.snapshot import Restored, forget_changes, snapshot, weight
from penstock.runners.execution.streaming.snapshot_chunks import (
    CLOCKS,
    MEMORY,
    TIMERS,
    VIEW,
    Chunk,
    chunks_of,
    labels_of,
    records_of,
)
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.coders.key_encoding import key_group
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, GlobalWindows, IntervalWindow

# As long as no more of it changes than there is.
KEYS = 300

Chain = list[list[Chunk]]


def graph_of(build: Callable[[Any], Any]) -> ExecutionGraph:
    """The pipeline that a function builds, as one task."""
    pipeline = beam.Pipeline()
    build(pipeline)
    return whole(fuse(pipeline.graph(), lambda *_: False))


def execution_of(graph: ExecutionGraph) -> TaskProgram:
    """Its task at work."""
    (task,) = graph.tasks
    return TaskProgram(graph.plan, task, Clock(), MetricsContainer(), Counts(), "run-1")


def cut(execution: TaskProgram, is_whole: bool) -> list[Chunk]:
    """A snapshot, as it comes back from a disk."""
    return list(chunks_of(list(records_of(snapshot(execution, is_whole)))))


def entries(chunks: list[Chunk]) -> dict[str, int]:
    """How many entries there are of each kind that isn't there always."""
    found: defaultdict[str, int] = defaultdict(int)
    for chunk in chunks:
        if chunk.kind == MEMORY:
            found[chunk.kind] += sum(len(outputs.removed) + len(outputs.added) for _, outputs in chunk.data)
        elif chunk.kind == VIEW:
            found[chunk.kind] += sum(len(values) for _, _, values, _ in chunk.data)
        elif chunk.kind != CLOCKS:
            found[chunk.kind] += len(chunk.data)
    return {kind: number for kind, number in found.items() if number}


# --- Timers


class Alarms(beam.DoFn):
    """Sets and clears the alarms that its elements name."""

    EVENT, CLOCK = TimerSpec("event", beam.TimeDomain.WATERMARK), TimerSpec("clock", beam.TimeDomain.REAL_TIME)

    def process(
        self, element: Any, event: Any = beam.DoFn.TimerParam(EVENT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> None:
        _, (family, tag, at) = element
        timer = event if family == "event" else clock
        timer.clear(dynamic_timer_tag=tag) if at is None else timer.set(at, dynamic_timer_tag=tag)

    @on_timer(EVENT)
    def at_event(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield key

    @on_timer(CLOCK)
    def at_clock(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield key


ALARMS = graph_of(
    lambda p: p | beam.Create([("a", 1)]) | beam.WindowInto(FixedWindows(10)) | "Alarms" >> beam.ParDo(Alarms())
)


def alarms() -> TaskProgram:
    """A step that sets timers."""
    return execution_of(ALARMS)


WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
alarm = st.tuples(
    st.sampled_from("abcdef"),
    st.tuples(st.sampled_from(["event", "clock"]), st.sampled_from(["", "x"]), st.none() | st.integers(0, 18)),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("alarm"), alarm, st.sampled_from(WINDOWS)),
        st.tuples(st.just("watermark"), st.integers(0, 20)),
        st.tuples(st.just("clock"), st.integers(0, 20)),
        st.just(("cut",)),
        st.just(("restore",)),
    ),
    max_size=40,
)


class Running:
    """The subtasks of the pipeline above at some parallelism, and the chains of their last checkpoint."""

    def __init__(self, parallelism: int, chains: list[Chain] | None = None, of: int = 0) -> None:
        self.parallelism = parallelism
        self.executions = [alarms() for _ in range(parallelism)]
        self.chains: list[Chain] = [[] for _ in self.executions]
        if chains is not None:
            for index, execution in enumerate(self.executions):
                restored = Restored(index, parallelism)
                for number, chain in enumerate(chains):
                    restored.add(chain, number, of)
                restored.into(execution)
            if of == parallelism:
                self.chains = chains

    def do(self, what: str, *how: Any) -> None:
        for index, execution in enumerate(self.executions):
            executor = execution.keyed["Alarms"].executor
            if what == "watermark":
                executor.advance_watermark(how[0] * 1_000_000)
            elif what == "clock":
                executor.advance_processing_time(how[0] * 1_000_000)
            elif what == "cut":
                chain = self.chains[index]
                chain.append(cut(execution, is_whole=not chain))
            elif owner(key_group(how[0][0]), self.parallelism) == index:
                executor.process(Bundle([how[0]], how[1].start.micros, (how[1],)))

    def timers(self) -> dict[Any, list[Any]]:
        """By key, in the order in which they fire."""
        found: defaultdict[Any, list[Any]] = defaultdict(list)
        for execution in self.executions:
            timers = execution.keyed["Alarms"].executor.timers
            for domain in (EVENT_TIME, PROCESSING_TIME):
                for window in WINDOWS:
                    for timer in timers.of(window, domain):
                        found[timer.key].append((timer, domain))
        return dict(found)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 1)])
@given(script=steps)
def test_timers_of_a_chain_are_those_that_were_set(before: int, after: int, script: list[Any]) -> None:
    """After any timers were set, moved, cleared or fired, between snapshots and after a restore."""
    running = Running(before)
    for step in script:
        if step != ("restore",):
            running.do(*step)
        elif all(running.chains):
            # Else there is nothing to go on from.
            running.do("cut")
            running = Running(before, running.chains, before)
    running.do("cut")
    assert running.timers() == Running(after, running.chains, before).timers()


def test_timers_of_one_time_fire_in_the_order_in_which_they_were_set_last() -> None:
    """One that was cleared, and set again to what it was, comes after the others."""
    running = Running(1)
    for tag in ("", "x"):
        running.do("alarm", ("a", ("event", tag, 5)), WINDOWS[0])
    running.do("cut")
    running.do("alarm", ("a", ("event", "", None)), WINDOWS[0])
    running.do("alarm", ("a", ("event", "", 5)), WINDOWS[0])
    running.do("cut")
    found = [each.timers() for each in (running, Running(1, running.chains, 1))]
    assert [["x", ""]] * 2 == [[timer.tag for timer, _ in timers["a"]] for timers in found]


def test_a_delta_has_the_timers_that_have_changed() -> None:
    """Set, moved, cleared, or fired; and no others."""
    execution = alarms()
    executor = execution.keyed["Alarms"].executor

    def put(*keys: int, at: float | None = 5) -> None:
        executor.process(Bundle([(key, ("event", "", at)) for key in keys], 0, (WINDOWS[0],)))

    put(*range(KEYS))
    assert (KEYS, {TIMERS: KEYS}) == (weight(execution, True), entries(cut(execution, True)))
    put(1, 2, 3, at=6)
    # To what it is set to already; and not in a snapshot at all.
    put(4)
    put(KEYS, at=6)
    put(3, 5, KEYS, at=None)
    assert (6, {TIMERS: 4}) == (weight(execution, False), entries(cut(execution, False)))
    assert (0, {}) == (weight(execution, False), entries(cut(execution, False)))
    # Those that fire are gone.
    executor.advance_watermark(5_000_000)
    assert {TIMERS: KEYS - 4} == entries(cut(execution, False))


def test_what_a_child_writes_is_no_change_any_more() -> None:
    """Of timers, side inputs and outputs."""
    timers, (views, contents), (outputs, memory) = alarms(), limits(), numbered()
    executor = timers.keyed["Alarms"].executor
    executor.process(Bundle([(key, ("event", "", 5)) for key in range(9)], 0, (WINDOWS[0],)))
    contents.add(GLOBAL_WINDOW, 0, list(range(9)))
    for n in range(9):
        memory(1, n, 0, (), lambda: [0])
    forgotten = [forget_changes(execution) for execution in (timers, views, outputs)]
    assert [0, 0, 0] == [weight(execution, False) for execution in (timers, views, outputs)]
    executor.process(Bundle([(1, ("event", "", None))], 0, (WINDOWS[0],)))
    contents.add(GLOBAL_WINDOW, 0, [9])
    memory(-1, 1, 0, (), lambda: [0])
    found = [entries(cut(execution, False)) for execution in (timers, views, outputs)]
    assert [{TIMERS: 1}, {VIEW: 1}, {MEMORY: 1}] == found
    assert all(type(changes) is dict for each in forgotten for changes in each)


# --- Side inputs


def limits() -> tuple[TaskProgram, SideInputContents]:
    """A step with a side input, and what has come of that."""

    def build(p: Any) -> None:
        side = p | "Limits" >> beam.Create([1])
        _ = p | beam.Create([1]) | beam.Map(lambda value, side: value, beam.pvalue.AsList(side))

    execution = execution_of(graph_of(build))
    (pcollection,) = execution.side_inputs
    return execution, execution.views.contents(pcollection)


def test_a_delta_has_what_has_come_of_a_side_input_and_what_was_taken_back() -> None:
    """Of the windows that anything has changed of."""
    execution, contents = limits()
    contents.add(WINDOWS[0], 0, list(range(KEYS)))
    contents.add(WINDOWS[1], 0, list(range(KEYS)))
    assert (2 * KEYS, {VIEW: 2 * KEYS}) == (weight(execution, True), entries(cut(execution, True)))
    contents.add(WINDOWS[0], 1, ["new", "newer"])
    contents.retract(WINDOWS[0], 7)
    contents.add(GLOBAL_WINDOW, 0, ["of a new window"])
    assert (4, {VIEW: 4}) == (weight(execution, False), entries(cut(execution, False)))
    assert (0, {}) == (weight(execution, False), entries(cut(execution, False)))


def test_a_side_input_that_changes_more_than_it_has_is_written_whole() -> None:
    """The recorded changes never take more memory than the content."""
    execution, contents = limits()
    contents.add(GLOBAL_WINDOW, 0, ["a"])
    cut(execution, True)
    for n in range(100):
        contents.add(GLOBAL_WINDOW, 0, [n])
        contents.retract(GLOBAL_WINDOW, n)
    assert (1, ["a"]) == (weight(execution, False), contents.of(GLOBAL_WINDOW))
    (chunk,) = [chunk for chunk in cut(execution, False) if chunk.kind == VIEW]
    assert ["a"] == next(values for _, _, values, _ in chunk.data)


# --- Outputs that may be retracted


class Numbered(beam.DoFn):
    """Gives each element another number."""

    deterministic = False

    def __init__(self) -> None:
        self.numbers = count()

    def process(self, element: Any) -> Any:
        yield element, next(self.numbers)


def numbered() -> tuple[TaskProgram, OutputMemory]:
    """A step that isn't deterministic behind one that retracts, and what it remembers."""

    def build(p: Any) -> None:
        windowing = beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.RETRACTING
        )
        _ = p | beam.Create([("a", 1)]) | windowing | beam.CombinePerKey(sum) | "Number" >> beam.ParDo(Numbered())

    execution = execution_of(graph_of(build))
    (stage,) = [step for step in execution.task.steps if isinstance(step, Stage) and "Number" in step.label]
    return execution, execution.dataflow.stages[stage.id].executor.memory(0)


def test_outputs_of_two_subtasks_are_told_apart_by_their_parts() -> None:
    """They have the same numbers; and some have been retracted since."""
    restored = Restored(0, 1)
    for index, names in enumerate(("ab", "cd")):
        execution, memory = numbered()
        for name in names:
            memory(1, name, 0, (), lambda name=name: [name])
        chain = [cut(execution, True)]
        memory(-1, names[index], 0, (), list)
        restored.add([*chain, cut(execution, False)], index, 2)
    execution, memory = numbered()
    restored.into(execution)
    assert (2, ["b"], ["c"]) == (len(memory), *(memory(-1, name, 0, (), list) for name in "bc"))


def test_a_delta_has_the_outputs_of_new_elements_and_the_numbers_of_retracted_ones() -> None:
    """An element retracted before its first snapshot is in no snapshot."""
    execution, memory = numbered()
    for key in range(KEYS):
        memory(1, key, 0, (), lambda: [0])
    assert (KEYS, {MEMORY: KEYS}) == (weight(execution, True), entries(cut(execution, True)))
    memory(1, "new", 0, (), lambda: [0]), memory(-1, 7, 0, (), lambda: [0])
    memory(1, "newer", 0, (), lambda: [0]), memory(-1, "newer", 0, (), lambda: [0])
    assert (2, {MEMORY: 2}) == (weight(execution, False), entries(cut(execution, False)))
    assert (0, {}) == (weight(execution, False), entries(cut(execution, False)))


def test_changes_name_the_steps_that_anything_is_kept_of() -> None:
    """Though nothing has changed: they are no snapshot of nothing, and a step that is gone is missed."""
    timers, (views, contents), (outputs, memory) = alarms(), limits(), numbered()
    timers.keyed["Alarms"].executor.process(Bundle([("a", ("event", "", 5))], 0, (WINDOWS[0],)))
    contents.add(GLOBAL_WINDOW, 0, [1])
    memory(1, "a", 0, (), lambda: [1])
    executions = (timers, views, outputs)
    labels = [labels_of(cut(execution, True)) for execution in executions]
    assert [True] * 3 == [len(own) > 0 for own in labels]
    assert labels == [labels_of(cut(execution, False)) for execution in executions]
    memory(-1, "a", 0, (), list)
    assert [labels[2], ()] == [labels_of(cut(outputs, False)) for _ in range(2)]
