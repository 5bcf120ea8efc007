"""A slot of producers: subtasks that share a process, each with a log of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs

from ....frozen import frozen
from ...execution.checkpoints.log_listing import ListedLog, LogListing
from ...execution.checkpoints.storage import Disk
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, SubtaskId
from ..channels.channel import Channel, ChannelId
from ..workers.protocol import Command, Report, Rewind
from ..workers.slot import Slot, Start
from .log import ProductionLog
from .producer import GroupCommit, Producer
from .production import Taken, back
from .receiver import Receiver
from .replay import Replay
from .sender import Sender

# Message numbers begin with the number of the log's generation, times this.
_GENERATION = 1 << 40


class Allot(NamedTuple):
    """A command: some transactions are committed; and these, by subtask, are allotted."""

    committed: tuple[str, ...]
    transactions: Mapping[SubtaskId, tuple[str, ...]]


def log_directory(directory: str, id: SubtaskId) -> str:
    """Return the directory of a subtask's log.

    >>> log_directory("dir", SubtaskId(2, 0))
    'dir/productions/2-0'
    """
    return f"{directory}/productions/{id.task}-{id.index}"


def listed_log(disk: Disk, listing: str, execution_graph: ExecutionGraph, id: SubtaskId) -> ListedLog | None:
    """Return the entry of a subtask's log in the list at a path; None without a path."""
    number = id.task * execution_graph.parallelism + id.index
    return ListedLog(LogListing(disk, listing), number) if listing else None


class _Ends:
    """One subtask's ends of its channels.

    Attributes:
      receivers, senders: the ends, by channel.
      wires, wires_back: the channels of deliveries and of acknowledgements, with the ends that they lead to.
    """

    def __init__(self) -> None:
        self.receivers: dict[ChannelId, Receiver] = {}
        self.senders: dict[ChannelId, Sender] = {}
        self.wires: list[tuple[Channel, Receiver]] = []
        self.wires_back: list[tuple[Channel, Sender]] = []

    def reconnect(self, changed: Collection[ChannelId], channels: Callable[[ChannelId], Channel]) -> None:
        """Connect channels to subtasks that were replaced, and send again what is not acknowledged."""
        self.wires = [
            (channels(receiver.id), receiver) if receiver.id in changed else (wire, receiver)
            for wire, receiver in self.wires
        ]
        self.wires_back = [
            (channels(back(sender.id)), sender) if sender.id in changed else (wire, sender)
            for wire, sender in self.wires_back
        ]
        for id in changed:
            if id in self.receivers:
                self.receivers[id].answer_on(channels(back(id)))
            if id in self.senders:
                self.senders[id].send_on(channels(id))

    def pump(self) -> bool:
        """Receive deliveries and acknowledgements.  Returns whether there were any."""
        done = False
        for wire, sender in self.wires_back:
            queue: Any = wire.queue
            while queue:
                taken = queue.popleft()
                assert isinstance(taken, Taken)
                done |= sender.acknowledge(taken.number)
        for wire, receiver in self.wires:
            queue = wire.queue
            while queue:
                receiver.deliver(queue.popleft())
                done = True
            receiver.answer()
        return done


