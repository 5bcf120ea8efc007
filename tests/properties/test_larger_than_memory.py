"""Results don't depend on the memory of subtasks, on when they are restored, nor on the parallelism."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Recording, recorded, whole
from support.pipelines.strategies import ANY_TIMESTAMPS, Step, chains, scripts, stream_of, window_fns, windowings
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.coders import Coder, registry
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterWatermarkPercentile, PaneInfoTiming, Repeatedly
from penstock.windowing import FixedWindows
from penstock.windowing.timestamp_combiner import TimestampCombiner

# None, nothing, and a few entries, in bytes.
MEMORY = st.sampled_from([1, 1_000, 4_000])
# The batches before which all subtasks are restored.
FORGOTTEN = st.sets(st.integers(2, 12), max_size=2)


def panes(recording: Recording) -> Counter[Any]:
    """All that came out, in no order: keys come in none."""
    return Counter((*whole(change), change.pane, change.sign) for change in recording.changes)


def panes_at_any_parallelism(recording: Recording) -> Counter[Any]:
    """The same, but for the timing of a window's first pane behind its end.

    It is late if the output watermark has passed the end, and that is held by the keys of the same subtask.
    """
    found: Counter[Any] = Counter()
    for (*row, pane, sign), count in panes(recording).items():
        is_first = pane.timing is PaneInfoTiming.LATE and pane.nonspeculative_index == 0
        found[*row, attrs.evolve(pane, timing=PaneInfoTiming.ON_TIME) if is_first else pane, sign] += count
    return found


def same(build: Any, memory: int, forgotten: set[int], of: Any = panes) -> None:
    expected = of(recorded(build, RunnerInThisProcess(1)))
    runner = RunnerInThisProcess(1, memory, lambda number: number in forgotten)
    assert expected == of(recorded(build, runner))


@given(scripts(), windowings(mode=st.sampled_from(AccumulationMode), timestamps=ANY_TIMESTAMPS), MEMORY, FORGOTTEN)
@settings(max_examples=15, deadline=None)
def test_a_grouping_has_the_same_panes(script: list[Step], windowing: Any, memory: int, forgotten: set[int]) -> None:
    """With all kinds of windows and triggers; where windows merge, all those of a key come and go together."""
    same(lambda p: p | stream_of(script) | windowing.stream() | beam.GroupByKey(), memory, forgotten)


@given(scripts(until=20), chains(2), windowings(), MEMORY, FORGOTTEN)
@settings(max_examples=10, deadline=None)
def test_a_chain_of_groupings_has_the_same_results(
    script: list[Step], chain: Any, windowing: Any, memory: int, forgotten: set[int]
) -> None:
    """Intermediate panes depend on the order of keys, which is undefined."""
    same(lambda p: chain.built(p | stream_of(script), windowing, True), memory, forgotten, Recording.net)


class Remember(beam.DoFn):
    """Has states of all kinds, and timers in both time domains."""

    BAG = BagStateSpec("bag")
    SET = SetStateSpec("set")
    SUM = CombiningValueStateSpec("sum", sum)
    LOG = OrderedListStateSpec("log")
    LAST = ReadModifyWriteStateSpec("last")
    SOON = TimerSpec("soon", beam.TimeDomain.REAL_TIME)
    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        at: Any = beam.DoFn.TimestampParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        seen: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        log: Any = beam.DoFn.StateParam(LOG),
        last: Any = beam.DoFn.StateParam(LAST),
        soon: Any = beam.DoFn.TimerParam(SOON),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Any:
        key, value = element
        bag.add(value)
        seen.add(value)
        total.add(value)
        log.add((at, value))
        yield key, "after", last.read(), sorted(bag.read()), total.read()
        last.write(value)
        soon.set_relative(3)
        end.set(at + 7)

    @on_timer(SOON)
    def soon(
        self,
        key: Any = beam.DoFn.KeyParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        seen: Any = beam.DoFn.StateParam(SET),
    ) -> Any:
        yield key, "soon", sorted(bag.read()), sorted(seen.read())
        bag.clear()

    @on_timer(END)
    def end(
        self,
        key: Any = beam.DoFn.KeyParam,
        log: Any = beam.DoFn.StateParam(LOG),
        total: Any = beam.DoFn.StateParam(SUM),
    ) -> Any:
        yield key, "end", tuple(log.read()), total.read()
        log.clear()

    def on_window_expiration(
        self,
        key: Any = beam.DoFn.KeyParam,
        log: Any = beam.DoFn.StateParam(LOG),
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Any:
        yield key, "over", tuple(log.read()), last.read()


def remembered(stream: Any, window_fn: Any) -> Any:
    return stream | "other windows" >> beam.WindowInto(window_fn) | beam.ParDo(Remember())


class Name:
    """A key that only its coder can compare."""

    def __init__(self, name: Any) -> None:
        self.name = name


class NameCoder(Coder):
    def encode(self, value: Any) -> bytes:
        return repr(value.name).encode()

    def decode(self, encoded: bytes) -> Any:
        raise NotImplementedError

    def is_deterministic(self) -> bool:
        return True


@given(scripts(), windowings(mode=st.sampled_from(AccumulationMode), timestamps=ANY_TIMESTAMPS), MEMORY, FORGOTTEN)
@settings(max_examples=15, deadline=None)
def test_keys_with_a_coder_have_the_panes_and_the_state_of_plain_ones(
    script: list[Step], windowing: Any, memory: int, forgotten: set[int]
) -> None:
    """On disk, and back from there, they are what their bytes are.

    Timestamps of elements count before the output watermark only, which the keys of the same subtask hold; so they are
    compared with one.
    """
    parallelism = 2 if windowing.timestamps is TimestampCombiner.OUTPUT_AT_EOW else 1

    def build(p: Any, wrap: Any, unwrap: Any) -> Any:
        pairs = p | stream_of(script) | beam.MapTuple(lambda key, value: (wrap(key), value))
        grouped = pairs | windowing.stream() | beam.GroupByKey() | "as those" >> beam.WindowInto(FixedWindows(10))
        sums = remembered(pairs, FixedWindows(10)) | beam.Map(lambda row: (row[0], row[1:]))
        return (grouped, sums) | beam.Flatten() | beam.MapTuple(lambda key, value: (unwrap(key), value))

    expected = panes_at_any_parallelism(recorded(lambda p: build(p, str, str), RunnerInThisProcess(1)))
    before = registry.registered()
    registry.register_coder(Name, NameCoder)
    try:
        runner = RunnerInThisProcess(parallelism, memory, lambda number: number in forgotten)
        found = recorded(lambda p: build(p, lambda key: Name(str(key)), lambda key: key.name), runner)
    finally:
        registry.register_all(before)
    assert expected == panes_at_any_parallelism(found)


@given(scripts(), window_fns(merging=False), MEMORY, FORGOTTEN)
@settings(max_examples=15, deadline=None)
def test_state_and_timers_are_the_same(script: list[Step], window_fn: Any, memory: int, forgotten: set[int]) -> None:
    """Of keys whose state was spilled when an element came, a timer fired or a window was over."""
    same(lambda p: remembered(p | stream_of(script), window_fn), memory, forgotten)


class Stopped(Exception):
    """Raised at a failure point, to stop the run there."""


@given(scripts(), window_fns(merging=False), windowings(), MEMORY, st.integers(1, 6))
@settings(max_examples=10, deadline=None)
def test_a_run_continues_with_another_parallelism(
    script: list[Step], window_fn: Any, windowing: Any, memory: int, stop: int
) -> None:
    """From the state of subtasks with too little memory; with and without such a limit."""

    def build(p: Any) -> Any:
        stream = p | stream_of(script)
        return {
            "state": remembered(stream, window_fn),
            "sums": stream | "windows" >> windowing.stream() | beam.GroupByKey(),
        }

    def reached(point: str, number: int) -> None:
        if point == "after-publication" and number == stop:
            raise Stopped

    expected = panes_at_any_parallelism(recorded(build, RunnerInThisProcess(1)))
    store = SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")
    sink = Recording()
    for parallelism, limit, told in ((2, memory, reached), (3, memory, None), (1, None, None)):
        try:
            recorded(build, RunnerInThisProcess(parallelism, limit, store=store, reached=told), sink)
        except Stopped:
            continue
        break
    assert expected == panes_at_any_parallelism(sink)


@pytest.mark.parametrize("memory", [1, 3_000])
def test_percentile_triggers_evaluate_spilled_windows(memory: int) -> None:
    """Whenever the percentile moves, the triggers of all windows are evaluated."""
    stream = TestStream()
    for second in range(0, 40, 4):
        stream.add_elements([beam.window.TimestampedValue((f"k{k}", second), second) for k in range(second % 5 + 2)])
        stream.advance_percentile_watermark_to(0.9, second)
        stream.advance_watermark_to(second - 8)
    windows = beam.WindowInto(
        beam.window.FixedWindows(5),
        trigger=Repeatedly(AfterWatermarkPercentile(0.9)),
        accumulation_mode=AccumulationMode.RETRACTING,
        allowed_lateness=20,
    )
    same(lambda p: p | stream | windows | beam.CombinePerKey(sum), memory, {3, 7})
