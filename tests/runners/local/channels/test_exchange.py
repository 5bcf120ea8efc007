"""Exchanges: the receivers of elements and of other messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.plan.execution_graph import Edge, EdgeKind
from penstock.runners.execution.shuffle.partitioner import owner
from penstock.runners.local.channels.channel import CAPACITY, MANY_ELEMENTS, Channel, ChannelId
from penstock.runners.local.channels.exchange import FRAME, Exchange
from penstock.runners.local.channels.messages import (
    Barrier,
    ClockMoved,
    Elements,
    Message,
    PercentileMoved,
    SignalCame,
    WatermarkMoved,
)
from penstock.sdk.coders.key_encoding import KEY_GROUPS, key_groups
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError, NotAPairError
from penstock.triggers import AccumulationMode, AfterWatermark, Always, DefaultTrigger, Trigger
from penstock.windowing import GLOBAL_WINDOW
from penstock.windowing.timestamp import MAX_MICROS

WINDOWS = (GLOBAL_WINDOW,)


def exchange_of(kind: EdgeKind, n: int) -> tuple[Exchange, list[Channel]]:
    """Return an exchange to `n` subtasks, and its channels."""
    channels = [Channel(ChannelId(0, 0, target)) for target in range(n)]
    return Exchange(Edge(0, 0, kind, None, 0, 1), channels, "by key"), channels


def bundle_of(values: Sequence[Any]) -> Bundle:
    return Bundle(list(values), list(range(len(values))), WINDOWS)


def rows(channel: Channel) -> list[tuple[Any, int]]:
    """Return values and timestamps of the elements in a channel."""
    bundles = [message.bundle for message in channel.queue if isinstance(message, Elements)]
    return [(value, micros) for bundle in bundles for value, micros, *_ in bundle.rows()]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 128])
def test_each_subtask_owns_a_range_of_key_groups_as_long_as_the_others(n: int) -> None:
    """The ranges cover all key groups, and their lengths differ by at most one."""
    owners = [owner(group, n) for group in range(KEY_GROUPS)]
    assert sorted(owners) == owners
    sizes = [owners.count(index) for index in range(n)]
    assert KEY_GROUPS == sum(sizes)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_shuffle_sends_the_elements_of_a_key_to_its_owner_in_order(n: int) -> None:
    """Each element arrives once, with its timestamp."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, n)
    pairs = [(key, i) for i in range(5) for key in "abcdefgh"]
    exchange.send(bundle_of(pairs))
    found = [rows(channel) for channel in channels]
    for index, own in enumerate(found):
        assert {index} >= {owner(group, n) for group in key_groups([key for (key, _), _ in own])}
        for key in "abcdefgh":
            assert [i for (k, i), _ in own if k == key] in ([], list(range(5)))
    assert sorted((pair, i) for i, pair in enumerate(pairs)) == sorted(row for own in found for row in own)


def test_an_element_keeps_its_sign_in_a_shuffle() -> None:
    """Also where signs differ within a bundle."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 4)
    pairs = [(key, 0) for key in "abcdefgh"]
    signs = [1, -1] * 4
    exchange.send(Bundle(pairs, [0] * 8, WINDOWS, signs=signs))
    found = {}
    for channel in channels:
        for message in channel.queue:
            assert isinstance(message, Elements)
            found |= {value[0]: sign for value, *_, sign in message.bundle.rows()}
    assert dict(zip("abcdefgh", signs, strict=True)) == found


def test_an_edge_that_isnt_a_shuffle_sends_everything_to_all_its_channels() -> None:
    """A broadcast edge has a channel for each subtask, a forward edge one."""
    exchange, channels = exchange_of(EdgeKind.BROADCAST, 3)
    exchange.send(bundle_of([1, 2]))
    assert [[(1, 0), (2, 1)]] * 3 == [rows(channel) for channel in channels]


def test_a_watermark_is_broadcast_when_it_has_changed() -> None:
    """The first one always is, also if the edge is idle."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 2)
    for micros in (None, None, 5, 5, 7, None):
        exchange.emit_watermark(micros)
    told = [WatermarkMoved(micros) for micros in (None, 5, 7, None)]
    assert [told, told] == [list(channel.queue) for channel in channels]


def test_a_control_message_goes_to_all_channels() -> None:
    """For example a signal."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 2)
    message: Message = SignalCame(1, "flush")
    exchange.broadcast(message)
    assert [[message], [message]] == [list(channel.queue) for channel in channels]


def test_an_exchange_is_full_when_any_channel_is() -> None:
    """A sender waits for the slowest receiver."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 2)
    for number in range(CAPACITY):
        assert not exchange.is_full
        channels[1].put(SignalCame(number, "flush"))
    assert exchange.is_full
    channels[1].take()
    assert not exchange.is_full


