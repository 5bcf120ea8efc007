"""Workers of a simulation: slots in one thread, whose next step is drawn at random.

At each moment there are several possible steps: a subtask takes a message, a pipe delivers one, a slot obeys a command,
a report arrives at the job.  One of them is drawn.  Some are drawn more often than others, and sometimes one pauses for
a while.  Messages between slots are encoded as between processes, and arrive in order.

A worker may hang, for a while, or until the job gives it up after a timeout.  Workers that were given up, or that a
dead job has left behind, may go on for a while beside their successors: zombies.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import attrs

from ...execution.checkpoints.simulated_storage import SimulatedCrash
from ...execution.clock import ProcessingTime
from ...execution.error_transport import remote
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ..channels.channel import Channel, ChannelId
from ..channels.messages import BarrierKind
from ..workers.pool import Workers, ids_of
from ..workers.processes import WorkerDied
from ..workers.protocol import (
    ChangeOver,
    Command,
    Envelope,
    Failed,
    FencedEndpoint,
    Inject,
    Report,
    Rewind,
    Stop,
    Stopped,
)
from ..workers.slot import Slot, Start
from .channels import Pipe, ShortChannel
from .world import SimulatedSteps, SimulatedWorld

# Takes a step, if there is one.  Returns True if it did.
Actor = Callable[[], bool]

# Microseconds after which a hanging worker is given up, and for which it would hang at most.
_TIMEOUT = 500_000
_FOR_EVER = 1 << 50


class _Wires:
    """The channels between the slots of one attempt, and within each."""

    def __init__(self) -> None:
        self.pipes: dict[ChannelId, Pipe] = {}
        self.local: dict[ChannelId, Channel] = {}


class _SimulatedSlot:
    """A slot, with the commands and reports that have not arrived.

    Attributes:
      wires: the channels of its attempt.
      job, own: both ends of their exchange.
      repeated_commands, repeated_reports: messages that will arrive a second time.
      hangs: the begin and end of the last time that it hangs.
      expected: the number of the unaligned barrier that was injected.
    """

    def __init__(self, number: int, job: FencedEndpoint, own: FencedEndpoint, wires: _Wires) -> None:
        self.number = number
        self.wires = wires
        self.job = job
        self.own = own
        self.slot: Slot | None = None
        self.commands: deque[bytes] = deque()
        self.repeated_commands: deque[bytes] = deque()
        self.reports: deque[Envelope] = deque()
        self.repeated_reports: deque[Envelope] = deque()
        self.has_ended = False
        self.has_stopped = False
        self.hangs: tuple[int, int] = (0, 0)
        self.expected = -1

    def is_hung(self, now: int) -> bool:
        """Return True while it hangs."""
        return self.hangs[1] > now


class Zombies:
    """Workers that go on after they were given up, or their job has died.

    Args:
      actors: take their steps.
      steps: the number of steps to take.
    """

    def __init__(self, slots: Sequence[_SimulatedSlot], actors: Sequence[Actor], steps: int) -> None:
        self.slots = slots
        self._actors = actors
        self._steps = steps

    def act(self, world: SimulatedWorld) -> bool:
        """Take a step.  Return True if there are more."""
        self._steps -= 1
        for _ in range(8):
            if world.random.choice(self._actors)():
                break
        return self._steps > 0

    def end(self) -> None:
        """End the zombies."""
        for slot in self.slots:
            if slot.slot is not None:
                # A killed process does nothing more; files are closed for the test's sake.
                for subtask in slot.slot.subtasks.values():
                    for reader in subtask.readers:
                        reader.close()


class SimulatedWorkers(Workers):
    """Slots in this thread; a subtask runs in the slot of its number.

    Args:
      on_poll: called whenever the job waits.
      zombies: the list of zombies, to add to; None if there are to be none.

    Attributes:
      endpoint_type: the class of both ends of the exchange between slots and the job.
      timeout: microseconds after which a hanging worker is given up.

    Negative controls override these, or `make_slot`.
    """

    endpoint_type: ClassVar[type[FencedEndpoint]] = FencedEndpoint
    timeout: ClassVar[int] = _TIMEOUT

    def __init__(
        self,
        slots: int,
        world: SimulatedWorld,
        on_poll: Callable[[], None] = lambda: None,
        zombies: list[Zombies] | None = None,
    ) -> None:
        self.slots = slots
        self._world = world
        self._on_poll = on_poll
        self._zombies = zombies
        self._slots: list[_SimulatedSlot] = []
        self._wires = _Wires()
        self._arrived: list[Report] = []
        self._actors: list[Actor] = []
        self._halted: dict[Actor, int] = {}
        # Microseconds that a step takes, at most, and the capacity of channels.
        random = world.random
        self._pace = random.choice([50, 200, 200, 1000])
        self._capacity = random.choice([1, 3, 32])
        self._halts = random.choice([0.0, 0.0, 0.003])

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._world.step(f"{self.slots} workers start at {start.checkpoint and start.checkpoint.epoch}")
        self._wires, self._arrived, self._actors, self._halted = _Wires(), [], [], {}
        self._slots = [self._slot(number, start.attempt) for number in range(self.slots)]
        self._graph = execution_graph
        for slot in self._slots:
            self._add_slot(slot, start)

    def _add_slot(self, slot: _SimulatedSlot, start: Start) -> None:
        own = [id for id in ids_of(self._graph) if id.index % self.slots == slot.number]
        self._add_actor(partial(self._in_slot, slot, "starts", partial(self._begin, slot, self._graph, own, start)))
        self._add_actor(partial(self._in_slot, slot, "obeys", partial(self._obey, slot, slot.commands)))
        self._add_actor(partial(self._in_slot, slot, "ticks", partial(self._tick, slot)))
        self._add_actor(partial(self._report, slot, slot.reports))
        if self._world.faults.repeating:
            self._add_actor(
                partial(self._in_slot, slot, "obeys again", partial(self._obey, slot, slot.repeated_commands))
            )
            self._add_actor(partial(self._report, slot, slot.repeated_reports))
        for id in own:
            self._add_actor(partial(self._in_slot, slot, str(id), partial(self._step, slot, id)))

    def _slot(self, number: int, attempt: str) -> _SimulatedSlot:
        return _SimulatedSlot(number, self.endpoint_type(attempt), self.endpoint_type(attempt), self._wires)

    def _add_actor(self, actor: Actor) -> None:
        """Add an actor, which may be drawn more often than others."""
        self._actors += [actor] * self._world.random.choice([1, 4, 4, 4, 8])

    def _in_slot(self, slot: _SimulatedSlot, what: str, action: Callable[[], str | None]) -> bool:
        """Have a slot take a step, in which it may die."""
        world = self._world
        if slot.has_ended or slot.is_hung(world.now):
            return False
        world.running = slot.number
        try:
            done = action()
            if done is not None:
                # It may die between any two steps.
                world.step(f"{what} {done}".rstrip())
                self._may_hang(slot)
            return done is not None
        except SimulatedCrash:
            if world.is_over:
                raise
            slot.has_ended = True
            return True
        except Exception as error:
            world.note(f"{what}: {error!r}")
            slot.reports.append(slot.own.message((None, Failed(remote(error)))))
            slot.has_ended = True
            return True
        finally:
            if not world.is_over:
                world.running = None

    def _may_hang(self, slot: _SimulatedSlot) -> None:
        world = self._world
        if not slot.has_ended and world.hangs():
            wakes = world.now + world.random.choice([_TIMEOUT // 20, _TIMEOUT - 1, 2 * _TIMEOUT, _FOR_EVER])
            slot.hangs = world.now, world.random.randint(world.now, wakes)

    def _begin(
        self, slot: _SimulatedSlot, execution_graph: ExecutionGraph, ids: list[SubtaskId], start: Start
    ) -> str | None:
        if slot.slot is not None:
            return None
        world = self._world

        def report(sent: Report) -> None:
            slot.reports.append(pickle.loads(pickle.dumps(slot.own.message(sent), protocol=5)))
            world.step(f"reports {type(sent[1]).__name__}")

        clock = ProcessingTime(world.wall, world.clock)
        start = attrs.evolve(start, step_clock=SimulatedSteps(world))
        slot.slot = self.make_slot(execution_graph, ids, start, partial(self._channel, slot), report, clock)
        for subtask in slot.slot.subtasks.values():
            subtask.choose = world.random.choice
        with slot.slot.counting():
            slot.slot.start()
        return ""

    def make_slot(
        self,
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        start: Start,
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        clock: Callable[[], int],
    ) -> Slot:
        """Return the slot that runs some subtasks."""
        return start.slot_type(execution_graph, ids, start, channels, report, clock)

    def _channel(self, slot: _SimulatedSlot, id: ChannelId) -> Channel:
        source, target = id.source % self.slots, id.target % self.slots
        wires = slot.wires
        if source == target:
            return wires.local.setdefault(id, ShortChannel(id, self._capacity))
        if id not in wires.pipes:
            pipe = wires.pipes[id] = Pipe(id, self._capacity, self._world.repeats)
            # A zombie that restarts a part of its attempt has channels that lead nowhere.
            if wires is self._wires:
                self._add_actor(partial(self._deliver, pipe, self._slots[target]))
                if self._world.faults.repeating:
                    self._add_actor(partial(self._deliver_again, pipe, self._slots[target]))
        return wires.pipes[id].sending if source == slot.number else wires.pipes[id].receiving

    def _deliver(self, pipe: Pipe, target: _SimulatedSlot) -> bool:
        return not self._is_away(target) and pipe.deliver(target.expected)

    def _deliver_again(self, pipe: Pipe, target: _SimulatedSlot) -> bool:
        return not self._is_away(target) and pipe.deliver_again()

    def _is_away(self, slot: _SimulatedSlot) -> bool:
        return slot.has_ended or slot.is_hung(self._world.now)

    def _obey(self, slot: _SimulatedSlot, commands: deque[bytes]) -> str | None:
        if not commands or slot.slot is None:
            return None
        data = commands.popleft()
        message = pickle.loads(data)
        command = message.content
        if commands is slot.commands and self._world.repeats(type(command).__name__):
            slot.repeated_commands.append(data)
        if not slot.own.accepts(message):
            return f"{type(command).__name__}, which is ignored"
        with slot.slot.counting():
            if isinstance(command, Rewind):
                slot.slot.rewind(command, partial(self._channel, slot))
                return "Rewind"
            slot.slot.obey(command)
        if isinstance(command, (Inject, ChangeOver)) and command.barrier.kind is BarrierKind.UNALIGNED:
            slot.expected = command.barrier.number
        if isinstance(command, Stop):
            slot.has_ended = slot.has_stopped = True
        return type(command).__name__

    def _step(self, slot: _SimulatedSlot, id: SubtaskId) -> str | None:
        if slot.slot is None:
            return None
        with slot.slot.counting():
            done = slot.slot.step(id)
        if not done:
            return None
        self._world.worked()
        return ""

    def _tick(self, slot: _SimulatedSlot) -> str | None:
        if slot.slot is not None:
            with slot.slot.counting():
                slot.slot.tick()
        return None

    def _report(self, slot: _SimulatedSlot, reports: deque[Envelope]) -> bool:
        # The reports of zombies arrive elsewhere.
        if not reports or slot not in self._slots:
            return False
        message = reports.popleft()
        if reports is slot.reports and self._world.repeats(type(message.content[1]).__name__):
            slot.repeated_reports.append(message)
        if slot.job.accepts(message):
            self._arrived.append(message.content)
        return True

    def _act_as_zombie(self, zombies: Zombies) -> None:
        """Have a zombie take a step, and deliver its reports as its successor's."""
        world = self._world
        world.is_zombie = True
        try:
            if not zombies.act(world):
                self._bury(zombies)
        finally:
            world.is_zombie = False
        for old in zombies.slots:
            while old.reports:
                message = old.reports.popleft()
                if old.number < len(self._slots) and self._slots[old.number].job.accepts(message):
                    self._arrived.append(message.content)

    def _bury(self, zombies: Zombies) -> None:
        assert self._zombies is not None
        zombies.end()
        self._zombies.remove(zombies)

    def send(self, command: Command) -> None:
        for slot in self._slots:
            self._world.step(f"sends worker {slot.number}: {type(command).__name__}")
            slot.commands.append(pickle.dumps(slot.job.message(command), protocol=5))

    def poll(self, seconds: float) -> list[Report]:
        world = self._world
        self._on_poll()
        world.step("waits")
        until = world.now + round(seconds * 1_000_000)
        while world.now < until:
            self._act(until)
            # The job is slow at times, and then receives several reports at once.
            if self._arrived and world.random.random() < 0.3:
                break
        taken, self._arrived = self._arrived, []
        for _, report in taken:
            world.note(f"receives {type(report).__name__}")
            if isinstance(report, Stopped):
                world.note("a worker has stopped")
        if not taken:
            for slot in self._slots:
                if slot.has_ended and not slot.has_stopped and not slot.reports and world.random.random() < 0.5:
                    raise self._died(slot)
            # After the reports of others have been processed, which are not repeated.
            for slot in self._slots:
                if slot.is_hung(world.now) and world.now - slot.hangs[0] >= self.timeout:
                    world.note(f"worker {slot.number} hangs and is given up")
                    raise WorkerDied(f"worker {slot.number} hangs", slot.number)
        return taken

    def gone(self) -> frozenset[int]:
        return frozenset(slot.number for slot in self._slots if slot.has_ended and not slot.has_stopped)

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        self._world.step(f"replaces workers {sorted(lost)}")
        for id in rewind.channels:
            self._wires.pipes.pop(id, None)
            self._wires.local.pop(id, None)
        survivors = [slot for slot in self._slots if slot.number not in lost]
        for number in sorted(lost):
            self._slots[number].has_ended = True
            Zombies([self._slots[number]], (), 0).end()
            self._slots[number] = self._slot(number, start.attempt)
        for number in sorted(lost):
            self._add_slot(self._slots[number], start)
        for slot in survivors:
            slot.commands.append(pickle.dumps(slot.job.message(rewind), protocol=5))

    def _act(self, until: int) -> None:
        """Have an actor take a step, or time pass if none can."""
        world, random = self._world, self._world.random
        if self._zombies and random.random() < 0.2:
            self._act_as_zombie(random.choice(self._zombies))
        for _ in range(8):
            world.now += random.randint(0, self._pace)
            if self._try(random.choice(self._actors)):
                return
        # Many actors have nothing to do: try all of them.
        start = random.randrange(len(self._actors))
        for actor in self._actors[start:] + self._actors[:start]:
            if self._try(actor):
                return
        wakes = [*self._halted.values(), *(slot.hangs[1] for slot in self._slots)]
        world.now = min([until, *(time for time in wakes if time > world.now)])

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
        return WorkerDied(f"worker {slot.number} is gone", slot.number)

    def end(self) -> None:
        world = self._world
        alive = [slot for slot in self._slots if slot.slot is not None and not slot.has_ended]
        if alive and self._zombies is not None and world.leaves_zombies():
            for slot in self._slots:
                slot.hangs = (0, 0)
                # A slot that hasn't started doesn't.
                slot.has_ended |= slot not in alive
            self._zombies.append(Zombies(self._slots, self._actors, world.random.randint(1, 200)))
        else:
            Zombies(self._slots, (), 0).end()
        self._slots = []
