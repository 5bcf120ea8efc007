"""Numbers of what is sent, through pipes and snapshots; and what a receiver makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.plan.execution_graph import Edge, EdgeKind
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.execution.windows.combining import FoldedBundle
from penstock.runners.local.channels.channel import Channel, ChannelId, message_of, payloads_of
from penstock.runners.local.channels.messages import Barrier, BarrierKind, Elements
from penstock.runners.local.subtask.replay_dedup import (
    NotRepeatedError,
    NumberedExchange,
    Numbering,
    Repetitions,
)
from penstock.sdk.elements.bundle import Bundle

ORIGIN = ("Read", ("file.txt", 3))
CHANNEL = ChannelId(0, 1, 2)


def numbered(first: int, *values: str) -> Elements:
    """A message."""
    return Elements(Bundle(list(values), list(range(len(values)))), ORIGIN, first)


@pytest.mark.parametrize("size", [1, 2_000_000])
def test_numbers_travel_with_elements_however_many_frames_they_make(size: int) -> None:
    """A bundle too large for one frame becomes several messages with consecutive numbers."""
    values = [letter * size for letter in "abcde"]
    messages = [message_of(*payload) for payload in payloads_of(numbered(7, *values))]

    assert (size > 1) is (len(messages) > 1)
    assert values == [value for message in messages for value in message.bundle.values]
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {ORIGIN: 6})
    assert values == [value for message in messages for value in repetitions.new_elements(CHANNEL, message).values]


def test_numbered_accumulators_are_one_frame_however_large() -> None:
    """Their numbers say only together which elements have come, if the sender dies between two frames."""
    folded = FoldedBundle([(key, (key * 2_000_000, 2)) for key in "abcde"], 0)
    (payload,) = payloads_of(Elements(folded, ORIGIN, 7))
    message = message_of(*payload)
    assert (FoldedBundle, 7, 10) == (type(message.bundle), message.first, message.elements)


def test_numbers_go_on_where_a_snapshot_was_taken() -> None:
    """For each channel and partition by itself."""
    before, after = Numbering(), Numbering()
    before.next(CHANNEL, ORIGIN, 5)
    before.next(ChannelId(0, 1, 0), ORIGIN, 2)
    after.restore("Read", 1, before.kept("Read"))
    assert (6, 3) == (after.next(CHANNEL, ORIGIN, 1), after.next(ChannelId(0, 1, 0), ORIGIN, 1))
    assert {} == before.kept("Another")


def test_elements_that_are_missing_are_an_error_and_not_a_loss() -> None:
    """A sender that skips some isn't believed."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.new_elements(CHANNEL, numbered(1, "a"))
    with pytest.raises(NotRepeatedError, match="Read: of partition .* element number 3 came after number 1"):
        repetitions.new_elements(CHANNEL, numbered(3, "c"))


def test_a_source_that_gives_less_the_second_time_is_an_error() -> None:
    """Otherwise the job would wait forever for the missing elements."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.new_elements(CHANNEL, numbered(1, "a", "b"))
    repetitions.expect_replay({CHANNEL: None})
    repetitions.resumed(CHANNEL, {})
    repetitions.new_elements(CHANNEL, numbered(1, "a"))
    with pytest.raises(NotRepeatedError, match="has ended before its element number 2 came again"):
        repetitions.ended(CHANNEL)


def test_a_sender_has_caught_up_when_its_watermark_has() -> None:
    """Before, the restarted subtasks have windows open which that watermark has closed here."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.new_elements(CHANNEL, numbered(1, "a"))
    repetitions.expect_replay({CHANNEL: 7})
    repetitions.resumed(CHANNEL, {})
    repetitions.new_elements(CHANNEL, numbered(1, "a"))
    repetitions.moved(CHANNEL, 6)
    assert repetitions.is_replaying
    repetitions.moved(CHANNEL, 7)
    assert not repetitions.is_replaying


def test_a_sender_that_resumes_ahead_of_what_has_come_is_an_error() -> None:
    """The elements in between would be lost."""
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {})
    repetitions.expect_replay({CHANNEL: None})
    with pytest.raises(NotRepeatedError, match="element number 4 came after number 0"):
        repetitions.resumed(CHANNEL, {ORIGIN: 4})


