"""A producer, step by step: what it logs and sends, and in which order."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.plan.execution_graph import SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.local.channels.channel import Channel, ChannelId, message_of
from penstock.runners.local.channels.messages import Elements
from penstock.runners.local.productions.log import ProductionLog
from penstock.runners.local.productions.producer import GroupCommit
from penstock.runners.local.productions.production import Delivery, Production, Sent, Taken, back, production_of
from penstock.runners.local.productions.slot import ProductionSlot, ProductionStart, log_directory
from penstock.sdk.errors import StaleWriterError
from penstock.windowing.timestamp import MAX_MICROS

FIRST, SECOND = SubtaskId(0, 0), SubtaskId(1, 0)


@attrs.define
class World:
    """One subtask of a pipeline's two tasks, on a disk of its own, with wires that lead nowhere.

    Attributes:
      now: microseconds.
      wires: by channel, what was sent.
    """

    is_weak: bool = False
    shortest: int = 1 << 20
    now: int = 0
    owners: int = 0
    disk: SimulatedDisk = attrs.field(factory=lambda: SimulatedDisk(Random(0)))
    wires: dict[ChannelId, Channel] = attrs.field(factory=dict)
    reports: list[Any] = attrs.field(factory=list)

    def wire(self, id: ChannelId) -> Channel:
        """Return the channel of a receiver."""
        return self.wires.setdefault(id, Channel(id))

    def slot(self, id: SubtaskId = FIRST) -> ProductionSlot:
        """A slot with this subtask, started anew; what is on the wires is lost."""
        p = beam.Pipeline()
        _ = p | beam.Create([("a", 1), ("b", 2)]) | "Sum" >> beam.CombinePerKey(sum) | "Out" >> beam.Map(str)
        graph = cut(fuse(p.graph(), lambda *_: False), 1)
        self.wires = {}
        self.owners += 1
        start = ProductionStart(
            store=None,
            checkpoint=None,
            transaction="",
            attempt=f"{self.owners:02x}",
            has_script=True,
            disk=self.disk,
            directory="dir",
            allotted={id: ("",)},
            keeps_transaction=True,
            weak=frozenset({id.task} if self.is_weak else ()),
            group_commit=GroupCommit(shortest=self.shortest),
        )
        slot = ProductionSlot(graph, [id], start, self.wire, self.reports.append, lambda: self.now)
        slot.start()
        return slot

    def sent(self) -> list[Sent]:
        """The messages on the channel from the first task to the second."""
        (wire,) = (wire for id, wire in self.wires.items() if id.edge >= 0)
        deliveries: list[Any] = list(wire.queue)
        return [sent for delivery in deliveries for sent in delivery.sent]

    def log(self, id: SubtaskId = FIRST) -> list[Production]:
        """Return the log that the next owner would find."""
        self.owners += 1
        log = ProductionLog(self.disk, log_directory("dir", id))
        return [production_of(record) for record in log.take_over(f"{self.owners:02x}")]


def elements_of(all_sent: list[Sent]) -> list[Any]:
    """Return the elements among the messages."""
    messages = [message_of(sent.kind, sent.payload) for sent in all_sent]
    return [value for message in messages if isinstance(message, Elements) for value in message.bundle.values]


def work(slot: ProductionSlot) -> None:
    """Run until there is nothing to do."""
    while slot.work():
        pass


def logged(productions: list[Production]) -> list[Any]:
    """Return the elements of the outputs in a log."""
    return elements_of([each for p in productions for outputs in p.outputs.values() for each in outputs])


@pytest.mark.parametrize("is_weak", [False, True])
def test_a_production_has_what_its_inputs_were_folded_into(monkeypatch: pytest.MonkeyPatch, is_weak: bool) -> None:
    """A table is in no state, so it is sent before the production is cut; also when nothing else would be due."""
    monkeypatch.setattr(pre_aggregation, "SMALLEST", 1)
    monkeypatch.setattr(pre_aggregation, "_WORTH", 1e9)
    world = World(is_weak=is_weak)
    slot = world.slot()
    while not (held := slot.subtasks[FIRST].has_tables):
        assert slot.producers[FIRST].step()
    assert (held, []) == (True, elements_of(world.sent()))
    assert slot.work()
    work(slot)
    assert [("a", (1, 1)), ("b", (2, 1))] == sorted(elements_of(world.sent()))
    if not is_weak:
        assert [("a", (1, 1)), ("b", (2, 1))] == sorted(logged(world.log()))
    assert not slot.subtasks[FIRST].has_tables


def test_strong_outputs_are_in_the_log_before_they_are_on_the_wire() -> None:
    """While the disk fails, nothing is sent."""
    world = World()
    slot = world.slot()
    world.disk.crashes = 1.0
    with pytest.raises(BaseException, match="productions"):
        work(slot)
    assert [] == elements_of(world.sent())

    world.disk.crashes = 0.0
    work(world.slot())
    assert [("a", 1), ("b", 2)] == elements_of(world.sent())
    assert [("a", 1), ("b", 2)] == logged(world.log())


def test_unacknowledged_messages_are_sent_again_with_their_ids() -> None:
    """With the same bytes, from the log, after a restart; acknowledged messages are not."""
    world = World()
    work(world.slot())
    before = world.sent()

    slot = world.slot()
    again = world.sent()
    assert before == again[: len(before)]
    world.wire(back(ChannelId(0, 0, 0))).put(Taken(again[-1].number))  # type: ignore[arg-type]
    work(slot)
    world.now += 20_000
    slot.producers[FIRST].report("something, so that there is a production")
    work(slot)

    work(world.slot())
    assert [] == elements_of(world.sent())


def test_a_weak_output_is_sent_first_and_not_logged_if_it_is_acknowledged() -> None:
    """The log has only the position of the source."""
    world = World(is_weak=True)
    slot = world.slot()
    work(slot)
    assert [("a", 1), ("b", 2)] == elements_of(world.sent())

    world.wire(back(ChannelId(0, 0, 0))).put(Taken(world.sent()[-1].number))  # type: ignore[arg-type]
    work(slot)

    productions = world.log()
    assert 2 <= len(productions)
    assert [] == logged(productions)
    assert 0 == slot.producers[FIRST].stragglers


def test_stragglers_are_logged_after_a_second_and_sent_again_after_a_failure() -> None:
    """So tasks upstream needn't wait for a slow receiver."""
    world = World(is_weak=True)
    slot = world.slot()
    work(slot)
    world.now += 999_999
    work(slot)
    assert 0 == slot.producers[FIRST].stragglers

    world.now += 1
    work(slot)

    assert 1 == slot.producers[FIRST].stragglers
    world.slot()
    assert [("a", 1), ("b", 2)] == elements_of(world.sent())


