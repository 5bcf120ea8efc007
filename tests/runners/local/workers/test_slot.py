"""A slot's turns, and the tables of folded elements that its subtasks keep between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import pytest
from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.plan.execution_graph import SubtaskId
from penstock.runners.local.channels.channel import Channel, ChannelId
from penstock.runners.local.channels.messages import Elements
from penstock.runners.local.workers.slot import Slot, Start
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.triggers import AccumulationMode, Always, Trigger
from penstock.windowing.timestamp import MIN_MICROS

MANY = 100


class Bursts(UnboundedSource[Any]):
    """Gives as many bundles as a test says, and has no end."""

    left: ClassVar[int] = 0

    def partitions(self) -> Sequence[int]:
        return [0]

    def identity(self) -> Mapping[str, Any]:
        return {}

    def open(self, partition: int, offset: int | None) -> UnboundedReader[Any]:
        return BurstReader()


class BurstReader(UnboundedReader[Any]):
    def poll(self, max_elements: int, now: Any) -> Bundle | None:
        if Bursts.left == 0:
            return None
        Bursts.left -= 1
        return Bundle([("a", 1)] * MANY, 0)

    def offset(self) -> int:
        return 0

    def watermark(self, now: Any) -> int:
        return MIN_MICROS


@attrs.define
class Sender:
    """A slot with the source of sums, its clock, and the channel to the sums."""

    slot: Slot
    now: list[int]
    channel: Channel

    @staticmethod
    def of(trigger: Trigger | None) -> Sender:
        now = [0]
        windowing = beam.WindowInto(
            beam.window.FixedWindows(10), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING
        )
        graph = graph_of(lambda p: p | beam.io.Read(Bursts()) | windowing | beam.CombinePerKey(sum), 1)
        channels: dict[ChannelId, Channel] = {}

        def channel(id: ChannelId) -> Channel:
            return channels.setdefault(id, Channel(id))

        slot = Slot(graph, [SubtaskId(0, 0)], Start(None, None, "", "a"), channel, lambda report: None, lambda: now[0])
        slot.start()
        (own,) = channels.values()
        own.queue.clear()
        return Sender(slot, now, own)

    def sums(self) -> list[int]:
        """Take what was sent: of each message how many elements were folded."""
        messages = [self.channel.take() for _ in range(len(self.channel.queue))]
        return [message.elements for message in messages if isinstance(message, Elements)]


@pytest.mark.parametrize(("trigger", "turns"), [(None, 35), (Always(), 3)])
def test_a_table_is_sent_when_it_has_waited_while_the_slot_is_busy(trigger: Trigger | None, turns: int) -> None:
    """Three milliseconds pass with each turn of eight bundles: five may pass, or a hundred where no pane can be due."""
    sender = Sender.of(trigger)
    Bursts.left = 10**6
    found = []
    for _ in range(turns):
        sender.slot.work()
        sender.now[0] += 3_000
        found += sender.sums()
    assert [turns * 8 * MANY] == found


def test_a_table_is_sent_when_nothing_else_is_to_be_done() -> None:
    """However short it has waited."""
    sender = Sender.of(None)
    Bursts.left = 10
    assert [True, True] == [sender.slot.work() for _ in range(2)]
    assert [] == sender.sums()
    assert [True, False] == [sender.slot.work() for _ in range(2)]
    assert [10 * MANY] == sender.sums()


def test_a_table_waits_while_its_receiver_is_behind() -> None:
    """More messages wouldn't help it, and the table takes more elements later."""
    sender = Sender.of(Always())
    Bursts.left = 1
    sender.slot.work()
    sender.channel.pause(True)
    sender.now[0] += 10**6
    assert not sender.slot.work()
    assert [] == sender.sums()
    sender.channel.pause(False)
    assert sender.slot.work()
    assert [MANY] == sender.sums()