# --- Waiting for more, and folding


def sums(p: Any) -> None:
    p | "Read" >> beam.Create([("a", 1)]) | beam.CombinePerKey(sum)


def to_sums() -> tuple[NumberedExchange, Numbering, list[Channel]]:
    """Where the elements of a source leave for a shuffle to two subtasks."""
    graph = graph_of(sums)
    (edge,) = [edge for task in graph.tasks for edge in task.outputs if edge.kind is EdgeKind.SHUFFLE]
    assert isinstance(edge, Edge)
    numbering, channels = Numbering(), [Channel(ChannelId(edge.id, 0, target)) for target in range(2)]
    return NumberedExchange(edge, channels, "Sum", numbering), numbering, channels


def sent(channels: list[Channel]) -> list[Elements]:
    """Take and return the sent messages."""
    return [m for c in channels for m in [c.take() for _ in range(len(c.queue))] if isinstance(m, Elements)]


def test_small_bundles_wait_for_others_of_their_partition() -> None:
    """And go when the turn is over, those of each partition as one, numbered as if they had gone one by one."""
    exchange, numbering, channels = to_sums()
    exchange.is_buffering = True
    for n in range(6):
        numbering.origin = "Read", n % 2
        exchange.send(Bundle([("a", n)]))
    assert [] == sent(channels)
    exchange.flush()
    found = {m.origin: (m.first, [n for _, n in m.bundle.values]) for m in sent(channels)}
    assert {("Read", 0): (1, [0, 2, 4]), ("Read", 1): (1, [1, 3, 5])} == found
    exchange.send(Bundle([("a", 7)]))
    exchange.flush()
    assert [4] == [m.first for m in sent(channels)]


def test_only_what_cannot_be_a_repetition_is_folded() -> None:
    """Not before a checkpoint's barrier, which comes when all have caught up; accumulators count as their elements."""
    exchange, numbering, channels = to_sums()
    many = Bundle([("a", 1)] * pre_aggregation.SMALLEST, 0)
    numbering.origin = ORIGIN
    found = []
    for kind in (BarrierKind.QUIESCE, BarrierKind.CHECKPOINT, None):
        exchange.send(many)
        exchange.flush_table()
        ((message,),) = [sent(channels)]
        found.append((type(message.bundle), message.first, message.elements))
        if kind is not None:
            exchange.broadcast(Barrier(1, kind))
            sent(channels)
    n = len(many)
    assert [(Bundle, 1, n), (Bundle, n + 1, n), (FoldedBundle, 2 * n + 1, n)] == found


def test_each_partition_has_a_table_of_its_own() -> None:
    """Elements are numbered by partition, and a table outlives the bundle of another one."""
    exchange, numbering, channels = to_sums()
    exchange.broadcast(Barrier(1, BarrierKind.CHECKPOINT))
    sent(channels)
    for n in range(4):
        numbering.origin = "Read", n % 2
        exchange.send(Bundle([("a", n)] * pre_aggregation.SMALLEST, 0))
    assert [] == sent(channels)
    exchange.broadcast(Barrier(2, BarrierKind.CHECKPOINT))
    n = pre_aggregation.SMALLEST
    found = [(m.origin, m.first, m.bundle.values) for m in sent(channels) if isinstance(m, Elements)]
    assert [(("Read", k), 1, [("a", (n * (2 * k + 2), 2 * n))]) for k in (0, 1)] == found


def test_accumulators_are_new_or_known_and_never_cut() -> None:
    """By the numbers of the elements that are in them."""
    folded = Elements(FoldedBundle([("a", (5, 2)), ("b", (1, 3))]), ORIGIN, 4)
    repetitions = Repetitions()
    repetitions.resumed(CHANNEL, {ORIGIN: 3})
    assert repetitions.new_elements(CHANNEL, folded) is folded.bundle
    assert repetitions.new_elements(CHANNEL, folded) is None
    with pytest.raises(NotRepeatedError, match="elements number 7 to 11 came folded after number 8"):
        repetitions.new_elements(CHANNEL, folded._replace(first=7))