class Touchy:
    def __hash__(self) -> int:
        raise LookupError("in hash")


@pytest.mark.parametrize(
    ("element", "kind"),
    [(3, NotAPairError), ((1, 2, 3), NotAPairError), (([], 1), InvalidKeyError), ((Touchy(), 1), LookupError)],
)
def test_an_error_of_a_key_names_the_step_that_groups_by_it(element: Any, kind: type[Exception]) -> None:
    """Also an error of the key's own code."""
    exchange, _ = exchange_of(EdgeKind.SHUFFLE, 2)
    with pytest.raises(kind) as raised:
        exchange.send(bundle_of([("a", 1), element]))
    assert "by key" == raised.value.transform  # type: ignore[attr-defined]


def test_there_is_room_for_as_many_elements_as_the_receivers_take_of_what_becomes_of_them() -> None:
    """At first each element may become one; a filter takes more than it sends, and a FlatMap less."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 2)
    assert exchange.room is None
    for channel in channels:
        channel.limit_to(32)
    assert 64 == exchange.room
    exchange.took(999)
    assert 64 * 1000 == exchange.room
    exchange.send(bundle_of([("a", n) for n in range(9)]))
    # The key's owner has room for 23 more.
    assert 23 * 2 * 1000 // 10 == exchange.room
    for channel in channels:
        while channel.queue:
            channel.take()
    exchange.is_buffering = True
    exchange.send(bundle_of([("a", n) for n in range(990)]))
    assert 64 == exchange.room
    exchange.flush()
    for channel in channels:
        while channel.queue:
            channel.take()
    assert 64 == exchange.room


def test_what_an_edge_has_sent_long_ago_counts_for_little() -> None:
    """A filter that has passed nothing passes everything from now on."""
    exchange, (channel,) = exchange_of(EdgeKind.FORWARD, 1)
    channel.limit_to(32)
    exchange.took(1_000_000)
    for _ in range(3 * MANY_ELEMENTS // 100):
        exchange.took(100)
        exchange.send(bundle_of(range(100)))
        channel.take()
    room = exchange.room
    assert room is not None
    # What is taken is counted before it is sent.
    assert 30 <= room <= 40


def test_each_channel_of_a_broadcast_has_room_for_all_elements() -> None:
    """Every receiver gets each of them."""
    exchange, channels = exchange_of(EdgeKind.BROADCAST, 3)
    for limit, channel in zip((50, 7, 32), channels, strict=True):
        channel.limit_to(limit)
    assert 7 == exchange.room


@pytest.mark.parametrize("n", [1, 2, 4])
def test_small_bundles_are_sent_together_while_an_exchange_buffers(n: int) -> None:
    """In the order of each channel."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, n)
    subtask_pairs = [[(key, i) for key in "abcdefgh"] for i in range(5)]
    exchange.is_buffering = True
    for i, pairs in enumerate(subtask_pairs):
        exchange.send(Bundle(pairs, i, WINDOWS))
    assert [[]] * n == [list(channel.queue) for channel in channels]
    exchange.flush()
    assert all(len(channel.queue) <= 1 for channel in channels)
    found = [row for channel in channels for row in rows(channel)]
    assert sorted((pair, i) for i, pairs in enumerate(subtask_pairs) for pair in pairs) == sorted(found)


def test_a_buffer_is_sent_when_it_is_large_enough() -> None:
    """With a thousand records for each channel."""
    exchange, channels = exchange_of(EdgeKind.SHUFFLE, 2)
    exchange.is_buffering = True
    exchange.send(bundle_of([(n, n) for n in range(2 * FRAME - 1)]))
    assert [0, 0] == [len(channel.queue) for channel in channels]
    exchange.send(bundle_of([(0, 0)]))
    assert [1, 1] == [len(channel.queue) for channel in channels]


@pytest.mark.parametrize("message", [WatermarkMoved(5), SignalCame(1, "flush"), Barrier(1)])
def test_a_broadcast_follows_the_elements_in_the_buffer(message: Message) -> None:
    """No element becomes late, and the buffer is empty when a snapshot is taken."""
    exchange, (channel,) = exchange_of(EdgeKind.SHUFFLE, 1)
    exchange.is_buffering = True
    exchange.send(bundle_of([("a", 1)]))
    exchange.broadcast(message)
    first, second = channel.queue
    assert (True, message) == (isinstance(first, Elements), second)


# --- Tables of folded elements


