"""Barriers at one subtask, aligned, unaligned or in a loop, and the snapshots that they ask for.

The snapshot of a subtask is its state, its sources' positions, and what its sinks have staged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ...execution.plan.execution_graph import Edge, EdgeKind, SubtaskId
from ...execution.shuffle.blocks import encode_bundle
from ...execution.streaming.in_flight import in_flight_chunks
from ...execution.streaming.restored import shown_positions
from ...execution.streaming.snapshot import snapshot_in_parts, weight
from ...execution.streaming.snapshot_chunks import NEWS, POSITIONS, SCRIPT, Chunk, labels_of, records_of
from ...execution.streaming.task_program import TaskProgram
from ..channels.channel import Channel, ChannelId
from ..channels.messages import Barrier, BarrierKind, ClockMoved, Elements, Encoded, Message, SignalCame
from .replay_dedup import NUMBERS, ORIGIN, Numbering, Numbers
from .reports import Quiesced, Report, Snapshot, TaskMetrics, sum_of
from .script_reader import ScriptReader
from .sources import SourceReader


class Alignment:
    """Inputs that are blocked until a barrier has arrived on all inputs (ABS, algorithm 1).

    Messages before the barrier on one input are processed, while those behind it on another wait.  So the snapshot has
    every record from before the barrier, and none from behind it.

    Args:
      inputs: the channels.

    Attributes:
      blocked: the inputs that have to wait.

    >>> alignment = Alignment(["left", "right"])
    >>> alignment.arrived("left"), alignment.blocked
    (False, {'left'})
    >>> alignment.arrived("right"), alignment.blocked
    (True, set())
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._count = len(inputs)
        self.blocked: set[Hashable] = set()

    def arrived(self, channel: Hashable) -> bool:
        """Block an input at its barrier, or unblock all inputs if it is the last one.

        Returns whether the barrier has now arrived on all inputs.
        """
        self.blocked.add(channel)
        if len(self.blocked) < self._count:
            return False
        self.blocked.clear()
        return True

    def cancel(self) -> None:
        """Unblock all inputs: the barrier will not arrive on the others."""
        self.blocked.clear()


class MessageLog:
    """Log of the messages that come before a barrier on inputs, for a snapshot that is taken before they do.

    They are processed as usual, and are also part of the snapshot; after a failure they are processed first.

    - At an unaligned barrier a subtask takes its snapshot as soon as the first barrier has arrived, wherever that is in
      its queue (Flink, 2020): alignment would make a fast input wait for a slow one.  The log has the messages that
      wait before the barrier on each input, and those that are taken until it arrives on their input.  Elements from
      another process are still encoded, and are written without being decoded.
    - In a loop the barrier enters when it has arrived on all regular inputs, and the log has the messages on the
      back-edges until it returns there (ABS, algorithm 2).  Barriers return in the order in which they were sent.

    Args:
      inputs: the channels.

    Attributes:
      number: that of the barrier; -1 before the first.
      awaited: the inputs on which the barrier is yet to arrive.

    >>> log = MessageLog(["left", "right"])
    >>> log.begin(1)
    >>> log.arrived("left", 1, ["a"]), log.awaited
    (False, {'right'})
    >>> log.taken("right", "b")
    >>> log.arrived("right", 1, ["c"]), log.awaited
    (True, set())
    >>> log.messages()
    {'left': ['a'], 'right': ['b', 'c']}
    """

    def __init__(self, inputs: Collection[Hashable]) -> None:
        self._inputs = tuple(inputs)
        self.number = -1
        self.awaited: set[Hashable] = set()
        self._messages: dict[Hashable, list[Any]] = {}

    def begin(self, number: int) -> None:
        """Begin to log the messages before another barrier."""
        self.number = number
        self.awaited = set(self._inputs)
        self._messages = {input: [] for input in self._inputs}

    def taken(self, input: Hashable, message: Any) -> None:
        """Log a message that is about to be taken from an awaited input."""
        self._messages[input].extend(unshared(message))

    def arrived(self, input: Hashable, number: int, ahead: Sequence[Any] = ()) -> bool:
        """Log no more messages of an input, on which a barrier has arrived.

        Args:
          ahead: the messages before the barrier that wait on the input.

        Returns whether the barrier has now arrived on all inputs.
        """
        if number != self.number or input not in self.awaited:
            return False
        self.awaited.discard(input)
        self._messages[input].extend(chain.from_iterable(map(unshared, ahead)))
        return not self.awaited

    def messages(self) -> dict[Hashable, list[Any]]:
        """Remove and return the messages, by input."""
        taken, self._messages = self._messages, {}
        return taken


