"""A slot: subtasks of a job in one process, which take turns; and what they start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import attrs

from ....frozen import frozen
from ....sdk.metrics import MetricsContainer, ReportsByStep, scoped
from ....sdk.user_code.step_slot import here
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import LONG_STEP, STEP, Clock, ProcessingTime, StepClock
from ...execution.error_transport import remote
from ...execution.page.observer import WorkerObserver
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId, Task
from ...execution.plan.fusion import has_async
from ...execution.streaming.observation import Observe, Observed, observed_of
from ...execution.streaming.output_sampler import OutputSampler
from ...execution.streaming.state_settings import StateSettings
from ...execution.wakeup import Wakeup
from ..channels.channel import Channel, ChannelId
from ..subtask.backlog import BacklogMeter
from ..subtask.reports import Report as SubtaskReport
from ..subtask.reports import Snapshot, TaskMetrics, sum_of
from ..subtask.subtask import Subtask
from .protocol import (
    AdvanceLoops,
    ChangeOver,
    Command,
    Commit,
    Counted,
    Drain,
    Failed,
    Inject,
    Pause,
    Play,
    Report,
    Rewind,
    Rewound,
    Stop,
    Stopped,
    SubtaskTime,
)
from .snapshot_writer import LARGE, PROCESSING_TIME, SnapshotWriter, restored_from

# Steps of a subtask's turn, and microseconds after which the turn ends earlier: small bundles wait so long for each
# other.
_TURN, _PATIENCE = 8, 5_000

# Microseconds between two ticks of a slot that is never idle.
_TICK = 10_000


class Slot:
    """Some of a job's subtasks.

    Args:
      ids: of the subtasks.
      channels: returns the channel of an id that begins or ends here.
      report: called with reports for the job.
      clock: microseconds since 1970; a `ProcessingTime`, unless it is a test's and never goes back.

    Attributes:
      has_stopped: true after the command to stop: there is no more work.
      has_ended: true when no more commands are awaited.
      observer: observes the subtasks for a page.
      step_clock: times the steps.
      subtask_type: the class of the subtasks; negative controls replace it.
      limits_channels: whether barriers wait for what is in the channels, so that its time is to be limited.
    """

    subtask_type: ClassVar[type[Subtask]] = Subtask
    limits_channels: ClassVar[bool] = True

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        start: Start,
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        clock: Callable[[], int],
    ) -> None:
        self._metrics: dict[SubtaskId, TaskMetrics] = {}
        self._reports: ReportsByStep | None = None
        self._of_nobody = MetricsContainer()
        self._start = start
        self._report = report
        self._clock = ProcessingTime.of(clock)
        if start.checkpoint is not None and not start.has_script:
            self._clock.go_on_from(start.checkpoint.metadata.get(PROCESSING_TIME, 0))
        self._jumped = self._clock.jumped
        self._graph = execution_graph
        self._clocks: dict[SubtaskId, Clock] = {}
        self.subtasks: dict[SubtaskId, Subtask] = {}
        self._writer = SnapshotWriter(start.store, execution_graph.parallelism, report, self._forget_changes)
        self._writes_in_background = False
        self.has_stopped = self.has_ended = False
        self._ticks_at = 0
        self.step_clock = start.step_clock or StepClock(LONG_STEP if start.has_script else STEP)
        self._ids = tuple(ids)
        self._has_calls = has_async(execution_graph.plan.steps)
        self.observer = SlotObserver(lambda: self.subtasks, execution_graph.tasks)
        # The microseconds of the steps of each subtask.
        self._busy: dict[SubtaskId, int] = {}
        # Since when subtasks are backpressured; and the microseconds in which each was so before.
        self._held_up: dict[SubtaskId, int] = {}
        self._backpressured: dict[SubtaskId, int] = {}
        self._made_at = self.step_clock.clock()
        self._injected_at = 0
        for id in ids:
            self._make(id, start, channels)

    def _make(self, id: SubtaskId, start: Start, channels: Callable[[ChannelId], Channel]) -> None:
        clock = self._clocks[id] = Clock(0 if start.has_script else self._clock())
        metrics = self._metrics[id] = sum_of([start.metrics[id]] if id in start.metrics else [])
        self.subtasks[id] = self.subtask_type(
            self._graph,
            id,
            clock,
            self._ends_of(id, channels),
            self._reporter(id),
            metrics,
            start.transaction_of(id),
            f"{start.attempt}-{id.task}-{id.index}",
            start.repeatable,
            self.step_clock,
            None if start.state is None else start.state.among(self._graph.tasks[id.task] for id in self._ids),
        )
        if self.limits_channels:
            self.subtasks[id].limit_channels()
        self.observer.made(self.subtasks[id])

    def _ends_of(self, id: SubtaskId, channels: Callable[[ChannelId], Channel]) -> Callable[[ChannelId], Channel]:
        """Return what gives a subtask's ends of its channels."""
        return channels

    def write_in_background(self) -> None:
        """Write snapshots in the background from now on: large ones by forked children, if that is safe."""
        self._writes_in_background = True
        self._writer.waits = False
        self._let_fork()

    def _let_fork(self) -> None:
        """Leave large snapshots for forked children to copy, if that is safe."""
        if self._writes_in_background and self._start.state is None and self._writer.may_fork():
            for subtask in self.subtasks.values():
                subtask.snapshots.large = LARGE

    def _forget_changes(self, id: SubtaskId) -> list[dict[Any, None]]:
        return self.subtasks[id].forget_changes()

    def _reporter(self, id: SubtaskId) -> Callable[[SubtaskReport], None]:
        def reports(report: SubtaskReport) -> None:
            if isinstance(report, Snapshot):
                self._writer.write(id, report._replace(waited=max(0, self._clock() - self._injected_at)))
            else:
                self._report((id, report))

        return reports

    def start(self) -> None:
        """Start all subtasks: at the beginning, or from the checkpoint."""
        for id in list(self.subtasks):
            self._begin(id, self._start)

    @property
    def wakeup(self) -> Wakeup | None:
        """The flag that is set when a call in the background has ended; None if no step has such calls."""
        return self.step_clock.wakeup if self._has_calls else None

    @property
    def has_pending(self) -> bool:
        """True if some subtask has pending work."""
        return any(subtask.execution.has_pending for subtask in self.subtasks.values())

    def _begin(self, id: SubtaskId, start: Start) -> None:
        with self._acting(id):
            restored = None
            if start.checkpoint is not None:
                assert start.store is not None
                backend = self.subtasks[id].execution.backend
                restored = restored_from(
                    start.store, start.checkpoint, id, self._graph.parallelism, self._graph.plan, backend
                )
                restored.drop_positions(start.sources_begun_anew)
                self._writer.restored(id, start.checkpoint)
            self.subtasks[id].start(restored)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the metrics of user code in this thread, in the `with` block: for the subtask that has its turn."""
        with scoped(MetricsContainer(), seconds={}) as self._reports:
            yield

    def _count_for(self, id: SubtaskId) -> None:
        """Count the metrics of user code for this subtask from now on."""
        if self._reports is not None:
            self._reports.container = self._metrics[id].user_metrics
            here.slot.spend_for(self._metrics[id].counts.seconds)

    def count_for_nobody(self) -> None:
        """Ignore the metrics of this thread until the next subtask has its turn: they are the job's."""
        if self._reports is not None:
            self._reports.container = self._of_nobody

    @contextmanager
    def _acting(self, id: SubtaskId) -> Iterator[None]:
        """Count metrics for this subtask, and report its failure if the others go on then."""
        try:
            self._count_for(id)
            yield
        except Exception as error:
            if not self._start.fail_alone:
                raise
            self._discard(id)
            self._report((id, Failed(remote(error))))

    def _discard(self, id: SubtaskId) -> None:
        """Remove a subtask, and ignore errors of closing it."""
        self._held_up.pop(id, None)
        subtask = self.subtasks.pop(id, None)
        if subtask is not None:
            with suppress(Exception):
                subtask.abandon()

    def rewind(self, rewind: Rewind, channels: Callable[[ChannelId], Channel]) -> None:
        """Restart the subtasks of a failover region, while the others go on.

        Args:
          channels: returns the new channel of an id.
        """
        start = self._start.rewound(rewind)
        own = tuple(id for id in self._ids if id in rewind.region)
        for id in own:
            self._discard(id)
        self._report((None, Rewound(rewind.generation, own)))
        for subtask in self.subtasks.values():
            inputs = {channel: channels(channel) for channel in rewind.channels if channel in subtask.inputs}
            subtask.upstream_restarted(rewind.generation, rewind.number, inputs)
        for id in own:
            with self._acting(id):
                self._make(id, start, channels)
        # The last tasks are still the last.
        self.subtasks = {id: self.subtasks[id] for id in self._ids if id in self.subtasks}
        self._let_fork()
        for id in own:
            if id in self.subtasks:
                self._begin(id, start)

    def work(self) -> bool:
        """Give each subtask a turn.  Return True if any did something."""
        self._tick()
        done = False
        # The last tasks first: output makes room for input.
        for subtask in list(reversed(self.subtasks.values())):
            if not subtask.is_idle:
                with self._acting(subtask.id):
                    done |= self._turn(subtask)
        done |= self._flush_tables(is_idle=not done)
        if done:
            self._tick_while_busy()
        return done

    def _flush_tables(self, is_idle: bool) -> bool:
        """Send the tables of elements that have waited for their time; all tables while nothing else is to be done.

        Returns whether there were any.
        """
        holding = [subtask for subtask in self.subtasks.values() if subtask.has_tables]
        if not holding:
            return False
        now = None if is_idle else self._clock()
        done = False
        for subtask in holding:
            with self._acting(subtask.id):
                self._begin_step(subtask)
                done |= subtask.flush_tables(now)
                self._end_step(subtask)
        return done

    def _tick_while_busy(self) -> None:
        """Tick while other subtasks are busy."""
        if not self._start.has_script and self._clock() >= self._ticks_at:
            self.tick()

    def _turn(self, subtask: Subtask) -> bool:
        """Give a subtask its turn, of a few steps or milliseconds.  Return True if it did something."""
        if not self._step(subtask):
            return False
        # Where a script has the clock, results don't depend on how fast this machine is.
        until = None if self._start.has_script else self._clock() + _PATIENCE
        subtask.buffer(True)
        for _ in range(_TURN - 1):
            if (until is not None and self._clock() >= until) or not self._step(subtask):
                break
        # What was buffered is folded now, which may call user code.
        self._begin_step(subtask)
        subtask.buffer(False)
        self._end_step(subtask)
        return True

    def _step(self, subtask: Subtask) -> bool:
        """Have a subtask take a step.  Return True if it did something."""
        self._begin_step(subtask)
        done = subtask.step()
        subtask.execution.spill_excess()
        self._end_step(subtask)
        return done

    def _end_step(self, subtask: Subtask) -> None:
        self.step_clock.rest()
        id = subtask.id
        worked = self.step_clock.took
        self._busy[id] = self._busy.get(id, 0) + self.step_clock.took
        if subtask.is_held_up:
            if id not in self._held_up:
                self._held_up[id] = self.step_clock.clock()
        elif id in self._held_up:
            # It went on at the beginning of this step.
            since = self.step_clock.clock() - self._held_up.pop(id) - self.step_clock.took
            self._backpressured[id] = self._backpressured.get(id, 0) + max(0, since)
            worked += max(0, since)
        subtask.worked(worked)

    def _begin_step(self, subtask: Subtask) -> None:
        self.step_clock.begin()

    def step(self, id: SubtaskId) -> bool:
        """Have one subtask take a step.  Return True if it did something."""
        self._tick()
        done = True
        with self._acting(id):
            done = id in self.subtasks and (self._step(self.subtasks[id]) or self.subtasks[id].flush_tables())
        return done

    @property
    def is_writing(self) -> bool:
        """True while snapshots are written in the background, which `work` and `tick` report when they are done."""
        return self._writer.has_pending and self._writer.is_writing

    def _tick(self) -> None:
        if self._writer.has_pending:
            self._writer.poll()
        if self._start.has_script:
            return
        now = self._clock()
        for clock in self._clocks.values():
            if clock.now > now:
                # A restored log had come further.
                now = self._clock.go_on_from(clock.now)
            clock.now = now
        if self._clock.jumped != self._jumped:
            self._report_jump()

    def _report_jump(self) -> None:
        """Tell the sources that processing time was set forward."""
        by, self._jumped = self._clock.jumped - self._jumped, self._clock.jumped
        for subtask in list(self.subtasks.values()):
            with self._acting(subtask.id):
                for reader in subtask.readers:
                    reader.time_jumped(by)

    def tick(self) -> None:
        """Do what is due by processing time, and read the sources' watermarks."""
        self._tick()
        self._ticks_at = self._clock() + _TICK
        for subtask in list(self.subtasks.values()):
            if subtask.readers or self._is_due(subtask):
                with self._acting(subtask.id):
                    self._begin_step(subtask)
                    subtask.tick()
                    self._end_step(subtask)

    def _is_due(self, subtask: Subtask) -> bool:
        time = subtask.next_time()
        return time is not None and time <= self._clocks[subtask.id].now

    def next_time(self) -> int | None:
        """Return the earliest processing time, in microseconds, at which something may be due, or None."""
        times = [subtask.next_time() for subtask in self.subtasks.values()]
        return min((time for time in times if time is not None), default=None)

    def obey(self, command: Command) -> None:
        """Obey a command of the job."""
        if isinstance(command, Observe):
            self.observer.obey(command)
            return
        if isinstance(command, Inject):
            self._injected_at = self._clock()
            for subtask in self.subtasks.values():
                subtask.expect(command.barrier)
        for id, subtask in list(self.subtasks.items()):
            with self._acting(id):
                self._obey(id, subtask, command)
        if isinstance(command, Stop):
            self.has_stopped = True
            self.has_ended = not command.awaits_commit
            self._report((None, Stopped(sum_of(self._metrics.values()), self._times())))
        elif self.has_stopped and isinstance(command, Commit):
            self.has_ended = True

    def _obey(self, id: SubtaskId, subtask: Subtask, command: Command) -> None:
        if isinstance(command, Inject):
            if not subtask.inputs:
                subtask.inject(command.barrier)
        elif isinstance(command, ChangeOver):
            subtask.change_over(command.barrier)
        elif isinstance(command, Play):
            subtask.play()
        elif isinstance(command, AdvanceLoops):
            subtask.advance_loops(*command)
        elif isinstance(command, Pause):
            subtask.pause(command.is_paused)
        elif isinstance(command, Drain):
            subtask.drain()
        elif isinstance(command, Commit):
            subtask.committed(command.epoch, command.transactions)
        elif isinstance(command, Stop):
            subtask.stop(command.awaits_commit)

    def counted(self) -> Counted:
        """Return counts and status."""
        readers = [reader for subtask in self.subtasks.values() for reader in subtask.readers]
        known = [n for n in (reader.backlog() for reader in readers) if n is not None]
        watermarks: dict[str, int] = {}
        for subtask in self.subtasks.values():
            for label, micros in subtask.execution.watermarks().items():
                watermarks[label] = min(micros, watermarks.get(label, micros))
        held_up = tuple(subtask.task.label for subtask in self.subtasks.values() if subtask.is_backpressured)
        metrics, backlog = sum_of(self._metrics.values()), sum(known) if known else None
        return Counted(metrics, held_up, backlog, watermarks, self._times(), self.observer.taken())

    def _times(self) -> dict[SubtaskId, SubtaskTime]:
        now = self.step_clock.clock()
        return {
            id: SubtaskTime(
                now - self._made_at,
                self._busy.get(id, 0),
                self._backpressured.get(id, 0) + now - self._held_up.get(id, now),
                sum(count.read for count in self._metrics[id].counts.steps.values()),
            )
            for id in self.subtasks
        }

    def abandon(self) -> None:
        """Close what is open, after the attempt has failed."""
        self.step_clock.rest()
        self._writer.abandon()
        for subtask in self.subtasks.values():
            subtask.abandon()


