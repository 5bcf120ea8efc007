"""A subtask: its inputs, its part of the task's work, and its outputs.

It does one thing at a time, when it is told to: takes a message, or polls a source.  It knows
no process, no pipe and no clock of the wall, so a simulation can run any number of them in
any order.

Source: ABS, section 3.2 (tasks and channels) and algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from ...sdk import graph
from ...sdk.bundle import BUNDLE_SIZE, Bundle
from ...sdk.script import Script
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..execution.clock import Clock
from ..execution.execution_graph import EdgeKind, ExecutionGraph, Task
from ..execution.fusion import Grouping
from ..execution.percentiles import Percentiles
from ..execution.task_execution import TaskExecution
from ..execution.task_snapshot import (
    NEWS,
    POSITIONS,
    SCRIPT,
    Chunk,
    Restored,
    forget_changes,
    in_flight,
    in_flight_name,
    in_flight_within,
    labels_of,
    records_of,
    snapshot,
    weight,
)
from .alignment import Alignment
from .channel import Channel, ChannelId
from .exchange import Exchange
from .injector import Injector
from .loop_log import LoopLog
from .messages import (
    Barrier,
    BarrierKind,
    ClockMoved,
    Elements,
    Message,
    PercentileMoved,
    SignalCame,
    WatermarkMoved,
)
from .overtaking import Overtaking
from .script_injector import ScriptInjector, time_of_scripts
from .tally import Tally, sum_of


@attrs.frozen(order=True)
class SubtaskId:
    """Which task's, and which of its subtasks."""

    task: int
    index: int

    def __str__(self) -> str:
        return f"subtask {self.index} of task {self.task}"


class Snapshot(NamedTuple):
    """What a subtask has to say at a barrier that asks for a snapshot.

    Attributes:
      records: the chunks of it, serialised as they are asked for: at once, before anything else is done.
      labels: the steps that something is kept of.
      staged: by sink label, pairs of a transaction and a token, of all that isn't committed yet.
      tally: what was counted before the barrier.
      uncopied: None, or what makes the chunks, instead of records and labels: to be called by a forked child.
    """

    epoch: int
    records: Iterable[bytes]
    labels: tuple[str, ...]
    staged: dict[str, list[tuple[str, Any]]]
    is_whole: bool
    tally: Tally
    uncopied: Callable[[], list[Chunk]] | None = None


class Heard(NamedTuple):
    """What inputs have said, in microseconds: watermarks by channel, percentile watermarks; the number of the last
    signal, and processing time."""

    watermarks: dict[ChannelId, int | None]
    percentiles: dict[float, dict[Any, int]]
    signals: int
    clock: int


class Settled(NamedTuple):
    """Everything before a barrier has been done.

    Attributes:
      came_back: how many elements have come back in loops since the last such barrier.
      is_behind: whether the watermark in a loop is yet to follow the one before it.
    """

    number: int
    came_back: int = 0
    is_behind: bool = False


class Played(NamedTuple):
    """An event of a script has been played, up to here."""

    position: int


class Completed(NamedTuple):
    """Nothing more will come out."""


Report = Snapshot | Settled | Played | Completed


# Edges from each subtask to the one with the same number.
_ONE_TO_ONE = (EdgeKind.FORWARD, EdgeKind.BACK)


