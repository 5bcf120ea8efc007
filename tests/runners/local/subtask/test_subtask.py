"""Subtasks, driven by hand, with channels in memory."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.plan.execution_graph import EdgeKind
from penstock.runners.local.channels.channel import CAPACITY
from penstock.runners.local.channels.messages import (
    Barrier,
    BarrierKind,
    ClockMoved,
    Elements,
    SignalCame,
    WatermarkMoved,
)
from penstock.runners.local.subtask.reports import Completed, Played, Quiesced
from penstock.testing import TestStream
from penstock.windowing import FixedWindows, TimestampedValue
from penstock.windowing.timestamp import MAX_MICROS


def sums(p: Any) -> None:
    pairs = p | beam.Create([(key, n) for n in range(50) for key in "abcdef"])
    pairs | beam.CombinePerKey(sum) | beam.io.Write(Recording())


def scripted(p: Any) -> None:
    stream = TestStream().add_elements([TimestampedValue(("a", 1), 5)]).advance_processing_time(7)
    windowed = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10))
    windowed | beam.CombinePerKey(sum) | beam.io.Write(Recording())


class InFiles(beam.CombineFn):
    """Sums, and a file for each setup and each teardown."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def setup(self) -> None:
        (self.directory / f"setup {id(self)}").touch()

    def teardown(self) -> None:
        (self.directory / f"teardown {id(self)}").touch()

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def test_a_combiner_before_a_shuffle_is_torn_down_when_its_subtask_stops(tmp_path: pathlib.Path) -> None:
    """Also before the end of the input, as behind a savepoint."""
    pairs = [("a", n) for n in range(100)]
    found = ByHand(graph_of(lambda p: p | beam.Create(pairs) | beam.CombinePerKey(InFiles(tmp_path)), 1))
    while not found[0, 0].has_tables:
        assert found[0, 0].step()
    for subtask in found.subtasks.values():
        subtask.stop()
    files = [path.name.split()[0] for path in tmp_path.iterdir()]
    assert ["setup"] * 2 + ["teardown"] * 2 == sorted(files)


def test_a_table_waits_for_its_own_receiver_only() -> None:
    """Other edges' tables are sent; all are before a production is cut."""

    def two(p: Any) -> None:
        pairs = p | beam.Create([("a", n) for n in range(100)])
        for combine in (sum, max):
            pairs | beam.CombinePerKey(combine)

    found = ByHand(graph_of(two, 1))
    sender = found[0, 0]
    while not sender.has_tables:
        assert sender.step()
    left, right = ([found.channels[channel.id] for channel in each.channels] for each in sender.exchanges)
    for channel in left:
        channel.pause(True)
    counts: list[Any] = [[sum(channel.elements for channel in side) for side in (left, right)]]
    for is_forced in (False, False, True):
        found_any = sender.flush_tables(is_forced=is_forced)
        counts.append([found_any, *(sum(channel.elements for channel in side) for side in (left, right))])
    assert [[0, 0], [True, 0, 1], [False, 0, 1], [True, 1, 1]] == counts


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_bounded_input_is_summed_and_each_subtask_reports_its_completion(parallelism: int) -> None:
    """Once, and then the last barrier stages what there is."""
    found = ByHand(graph_of(sums, parallelism))
    found.run()
    assert sorted(found.subtasks) == sorted(id for id, news in found.reports if isinstance(news, Completed))
    found.inject(Barrier(1, epoch=1))
    found.run()
    assert [(key, sum(range(50))) for key in "abcdef"] == sorted(found.written())


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("restored_in", [1, 2, 3])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_others_go_on_from_a_snapshot_wherever_it_was_taken(parallelism: int, restored_in: int, steps: int) -> None:
    """With another number of subtasks, too; their own state comes back by key, and their sources' positions."""
    found = ByHand(graph_of(sums, parallelism))
    for _ in range(steps):
        for subtask in found.subtasks.values():
            subtask.step()
    found.inject(Barrier(1, epoch=1))
    found.run()
    again = ByHand(graph_of(sums, restored_in), found.snapshots())
    again.run()
    again.inject(Barrier(2, epoch=2))
    again.run()
    assert [(key, sum(range(50))) for key in "abcdef"] == sorted(found.written() + again.written())


def test_the_watermark_is_the_least_of_the_channels_and_idle_ones_dont_count() -> None:
    """Of a shuffle's two."""
    found = ByHand(graph_of(sums))
    subtask = found[1, 0]
    (edge,) = subtask.task.inputs
    left, right = (found.channels[id] for id in subtask.inputs)
    for channel in (left, right):
        channel.queue.clear()
    for channel, micros in ((left, 5), (right, 3), (left, 9), (right, None)):
        channel.put(WatermarkMoved(micros))
        found.run(1)
    assert 9 == subtask.execution._input_watermark(edge.step, edge.pcollection)  # type: ignore[arg-type]


