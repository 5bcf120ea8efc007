"""How long a worker waits, when there is nothing to do, before it asks its sources again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing.connection import Pipe
from socket import socketpair
from typing import Any

from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.local.channels.channel import ChannelId, ReceivingEnd
from penstock.runners.local.workers.pool import IDLE, MOMENT, SOON, ids_of
from penstock.runners.local.workers.process_loop import SlotProcess
from penstock.runners.local.workers.slot import Start
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing import Timestamp

# Processing time, in microseconds; and what waits to be read.
now = [0]
waiting: list[int] = []


class Watched(UnboundedSource[int]):
    """Its watermark is the clock."""

    def partitions(self) -> Sequence[str]:
        return ["all"]

    def open(self, partition: str, offset: Any) -> UnboundedReader[int]:
        return WatchedReader()


class WatchedReader(UnboundedReader[int]):
    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        return Bundle([waiting.pop()], [now.micros]) if waiting else None

    def offset(self) -> None:
        return None

    def watermark(self, now: Timestamp) -> int:
        return now.micros


def test_a_worker_hurries_when_its_sources_had_something_and_not_because_watermarks_move() -> None:
    """Watermarks that are the clock's move all the time: a stream that had nothing was asked 2,000 times a second."""
    graph = graph_of(lambda p: p | beam.io.Read(Watched()) | beam.Map(lambda n: (n, n)) | beam.Reshuffle(), 1)
    ours, theirs = Pipe()
    process = SlotProcess(theirs, [], graph, ids_of(graph), Start(None, None, "", "attempt"), (), lambda: now[0])
    slot = process._slot = process._make()
    slot.start()

    def turn(element: int | None) -> float:
        """Run one turn of a worker's loop, and return the time that it would wait."""
        now[0] += MOMENT
        waiting.extend([] if element is None else [element])
        slot.tick()
        while slot.work():
            process._look_at_sources(slot)
        return process._patience()

    assert [IDLE, IDLE, SOON, IDLE] == [turn(None), turn(None), turn(1), turn(None)]
    slot.abandon()
    ours.close()
    theirs.close()


def test_a_worker_sleeps_when_a_receiver_has_closed_its_pipe() -> None:
    """A closed pipe can be read all the time; one of a receiver that pauses or resumes wakes the worker, once."""
    graph = graph_of(lambda p: p | beam.io.Read(Watched()) | beam.Map(lambda n: (n, n)) | beam.Reshuffle(), 1)
    (command, control), (sender, receiver) = Pipe(), socketpair()
    id = ChannelId(0, 0, 0)
    process = SlotProcess(
        control, [sender], graph, ids_of(graph), Start(None, None, "", "attempt"), [(id, True)], lambda: now[0]
    )
    sending, receiving = process._channels[id], ReceivingEnd(id, receiver)

    def waited() -> float:
        began = time.monotonic()
        process._exchange(0.2)
        return time.monotonic() - began

    assert (True, False) == (waited() > 0.1, sending.is_full)
    receiving.pause(True)
    assert (True, True, True) == (waited() < 0.1, sending.is_full, waited() > 0.1)
    receiving.pause(False)
    assert (True, False, True) == (waited() < 0.1, sending.is_full, waited() > 0.1)
    receiver.close()
    assert (True, True) == (waited() < 0.1, waited() > 0.1)
    for end in (command, control, sender):
        end.close()