def test_a_weak_output_that_was_not_logged_is_produced_again_with_another_id() -> None:
    """It may be another output, so it must not count as a duplicate."""
    world = World(is_weak=True)
    work(world.slot())
    first = {sent.number for sent in world.sent() if elements_of([sent])}

    work(world.slot())

    assert [("a", 1), ("b", 2)] == elements_of(world.sent())
    assert first.isdisjoint(sent.number for sent in world.sent())


def test_a_receiver_acknowledges_durable_messages_and_drops_duplicates() -> None:
    """Also after a restart; then it acknowledges again."""
    world = World()
    work(world.slot())
    all_sent = world.sent()
    slot = world.slot(SECOND)
    wire, answers = world.wire(ChannelId(0, 0, 0)), world.wire(back(ChannelId(0, 0, 0)))
    wire.put(Delivery(tuple(all_sent), 0))  # type: ignore[arg-type]
    slot.step(SECOND)
    assert [] == list(answers.queue)
    while slot.work() or world.now < 20_000:
        world.now += 10_000
    last = all_sent[-1].number
    assert Taken(last) == answers.queue[-1]

    slot = world.slot(SECOND)
    world.wire(ChannelId(0, 0, 0)).put(Delivery(tuple(all_sent), 0))  # type: ignore[arg-type]
    work(slot)

    (receiver,) = slot._ends[SECOND].receivers.values()
    assert (len(all_sent), 0) == (receiver.duplicates, receiver.has_taken)
    assert [Taken(last)] == list(world.wire(back(ChannelId(0, 0, 0))).queue)


def test_no_message_is_acknowledged_before_it_is_durable() -> None:
    """Nor is a duplicate: its sender would drop it, and the death of the receiver would lose it."""
    world = World()
    work(world.slot())
    delivery: Any = Delivery(tuple(world.sent()), 0)
    slot = world.slot(SECOND)
    wire, answers = world.wire(ChannelId(0, 0, 0)), world.wire(back(ChannelId(0, 0, 0)))
    wire.put(delivery)
    slot.step(SECOND)
    wire.put(delivery)
    slot.step(SECOND)
    (receiver,) = slot._ends[SECOND].receivers.values()
    assert (True, len(delivery.sent)) == (receiver.has_taken > 0, receiver.duplicates)

    world.now += 20_000
    world.disk.crashes = 1.0
    with pytest.raises(BaseException, match="productions"):
        work(slot)

    assert [] == list(answers.queue)


def test_the_watermark_of_an_input_is_in_the_log() -> None:
    """It is acknowledged, so it is not sent again."""
    world = World()
    work(world.slot())
    delivery: Any = Delivery(tuple(world.sent()), 0)
    slot = world.slot(SECOND)
    world.wire(ChannelId(0, 0, 0)).put(delivery)
    while slot.work() or world.now < 20_000:
        world.now += 10_000

    assert {ChannelId(0, 0, 0): MAX_MICROS} == world.log(SECOND)[-1].heard.watermarks


def test_a_compacted_log_has_the_same_state() -> None:
    """After each production, here: one whole record."""
    world = World(shortest=0)
    slot = world.slot()
    for _ in range(200):
        slot.producers[FIRST].report("something")
        work(slot)

    productions = world.log()

    assert len(productions) < 100
    assert productions[0].is_whole
    work(world.slot())
    assert [("a", 1), ("b", 2)] == elements_of(world.sent())


def test_a_zombie_sends_nothing_that_its_successor_does_not_know() -> None:
    """Its next append is refused, before anything is released."""
    world = World()
    zombie = world.slot()
    wires = world.wires
    world.slot()

    with pytest.raises(StaleWriterError, match="00000002-02 has taken over from 00000001-01"):
        work(zombie)

    world.wires = wires
    assert [] == elements_of(world.sent())
