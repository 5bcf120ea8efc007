"""A subtask: its inputs, its part of the task's work, and its outputs.

It does one thing at a time, when it is told to: takes a message, or polls a source.  It knows
no process, no pipe and no clock of the wall, so a simulation can run any number of them in
any order.

Source: ABS, section 3.2 (tasks and channels) and algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ....sdk.bundle import Bundle
from ....windowing.timestamp import MAX_MICROS
from ...execution.clock import Clock
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, SubtaskId, Task
from ...execution.streaming.in_flight import restored_on, restored_within
from ...execution.streaming.snapshot import Restored, forget_changes
from ...execution.streaming.snapshot_chunks import NEWS, Chunk
from ...execution.streaming.task_execution import TaskExecution
from ...execution.time_slice import TimeSlice
from ..channels.channel import Channel, ChannelId
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
from .inputs import exchanges_of, inputs_of
from .replay_dedup import NUMBERS, ORIGIN, NumberedExchange, Numbering, Repetitions
from .reports import CaughtUp, Completed, Heard, Played, Report, Settled, Snapshot
from .script_reader import time_of_scripts
from .sources import SubtaskSources
from .tally import Tally
from .watermarks import SubtaskWatermarks, percentiles_of

__all__ = ["CaughtUp", "Completed", "Heard", "Played", "Report", "Settled", "Snapshot", "Subtask", "SubtaskId"]

# About how many elements come again with strong productions before there are new ones.
_COMES_AGAIN = 10_000


class Subtask:
    """One subtask.

    Args:
      execution_graph: the whole; `id` says which part of it this is.
      clock: processing time.  A script moves it, if there is one; else whoever has the clock of the wall.
      channels: a channel for each id that begins or ends here.
      report: called with what the coordinator has to know.
      transaction, unit: what its sinks' writers are opened for.
      repeatable: the tasks that number what they send.
      time_slice: the worker's, after which loops are left; None if a step does everything at once.

    Attributes:
      choose: which of the inputs that have something is next; in turn, unless somebody else decides.
      barriers, repetitions: its parts; negative controls replace some of theirs.
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
        repeatable: Collection[int] = (),
        time_slice: TimeSlice | None = None,
    ) -> None:
        self.id = id
        self.task: Task = execution_graph.tasks[id.task]
        if execution_graph.plan.graph.has_script:
            # Where a script has the clock, nothing depends on how fast this machine is.
            time_slice = None
        has_loops = bool(execution_graph.plan.graph.loops())
        self.execution = TaskExecution(
            execution_graph.plan,
            self.task,
            clock,
            tally.metrics,
            tally.counts,
            transaction,
            unit,
            # What goes round in a loop is counted by barriers, so all that is before one has to be done.
            time_slice=None if has_loops else time_slice,
        )
        self._clock = clock
        self._report = report
        n = self._parallelism = execution_graph.parallelism
        self._numbering = Numbering() if id.task in repeatable else None
        is_timed = not execution_graph.plan.graph.is_bounded
        sources = self._sources = SubtaskSources(
            self.task, self.execution, id.index, n, tally, self._numbering, is_timed, time_slice, has_loops
        )
        self.injectors, self.scripts = sources.injectors, sources.scripts
        numbered = any(edge.producer in repeatable for edge in self.task.inputs)
        self.repetitions = Repetitions() if numbered else None
        self._generation = 0
        self.inputs = inputs_of(self.execution, id.index, n, channels)
        self.exchanges = exchanges_of(self.execution, id.index, n, channels, self._numbering, time_slice)
        self._edges = {edge.id: edge for edge in self.task.inputs}
        self._snapshots = SubtaskSnapshots(
            self.execution, id, n, self.injectors, self.scripts, tally, transaction, self._numbering
        )
        self.barriers = Barriers(self.execution, self.inputs, self._edges, self._snapshots, self._tell, report)
        self._back = self.barriers.back
        self._receivers = {edge.id: self.execution.receiver(edge) for edge in self.task.inputs}
        self._watermarks = SubtaskWatermarks(
            self.execution,
            self.inputs,
            self._back,
            self._edges,
            sources,
            self.exchanges,
            self._tell,
            percentiles_of(execution_graph),
        )
        self._signals = 0
        self._turn = 0
        self.choose: Callable[[Sequence[ChannelId]], ChannelId] = self._in_turn
        self._has_completed = False
        self._holds = False
        self._may_begin = bool(self.task.sources) or any(edge.kind is EdgeKind.BACK for edge in self.task.outputs)

    def heard(self) -> Heard:
        """What its inputs have said that isn't in any of its steps."""
        watermarks, percentiles = self._watermarks.heard()
        return Heard(watermarks, percentiles, self._signals, self._clock.now)

    def _hear_again(self, heard: Heard) -> None:
        self._clock.now = max(self._clock.now, heard.clock)
        self._signals = heard.signals
        self._watermarks.hear_again(heard.watermarks, heard.percentiles)

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
        self._sources.start_injectors(restored, self._clock.now)
        self._resume_numbers(restored)
        self._sources.start_scripts(restored)
        if restored is not None:
            self._replay(restored)
            # Productions that weren't acknowledged come again, from before the restart.
            restored.watch_keys(self.execution, 1 if heard is None else _COMES_AGAIN)
        self._moved()

    def _resume_numbers(self, restored: Restored | None) -> None:
        if self._numbering is None:
            return
        for injector in self.injectors:
            for index, parallelism, numbers in () if restored is None else restored.newest(injector.label, NUMBERS):
                # Elsewhere each channel's numbers begin anew, at both ends.
                if (index, parallelism) == (self.id.index, self._parallelism):
                    self._numbering.restore(injector.label, index, numbers)
            for index, parallelism, partition in () if restored is None else restored.newest(injector.label, ORIGIN):
                # What was left of a partition is still to be sent; elsewhere any origin will do, as long as it has one.
                if (index, parallelism) == (self.id.index, self._parallelism) or self._numbering.origin is None:
                    self._numbering.origin = injector.label, partition
        if self._numbering.origin is None and self.injectors:
            # What was left by subtasks that didn't number it is like a partition of its own.
            self._numbering.origin = self.injectors[0].label, None
        for exchange in self.exchanges:
            assert isinstance(exchange, NumberedExchange)
            exchange.resume()

    def _replay(self, restored: Restored) -> None:
        """Process what was in flight when the snapshot was taken."""
        for news in restored.newest("", NEWS):
            for message in news:
                self._hear(message, None)
        for edge in self.task.inputs:
            for bundle in restored_on(self.execution, edge, restored):
                self._receivers[edge.id](bundle)
        for receiver, bundle in restored_within(self.execution, restored):
            receiver(bundle)
        self.execution.come_back_again()

    # One thing at a time

    @property
    def is_idle(self) -> bool:
        """Whether `step` has nothing to do until a message comes.

        A worker asks each of its subtasks between any two messages, and in a long pipeline nearly all of them wait.
        """
        if self._may_begin or self._holds or self.execution.is_behind:
            return False
        return not any(channel.queue for channel in self.inputs.values())

    def step(self) -> bool:
        """Do the next thing, if there is one and there is room for what comes of it; whether anything was done."""
        if self.barriers.look_for_overtaking():
            return True
        if self._holds and not self.execution.is_behind:
            self._hold(False)
        for exchange in self.exchanges:
            exchange.pump()
        if any(exchange.is_full for exchange in self.exchanges):
            return False
        if self.execution.is_behind:
            return self._go_on()
        return self._take() or self._poll()

    def _go_on(self) -> bool:
        """Take what is before a barrier that is expected, or go on with what was left."""
        waiting = self.barriers.before_expected(self.ready())
        if waiting is not None:
            self._hold(True)
            self.take(waiting)
            return True
        self.execution.resume()
        self._moved()
        return True

    def _hold(self, is_held: bool) -> None:
        """Have the senders wait until what was taken in before a barrier has been processed, or it would only grow."""
        if is_held != self._holds:
            self._holds = is_held
            for id, channel in self.inputs.items():
                if id not in self._back:
                    channel.pause(is_held)

    def expect(self, barrier: Barrier) -> None:
        """A barrier is on its way: elements before it are taken in at once, so that none has to be processed first."""
        if barrier.kind is not BarrierKind.SETTLE:
            self.barriers.expected = barrier.number

    def gather(self, does: bool) -> None:
        """Have small bundles wait for each other before they are sent, or send what waits."""
        for exchange in self.exchanges:
            exchange.is_buffering = does
            if not does:
                exchange.flush()

    @property
    def is_held_up(self) -> bool:
        """Whether whoever takes its output is behind (backpressure)."""
        return any(exchange.is_full for exchange in self.exchanges)

    def ready(self) -> list[ChannelId]:
        """The inputs that have a message which may be taken now."""
        return [id for id, channel in self.inputs.items() if channel.queue and not self.barriers.blocks(id)]

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
        if self.barriers.look_for_overtaking():
            return
        channel = self.inputs[id]
        self.barriers.taken(id, channel.queue[0])
        message = channel.take()
        if isinstance(message, Elements):
            bundle = message.bundle if message.origin is None else self._fresh(id, message)
            if bundle is not None:
                self._receivers[id.edge](bundle)
        elif isinstance(message, WatermarkMoved):
            if self.repetitions is not None and message.micros is not None and message.micros >= MAX_MICROS:
                self.repetitions.ended(id)
            self._watermarks.moved(id, message.micros)
        elif isinstance(message, Barrier):
            self.barriers.came(id, message)
            return
        elif isinstance(message, Resumed):
            self._resumed(id, message)
        else:
            self._hear(message, id)
        self._moved()

    # Senders that have gone back

    def _fresh(self, id: ChannelId, message: Elements) -> Bundle | None:
        """What of numbered elements hasn't come before."""
        assert self.repetitions is not None
        were_coming = self.repetitions.are_coming
        bundle = self.repetitions.fresh(id, message)
        if were_coming and not self.repetitions.are_coming:
            self._report(CaughtUp(self._generation))
        return bundle

    def _resumed(self, id: ChannelId, message: Resumed) -> None:
        assert self.repetitions is not None
        were_coming = self.repetitions.are_coming
        self.repetitions.resumed(id, message.sent)
        if were_coming and not self.repetitions.are_coming:
            self._report(CaughtUp(self._generation))

    def others_went_back(self, generation: int, number: int, channels: Mapping[ChannelId, Channel]) -> None:
        """Others have gone back to the last checkpoint, and this subtask stays.

        Args:
          generation: the number of the restart.
          number: that of the last barrier before it: no such barrier comes any more, or asks for anything.
          channels: what takes the places of its inputs from those that have gone back.
        """
        self._generation = generation
        self.barriers.forget(number)
        self.inputs.update(channels)
        if channels:
            assert self.repetitions is not None
            self.repetitions.come_again(channels)

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
            input = self.scripts[0].label if id is None else id
            self._watermarks.percentile_moved(input, message.percentile, message.micros)

    def _tell(self, message: Message) -> None:
        for exchange in self.exchanges:
            exchange.broadcast(message)

    # Sources

    def _poll(self) -> bool:
        if self._sources.poll(self._clock.now):
            # Else whoever looks at what time makes due will ask, a moment later.
            self._moved(asks=self._sources.may_ask(self._clock.now))
            self._sources.done()
            return True
        played = self._sources.play()
        if played is None:
            return False
        if played.news is not None:
            self._hear(played.news, None)
        self._moved()
        self._report(Played(played.position))
        return True

    def tick(self) -> None:
        """Time may have passed: look at what it makes due, and at the sources' watermarks."""
        self._moved()

    def gone_round(self, number: int, earliest: int | None, floor: int) -> None:
        """What was in loops at that barrier has come back, or has left them."""
        self.execution.loops_have_gone_round(number, earliest, floor)
        self._moved()

    def play(self) -> None:
        """Everything that a script's last event made due has been done: play the next one."""
        self._sources.may_play()

    def drain(self) -> None:
        """Read nothing more, as if the input had ended here."""
        self._sources.drain()
        self._moved()

    def pause(self, is_paused: bool) -> None:
        """Have the sources wait, or go on."""
        self._sources.is_paused = is_paused

    def _moved(self, asks: bool = True) -> None:
        """Have watermarks and clocks take effect, here and further on; and what has come back in a loop go round."""
        self._watermarks.take_effect(self._clock.now, asks)
        if not self._has_completed and self.is_complete():
            self._has_completed = True
            self._report(Completed())

    def is_complete(self) -> bool:
        """Whether everything has come, and nothing more will come out."""
        return self._sources.are_finished and self.execution.is_complete()

    def next_time(self) -> int | None:
        """The processing time, in microseconds, at which something may be due."""
        return self.execution.next_processing_time()

    # Barriers

    def inject(self, barrier: Barrier) -> None:
        """Put a barrier into the stream, at a task that has no inputs."""
        assert not self.inputs
        self.barriers.at_barrier(barrier)

    def fork(self, large: int) -> None:
        """Leave snapshots of so many entries uncopied, for a child."""
        self._snapshots.large = large

    def forget_changes(self) -> list[dict[Any, None]]:
        """A child makes the snapshot; what had changed before it, to be let go."""
        return forget_changes(self.execution)

    def chunks(self, is_whole: bool) -> tuple[list[Chunk], dict[str, list[Any]]]:
        """All that has to be remembered, or what has changed of it; and where the sources stand, by label."""
        return self._snapshots.chunks(is_whole)

    def offsets(self) -> dict[str, list[tuple[str, str]]]:
        """By source label, its partitions and where they stand, as text."""
        return self._snapshots.offsets()

    @property
    def staged(self) -> Mapping[str, list[tuple[str, Any]]]:
        """By sink label, what was staged and isn't known to be committed: pairs of a transaction and a token."""
        return self._snapshots.staged

    def committed(self, epoch: int, transactions: Mapping[str, Any] | Sequence[str]) -> None:
        """A checkpoint is durable, and these transactions of the sinks are committed."""
        self._snapshots.committed(epoch, transactions)

    # The end

    def stop(self) -> None:
        """It is over, all being well: tear down user code, and close what is open."""
        self.execution.teardown()
        self.abandon()

    def abandon(self) -> None:
        """Close what is open, without a word to user code."""
        self._sources.close()
        for output in self.execution.outputs:
            output.discard()