class Subtask:
    """One subtask.

    Args:
      execution_graph: the whole; `id` says which part of it this is.
      clock: processing time.  A script moves it, if there is one; else whoever has the clock of the wall.
      channels: a channel for each id that begins or ends here.
      report: called with what the coordinator has to know.
      transaction, unit: what its sinks' writers are opened for.

    Attributes:
      choose: which of the inputs that have something is next; in turn, unless somebody else decides.
      large: how many entries make a snapshot that is left uncopied, for a child; None if there are no children.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        id: SubtaskId,
        clock: Clock,
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        tally: Tally,
        transaction: str,
        unit: str,
        aligns: bool = True,
        logs: bool = True,
    ) -> None:
        self.id = id
        self.task: Task = execution_graph.tasks[id.task]
        self.execution = TaskExecution(
            execution_graph.plan, self.task, clock, tally.metrics, tally.counts, transaction, unit, folds=False
        )
        self._clock = clock
        self._tally = tally
        self._counts = tally.counts
        self._report = report
        self._transaction = transaction
        n = execution_graph.parallelism
        self.injectors: list[Injector] = []
        self.scripts: list[ScriptInjector] = []
        for step in self.task.sources:
            primitive = step.transform.primitive
            assert isinstance(primitive, graph.Read)
            if isinstance(primitive.source, Script):
                self.scripts.append(ScriptInjector(step, id.index))
            else:
                self.injectors.append(Injector(step, id.index, n))
        self._connect(n, channels)
        self._edges = {edge.id: edge for edge in self.task.inputs}
        # Barriers come on these; and on those they come back.
        regular = [id for id in self.inputs if self._edges[id.edge].kind is not EdgeKind.BACK]
        self._back = [id for id in self.inputs if id not in regular]
        self._alignment = Alignment(regular, aligns)
        self._overtaking = Overtaking(regular)
        self._loop_log = LoopLog(self._back, logs)
        # What is to be reported when the barrier has come back.
        self._in_loop: Snapshot | Settled | None = None
        # The state behind an unaligned barrier, while what is in flight before it is still coming.
        self._copied: Snapshot | None = None
        self._receivers = {edge.id: self.execution.receiver(edge) for edge in self.task.inputs}
        self._percentiles_used = _percentiles(execution_graph)
        # What each channel has said, for the least of them.
        self._watermarks: dict[ChannelId, int | None] = dict.fromkeys(self.inputs, MIN_MICROS)
        sources = [*(injector.label for injector in self.injectors), *(script.label for script in self.scripts)]
        self._percentiles = Percentiles([*(id for id in self.inputs if id not in self._back), *sources])
        self._signals = 0
        self._turn = 0
        self.choose: Callable[[Sequence[ChannelId]], ChannelId] = self._in_turn
        self.large: int | None = None
        self._may_play = False
        self._is_paused = False
        self._has_completed = False
        self._snapshots: list[tuple[int, dict[str, list[Any]]]] = []
        # By sink label, what was staged and isn't known to be committed.
        self._staged: dict[str, list[tuple[str, Any]]] = {output.label: [] for output in self.execution.outputs}

    def _connect(self, n: int, channels: Callable[[ChannelId], Channel]) -> None:
        index = self.id.index
        self.inputs: dict[ChannelId, Channel] = {}
        self.exchanges: list[Exchange] = []
        for edge in self.task.inputs:
            sources = [index] if edge.kind in _ONE_TO_ONE else range(n)
            for source in sources:
                channel = channels(ChannelId(edge.id, source, index))
                self.inputs[channel.id] = channel
        for edge in self.task.outputs:
            targets = [index] if edge.kind in _ONE_TO_ONE else range(n)
            own = [channels(ChannelId(edge.id, index, target)) for target in targets]
            producer = self.execution.plan.graph.pcollections[edge.pcollection].producer
            exchange = Exchange(edge, own, edge.step.transform.label if edge.kind is EdgeKind.SHUFFLE else producer)  # type: ignore[union-attr]
            self.exchanges.append(exchange)
            self.execution.dataflow.attach(edge.pcollection, exchange.send)

    def heard(self) -> Heard:
        """What its inputs have said that isn't in any of its steps."""
        return Heard(dict(self._watermarks), self._percentiles.kept(), self._signals, self._clock.now)

    def _hear_again(self, heard: Heard) -> None:
        self._clock.now = max(self._clock.now, heard.clock)
        self._signals = heard.signals
        self._watermarks.update(heard.watermarks)
        for edge in self._edges:
            self._move_edge(edge)
        self._percentiles.restore(heard.percentiles)
        for id in self.inputs:
            if id not in self._back and self._percentiles_used:
                micros = self._watermarks[id]
                self._percentiles.lets_go(id, micros is None or micros >= MAX_MICROS)

    def start(self, restored: Restored | None, heard: Heard | None = None) -> None:
        """Begin: at the beginning, or where a snapshot says.

        Args:
          heard: what the inputs have said, of which nobody will tell it again.
        """
        if heard is not None:
            self._hear_again(heard)
        if restored is not None:
            self._clock.now = max(self._clock.now, time_of_scripts(self.execution.plan, restored))
            restored.into(self.execution)
        for injector in self.injectors:
            positions: Sequence[Any] | None = None
            if restored is not None and (known := restored.newest(injector.label, POSITIONS)):
                positions = [position for own in known for position in own]
            injector.start(self._clock.now, positions)
        for script in self.scripts:
            position = max(restored.newest(script.label, SCRIPT), default=0) if restored is not None else 0
            script.start(self.execution, position)
        if restored is not None:
            self._replay(restored)
        self._moved()

    def _replay(self, restored: Restored) -> None:
        """Process what was in flight when the snapshot was taken."""
        for news in restored.newest("", NEWS):
            for message in news:
                self._hear(message, None)
        for edge in self.task.inputs:
            rows = [row for own in restored.newest(*in_flight_name(self.execution, edge)) for row in own]
            if rows:
                self._receivers[edge.id](Bundle(*map(list, zip(*rows, strict=True))))
        for receiver, rows in in_flight_within(self.execution, restored):
            if rows:
                receiver(Bundle(*map(list, zip(*rows, strict=True))))

    # One thing at a time

    def step(self) -> bool:
        """Do the next thing, if there is one and there is room for what comes of it; whether anything was done."""
        if self._look_for_overtaking():
            return True
        for exchange in self.exchanges:
            exchange.pump()
        if any(exchange.is_full for exchange in self.exchanges):
            return False
        return self._take() or self._poll()

    @property
    def is_held_up(self) -> bool:
        """Whether whoever takes its output is behind (backpressure)."""
        return any(exchange.is_full for exchange in self.exchanges)

    def ready(self) -> list[ChannelId]:
        """The inputs that have a message which may be taken now."""
        return [id for id, channel in self.inputs.items() if channel.queue and not self._alignment.is_blocked(id)]

    def _take(self) -> bool:
        ready = self.ready()
        if not ready:
            return False
        self.take(self.choose(ready))
        return True

    def _in_turn(self, ready: Sequence[ChannelId]) -> ChannelId:
        self._turn += 1
        return ready[self._turn % len(ready)]

    def take(self, id: ChannelId) -> None:
        """Take a message from an input, and do all that follows from it here."""
        if self._look_for_overtaking():
            return
        message = self.inputs[id].take()
        if self._overtaking.is_under_way:
            self._overtaking.taken(id, message)
        if self._loop_log.is_logging(id):
            self._loop_log.came_back(id, message)
        if isinstance(message, Elements):
            self._receivers[id.edge](message.bundle)
        elif isinstance(message, WatermarkMoved):
            self._watermarks[id] = message.micros
            self._move_edge(id.edge)
            if self._percentiles_used and id not in self._back:
                self._percentiles.lets_go(id, message.micros is None or message.micros >= MAX_MICROS)
                self._advance_percentiles()
        elif isinstance(message, Barrier):
            if id in self._back:
                self._barrier_came_back(id, message)
            elif self._alignment.arrived(id, message.number):
                self._at_barrier(message)
            return
        else:
            self._hear(message, id)
        self._moved()

    def _move_edge(self, edge: int) -> None:
        known = [micros for id, micros in self._watermarks.items() if id.edge == edge and micros is not None]
        self.execution.rest_edge(self._edges[edge], not known)
        if known:
            self.execution.move_edge(self._edges[edge], min(known))

    def _hear(self, message: Message, id: ChannelId | None) -> None:
        """Take in news that are for everybody, and pass them on before anything comes of them."""
        if isinstance(message, ClockMoved):
            if message.now > self._clock.now or id is None:
                self._tell(message)
                self._clock.advance(max(0, message.now - self._clock.now))
        elif isinstance(message, SignalCame):
            if message.number > self._signals:
                self._signals = message.number
                self._tell(message)
                self.execution.signal(message.name)
        elif isinstance(message, PercentileMoved) and id not in self._back:
            self._percentiles.said(self.scripts[0].label if id is None else id, message.percentile, message.micros)
            self._advance_percentiles()

    def _advance_percentiles(self) -> None:
        for share, micros in self._percentiles.moved().items():
            self._tell(PercentileMoved(share, micros))
            self.execution.advance_percentile(share, micros)

    def _tell(self, message: Message) -> None:
        for exchange in self.exchanges:
            exchange.tell(message)

    # Sources

    def _poll(self) -> bool:
        if self._is_paused:
            return False
        now = self._clock.now
        for injector in self.injectors:
            if injector.is_finished:
                continue
            bundle = injector.poll(BUNDLE_SIZE, now)
            if bundle is not None:
                count = self._counts.of(injector.label)
                count.read += len(bundle)
                count.written += len(bundle)
                self.execution.dataflow.send_to(injector.output)(bundle)
                self._moved()
                return True
        for script in self.scripts:
            if self._may_play and not script.is_finished:
                self._may_play = False
                news = script.play(self.execution, self._counts)
                if news is not None:
                    self._hear(news, None)
                self._moved()
                self._report(Played(script.position))
                return True
        return False

    def tick(self) -> None:
        """Time may have passed: look at what it makes due, and at the sources' watermarks."""
        self._moved()

    def quiet(self, number: int) -> None:
        """Nothing has come back in any loop between that barrier and the one after it."""
        self.execution.quiet_loops(number)
        self._moved()

    def play(self) -> None:
        """Everything that a script's last event made due has been done: play the next one."""
        self._may_play = True

    def drain(self) -> None:
        """Read nothing more, as if the input had ended here."""
        for injector in self.injectors:
            injector.drained = True
        self._moved()

    def pause(self, is_paused: bool) -> None:
        """Have the sources wait, or go on."""
        self._is_paused = is_paused

    def _moved(self) -> None:
        """Have watermarks and clocks take effect, here and further on."""
        execution, now = self.execution, self._clock.now
        for injector in self.injectors:
            micros = injector.watermark(now)
            execution.rest(injector.output, micros is None)
            if micros is not None:
                execution.move(injector.output, micros)
            if self._percentiles_used:
                self._percentiles.lets_go(injector.label, micros is None or micros >= MAX_MICROS)
                for share, own in injector.percentiles(now).items():
                    if share in self._percentiles_used:
                        self._percentiles.said(injector.label, share, own)
        if self._percentiles_used:
            for script in self.scripts:
                self._percentiles.lets_go(script.label, script.is_finished)
            self._advance_percentiles()
        execution.propagate()
        for exchange in self.exchanges:
            pcollection = exchange.edge.pcollection
            watermark = execution.watermark(pcollection)
            exchange.move(None if execution.is_idle(pcollection) and watermark < MAX_MICROS else watermark)
        if not self._has_completed and self.is_complete():
            self._has_completed = True
            self._report(Completed())

    def is_complete(self) -> bool:
        """Whether everything has come, and nothing more will come out."""
        has_read = all(injector.is_finished for injector in self.injectors)
        return has_read and all(script.is_finished for script in self.scripts) and self.execution.is_complete()

    def next_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return self.execution.next_processing_time()

    # Barriers

    def inject(self, barrier: Barrier) -> None:
        """Put a barrier into the stream, at a task that has no inputs."""
        assert not self.inputs
        self._at_barrier(barrier)

    def _at_barrier(self, barrier: Barrier) -> None:
        """The barrier has come on all inputs: forward it, and take the snapshot (ABS, algorithm 1)."""
        self._tell(barrier)
        if self._back:
            self._loop_log.begin(barrier.number)
        if barrier.kind is BarrierKind.SETTLE:
            came_back = self.execution.mark_loops(barrier.number)
            self._done(Settled(barrier.number, came_back, self.execution.are_loops_behind()))
            return
        copied = self._snapshot(barrier)
        if barrier.kind is BarrierKind.UNALIGNED and self.inputs:
            # What comes of elements in flight must not be in it.
            self._copied = copied._replace(records=list(copied.records))
        else:
            self._done(copied)

    def _done(self, news: Snapshot | Settled) -> None:
        """Report what a barrier asked for; in a loop, when it has come back (ABS, algorithm 2)."""
        if not self._back:
            self._report(news)
            return
        # Elements that come back are processed, and what comes of them must not be in the copy.
        self._in_loop = news._replace(records=list(news.records)) if isinstance(news, Snapshot) else news

    def _barrier_came_back(self, id: ChannelId, barrier: Barrier) -> None:
        if not self._loop_log.returned(id, barrier.number):
            return
        log, news, self._in_loop = self._loop_log.taken(), self._in_loop, None
        assert news is not None
        self._report(self._with_in_flight(news, log) if isinstance(news, Snapshot) else news)

    def _with_in_flight(self, snapshot: Snapshot, messages: Mapping[Any, Sequence[Message]]) -> Snapshot:
        chunks = self._in_flight(messages)
        labels = (*snapshot.labels, *(chunk.label for chunk in chunks if chunk.kind != NEWS))
        return snapshot._replace(records=[*snapshot.records, *records_of(chunks)], labels=labels)

    def _look_for_overtaking(self) -> bool:
        """Take the snapshot as soon as an unaligned barrier has come anywhere; whether there was one."""
        found = False
        for id, channel in self.inputs.items():
            while channel.overtaking:
                found = True
                barrier, ahead = channel.take_overtaking()
                if self._overtaking.seen(id, barrier.number, ahead):
                    self._at_barrier(barrier)
        if found and self._copied is not None and self._overtaking.is_complete:
            copied, self._copied = self._copied, None
            self._report(self._with_in_flight(copied, self._overtaking.in_flight()))
        return found

    def _in_flight(self, messages: Mapping[Any, Sequence[Message]]) -> list[Chunk]:
        """What was in flight before an unaligned barrier, or in a loop, as chunks."""
        chunks: list[Chunk] = []
        news: list[Message] = []
        for id, waiting in messages.items():
            bundles = [message.bundle for message in waiting if isinstance(message, Elements)]
            rows = [row for bundle in bundles for row in bundle.rows()]
            chunks += in_flight(self.execution, self._edges[id.edge], rows)
            news += [message for message in waiting if isinstance(message, (ClockMoved, SignalCame))]
        if news:
            chunks.append(Chunk("", NEWS, None, news))
        return chunks

    def _snapshot(self, barrier: Barrier) -> Snapshot:
        for output in self.execution.outputs:
            output.stage()
            tokens, output.staged = output.staged, []
            self._staged[output.label] += [(self._transaction, token) for token in tokens]
            output.next(barrier.transaction)
        self._transaction = barrier.transaction
        staged = {label: list(tokens) for label, tokens in self._staged.items() if tokens}
        copied = Snapshot(barrier.epoch, (), (), staged, barrier.is_whole, sum_of([self._tally]))
        # What is in flight, or in a loop, joins the records here.
        joined = self._back or (barrier.kind is BarrierKind.UNALIGNED and self.inputs)
        if self.large is not None and not joined and weight(self.execution, barrier.is_whole) >= self.large:
            self._snapshots.append((barrier.epoch, self._positions()))
            return copied._replace(uncopied=lambda: self.chunks(barrier.is_whole)[0])
        chunks, positions = self.chunks(barrier.is_whole)
        self._snapshots.append((barrier.epoch, positions))
        return copied._replace(records=records_of(chunks), labels=labels_of(chunks))

    def forget_changes(self) -> list[dict[Any, None]]:
        """A child makes the snapshot; what had changed before it, to be let go."""
        return forget_changes(self.execution)

    def chunks(self, is_whole: bool) -> tuple[list[Chunk], dict[str, list[Any]]]:
        """All that has to be remembered, or what has changed of it; and where the sources stand, by label."""
        chunks = snapshot(self.execution, is_whole)
        positions = self._positions()
        chunks += [Chunk(label, POSITIONS, None, own) for label, own in positions.items()]
        chunks += [Chunk(script.label, SCRIPT, None, script.position) for script in self.scripts if script.is_player]
        return chunks, positions

    def _positions(self) -> dict[str, list[Any]]:
        return {injector.label: injector.positions() for injector in self.injectors}

    def committed(self, epoch: int, transactions: Mapping[str, Any] | Sequence[str]) -> None:
        """A checkpoint is durable, and these transactions of the sinks are committed."""
        done = set(transactions)
        for label, tokens in self._staged.items():
            self._staged[label] = [(transaction, token) for transaction, token in tokens if transaction not in done]
        for number, positions in self._snapshots:
            if number == epoch:
                for injector in self.injectors:
                    injector.acknowledge(positions[injector.label])
        self._snapshots = [entry for entry in self._snapshots if entry[0] > epoch]

    # The end

    def stop(self) -> None:
        """It is over, all being well: tear down user code, and close what is open."""
        self.execution.teardown()
        self.abandon()

    def abandon(self) -> None:
        """Close what is open, without a word to user code."""
        for injector in self.injectors:
            injector.close()
        for output in self.execution.outputs:
            output.discard()


def _percentiles(execution_graph: ExecutionGraph) -> frozenset[float]:
    """The percentile watermarks that some trigger looks at."""
    groupings = [step for step in execution_graph.plan.steps if isinstance(step, Grouping)]
    return frozenset(share for step in groupings for share in step.primitive.windowing.trigger.percentiles())
