"""Barriers at one subtask: aligned, overtaking, or going round in a loop; and the snapshots that they ask for.

Snapshots of one subtask: its state, where its sources stand, and what its sinks have staged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...execution.plan.execution_graph import Edge, EdgeKind, SubtaskId
from ...execution.streaming.in_flight import on_the_way
from ...execution.streaming.restored import shown_positions
from ...execution.streaming.snapshot import snapshot, weight
from ...execution.streaming.snapshot_chunks import NEWS, POSITIONS, SCRIPT, Chunk, labels_of, records_of
from ...execution.streaming.task_execution import TaskExecution
from ..channels.channel import Channel, ChannelId
from ..channels.messages import Barrier, BarrierKind, ClockMoved, Encoded, Message, SignalCame
from .aligned import Alignment
from .feedback_log import LoopLog
from .replay_dedup import NUMBERS, ORIGIN, Numbering, Numbers
from .reports import Report, Settled, Snapshot
from .script_reader import ScriptInjector
from .source_reader import Injector
from .tally import Tally, sum_of
from .unaligned import Overtaking, as_it_is


class SubtaskSnapshots:
    """Takes a subtask's snapshots, and remembers what is to be done when they are durable.

    Args:
      transaction: what its sinks write to at first.
      numbering: of what is sent, if it is numbered.

    Attributes:
      large: how many entries make a snapshot that is left uncopied, for a child; None if there are no children.
      staged: by sink label, what was staged and isn't known to be committed: pairs of a transaction and a token.
    """

    def __init__(
        self,
        execution: TaskExecution,
        id: SubtaskId,
        parallelism: int,
        injectors: Sequence[Injector],
        scripts: Sequence[ScriptInjector],
        tally: Tally,
        transaction: str,
        numbering: Numbering | None = None,
    ) -> None:
        self._execution = execution
        self._id = id
        self._parallelism = parallelism
        self._numbering = numbering
        self._injectors = injectors
        self._scripts = scripts
        self._tally = tally
        self._transaction = transaction
        self.large: int | None = None
        self._taken: list[tuple[int, dict[str, list[Any]]]] = []
        self.staged: dict[str, list[tuple[str, Any]]] = {output.label: [] for output in execution.outputs}

    def take(self, barrier: Barrier, is_joined: bool) -> Snapshot:
        """Stage what the sinks have, and take a snapshot; `is_joined` if what is in flight will join its records."""
        for output in self._execution.outputs:
            output.stage()
            tokens, output.staged = output.staged, []
            self.staged[output.label] += [(self._transaction, token) for token in tokens]
            if barrier.transaction:
                output.next(barrier.transaction)
            else:
                # Behind the last barrier watermarks may still move, and windows close.
                output.end()
        self._transaction = barrier.transaction
        staged = {label: list(tokens) for label, tokens in self.staged.items() if tokens}
        now = self._execution.clock.now
        copied = Snapshot(barrier.epoch, (), (), staged, barrier.is_whole, sum_of([self._tally]), now)
        if self.large is not None and not is_joined and weight(self._execution, barrier.is_whole) >= self.large:
            positions = self._positions()
            self._taken.append((barrier.epoch, positions))
            return copied._replace(uncopied=lambda: self.chunks(barrier.is_whole)[0], offsets=_shown(positions))
        chunks, positions = self.chunks(barrier.is_whole)
        self._taken.append((barrier.epoch, positions))
        return copied._replace(records=records_of(chunks), labels=labels_of(chunks), offsets=_shown(positions))

    def chunks(self, is_whole: bool) -> tuple[list[Chunk], dict[str, list[Any]]]:
        """All that has to be remembered, or what has changed of it; and where the sources stand, by label."""
        chunks = snapshot(self._execution, is_whole)
        positions = self._positions()
        chunks += [Chunk(label, POSITIONS, None, own) for label, own in positions.items()]
        if self._numbering is not None:
            chunks += [Chunk(label, NUMBERS, None, self._numbers(self._numbering, label)) for label in positions]
            if self._execution.is_behind and self._numbering.origin is not None:
                label, partition = self._numbering.origin
                chunks.append(Chunk(label, ORIGIN, None, (self._id.index, self._parallelism, partition)))
        chunks += [Chunk(script.label, SCRIPT, None, script.position) for script in self._scripts if script.is_player]
        return chunks, positions

    def _numbers(self, numbering: Numbering, label: str) -> tuple[int, int, Numbers]:
        return self._id.index, self._parallelism, numbering.kept(label)

    def offsets(self) -> dict[str, list[tuple[str, str]]]:
        """By source label, its partitions and where they stand, as text."""
        return _shown(self._positions())

    def _positions(self) -> dict[str, list[Any]]:
        return {injector.label: injector.positions() for injector in self._injectors}

    def committed(self, epoch: int, transactions: Mapping[str, Any] | Sequence[str]) -> None:
        """A checkpoint is durable, and these transactions of the sinks are committed."""
        done = set(transactions)
        for label, tokens in self.staged.items():
            self.staged[label] = [(transaction, token) for transaction, token in tokens if transaction not in done]
        for number, positions in self._taken:
            if number == epoch:
                for injector in self._injectors:
                    injector.acknowledge(positions[injector.label])
        self._taken = [entry for entry in self._taken if entry[0] > epoch]


def _shown(positions: Mapping[str, list[Any]]) -> dict[str, list[tuple[str, str]]]:
    return {
        label: shown_positions((each.partition, each.offset, each.is_finished) for each in own)
        for label, own in positions.items()
    }


class Barriers:
    """What one subtask does about barriers.

    Args:
      inputs: its channels; the mapping is the subtask's own.
      edges: those that its inputs are of, by number.
      tell: sends a message to all that take its output.
      report: called with what the coordinator has to know.

    Attributes:
      back: the inputs that barriers come back on.
      alignment, feedback_log: the alignment of the other inputs, and the log of these.
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
    ) -> None:
        self._execution = execution
        self._inputs = inputs
        self._edges = edges
        self._snapshots = snapshots
        self._tell = tell
        self._report = report
        regular = [id for id in inputs if edges[id.edge].kind is not EdgeKind.BACK]
        self.back = [id for id in inputs if id not in regular]
        self.alignment = Alignment(regular)
        # Barriers up to this number ask for nothing any more.
        self._past = -1
        self._overtaking = Overtaking(regular)
        self.expected = -1
        self._passed = -1
        self.feedback_log = LoopLog(self.back)
        # What is to be reported when the barrier has come back.
        self._in_loop: Snapshot | Settled | None = None
        # The state behind an unaligned barrier, while what is in flight before it is still coming.
        self._copied: Snapshot | None = None

    def blocks(self, id: ChannelId) -> bool:
        """Whether an input has to wait."""
        return self.alignment.is_blocked(id)

    def before_expected(self, ready: Sequence[ChannelId]) -> ChannelId | None:
        """Return one of these inputs on which the expected barrier is yet to come; None if there is none."""
        for id in ready:
            is_awaited = self.feedback_log.is_logging(id) if id in self.back else self._passed < self.expected
            if is_awaited:
                return id
        return None

    def taken(self, id: ChannelId, message: Message) -> None:
        """A message is about to be taken from an input: it may be part of a snapshot that is under way."""
        if self._overtaking.is_under_way:
            self._overtaking.taken(id, message)
        if self.feedback_log.is_logging(id):
            for each in as_it_is(message):
                self.feedback_log.came_back(id, each)

    def came(self, id: ChannelId, barrier: Barrier) -> None:
        """A barrier has been taken from an input."""
        if barrier.number <= self._past:
            return
        if id in self.back:
            self._came_back(id, barrier)
        elif self.alignment.arrived(id):
            self.at_barrier(barrier)

    def forget(self, number: int) -> None:
        """No barrier up to this number will come on all inputs any more: wait for none of them."""
        self._past = number
        self._passed = max(self._passed, number)
        self.alignment.cancel()

    def at_barrier(self, barrier: Barrier) -> None:
        """The barrier has come on all inputs: forward it, and take the snapshot (ABS, algorithm 1)."""
        self._tell(barrier)
        self._passed = max(self._passed, barrier.number)
        if self.back:
            self.feedback_log.begin(barrier.number)
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
        if not self.feedback_log.returned(id, barrier.number):
            return
        log, news, self._in_loop = self.feedback_log.taken(), self._in_loop, None
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
            while channel.unaligned_barriers:
                found = True
                barrier, ahead = channel.take_unaligned_barrier()
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