def tables(is_timed: bool = True, trigger: Trigger | None = None) -> tuple[Exchange, Channel]:
    """Return an exchange before sums in windows of ten seconds, and its channel."""
    windowing = beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=trigger or DefaultTrigger(),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=100,
    )
    graph = graph_of(lambda p: p | beam.Create([("a", 1)]) | windowing | beam.CombinePerKey(sum), 1)
    (edge,) = [edge for task in graph.tasks for edge in task.outputs]
    channel = Channel(ChannelId(edge.id, 0, 0))
    exchange = Exchange(edge, [channel], "Sum", None, is_timed)
    exchange.emit_watermark(0)
    channel.queue.clear()
    return exchange, channel


def many(second: int) -> Bundle:
    """Enough elements for a fold, in the window of a time."""
    start = second // 10 * 10
    return Bundle([("a", 1)] * 100, second * 1_000_000, (beam.window.IntervalWindow(start, start + 10),))


def shown(channel: Channel) -> list[Any]:
    """Take the messages of a channel: sums and numbers of elements, and what else there is."""
    messages = [channel.take() for _ in range(len(channel.queue))]
    return [
        [acc for _, acc in message.bundle.values]
        if isinstance(message, Elements)
        else message.micros
        if isinstance(message, WatermarkMoved)
        else type(message)
        for message in messages
    ]


def test_a_watermark_passes_a_table_until_it_is_at_the_end_of_a_window() -> None:
    """Then the elements come before it."""
    exchange, channel = tables()
    for second in (1, 14, 5, 8):
        exchange.send(many(second))
        exchange.emit_watermark(second * 1_000)
    assert [1_000, 14_000, 5_000, 8_000] == shown(channel)
    exchange.emit_watermark(9_999_999)
    exchange.emit_watermark(10_000_000)
    assert [9_999_999, [(300, 300), (100, 100)], 10_000_000] == shown(channel)
    exchange.send(many(14))
    exchange.emit_watermark(12_000_000)
    exchange.emit_watermark(MAX_MICROS)
    assert [12_000_000, [(100, 100)], MAX_MICROS] == shown(channel)


@pytest.mark.parametrize(
    "message", [Barrier(1), SignalCame(1, "now"), ClockMoved(1), PercentileMoved(0.5, 1), WatermarkMoved(None)]
)
def test_no_other_message_passes_a_table(message: Message) -> None:
    """Also the begin of idleness: the edge holds no watermark back then."""
    exchange, channel = tables()
    exchange.send(many(1))
    if isinstance(message, WatermarkMoved):
        exchange.emit_watermark(None)
        expected: Any = None
    else:
        exchange.broadcast(message)
        expected = type(message)
    assert [[(100, 100)], expected] == shown(channel)
    assert not exchange.has_table


def test_elements_of_an_idle_edge_do_not_wait() -> None:
    """The watermark of its receiver may pass them."""
    exchange, channel = tables()
    exchange.emit_watermark(None)
    channel.queue.clear()
    exchange.send(many(1))
    assert [[(100, 100)]] == shown(channel)


def test_elements_that_are_too_few_for_a_fold_do_not_overtake_a_table() -> None:
    """They join it, or go alone if there is none."""
    exchange, channel = tables()
    few = many(1).part(0, 1)
    exchange.send(few)
    assert [[1]] == shown(channel)
    exchange.send(many(1))
    exchange.send(few)
    assert [] == shown(channel)
    exchange.flush_table()
    assert [[(101, 101)]] == shown(channel)


@pytest.mark.parametrize(
    ("trigger", "second", "expected"),
    [(DefaultTrigger(), 1, 100), (DefaultTrigger(), -9, 5), (AfterWatermark(early=Always(), late=Always()), 1, 5)],
)
def test_a_table_waits_as_long_as_no_pane_may_be_due(trigger: Trigger, second: int, expected: int) -> None:
    """A hundred milliseconds; five where a trigger fires early, or behind the end of the window."""
    exchange, _ = tables(trigger=trigger)
    assert not exchange.has_waited(0)
    exchange.send(many(second))
    begin = 7_000
    assert not exchange.has_waited(begin)
    assert expected == next(ms for ms in range(1, 1_000) if exchange.has_waited(begin + ms * 1_000))
    exchange.flush_table()
    exchange.send(many(second))
    assert not exchange.has_waited(begin + 10**6)


def test_without_a_clock_a_table_does_not_wait_where_a_pane_may_be_due() -> None:
    """Panes shouldn't depend on how fast a machine is."""
    found = []
    for trigger in (DefaultTrigger(), AfterWatermark(early=Always(), late=Always())):
        exchange, _ = tables(False, trigger)
        exchange.send(many(1))
        found.append(exchange.has_waited(0))
    assert [False, True] == found
