"""Exchanges: the receivers of elements and of other messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.runners.execution.plan.execution_graph import Edge, EdgeKind
from penstock.runners.execution.shuffle.partitioner import owner
from penstock.runners.local.channels.channel import CAPACITY, Channel, ChannelId
from penstock.runners.local.channels.exchange import FRAME, Exchange
from penstock.runners.local.channels.messages import Barrier, Elements, Message, SignalCame, WatermarkMoved
from penstock.sdk.bundle import Bundle
from penstock.sdk.coders.key_encoding import KEY_GROUPS, key_groups
from penstock.sdk.errors import InvalidKeyError, NotAPairError
from penstock.windowing import GLOBAL_WINDOW

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
