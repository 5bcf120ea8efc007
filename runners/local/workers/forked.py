"""Slots in processes of their own, forked from the one that runs the pipeline."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from ....sdk.redaction import logger_of
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, SubtaskId
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ..channels.channel import ChannelId
from .handing_over import hand_over
from .heartbeats import Heartbeats
from .pool import WorkerDied, Workers, ids_of
from .process_loop import SlotProcess
from .processes import WorkerProcesses, forked
from .protocol import Command, Conversation, Counted, Report, Rewind, Stopped
from .slot import Start

_logger = logger_of(__name__)


class Launch(NamedTuple):
    """What a worker begins with.

    Attributes:
      number: its slot's.
      pipes: both ends of the pipes between slots.
      ours, theirs: the job's end of the pipe for commands and reports, and the worker's.
      foreign: the ends that others have of theirs.
      timeout: seconds after which a call that has not returned is named.
    """

    number: int
    execution_graph: ExecutionGraph
    ids: list[SubtaskId]
    start: Start
    pipes: dict[ChannelId, tuple[socket.socket, socket.socket]]
    ours: Connection
    theirs: Connection
    foreign: list[Connection]
    beats: Heartbeats
    timeout: float


class ForkedWorkers(WorkerProcesses, Workers):
    """So many slots, each a process with one loop; a subtask runs in the slot of its number.

    Pipes are inherited, so nothing listens anywhere, and functions needn't be pickled.

    Args:
      clock: microseconds since 1970.
      timeout: a worker of which nothing is heard for so many seconds is given up.
    """

    def __init__(self, slots: int, clock: Callable[[], int], timeout: float = 10.0) -> None:
        super().__init__(slots, timeout)
        self._clock = clock
        self._conversations: list[Conversation] = []
        # What is to be raised, when what others have said has been heard.
        self._death: WorkerDied | None = None
        self._stopped: set[int] = set()
        self._counted: dict[int, Counted] = {}

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._graph = execution_graph
        pipes = {id: socket.socketpair() for id in _between(execution_graph, start, self.slots)}
        controls = [Pipe() for _ in range(self.slots)]
        self._controls = [ours for ours, _ in controls]
        self._conversations = [Conversation(start.attempt) for _ in controls]
        self._counted = {}
        self._stuck = {}
        beats = self._beats = Heartbeats(self.slots)
        self._silent = set()
        self._stopped = set()
        self._death = None
        for number, (ours, theirs) in enumerate(controls):
            foreign = [end for other in controls for end in other if end not in (ours, theirs)]
            ids = self._ids_in(number)
            launch = Launch(number, execution_graph, ids, start, pipes, ours, theirs, foreign, beats, self._timeout)
            self._processes.append(self._launch(launch))
        for _, theirs in controls:
            theirs.close()
        _close(pipes)

    def _ids_in(self, number: int) -> list[SubtaskId]:
        """The subtasks of a slot."""
        return [id for id in ids_of(self._graph) if id.index % self.slots == number]

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        for number in lost:
            self._bury(number)
            self._counted.pop(number, None)
        changed = set(rewind.channels)
        pipes = {id: socket.socketpair() for id in _between(self._graph, start, self.slots) if id in changed}
        for number in sorted(lost):
            self._replace(number, start, pipes)
        for number, control in enumerate(self._controls):
            if number in lost:
                continue
            ends = [(id, True, pair[0]) for id, pair in pipes.items() if id.source % self.slots == number]
            ends += [(id, False, pair[1]) for id, pair in pipes.items() if id.target % self.slots == number]
            # If nobody is there any more, `poll` tells.
            with suppress(OSError):
                command = rewind._replace(ends=tuple((id, is_entry) for id, is_entry, _ in ends))
                control.send(self._conversations[number].say(command))
                hand_over(control, [end for _, _, end in ends])
        _close(pipes)

    def _replace(
        self, number: int, start: Start, pipes: Mapping[ChannelId, tuple[socket.socket, socket.socket]]
    ) -> None:
        """Have another worker take the place of one that is gone."""
        assert self._beats is not None
        self._beats.begin(number)
        ours, theirs = Pipe()
        self._controls[number] = ours
        self._conversations[number] = Conversation(start.attempt)
        foreign = [control for i, control in enumerate(self._controls) if i != number and not control.closed]
        launch = Launch(
            number,
            self._graph,
            self._ids_in(number),
            start,
            dict(pipes),
            ours,
            theirs,
            foreign,
            self._beats,
            self._timeout,
        )
        self._processes[number] = self._launch(launch)
        theirs.close()

    def gone(self) -> frozenset[int]:
        dead = (i for i, process in enumerate(self._processes) if process.exitcode is not None)
        return frozenset(dead) - self._stopped

    def _launch(self, launch: Launch) -> Any:
        """Start a process."""

        def run() -> None:
            number = launch.number
            launch.ours.close()
            for end in launch.foreign:
                end.close()
            launch.beats.beat_on(number)
            process = SlotProcess(
                launch.execution_graph,
                launch.ids,
                launch.start,
                launch.pipes,
                launch.theirs,
                self._clock,
                number,
                self.slots,
                launch.timeout,
            )
            process.run()

        return forked(run, launch.number)

    def send(self, command: Command) -> None:
        for control, conversation in zip(self._controls, self._conversations, strict=True):
            # If nobody is there any more, `poll` tells: after what it may have said of the reason.
            with suppress(OSError):
                control.send(conversation.say(command))

    def poll(self, seconds: float) -> list[Report]:
        death, self._death = self._death, None
        if death is not None:
            raise death
        reports: list[Report] = []
        running = [control for i, control in enumerate(self._controls) if i not in self._stopped]
        for ready in wait(running, seconds):
            number = self._controls.index(ready)  # type: ignore[arg-type]
            try:
                while number not in self._stopped and self._controls[number].poll():
                    said = self._controls[number].recv()
                    if not self._conversations[number].is_news(said):
                        continue
                    id, report = said.what
                    if isinstance(report, Counted):
                        self._counted[number] = report
                        continue
                    if isinstance(report, (Stuck, Returned)):
                        self._heard_of(number, report)
                        continue
                    reports.append((id, report))
                    if isinstance(report, Stopped):
                        # It ends now.
                        self._stopped.add(number)
            except (EOFError, OSError):
                if reports:
                    # It may have said why.
                    return reports
                raise self._died(number) from None
        try:
            self._listen(self._stopped)
        except WorkerDied as death:
            # Whoever goes on says everything once.
            if not reports:
                raise
            self._death = death
        return reports

    def watching(self) -> AbstractContextManager[Any]:
        return CallWatch(self._timeout)

    def counted(self) -> list[Counted]:
        return list(self._counted.values())


def _close(pipes: Mapping[ChannelId, tuple[socket.socket, socket.socket]]) -> None:
    """Close both ends of what others have now."""
    for pair in pipes.values():
        for end in pair:
            end.close()


def _between(execution_graph: ExecutionGraph, start: Start, slots: int) -> list[ChannelId]:
    """The channels between subtasks of different slots."""
    n = execution_graph.parallelism
    there = [
        ChannelId(edge.id, source, target)
        for task in execution_graph.tasks
        for edge in task.outputs
        if edge.kind is not EdgeKind.FORWARD
        for source in range(n)
        for target in range(n)
        if source % slots != target % slots
    ]
    return [*there, *(back for id in there for back in start.channels_back(id))]
