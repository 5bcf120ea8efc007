"""Channels: their capacity."""

import socket
from typing import Any

import pytest

from penstock.runners.execution.shuffle.blocks import encode_bundle
from penstock.runners.execution.windows.combining import FoldedBundle
from penstock.runners.local.channels.channel import (
    CAPACITY,
    MANY_ELEMENTS,
    Channel,
    ChannelId,
    ReceivingEnd,
    SendingEnd,
)
from penstock.runners.local.channels.messages import Elements, Encoded, SignalCame
from penstock.sdk.elements.bundle import Bundle

NUMBERS = Bundle(list(range(MANY_ELEMENTS // 2)), 0)


def test_a_channel_is_full_when_many_elements_wait_in_however_few_messages() -> None:
    """All of it comes before the next barrier."""
    channel = Channel(ChannelId(0, 0, 0))
    found = []
    for _ in range(2):
        channel.put(Elements(NUMBERS))
        found.append(channel.is_full)
    channel.take()
    assert [False, True, False] == [*found, channel.is_full]


def test_encoded_elements_count_too() -> None:
    """Until they are taken."""
    channel = Channel(ChannelId(0, 0, 0))
    blocks = [Encoded(block) for block in encode_bundle(Bundle([("k" * 20, n) for n in NUMBERS.values], 0))]
    while not channel.is_full:
        for block in blocks:
            channel.arrive(block)
    assert len(channel.queue) < CAPACITY
    while channel.queue:
        channel.take()
    assert (0, False) == (channel.elements, channel.is_full)


def test_a_channel_is_full_when_many_messages_wait_without_elements() -> None:
    """Control messages and small bundles are bounded, too."""
    channel = Channel(ChannelId(0, 0, 0))
    for number in range(CAPACITY):
        channel.put(SignalCame(number, "flush"))
    assert (0, True) == (channel.elements, channel.is_full)


def test_the_sender_knows_of_a_message_that_was_taken_in_parts() -> None:
    """Of the last part, too, although a watermark waits behind it; it waited for that for ever."""
    left, right = socket.socketpair()
    with left, right:
        id = ChannelId(0, 0, 0)
        sending, receiving = SendingEnd(id, left), ReceivingEnd(id, right)
        receiving.limit_to(1_200)
        sending.put(Elements(NUMBERS))
        sending.put(SignalCame(1, "flush"))
        sending.look()
        assert sending.is_full
        while len(receiving.queue) < 2:
            receiving.read()
        for size in (1_500, 300, 300):
            receiving.split_first(size)
            receiving.take()
        sending.look()
        assert (1, 0, False) == (len(receiving.queue), sending.elements, sending.is_full)


@pytest.mark.parametrize("origin", [None, ("Read", 0)])
def test_accumulators_are_cut_unless_their_elements_are_numbered(origin: Any) -> None:
    """A slow merge would take as long as a table is large."""
    channel = Channel(ChannelId(0, 0, 0))
    channel.put(Elements(FoldedBundle([(n, (n, 1)) for n in range(9)]), origin))
    channel.split_first(4)
    sizes = [len(message.bundle) for message in channel.queue if isinstance(message, Elements)]
    assert ([4, 5] if origin is None else [9]) == sizes
