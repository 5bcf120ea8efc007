"""A subtask: its inputs, its part of the task's work, and its outputs.

A subtask takes one step at a time: it processes a message, or polls a source.  It knows no process, no
pipe and no wall clock, so a simulation can run any number of subtasks in any order.

Source: ABS, section 3.2 (tasks and channels) and algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.redaction import logger_of
from ....windowing.timestamp import MAX_MICROS
from ...execution.clock import Clock, StepClock, UnboundedSteps
from ...execution.plan.execution_graph import Edge, EdgeKind, ExecutionGraph, SubtaskId, Task
from ...execution.streaming.in_flight import restored_in_front, restored_on_edge, restored_within_task
from ...execution.streaming.snapshot import Restored, forget_changes
from ...execution.streaming.snapshot_chunks import NEWS
from ...execution.streaming.state_settings import StateSettings
from ...execution.streaming.task_program import TaskProgram
from ..channels.channel import Channel, ChannelId
from ..channels.channel_limit import ChannelLimit
from ..channels.exchange import Exchange
from ..channels.messages import (
    Barrier,
    BarrierKind,
    ClockMoved,
    Elements,
    Message,
    PercentileMoved,
    Resumed,
    SignalCame,
    WatermarkMoved,
)
from .barriers import Barriers, SubtaskSnapshots
from .replay_dedup import NumberedExchange, Numbering, Repetitions
from .reports import CaughtUp, Completed, InputState, Played, Report, TaskMetrics
from .sources import SubtaskSources, time_of_scripts
from .watermarks import SubtaskWatermarks, percentiles_of

_logger = logger_of(__name__)

T = TypeVar("T")

# About how many elements are replayed with strong productions before there are new ones.
_REPLAYED = 10_000


class Subtask:
    """One parallel instance of a task.

    Args:
      execution_graph: the whole; `id` says which part of it this is.
      clock: processing time, which a script moves, or else the worker.
      channels: returns the channel of an id that begins or ends here.
      report: called with reports for the coordinator.
      transaction, unit: the transaction and the name of its sinks' writers.
      repeatable: the tasks that number their output.
      step_clock: the worker's; None if a step does everything at once.
      state: how much state may be in memory; None for all of it.

    Attributes:
      readers, scripts: its sources.
      choose: chooses the next input of those that have a message; in turn, unless it is replaced.
      barriers, repetitions: its parts; negative controls replace some of theirs.
      snapshots: takes its snapshots.
      is_held_up: its last step was not taken, since a receiver of its output was behind.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        id: SubtaskId,
        clock: Clock,
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        metrics: TaskMetrics,
        transaction: str,
        unit: str,
        repeatable: Collection[int] = (),
        step_clock: StepClock | None = None,
        state: StateSettings | None = None,
    ) -> None:
        self.id = id
        self.task: Task = execution_graph.tasks[id.task]
        if step_clock is None or execution_graph.plan.graph.has_script:
            # Where a script has the clock, results don't depend on how fast this machine is.
            step_clock = UnboundedSteps()
        has_loops = bool(execution_graph.plan.graph.loops())
        # Barriers count the feedback, so where there are loops everything before one is processed at once.
        own_clock = UnboundedSteps() if has_loops else step_clock
        self.execution = TaskProgram(
            execution_graph.plan,
            self.task,
            clock,
            metrics.user_metrics,
            metrics.counts,
            transaction,
            unit,
            step_clock=own_clock,
            state=state,
        )
        self._clock = clock
        self._report = report
        n = self._parallelism = execution_graph.parallelism
        self._numbering = Numbering() if id.task in repeatable else None
        is_timed = not execution_graph.plan.graph.is_bounded
        sources = self._sources = SubtaskSources(
            self.task, self.execution, id.index, n, metrics, self._numbering, is_timed, step_clock, has_loops
        )
        self.readers, self.scripts = sources.readers, sources.scripts
        numbered = any(edge.producer in repeatable for edge in self.task.inputs)
        self.repetitions = Repetitions() if numbered else None
        self._generation = 0
        self.inputs = {
            channel.id: channel
            for edge in self.task.inputs
            for source in _others(edge, id.index, n)
            for channel in [channels(ChannelId(edge.id, source, id.index))]
        }
        is_timed &= not execution_graph.plan.graph.has_script
        self.exchanges = [self._exchange(edge, channels, step_clock, is_timed) for edge in self.task.outputs]
        self._folding = [exchange for exchange in self.exchanges if exchange.folds]
        self._edges = {edge.id: edge for edge in self.task.inputs}
        self._has_stopped = False
        self.snapshots = SubtaskSnapshots(
            self.execution, id, n, self.readers, self.scripts, metrics, transaction, self._numbering
        )
        self.barriers = Barriers(self.execution, self.inputs, self._edges, self.snapshots, self._broadcast, report)
        self._back = self.barriers.back
        self._receivers = {edge.id: self.execution.receiver(edge) for edge in self.task.inputs}
        self._watermarks = SubtaskWatermarks(
            self.execution,
            self.inputs,
            self._back,
            self._edges,
            sources,
            self.exchanges,
            self._broadcast,
            percentiles_of(execution_graph),
        )
        self._paces = {edge.id: own_clock.pace(BUNDLE_SIZE) for edge in self.task.inputs}
        self._signals = 0
        self._turn = 0
        self.choose: Callable[[Sequence[ChannelId]], ChannelId] = self._in_turn
        self._has_completed = False
        self._has_paused = False
        self.is_held_up = False
        # Where no time passes, what waits in a channel doesn't depend on how fast this machine is.
        follows_time = step_clock.is_bounded and not step_clock.is_simulated
        self._is_measured = is_timed and follows_time and bool(self.inputs)
        self._limit: ChannelLimit | None = None
        self._may_begin = bool(self.task.sources) or any(edge.kind is EdgeKind.BACK for edge in self.task.outputs)

    def limit_channels(self) -> None:
        """Limit what waits in its channels to about a second of work, from now on."""
        if self._is_measured:
            self._limit = ChannelLimit(self.inputs, self._back)

    def worked(self, micros: int) -> None:
        """Take in the time of a step, or of a wait for receivers, and adapt the limit of its channels."""
        if self._limit is not None:
            self._limit.worked(micros, self.execution.has_pending)

    @property
    def _room(self) -> int | None:
        """About how many elements it may take before some receiver is behind; None if that needs no limit."""
        rooms = [room for exchange in self.exchanges if (room := exchange.room) is not None]
        return max(1, min(rooms)) if rooms else None

    def _exchange(
        self, edge: Edge, channels: Callable[[ChannelId], Channel], step_clock: StepClock, is_timed: bool
    ) -> Exchange:
        """Return an exchange for an edge that begins here, fed by the task's steps."""
        targets = _others(edge, self.id.index, self._parallelism)
        own = [channels(ChannelId(edge.id, self.id.index, target)) for target in targets]
        label = self.execution.output_label(edge)
        if self._numbering is None:
            exchange = Exchange(edge, own, label, step_clock, is_timed)
        else:
            exchange = NumberedExchange(edge, own, label, self._numbering, step_clock, is_timed)
        self.execution.dataflow.attach(edge.pcollection, exchange.send)
        return exchange

    def input_state(self) -> InputState:
        """Return the watermarks, signals and processing time received from its inputs."""
        watermarks, percentiles = self._watermarks.inputs()
        return InputState(watermarks, percentiles, self._signals, self._clock.now)

    def start(self, restored: Restored | None, inputs: InputState | None = None) -> None:
        """Begin: at the beginning, or at a snapshot.

        Args:
          inputs: the state of its inputs, if they will not send it again.
        """
        if inputs is not None:
            self._clock.now = max(self._clock.now, inputs.clock)
            self._signals = inputs.signals
            self._watermarks.restore(inputs.watermarks, inputs.percentiles)
        if restored is not None:
            self._clock.now = max(self._clock.now, time_of_scripts(self.execution.plan, restored))
            restored.into(self.execution)
        self._sources.start_readers(restored, self._clock.now)
        self._resume_numbers(restored)
        self._sources.start_scripts(restored)
        if restored is not None:
            self._process_in_flight(restored)
            # With productions, those that weren't acknowledged are replayed, from before the restart.
            restored.watch_keys(self.execution, 1 if inputs is None else _REPLAYED)
        self._moved()

    def _resume_numbers(self, restored: Restored | None) -> None:
        if self._numbering is not None:
            labels = [reader.label for reader in self.readers]
            self._numbering.resume(restored, labels, self.id.index, self._parallelism)
            for exchange in self.exchanges:
                assert isinstance(exchange, NumberedExchange)
                exchange.resume()

    def _process_in_flight(self, restored: Restored) -> None:
        """Process the records that were in flight when the snapshot was taken."""
        for messages in restored.newest("", NEWS):
            for message in messages:
                self._process_control(message, None)
        for receiver, bundle in restored_in_front(self.execution, restored):
            receiver(bundle)
        for edge in self.task.inputs:
            for bundle in restored_on_edge(self.execution, edge, restored):
                self._receivers[edge.id](bundle)
        for receiver, bundle in restored_within_task(self.execution, restored):
            receiver(bundle)
        self.execution.loops.process_restored()

    # Steps

    @property
    def is_idle(self) -> bool:
        """True if `step` has nothing to do until a message arrives.

        A worker asks each of its subtasks between any two messages, and in a long pipeline nearly all of them wait.
        """
        if self._may_begin or self._has_paused or self.execution.has_pending or self.execution.has_results:
            return False
        if self.barriers.due:
            return False
        return not any(channel.queue for channel in self.inputs.values())

    def step(self) -> bool:
        """Take the next step, if there is one, and room for its output.  Return True if anything was done."""
        barriers = self.barriers
        for channel in self.inputs.values():
            if channel.unaligned_barriers:
                barriers.take_unaligned()
                return True
        if self._has_paused and not self.execution.has_pending:
            self._pause_senders(False)
        for exchange in self.exchanges:
            exchange.pump()
        self.is_held_up = any(exchange.is_full for exchange in self.exchanges)
        if self.is_held_up:
            return False
        execution = self.execution
        if barriers.due and not barriers.waits_for_records:
            barriers.pass_due()
            return True
        has_pending = execution.has_pending and not execution.is_waiting_for_calls
        if execution.has_results and (not has_pending or barriers.is_expected):
            assert execution.async_runs is not None
            execution.async_runs.emit_results()
            self._moved()
            return True
        if barriers.due or (execution.has_pending and barriers.is_expected and barriers.waits_for_records):
            return self._go_on_to_barrier()
        if execution.has_pending and self._take_before_barrier():
            return True
        if has_pending:
            execution.resume()
            self._moved()
            return True
        return not execution.has_pending and (self._take() or self._poll())

    def _go_on_to_barrier(self) -> bool:
        """Go on with the records before an aligned barrier.  Return False if all of them wait for calls."""
        if not self.execution.resume(records_only=True):
            return False
        self._moved()
        return True

    def _take_before_barrier(self) -> bool:
        """Take a message from before a barrier that is expected, if there is one."""
        waiting = self.barriers.before_expected(self.ready())
        if waiting is None:
            return False
        self._pause_senders(True)
        self.take(waiting)
        return True

    def _pause_senders(self, is_paused: bool) -> None:
        """Pause the senders until the messages before a barrier have been processed, or their number would grow."""
        if is_paused != self._has_paused:
            self._has_paused = is_paused
            for id, channel in self.inputs.items():
                if id not in self._back:
                    channel.pause(is_paused)

    def expect(self, barrier: Barrier) -> None:
        """Process the records before an aligned barrier first from now on."""
        if barrier.kind is BarrierKind.CHECKPOINT:
            self.barriers.expected = barrier.number

    def change_over(self, barrier: Barrier) -> None:
        """Have an aligned barrier overtake the records before it from now on."""
        self.barriers.change_over(barrier)

    def buffer(self, is_buffering: bool) -> None:
        """Have small bundles wait for each other in the exchanges, or send them."""
        for exchange in self.exchanges:
            exchange.is_buffering = is_buffering
            if not is_buffering:
                exchange.flush()

    @property
    def has_tables(self) -> bool:
        """True if elements wait in a table of some exchange."""
        # A worker asks each of its subtasks after each of their turns.
        for exchange in self._folding:  # noqa: SIM110
            if exchange.has_table:
                return True
        return False

    def flush_tables(self, now: int | None = None, is_forced: bool = False) -> bool:
        """Send the tables; only those that have waited for their time, if that is given.

        A receiver that is behind would gain nothing by more messages, and later there may be fewer: its table waits.

        Args:
          is_forced: true to send that as well.

        Returns whether any was sent.
        """
        due = [each for each in self._folding if each.has_table and (now is None or each.has_waited(now))]
        sent = [exchange for exchange in due if is_forced or not exchange.is_full]
        for exchange in sent:
            exchange.flush_table()
        return bool(sent)

    @property
    def is_backpressured(self) -> bool:
        """True if a receiver of its output is behind."""
        return any(exchange.is_full for exchange in self.exchanges)

    def ready(self) -> list[ChannelId]:
        """Return the inputs with a message that may be taken now."""
        blocked = self.barriers.alignment.blocked
        return [id for id, channel in self.inputs.items() if channel.queue and id not in blocked]

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
        channel = self.inputs[id]
        pace, room = self._paces[id.edge].count, self._room
        channel.split_first(pace if room is None else min(pace, room))
        log = self.barriers.logs[id]
        if id in log.awaited:
            log.taken(id, channel.queue[0])
        message = channel.take()
        if isinstance(message, Elements):
            if self._limit is not None:
                self._limit.took(len(message.bundle))
            self._count_taken(len(message.bundle))
            bundle = message.bundle if message.origin is None else self._without_repetitions(id, message)
            if bundle is not None:
                self._receive(id.edge, bundle)
        elif isinstance(message, WatermarkMoved):
            self._watermarks.moved(id, message.micros)
            if self.repetitions is not None:
                self._replayed(partial(self.repetitions.moved, id, message.micros))
                if message.micros is not None and message.micros >= MAX_MICROS:
                    self.repetitions.ended(id)
        elif isinstance(message, Barrier):
            self.barriers.arrived(id, message)
            return
        elif isinstance(message, Resumed):
            self._resumed(id, message)
        else:
            self._process_control(message, id)
        self._moved()

    def _count_taken(self, elements: int) -> None:
        """Count elements that it has taken or read."""
        for exchange in self.exchanges:
            exchange.took(elements)

    def _receive(self, edge: int, bundle: Bundle) -> None:
        pace = self._paces[edge]
        pace.begin()
        self._receivers[edge](bundle)
        pace.end(len(bundle))

    def _without_repetitions(self, id: ChannelId, message: Elements) -> Bundle | None:
        """Return the numbered elements that haven't been processed before."""
        assert self.repetitions is not None
        return self._replayed(partial(self.repetitions.new_elements, id, message))

    def _resumed(self, id: ChannelId, message: Resumed) -> None:
        assert self.repetitions is not None
        self._replayed(partial(self.repetitions.resumed, id, message.sent))

    def _replayed(self, take_in: Callable[[], T]) -> T:
        """Take in what a sender has sent again; report if all senders have caught up by it."""
        assert self.repetitions is not None
        was_replaying = self.repetitions.is_replaying
        taken = take_in()
        if was_replaying and not self.repetitions.is_replaying:
            self._report(CaughtUp(self._generation))
        return taken

    def upstream_restarted(self, generation: int, number: int, channels: Mapping[ChannelId, Channel]) -> None:
        """Go on after other subtasks have restarted from the last checkpoint.

        Args:
          generation: the number of the restart.
          number: that of the last barrier before it: barriers up to this one are ignored.
          channels: new channels from the subtasks that have restarted, by the ids of those that they replace.
        """
        self._generation = generation
        self.barriers.forget(number)
        self.inputs.update(channels)
        if self._limit is not None:
            self._limit.apply()
        if channels:
            assert self.repetitions is not None
            watermarks, _ = self._watermarks.inputs()
            self.repetitions.expect_replay({id: watermarks[id] for id in channels})

    def _process_control(self, message: Message, id: ChannelId | None) -> None:
        """Process a message for all subtasks, and forward it before any output that follows from it."""
        if isinstance(message, ClockMoved):
            if message.now > self._clock.now or id is None:
                self._broadcast(message)
                self._clock.advance(max(0, message.now - self._clock.now))
        elif isinstance(message, SignalCame):
            if message.number > self._signals:
                self._signals = message.number
                self._broadcast(message)
                self.execution.signal(message.name)
        elif isinstance(message, PercentileMoved) and id not in self._back:
            input = self.scripts[0].label if id is None else id
            self._watermarks.percentile_moved(input, message.percentile, message.micros)

    def _broadcast(self, message: Message) -> None:
        for exchange in self.exchanges:
            exchange.broadcast(message)

    # Sources

    def _poll(self) -> bool:
        if self._sources.poll(self._clock.now, self._room):
            self._count_taken(self._sources.read)
            # If watermarks aren't read now, the next `tick` reads them.
            self._moved(reads_watermarks=self._sources.may_ask(self._clock.now))
            self._sources.done()
            return True
        played = self._sources.play()
        if played is None:
            return False
        if played.message is not None:
            self._process_control(played.message, None)
        self._moved()
        self._report(Played(played.position))
        return True

    def tick(self) -> None:
        """Do what is due by processing time, and read the sources' watermarks."""
        self._moved()

    def advance_loops(self, number: int, earliest: int | None, floor: int) -> None:
        """Advance the watermarks of loops (`AdvanceLoops`)."""
        self.execution.loops.complete_round(number, earliest, floor)
        self._moved()

    def play(self) -> None:
        """Allow the next event of a script: everything that the last one made due has been done."""
        self._sources.may_play()

    def drain(self) -> None:
        """Read nothing more, as if the input had ended here."""
        self._sources.drain()
        self._moved()

    def pause(self, is_paused: bool) -> None:
        """Have the sources wait, or go on."""
        self._sources.is_paused = is_paused

    def _moved(self, reads_watermarks: bool = True) -> None:
        """Have watermarks and clocks take effect, here and downstream."""
        self._watermarks.take_effect(self._clock.now, reads_watermarks)
        if not self._has_completed and self.is_complete():
            self._has_completed = True
            self._report(Completed())

    def is_complete(self) -> bool:
        """Return True if all input has been processed, and there will be no more output."""
        return self._sources.are_finished and self.execution.is_complete()

    def next_time(self) -> int | None:
        """Return the processing time, in microseconds, at which something may be due, or None."""
        return self.execution.next_processing_time()

    def inject(self, barrier: Barrier) -> None:
        """Inject a barrier into a subtask without inputs."""
        assert not self.inputs
        self.barriers.reached(barrier)

    def forget_changes(self) -> list[dict[Any, None]]:
        """Begin a new set of changes, since a forked child writes the last; return that, to be freed."""
        return forget_changes(self.execution)

    def stop(self, awaits_commit: bool = False) -> None:
        """Tear down user code, and close what is open.

        Args:
          awaits_commit: leaves sources open until the last checkpoint is committed.
        """
        self.execution.teardown()
        for exchange in self._folding:
            exchange.teardown()
        self._has_stopped = True
        if not awaits_commit:
            self.abandon()

    def committed(self, epoch: int, transactions: Sequence[str]) -> None:
        """Acknowledge a checkpoint that is durable."""
        if not self._has_stopped:
            self.snapshots.committed(epoch, transactions)
            return
        try:
            self.snapshots.committed(epoch, transactions)
        except Exception:
            # What the run has written is committed.
            _logger.warning(
                "%s: what it has read last can't be acknowledged, and may come again", self.task.label, exc_info=True
            )
        self.abandon()

    def abandon(self) -> None:
        """Close what is open, without calling user code."""
        self._sources.close()
        self.execution.abandon_calls()
        self.execution.close_backend()
        for output in self.execution.outputs:
            output.discard()


def _others(edge: Edge, index: int, parallelism: int) -> Sequence[int]:
    """Return the subtasks at the other end of an edge."""
    return [index] if edge.kind in (EdgeKind.FORWARD, EdgeKind.BACK) else range(parallelism)
