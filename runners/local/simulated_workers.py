"""Workers that a seed drives: slots in one thread, whose every next step is chosen by chance.

At each moment there is somebody who may go on: a subtask that takes a message, a pipe that delivers
one, a slot that hears a command, a report on its way to the job.  One of them is drawn.  Some are slower than
others, and now and then one stops for a while.  What goes from slot to slot goes through the same
bytes as between processes, first in, first out.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from functools import partial

from ..execution.execution_graph import ExecutionGraph
from ..execution.remote_error import remote
from ..execution.simulated_disk import SimulatedCrash
from .channel import Channel, ChannelId
from .commands import Command, Failed, Inject, Report, Stop, Stopped
from .messages import Barrier, BarrierKind, Message
from .pipe_channel import message_of, payloads_of
from .simulated_world import SimulatedWorld
from .slot import Slot, Start
from .subtask import SubtaskId
from .workers import WorkerDied, Workers, ids_of

# Does something, if there is anything to do; whether it did.
Actor = Callable[[], bool]


class _ShortChannel(Channel):
    """A channel within a slot, which is full as soon as the simulation likes."""

    __slots__ = ("capacity",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id)
        self.capacity = capacity

    @property
    def is_full(self) -> bool:
        return len(self.queue) >= self.capacity


class _SendingSide(_ShortChannel):
    """A channel to another slot: what is put becomes bytes at once.

    Attributes:
      frames: what is in the pipe.
    """

    __slots__ = ("frames",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id, capacity)
        self.frames: deque[tuple[int, bytes]] = deque()

    def put(self, message: Message) -> None:
        self.frames.extend(payloads_of(message))

    @property
    def is_full(self) -> bool:
        return len(self.frames) >= self.capacity


class _Pipe:
    """Between two slots."""

    def __init__(self, id: ChannelId, capacity: int) -> None:
        self.sending = _SendingSide(id, capacity)
        self.receiving = _ShortChannel(id, capacity)
        self.seen = -1

    def deliver(self, expected: int) -> bool:
        """Move one message on, if there is room for it, or an unaligned barrier is yet to come."""
        if not self.sending.frames or (self.receiving.is_full and self.seen >= expected):
            return False
        message = message_of(*self.sending.frames.popleft())
        if isinstance(message, Barrier):
            self.seen = message.number
        self.receiving.arrive(message)
        return True


class _SimulatedSlot:
    """One slot, what it is yet to hear, and what the job is yet to hear of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.slot: Slot | None = None
        self.commands: deque[bytes] = deque()
        self.reports: deque[Report] = deque()
        self.has_ended = False
        self.has_stopped = False
        # The unaligned barrier that is on its way.
        self.expected = -1


