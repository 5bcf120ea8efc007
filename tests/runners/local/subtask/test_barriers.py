"""Aligned barriers (ABS, algorithm 1): blocked inputs, forwarding and the records in a snapshot; a negative control."""

from __future__ import annotations

from typing import Any

import pytest
from simulation.negative_controls import FirstBarrier, SubtaskWithoutAlignment
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording

import penstock as beam
from penstock.runners.execution.plan.execution_graph import SubtaskId
from penstock.runners.execution.streaming.snapshot_chunks import WINDOWS
from penstock.runners.local.channels.channel import ChannelId
from penstock.runners.local.channels.messages import Barrier, Elements
from penstock.runners.local.subtask.barriers import Alignment
from penstock.runners.local.subtask.reports import Snapshot
from penstock.runners.local.subtask.subtask import Subtask
from penstock.sdk.elements.bundle import Bundle
from penstock.windowing import GLOBAL_WINDOW

BARRIER = Barrier(1, transaction="next", epoch=1)


def test_an_input_is_blocked_from_its_barrier_until_the_last_one() -> None:
    """The last barrier unblocks all inputs (lines 5 to 11)."""
    alignment = Alignment("abc")
    assert not alignment.arrived("b")
    assert {"b"} == alignment.blocked
    assert not alignment.arrived("a")
    assert {"a", "b"} == alignment.blocked
    assert alignment.arrived("c")
    assert set() == alignment.blocked


def test_the_next_barrier_blocks_again() -> None:
    """Alignment begins anew with each barrier."""
    alignment = Alignment("ab")
    assert [False, True, False, True] == [alignment.arrived(channel) for channel in "abba"]


def test_one_input_needs_no_alignment() -> None:
    """Its barrier is the last one at once."""
    alignment = Alignment("a")
    assert alignment.arrived("a")
    assert set() == alignment.blocked


def test_without_alignment_the_first_barrier_counts_and_nothing_is_blocked() -> None:
    """Once for each number."""
    alignment = FirstBarrier("ab")
    assert [True, False] == [alignment.arrived("a"), alignment.arrived("b")]
    assert set() == alignment.blocked


# --- In a subtask: sums by key, with two subtasks of the source's task, and two of the sums'.


def sums(p: Any) -> None:
    words = p | beam.Create(["unread"]) | beam.Map(lambda word: (word, 1))
    words | beam.CombinePerKey(sum) | beam.io.Write(Recording())


def at_sums(**more: Any) -> tuple[ByHand, list[ChannelId]]:
    """Return the subtasks, and the channels to the first one that sums."""
    found = ByHand(graph_of(sums), **more)
    return found, list(found[1, 0].inputs)


def elements(value: int) -> Elements:
    return Elements(Bundle([("a", value)], [0], (GLOBAL_WINDOW,)))


def summed(found: ByHand) -> list[Any]:
    """Return the windows in the snapshot of the first subtask that sums."""
    return [record for chunk in found.chunks[SubtaskId(1, 0)] if chunk.kind == WINDOWS for record in chunk.data]


def drain(found: ByHand) -> None:
    """Have the first subtask that sums process all messages that it may take."""
    while found[1, 0].ready():
        found[1, 0].take(found[1, 0].ready()[0])


def test_behind_a_barrier_an_input_waits_and_before_it_the_other_doesnt() -> None:
    """No record from behind a barrier is in the snapshot, and none from before one is missing."""
    found, (left, right) = at_sums()
    drain(found)
    for channel, messages in ((left, [elements(1), BARRIER, elements(100)]), (right, [elements(10)])):
        for message in messages:
            found.channels[channel].put(message)
    drain(found)
    assert [] == [news for _, news in found.reports if isinstance(news, Snapshot)]
    assert [[("a", 100)]] == [m.bundle.values for m in found.channels[left].queue if isinstance(m, Elements)]
    assert [] == list(found.channels[right].queue)
    found.channels[right].put(BARRIER)
    drain(found)
    assert 1 == len(summed(found))
    assert "11" in repr(summed(found))
    assert "111" not in repr(summed(found))
    assert [] == list(found.channels[left].queue)


def test_without_alignment_a_record_from_before_a_barrier_is_missing() -> None:
    """The negative control."""
    found, (left, right) = at_sums(subtask_type=SubtaskWithoutAlignment)
    drain(found)
    found.channels[left].put(BARRIER)
    drain(found)
    found.channels[right].put(elements(10))
    drain(found)
    assert [] == summed(found)


@pytest.mark.parametrize("aligns", [True, False])
def test_after_a_recovery_sums_are_right_if_and_only_if_barriers_are_aligned(aligns: bool) -> None:
    """One source's elements and barrier come before anything of the other's."""

    def build(p: Any) -> None:
        pairs = p | beam.Create([("a", 1), ("a", 10)])
        pairs | beam.CombinePerKey(sum) | beam.io.Write(Recording())

    graph = graph_of(build)
    found = ByHand(graph, subtask_type=Subtask if aligns else SubtaskWithoutAlignment)
    for index in range(2):
        found[0, index].step()
        found[0, index].inject(BARRIER)
    for target in range(2):
        subtask = found[1, target]
        for channel in subtask.inputs:
            while channel in subtask.ready():
                subtask.take(channel)
    again = ByHand(graph, found.snapshots())
    again.run()
    again.inject(Barrier(1, epoch=2))
    again.run()
    assert ([("a", 11)] == again.written()) is aligns


def test_a_barrier_is_forwarded_before_anything_else_is_sent() -> None:
    """At a source, and before the snapshot is reported (line 9 before line 10)."""
    found = ByHand(graph_of(sums))
    order: list[str] = []
    source = found[0, 0]
    barriers = source.barriers
    report, tell = barriers._report, barriers._broadcast
    barriers._report = lambda news: (order.append(type(news).__name__), report(news))[1]
    barriers._broadcast = lambda message: (order.append(type(message).__name__), tell(message))[1]
    source.inject(BARRIER)
    assert ["Barrier", "Snapshot"] == order
    for target in range(2):
        (edge,) = found.graph.tasks[0].outputs
        assert BARRIER == found.channels[ChannelId(edge.id, 0, target)].queue[-1]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_every_subtask_reports_one_snapshot_for_a_barrier(parallelism: int) -> None:
    """At any parallelism."""
    found = ByHand(graph_of(sums, parallelism))
    found.run()
    found.inject(BARRIER)
    found.run()
    assert sorted(found.subtasks) == sorted(id for id, news in found.reports if isinstance(news, Snapshot))