def test_a_subtask_waits_for_a_full_channel_and_barriers_wait_with_it() -> None:
    """Nothing is taken, and nothing read, until there is room."""
    found = ByHand(graph_of(sums))
    source = found[0, 0]
    channel = source.exchanges[0].channels[1]
    for number in range(CAPACITY):
        channel.put(SignalCame(number, "x"))
    assert source.is_backpressured
    assert not source.step()
    channel.take()
    while channel.is_full:
        channel.take()
    assert source.step()


def groups_of_groups(p: Any) -> None:
    pairs = p | beam.Create([(n % 7, n) for n in range(2_000)])
    totals = pairs | "first" >> beam.GroupByKey() | beam.Map(lambda group: (group[0] % 2, sum(group[1])))
    totals | "second" >> beam.GroupByKey()


def test_what_waits_for_a_window_is_taken_whole_though_receivers_take_little() -> None:
    """The channels of a receiver that has got nothing yet have room for few elements."""
    found = ByHand(graph_of(groups_of_groups, parallelism=1))
    for channel in found[2, 0].inputs:
        found.channels[channel].limit_to(32)
    (channel,) = (found.channels[channel] for channel in found[1, 0].inputs)
    while found[0, 0].step():
        pass
    assert [2_000] == [len(message.bundle) for message in channel.queue if isinstance(message, Elements)]
    taken = 0
    while channel.elements:
        assert found[1, 0].step()
        taken += 1
    assert taken <= 5


def test_news_are_passed_on_once_however_often_they_come() -> None:
    """A signal comes from each of the subtasks before."""
    found = ByHand(graph_of(lambda p: sums_of_sums(p)))
    for channel in found[1, 0].inputs:
        found.channels[channel].put(SignalCame(1, "flush"))
        found.channels[channel].put(ClockMoved(7))
    found.run(1)
    passed = list(found[1, 0].exchanges[0].channels[0].queue)
    assert [SignalCame(1, "flush"), ClockMoved(7)] == [m for m in passed if isinstance(m, (SignalCame, ClockMoved))]


def sums_of_sums(p: Any) -> None:
    totals = p | beam.Create([("a", 1)]) | "first" >> beam.CombinePerKey(sum)
    totals | "second" >> beam.CombinePerKey(sum)


def test_a_script_is_played_by_one_subtask_an_event_at_a_time() -> None:
    """When it is told to; the others have nothing to wait for."""
    found = ByHand(graph_of(scripted))
    assert [True, False] == [found[0, index].scripts[0].is_player for index in range(2)]
    found.run()
    assert [] == [news for _, news in found.reports if isinstance(news, Played)]
    for number in range(1, 4):
        found[0, 0].play()
        found.run()
        assert number == len([news for _, news in found.reports if isinstance(news, Played)])
        # A subtask that plays no script and has no input has no timers either.
        assert [number >= 2] * 3 == [found[place]._clock.now == 7_000_000 for place in ((0, 0), (1, 0), (1, 1))]


def test_quiescence_is_reported_behind_all_records_that_were_sent_before() -> None:
    """By each subtask once; it takes no snapshot."""
    found = ByHand(graph_of(sums))
    found.run()
    found.inject(Barrier(3, BarrierKind.QUIESCE))
    found.run()
    assert sorted((id, Quiesced(3)) for id in found.subtasks) == sorted(
        (id, news) for id, news in found.reports if isinstance(news, Quiesced)
    )
    assert {} == found.chunks


def test_a_side_input_comes_to_every_subtask_before_what_waits_for_it() -> None:
    """Broadcast."""

    def build(p: Any) -> None:
        factors = p | "factors" >> beam.Create([2, 3])
        numbers = p | "numbers" >> beam.Create([1, 10])
        scaled = numbers | beam.Map(lambda n, factors: n * sum(factors), beam.pvalue.AsList(factors))
        scaled | beam.io.Write(Recording())

    graph = graph_of(build)
    assert EdgeKind.BROADCAST in [edge.kind for task in graph.tasks for edge in task.inputs]
    found = ByHand(graph)
    found.run()
    found.inject(Barrier(1, epoch=1))
    found.run()
    assert [5, 50] == sorted(found.written())
    assert [MAX_MICROS] * 2 == [
        found[task.id, index].execution._side_watermark(edge.pcollection)
        for task in graph.tasks
        for edge in task.inputs
        if edge.kind is EdgeKind.BROADCAST
        for index in range(2)
    ]