@frozen
class Start:
    """Settings and state that the subtasks of an attempt start from.

    Attributes:
      store: the store of snapshots; None if the run keeps none.
      checkpoint: the checkpoint to restore; None for the beginning.
      transaction: the first transaction of the sinks.
      attempt: unique to this attempt.
      has_script: whether processing time doesn't pass by itself: a script has the clock, or all input is bounded.
      fail_alone: whether the others go on when a subtask has failed.
      repeatable: the tasks that number their output.
      sources_begun_anew: the labels of sources whose positions in the checkpoint are dropped.
      metrics: counts of subtasks from before, in this attempt.
      step_clock: replaces the worker's own.
      state: how much of the state of a slot's subtasks may be in memory; None for all of it.
      slot_type: the class of the slots that start from it.
    """

    slot_type: ClassVar[type[Slot]] = Slot

    store: SnapshotStore | None
    checkpoint: Checkpoint | None
    transaction: str
    attempt: str
    has_script: bool = False
    fail_alone: bool = False
    repeatable: frozenset[int] = frozenset()
    sources_begun_anew: frozenset[str] = frozenset()
    metrics: Mapping[SubtaskId, TaskMetrics] = attrs.field(factory=dict)
    step_clock: StepClock | None = None
    state: StateSettings | None = None

    def rewound(self, rewind: Rewind) -> Start:
        """Return the start of the subtasks that a command restarts."""
        return attrs.evolve(
            self,
            checkpoint=rewind.checkpoint,
            transaction=rewind.transaction,
            attempt=rewind.attempt,
            metrics=rewind.metrics,
        )

    def transaction_of(self, id: SubtaskId) -> str:
        """Return the first transaction of a subtask's sinks."""
        return self.transaction

    def channels_back(self, id: ChannelId) -> Sequence[ChannelId]:
        """Return the channels from this channel's receiver back to its sender: none."""
        return ()


class SlotObserver(WorkerObserver[SubtaskId, OutputSampler]):
    """Observes the subtasks of a slot.

    Args:
      subtasks: the slot's subtasks, which may be replaced.
      tasks: all tasks of the job.
    """

    def __init__(self, subtasks: Callable[[], Mapping[SubtaskId, Subtask]], tasks: Sequence[Task]) -> None:
        super().__init__(__file__)
        self._subtasks = subtasks
        self._backlogs = BacklogMeter(tasks)

    def made(self, subtask: Subtask) -> None:
        """Observe a subtask that has been made, or replaced."""
        if self._wanted.is_open:
            self._attach(subtask, self._wanted)

    def _attach_all(self, wanted: Observe) -> None:
        for subtask in self._subtasks().values():
            self._attach(subtask, wanted)

    def _attach(self, subtask: Subtask, wanted: Observe) -> None:
        execution = subtask.execution
        self._samplers[subtask.id] = OutputSampler(execution, execution.clock, wanted.step, wanted.key, self._traffic)

    def _measured(self) -> Observed:
        subtasks = self._subtasks()
        observed = observed_of(sampler for id, sampler in self._samplers.items() if id in subtasks)
        return observed._replace(backlogs=self._backlogs.measure(subtasks.values()))