class ProductionSlot(Slot):
    """Some of a run's subtasks, as producers.

    Attributes:
      receiver_type: the type of the receivers; a negative control has another one.
    """

    receiver_type: ClassVar[type[Receiver]] = Receiver
    limits_channels = False

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        start: ProductionStart,
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        clock: Callable[[], int],
    ) -> None:
        self._productions = start
        self._ends: dict[SubtaskId, _Ends] = {}
        self._logs: dict[SubtaskId, ProductionLog] = {}
        self._replays: dict[SubtaskId, Replay] = {}
        for id in ids:
            # The log is fenced before user code is set up.
            ahead = start.group_commit.ahead
            listed = listed_log(start.disk, start.listing, execution_graph, id)
            log = self._logs[id] = ProductionLog(start.disk, log_directory(start.directory, id), ahead, listed)
            self._replays[id] = Replay(log.take_over(start.attempt))
        super().__init__(execution_graph, ids, start, channels, report, clock)
        self.producers = {id: self._producer(id) for id in ids}

    def _producer(self, id: SubtaskId) -> Producer:
        start, ends = self._productions, self._ends[id]

        def release(report: Any) -> None:
            self._report((id, report))

        return Producer(
            self.subtasks[id],
            self._graph.parallelism,
            ends.receivers,
            ends.senders,
            self._logs[id],
            self._metrics[id],
            self._clock,
            release,
            start.allotted[id],
            start.keeps_transaction,
            id.task in start.weak,
            start.group_commit,
        )

    def _ends_of(self, id: SubtaskId, channels: Callable[[ChannelId], Channel]) -> Callable[[ChannelId], Channel]:
        task = self._graph.tasks[id.task]
        ends = self._ends[id] = _Ends()
        kinds = {edge.id: edge.kind for edge in (*task.inputs, *task.outputs)}
        incoming = {edge.id for edge in task.inputs}
        first = self._logs[id].number * _GENERATION + 1

        def end(channel: ChannelId) -> Channel:
            wire, wire_back = channels(channel), channels(back(channel))
            if channel.edge in incoming:
                receiver = ends.receivers[channel] = self.receiver_type(channel, wire_back)
                ends.wires.append((wire, receiver))
                return receiver
            is_bounded = kinds[channel.edge] is not EdgeKind.BACK
            sender = ends.senders[channel] = Sender(channel, wire, first, is_bounded)
            ends.wires_back.append((wire_back, sender))
            return sender

        return end

    def _reporter(self, id: SubtaskId) -> Callable[[Any], None]:
        def report(news: Any) -> None:
            self.producers[id].report(news)

        return report

    def start(self) -> None:
        for id, producer in self.producers.items():
            self._count_for(id)
            producer.start(self._replays.pop(id))

    # Restarts

    def rewind(self, rewind: Rewind, channels: Callable[[ChannelId], Channel]) -> None:
        """Connect the subtasks to those that were replaced; none of the slot's own restarts."""
        for ends in self._ends.values():
            ends.reconnect(rewind.channels, channels)

    # Work

    def work(self) -> bool:
        self._tick()
        done = False
        for id in self._last_first():
            done |= self._ends[id].pump()
            for _ in range(self._productions.group_commit.steps):
                if not self._produce(id):
                    break
                done = True
                if self.step_clock.took >= self.step_clock.length:
                    break
        if done:
            self._tick_while_busy()
        return done

    def _produce(self, id: SubtaskId) -> bool:
        """Let a producer do one step.  Returns whether it did anything."""
        self._count_for(id)
        self._begin_step(self.subtasks[id])
        done = self.producers[id].step()
        self._end_step(self.subtasks[id])
        return done

    def _last_first(self) -> Iterable[SubtaskId]:
        return reversed(self.producers)

    def step(self, id: SubtaskId) -> bool:
        self._tick()
        done = self._ends[id].pump()
        return self._produce(id) or done

    def next_time(self) -> int | None:
        times = [super().next_time(), *(producer.next_time() for producer in self.producers.values())]
        return min((time for time in times if time is not None), default=None)

    def obey(self, command: Command | Allot) -> None:
        if not isinstance(command, Allot):
            super().obey(command)
            return
        for id, producer in self.producers.items():
            producer.committed(command.committed)
            for transaction in command.transactions.get(id, ()):
                producer.allot(transaction)


@frozen(kw_only=True)
class ProductionStart(Start):
    """What producers start from, beside their logs.

    Attributes:
      disk, directory: the disk and directory of the logs.
      listing: the path of the list of the logs; "" for none.
      allotted: by subtask, the transactions that its sinks may write in.
      keeps_transaction: all sinks write in one transaction until the end.
      weak: the tasks whose productions are weak.
    """

    slot_type: ClassVar[type[Slot]] = ProductionSlot

    disk: Disk
    directory: str
    listing: str = ""
    allotted: Mapping[SubtaskId, tuple[str, ...]] = attrs.field(factory=dict)
    keeps_transaction: bool = False
    weak: frozenset[int] = frozenset()
    group_commit: GroupCommit = attrs.field(factory=GroupCommit)

    def transaction_of(self, id: SubtaskId) -> str:
        return self.allotted[id][0]

    def channels_back(self, id: ChannelId) -> Sequence[ChannelId]:
        return (back(id),)