def unshared(message: Any) -> Iterator[Any]:
    """Yield a message with its elements encoded, since the steps that process them may change them."""
    if isinstance(message, Elements):
        yield from map(Encoded, encode_bundle(message.bundle))
    else:
        yield message


class SubtaskSnapshots:
    """Takes a subtask's snapshots, and acknowledges source positions and transactions when they are durable.

    Args:
      transaction: the transaction that its sinks write to at first.
      numbering: of its output, if that is numbered.

    Attributes:
      large: the number of entries from which a snapshot is left for a forked child to copy; None without forking.
      staged: by sink label, pairs of transaction and token that were staged, and aren't known to be committed.
    """

    def __init__(
        self,
        execution: TaskProgram,
        id: SubtaskId,
        parallelism: int,
        readers: Sequence[SourceReader],
        scripts: Sequence[ScriptReader],
        metrics: TaskMetrics,
        transaction: str,
        numbering: Numbering | None = None,
    ) -> None:
        self._execution = execution
        self._id = id
        self._parallelism = parallelism
        self._numbering = numbering
        self._readers = readers
        self._scripts = scripts
        self._metrics = metrics
        self._transaction = transaction
        self.large: int | None = None
        # Epochs and source positions of snapshots that aren't known to be durable.
        self._taken: list[tuple[int, dict[str, list[Any]]]] = []
        self.staged: dict[str, list[tuple[str, Any]]] = {output.label: [] for output in execution.outputs}

    def take(self, barrier: Barrier, has_in_flight: bool) -> Snapshot:
        """Stage the output of the sinks, and take a snapshot.

        Args:
          has_in_flight: whether records in flight will be added to the snapshot.
        """
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
        self._execution.look_at_memory()
        staged = {label: list(tokens) for label, tokens in self.staged.items() if tokens}
        now = self._execution.clock.now
        taken = Snapshot(
            barrier.epoch,
            (),
            (),
            staged,
            barrier.is_whole,
            sum_of([self._metrics]),
            now,
            base=barrier.base,
            kept=self._execution.kept(),
        )
        if self.large is not None and not has_in_flight and weight(self._execution, barrier.is_whole) >= self.large:
            positions = self._positions()
            self._taken.append((barrier.epoch, positions))
            return taken._replace(uncopied=lambda: self.chunks(barrier.is_whole)[0], offsets=_shown(positions))
        backend = self._execution.backend
        if backend is not None:
            backend.remeasure()
        chunks, later, positions = self._in_parts(barrier.is_whole)
        self._taken.append((barrier.epoch, positions))
        if backend is not None and barrier.is_portable:
            later = chain(later, backend.whole_chunks())
        elif backend is not None:
            spilled, tables = backend.snapshot(barrier.is_whole)
            later = chain(spilled, later)
            taken = taken._replace(tables=tables)
        labels = labels_of(chunks)
        if backend is not None:
            labels = tuple(dict.fromkeys([*labels, *backend.spilled]))
        return taken._replace(
            records=records_of(chunks), later=records_of(later), labels=labels, offsets=_shown(positions)
        )

    def chunks(self, is_whole: bool) -> tuple[list[Chunk], dict[str, list[Any]]]:
        """Return the chunks of a full or incremental snapshot, and the sources' positions by label."""
        chunks, later, positions = self._in_parts(is_whole)
        return [*chunks, *later], positions

    def _in_parts(self, is_whole: bool) -> tuple[list[Chunk], Iterator[Chunk], dict[str, list[Any]]]:
        """Return the chunks to serialize before the next step, those that may come later, and the positions."""
        chunks, later = snapshot_in_parts(self._execution, is_whole)
        positions = self._positions()
        chunks += [Chunk(label, POSITIONS, None, own) for label, own in positions.items()]
        if self._numbering is not None:
            chunks += [Chunk(label, NUMBERS, None, self._numbers(self._numbering, label)) for label in positions]
            if self._execution.has_pending and self._numbering.origin is not None:
                label, partition = self._numbering.origin
                chunks.append(Chunk(label, ORIGIN, None, (self._id.index, self._parallelism, partition)))
        chunks += [Chunk(script.label, SCRIPT, None, script.position) for script in self._scripts if script.is_player]
        return chunks, later, positions

    def _numbers(self, numbering: Numbering, label: str) -> tuple[int, int, Numbers]:
        return self._id.index, self._parallelism, numbering.kept(label)

    def offsets(self) -> dict[str, list[tuple[str, str]]]:
        """Return the partitions of each source and their positions, as text, by label."""
        return _shown(self._positions())

    def _positions(self) -> dict[str, list[Any]]:
        return {reader.label: reader.positions() for reader in self._readers}

    def committed(self, epoch: int, transactions: Mapping[str, Any] | Sequence[str]) -> None:
        """Acknowledge positions: a checkpoint is durable, and these transactions of the sinks are committed."""
        done = set(transactions)
        for label, tokens in self.staged.items():
            self.staged[label] = [(transaction, token) for transaction, token in tokens if transaction not in done]
        for number, positions in self._taken:
            if number == epoch:
                for reader in self._readers:
                    reader.acknowledge(positions[reader.label])
        self._taken = [entry for entry in self._taken if entry[0] > epoch]


