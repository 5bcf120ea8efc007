"""Barriers at one subtask: aligned, overtaking, or going round in a loop; and the snapshots that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..execution.plan.execution_graph import Edge, EdgeKind
from ..execution.streaming.in_flight import on_the_way
from ..execution.streaming.snapshot_chunks import NEWS, Chunk, records_of
from ..execution.streaming.task_execution import TaskExecution
from .alignment import Alignment
from .channel import Channel, ChannelId
from .loop_log import LoopLog
from .messages import Barrier, BarrierKind, ClockMoved, Encoded, Message, SignalCame
from .overtaking import Overtaking, as_it_is
from .subtask_reports import Report, Settled, Snapshot
from .subtask_snapshots import SubtaskSnapshots


class Barriers:
    """What one subtask does about barriers.

    Args:
      inputs: its channels; the mapping is the subtask's own.
      edges: those that its inputs are of, by number.
      tell: sends a message to all that take its output.
      report: called with what the coordinator has to know.
      aligns, logs: False to show that the results are wrong then.

    Attributes:
      back: the inputs that barriers come back on.
      expected: the number of the last barrier that has been injected anywhere, as far as that is known.
    """

    def __init__(
        self,
        execution: TaskExecution,
        inputs: Mapping[ChannelId, Channel],
        edges: Mapping[int, Edge],
        snapshots: SubtaskSnapshots,
        tell: Callable[[Message], None],
        report: Callable[[Report], None],
        aligns: bool,
        logs: bool,
    ) -> None:
        self._execution = execution
        self._inputs = inputs
        self._edges = edges
        self._snapshots = snapshots
        self._tell = tell
        self._report = report
        regular = [id for id in inputs if edges[id.edge].kind is not EdgeKind.BACK]
        self.back = [id for id in inputs if id not in regular]
        self._regular, self._aligns = regular, aligns
        self._alignment = Alignment(regular, aligns)
        # Barriers up to this number ask for nothing any more.
        self._past = -1
        self._overtaking = Overtaking(regular)
        self.expected = -1
        self._passed = -1
        self._loop_log = LoopLog(self.back, logs)
        # What is to be reported when the barrier has come back.
        self._in_loop: Snapshot | Settled | None = None
        # The state behind an unaligned barrier, while what is in flight before it is still coming.
        self._copied: Snapshot | None = None

    def blocks(self, id: ChannelId) -> bool:
        """Whether an input has to wait."""
        return self._alignment.is_blocked(id)

    def before_expected(self, ready: Sequence[ChannelId]) -> ChannelId | None:
        """Return one of these inputs on which the expected barrier is yet to come; None if there is none."""
        for id in ready:
            is_awaited = self._loop_log.is_logging(id) if id in self.back else self._passed < self.expected
            if is_awaited:
                return id
        return None

    def taken(self, id: ChannelId, message: Message) -> None:
        """A message is about to be taken from an input: it may be part of a snapshot that is under way."""
        if self._overtaking.is_under_way:
            self._overtaking.taken(id, message)
        if self._loop_log.is_logging(id):
            for each in as_it_is(message):
                self._loop_log.came_back(id, each)

    def came(self, id: ChannelId, barrier: Barrier) -> None:
        """A barrier has been taken from an input."""
        if barrier.number <= self._past:
            return
        if id in self.back:
            self._came_back(id, barrier)
        elif self._alignment.arrived(id, barrier.number):
            self.at_barrier(barrier)

    def forget(self, number: int) -> None:
        """No barrier up to this number will come on all inputs any more: wait for none of them."""
        self._past = number
        self._passed = max(self._passed, number)
        self._alignment = Alignment(self._regular, self._aligns)

    def at_barrier(self, barrier: Barrier) -> None:
        """The barrier has come on all inputs: forward it, and take the snapshot (ABS, algorithm 1)."""
        self._tell(barrier)
        self._passed = max(self._passed, barrier.number)
        if self.back:
            self._loop_log.begin(barrier.number)
        if barrier.kind is BarrierKind.SETTLE:
            earliest, watermark = self._execution.mark_loops(barrier.number)
            self._done(Settled(barrier.number, earliest, watermark, self._execution.are_loops_behind()))
            return
        overtakes = barrier.kind is BarrierKind.UNALIGNED and bool(self._inputs)
        # What is in flight, or in a loop, joins the records here.
        copied = self._snapshots.take(barrier, is_joined=bool(self.back) or overtakes)
        if overtakes:
            # What comes of elements in flight must not be in it.
            self._copied = copied._replace(records=list(copied.records))
        else:
            self._done(copied)

    def _done(self, news: Snapshot | Settled) -> None:
        """Report what a barrier asked for; in a loop, when it has come back (ABS, algorithm 2)."""
        if not self.back:
            self._report(news)
            return
        # Elements that come back are processed, and what comes of them must not be in the copy.
        self._in_loop = news._replace(records=list(news.records)) if isinstance(news, Snapshot) else news

    def _came_back(self, id: ChannelId, barrier: Barrier) -> None:
        if not self._loop_log.returned(id, barrier.number):
            return
        log, news, self._in_loop = self._loop_log.taken(), self._in_loop, None
        assert news is not None
        self._report(self._with_in_flight(news, log) if isinstance(news, Snapshot) else news)

    def _with_in_flight(self, snapshot: Snapshot, messages: Mapping[Any, Sequence[Message]]) -> Snapshot:
        chunks = self._in_flight(messages)
        labels = (*snapshot.labels, *(chunk.label for chunk in chunks if chunk.kind != NEWS))
        return snapshot._replace(records=[*snapshot.records, *records_of(chunks)], labels=labels)

    def look_for_overtaking(self) -> bool:
        """Take the snapshot as soon as an unaligned barrier has come anywhere; whether there was one."""
        found = False
        for id, channel in self._inputs.items():
            while channel.overtaking:
                found = True
                barrier, ahead = channel.take_overtaking()
                if self._overtaking.seen(id, barrier.number, ahead):
                    self.at_barrier(barrier)
        if found and self._copied is not None and self._overtaking.is_complete:
            copied, self._copied = self._copied, None
            self._report(self._with_in_flight(copied, self._overtaking.in_flight()))
        return found

    def _in_flight(self, messages: Mapping[Any, Sequence[Message]]) -> list[Chunk]:
        """What was in flight before an unaligned barrier, or in a loop, as chunks."""
        chunks: list[Chunk] = []
        news: list[Message] = []
        for id, waiting in messages.items():
            blocks = [message.block for message in waiting if isinstance(message, Encoded)]
            chunks += on_the_way(self._execution.plan, self._edges[id.edge], blocks)
            news += [message for message in waiting if isinstance(message, (ClockMoved, SignalCame))]
        if news:
            chunks.append(Chunk("", NEWS, None, news))
        return chunks