class SimulatedWorkers(Workers):
    """So many slots in this thread; a subtask runs in the slot of its number.

    Args:
      visit: called whenever the job waits, for whoever has wishes then.
    """

    def __init__(self, slots: int, world: SimulatedWorld, visit: Callable[[], None] = lambda: None) -> None:
        self.slots = slots
        self._world = world
        self._visit = visit
        self._slots: list[_SimulatedSlot] = []
        self._pipes: dict[ChannelId, _Pipe] = {}
        self._local: dict[ChannelId, Channel] = {}
        self._arrived: list[Report] = []
        self._actors: list[Actor] = []
        self._halted: dict[Actor, int] = {}
        # How long a step takes, in microseconds, at most; and how large channels are.
        random = world.random
        self._pace = random.choice([50, 200, 200, 1000])
        self._capacity = random.choice([1, 3, 32])
        self._halts = random.choice([0.0, 0.0, 0.003])

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._world.step(f"{self.slots} workers start at {start.checkpoint and start.checkpoint.epoch}")
        self._slots = [_SimulatedSlot(number) for number in range(self.slots)]
        self._pipes, self._local, self._arrived, self._actors, self._halted = {}, {}, [], [], {}
        own: list[list[SubtaskId]] = [[] for _ in range(self.slots)]
        for id in ids_of(execution_graph):
            own[id.index % self.slots].append(id)
        for slot in self._slots:
            begin = partial(self._begin, slot, execution_graph, own[slot.number], start)
            self._employ(partial(self._in_slot, slot, "starts", begin))
            self._employ(partial(self._in_slot, slot, "hears", partial(self._hear, slot)))
            self._employ(partial(self._in_slot, slot, "looks at the clock", partial(self._tick, slot)))
            self._employ(partial(self._report, slot))
            for id in own[slot.number]:
                self._employ(partial(self._in_slot, slot, str(id), partial(self._step, slot, id)))

    def _employ(self, actor: Actor) -> None:
        """Let somebody act, some more often than others."""
        self._actors += [actor] * self._world.random.choice([1, 4, 4, 4, 8])

    # What a slot does

    def _in_slot(self, slot: _SimulatedSlot, what: str, action: Callable[[], str | None]) -> bool:
        """Have a slot do something, which may be its death."""
        world = self._world
        if slot.has_ended:
            return False
        world.running = slot.number
        try:
            done = action()
            if done is not None:
                # Between any two steps.
                world.step(f"{what} {done}".rstrip())
            return done is not None
        except SimulatedCrash:
            if world.is_over:
                raise
            slot.has_ended = True
            return True
        except Exception as error:
            world.note(f"{what}: {error!r}")
            slot.reports.append((None, Failed(remote(error))))
            slot.has_ended = True
            return True
        finally:
            if not world.is_over:
                world.running = None

    def _begin(
        self, slot: _SimulatedSlot, execution_graph: ExecutionGraph, ids: list[SubtaskId], start: Start
    ) -> str | None:
        if slot.slot is not None:
            return None
        world = self._world

        def report(news: Report) -> None:
            slot.reports.append(pickle.loads(pickle.dumps(news, protocol=5)))
            world.step(f"says {type(news[1]).__name__}")

        slot.slot = start.slot(execution_graph, ids, partial(self._channel, slot.number), report, world.clock)
        for subtask in slot.slot.subtasks.values():
            subtask.choose = world.random.choice
        slot.slot.start()
        return ""

    def _channel(self, number: int, id: ChannelId) -> Channel:
        source, target = id.source % self.slots, id.target % self.slots
        if source == target:
            return self._local.setdefault(id, _ShortChannel(id, self._capacity))
        if id not in self._pipes:
            pipe = self._pipes[id] = _Pipe(id, self._capacity)
            self._employ(partial(self._deliver, pipe, self._slots[target]))
        return self._pipes[id].sending if source == number else self._pipes[id].receiving

    def _deliver(self, pipe: _Pipe, target: _SimulatedSlot) -> bool:
        return not target.has_ended and pipe.deliver(target.expected)

    def _hear(self, slot: _SimulatedSlot) -> str | None:
        if not slot.commands or slot.slot is None:
            return None
        command = pickle.loads(slot.commands.popleft())
        slot.slot.obey(command)
        if isinstance(command, Inject) and command.barrier.kind is BarrierKind.UNALIGNED:
            slot.expected = command.barrier.number
        if isinstance(command, Stop):
            slot.has_ended = slot.has_stopped = True
        return type(command).__name__

    def _step(self, slot: _SimulatedSlot, id: SubtaskId) -> str | None:
        return "" if slot.slot is not None and slot.slot.step(id) else None

    def _tick(self, slot: _SimulatedSlot) -> str | None:
        if slot.slot is not None:
            slot.slot.tick()
        return None

    def _report(self, slot: _SimulatedSlot) -> bool:
        if not slot.reports:
            return False
        self._arrived.append(slot.reports.popleft())
        return True

    # What the job does

    def send(self, command: Command) -> None:
        data = pickle.dumps(command, protocol=5)
        for slot in self._slots:
            self._world.step(f"tells worker {slot.number}: {type(command).__name__}")
            slot.commands.append(data)

    def poll(self, seconds: float) -> list[Report]:
        world = self._world
        self._visit()
        world.step("waits")
        until = world.now + round(seconds * 1_000_000)
        while world.now < until:
            self._act(until)
            # The job is slow at times, and finds several reports at once.
            if self._arrived and world.random.random() < 0.3:
                break
        taken, self._arrived = self._arrived, []
        for _, report in taken:
            world.note(f"hears {type(report).__name__}")
            if isinstance(report, Stopped):
                world.note("a worker has stopped")
        if not taken:
            for slot in self._slots:
                if slot.has_ended and not slot.has_stopped and not slot.reports and world.random.random() < 0.5:
                    raise self._died(slot)
        return taken

    def _act(self, until: int) -> None:
        """Let somebody do something; if nobody can, time passes."""
        world, random = self._world, self._world.random
        for _ in range(8):
            world.now += random.randint(0, self._pace)
            if self._try(random.choice(self._actors)):
                return
        # A good part of them has nothing to do: look at all.
        start = random.randrange(len(self._actors))
        for actor in self._actors[start:] + self._actors[:start]:
            if self._try(actor):
                return
        world.now = min([until, *(time for time in self._halted.values() if time > world.now)])

    def _try(self, actor: Actor) -> bool:
        if self._halted:
            if self._halted.get(actor, 0) > self._world.now:
                return False
            self._halted.pop(actor, None)
        if not actor():
            return False
        if self._halts and self._world.random.random() < self._halts:
            self._halted[actor] = self._world.now + self._world.random.randint(0, 100_000)
        return True

    def _died(self, slot: _SimulatedSlot) -> WorkerDied:
        return WorkerDied(f"worker {slot.number} is gone")

    def end(self) -> None:
        for slot in self._slots:
            if slot.slot is not None:
                # Nothing that a killed process would not do: only what a test would leave open is closed.
                for subtask in slot.slot.subtasks.values():
                    for injector in subtask.injectors:
                        injector.close()
        self._slots = []