def _shown(positions: Mapping[str, list[Any]]) -> dict[str, list[tuple[str, str]]]:
    return {
        label: shown_positions((each.partition, each.offset, each.is_finished) for each in own)
        for label, own in positions.items()
    }


class Barriers:
    """Processes barriers at one subtask.

    Args:
      inputs: its channels; the mapping is the subtask's own.
      edges: the edges of its inputs, by number.
      broadcast: sends a message on all of its output channels.
      report: called with reports for the coordinator.

    Attributes:
      back: the inputs from back-edges.
      alignment, feedback_log: the alignment of the other inputs, and the log of these.
      logs: by input, its log of messages that a snapshot needs.
      expected: the number of the last aligned barrier that was injected anywhere, as far as that is known.
      due: the aligned barriers that have arrived on all inputs, while records from before them are pending or in calls.
    """

    def __init__(
        self,
        execution: TaskProgram,
        inputs: Mapping[ChannelId, Channel],
        edges: Mapping[int, Edge],
        snapshots: SubtaskSnapshots,
        broadcast: Callable[[Message], None],
        report: Callable[[Report], None],
    ) -> None:
        self._execution = execution
        self._inputs = inputs
        self._edges = edges
        self._snapshots = snapshots
        self._broadcast = broadcast
        self._report = report
        regular = [id for id in inputs if edges[id.edge].kind is not EdgeKind.BACK]
        self.back = [id for id in inputs if id not in regular]
        self.alignment = Alignment(regular)
        # Barriers up to this number are ignored.
        self._past = -1
        self._in_flight = MessageLog(regular)
        self.expected = -1
        self.due: deque[Barrier] = deque()
        # A bounded pipeline publishes nothing before its end, so no reader sees what its barriers divide.
        self._waits = not execution.plan.graph.is_bounded
        self._passed = -1
        # The number of the last barrier that has arrived somewhere, aligned, and of the last that has changed over.
        self._aligning = -1
        self._changed_over = -1
        self.feedback_log = MessageLog(self.back)
        self.logs = dict.fromkeys(regular, self._in_flight) | dict.fromkeys(self.back, self.feedback_log)
        # The report to make when the barrier has returned on all back-edges.
        self._in_loop: Snapshot | Quiesced | None = None
        # The state at an unaligned barrier, until the barrier has arrived on every input.
        self._unaligned: Snapshot | None = None

    @property
    def is_expected(self) -> bool:
        """True if an aligned barrier was injected that hasn't passed yet."""
        return self._passed < self.expected

    @property
    def waits_for_records(self) -> bool:
        """True if an aligned barrier can't pass now: records from before it are pending, or in calls."""
        return self._waits and self._execution.has_records

    def before_expected(self, ready: Sequence[ChannelId]) -> ChannelId | None:
        """Return one of these inputs on which the expected barrier is yet to arrive, or None."""
        for id in ready:
            is_awaited = id in self.feedback_log.awaited if id in self.back else self._passed < self.expected
            if is_awaited:
                return id
        return None

    def arrived(self, id: ChannelId, barrier: Barrier) -> None:
        """Process a barrier that was taken from an input."""
        if barrier.number <= self._past:
            return
        if id in self.back:
            self._returned(id, barrier)
        else:
            self._aligning = barrier.number
            if self.alignment.arrived(id):
                self.reached(barrier)

    def reached(self, barrier: Barrier) -> None:
        """Process a barrier that has arrived on all inputs: at once, or when all records before it are processed."""
        if self.due or (barrier.kind is BarrierKind.CHECKPOINT and self.waits_for_records):
            self.due.append(barrier)
        else:
            self.at_barrier(barrier)

    def pass_due(self) -> None:
        """Process the first barrier that is due: all records before it have been processed."""
        self.at_barrier(self.due.popleft())

    def change_over(self, barrier: Barrier) -> None:
        """Have an aligned barrier overtake the records before it from now on, unless it has passed.

        Args:
          barrier: the same barrier, as an unaligned one.
        """
        if max(self._passed, self._past, self._changed_over) >= barrier.number:
            return
        self._changed_over = barrier.number
        is_due = any(due.number == barrier.number for due in self.due)
        self.due = deque(due for due in self.due if due.number != barrier.number)
        # An unaligned barrier may also overtake another one, which is still aligned.
        is_aligning = self._aligning == barrier.number
        blocked = [id for id in self._inputs if is_due or (is_aligning and id in self.alignment.blocked)]
        if is_aligning:
            self.alignment.cancel()
        for channel in self._inputs.values():
            channel.change_over(barrier.number)
        if not self._inputs and is_due:
            self.at_barrier(barrier)
        for id in blocked:
            self._overtook(id, barrier, ())
        self._report_if_complete()

    def forget(self, number: int) -> None:
        """Ignore barriers up to this number, which will not arrive on all inputs."""
        self._past = number
        self._passed = max(self._passed, number)
        self.due = deque(barrier for barrier in self.due if barrier.number > number)
        self.alignment.cancel()

    def at_barrier(self, barrier: Barrier) -> None:
        """Forward a barrier that has arrived on all inputs, and take the snapshot (ABS, algorithm 1)."""
        self._broadcast(barrier)
        self._passed = max(self._passed, barrier.number)
        if self.back:
            self.feedback_log.begin(barrier.number)
        if barrier.kind is BarrierKind.QUIESCE:
            earliest, watermark = self._execution.loops.mark(barrier.number)
            self._done(Quiesced(barrier.number, earliest, watermark, self._execution.loops.are_behind()))
            return
        is_unaligned = barrier.kind is BarrierKind.UNALIGNED and bool(self._inputs)
        taken = self._snapshots.take(barrier, has_in_flight=bool(self.back) or is_unaligned)
        if is_unaligned:
            # Serialized before records in flight change the state.
            self._unaligned = taken._replace(records=list(taken.records))
        else:
            self._done(taken)

    def _done(self, report: Snapshot | Quiesced) -> None:
        """Report to the coordinator; in a loop, when the barrier has returned (ABS, algorithm 2)."""
        if not self.back:
            self._report(report)
            return
        # Serialized before records on the back-edges change the state.
        self._in_loop = report._replace(records=list(report.records)) if isinstance(report, Snapshot) else report

    def _returned(self, id: ChannelId, barrier: Barrier) -> None:
        if not self.feedback_log.arrived(id, barrier.number):
            return
        messages, report, self._in_loop = self.feedback_log.messages(), self._in_loop, None
        assert report is not None
        self._report(self._with_in_flight(report, messages) if isinstance(report, Snapshot) else report)

    def take_unaligned(self) -> None:
        """Take unaligned barriers out of the inputs, wherever they are, and the snapshot at the first of them."""
        for id, channel in self._inputs.items():
            while channel.unaligned_barriers:
                barrier, ahead = channel.take_unaligned_barrier()
                # On other inputs it may have arrived before it changed over.
                self.change_over(barrier)
                self._overtook(id, barrier, ahead)
        self._report_if_complete()

    def _overtook(self, id: ChannelId, barrier: Barrier, ahead: Sequence[Message]) -> None:
        """Process an unaligned barrier that has arrived on an input, before the messages that were ahead of it."""
        is_first = barrier.number > self._in_flight.number
        if is_first:
            self._in_flight.begin(barrier.number)
        self._in_flight.arrived(id, barrier.number, ahead)
        if is_first:
            self.at_barrier(barrier)

    def _report_if_complete(self) -> None:
        """Report the snapshot of an unaligned barrier that has arrived on every input."""
        if self._unaligned is not None and not self._in_flight.awaited:
            taken, self._unaligned = self._unaligned, None
            self._report(self._with_in_flight(taken, self._in_flight.messages()))

    def _with_in_flight(self, snapshot: Snapshot, messages: Mapping[Any, Sequence[Message]]) -> Snapshot:
        """Return a snapshot with the chunks of messages in flight, by channel."""
        chunks: list[Chunk] = []
        for id, waiting in messages.items():
            blocks = [message.block for message in waiting if isinstance(message, Encoded)]
            chunks += in_flight_chunks(self._execution.plan, self._edges[id.edge], blocks)
        labels = (*snapshot.labels, *(chunk.label for chunk in chunks))
        control = [m for waiting in messages.values() for m in waiting if isinstance(m, (ClockMoved, SignalCame))]
        if control:
            chunks.append(Chunk("", NEWS, None, control))
        return snapshot._replace(records=[*snapshot.records, *records_of(chunks)], labels=labels)
