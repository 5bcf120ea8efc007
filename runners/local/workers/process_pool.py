"""Slots of a job in processes of their own."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from ....sdk.redaction import logger_of
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph
from ...execution.streaming.observation import Observed
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ..channels.channel import ChannelId
from .handover import Work
from .pipe import send, send_sockets
from .pool import Workers, ids_of
from .process_loop import run_slot
from .processes import WorkerDied, WorkerProcesses
from .protocol import Command, Counted, FencedEndpoint, Report, Rewind, Stopped
from .slot import Start

_logger = logger_of(__name__)

# Seconds in which workers acknowledge what they have read last.
_ENDING = 30.0

Pipes = dict[ChannelId, tuple[socket.socket, socket.socket]]


class WorkersInProcesses(WorkerProcesses, Workers):
    """Slots that are processes; a subtask runs in the slot of its number.

    The processes get the pipes between them as open sockets, so nothing listens anywhere.

    Args:
      clock: microseconds since 1970.
      timeout: seconds without a heartbeat after which a worker is given up.
      start_method: "forkserver" or "spawn".
    """

    def __init__(
        self, slots: int, clock: Callable[[], int], timeout: float = 10.0, start_method: str = "forkserver"
    ) -> None:
        super().__init__(slots, timeout, start_method)
        self._clock = clock
        self._endpoints: list[FencedEndpoint] = []
        # To be raised after the reports of other workers have been processed.
        self._death: WorkerDied | None = None
        self._stopped: set[int] = set()
        self._counted: dict[int, Counted] = {}
        self._observed: list[tuple[int, Observed]] = []

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._graph = execution_graph
        self._counted, self._stopped, self._death = {}, set(), None
        self._endpoints = [FencedEndpoint(start.attempt) for _ in range(self.slots)]
        between = _between(execution_graph, start, self.slots)
        with self._limits(2 * (len(between) + self.slots)):
            pipes = {id: socket.socketpair() for id in between}
        self._start_all([self._work(number, start, pipes) for number in range(self.slots)])
        _close(pipes)

    def _work(self, number: int, start: Start, pipes: Pipes) -> Work:
        """Return the work of a slot."""
        ids = [id for id in ids_of(self._graph) if id.index % self.slots == number]
        ends, sockets = self._ends_of(number, pipes)
        return Work(run_slot, (self._graph, ids, start, ends, self._clock, self._timeout), sockets)

    def _ends_of(self, number: int, pipes: Pipes) -> tuple[tuple[tuple[ChannelId, bool], ...], list[socket.socket]]:
        """Return a slot's ends of pipes, as channels with whether it is the sender, and their sockets."""
        ends = [(id, True, pair[0]) for id, pair in pipes.items() if id.source % self.slots == number]
        ends += [(id, False, pair[1]) for id, pair in pipes.items() if id.target % self.slots == number]
        return tuple((id, is_sender) for id, is_sender, _ in ends), [end for _, _, end in ends]

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        for number in lost:
            self._bury(number)
            self._counted.pop(number, None)
        changed = set(rewind.channels)
        pipes = {id: socket.socketpair() for id in _between(self._graph, start, self.slots) if id in changed}
        for number in sorted(lost):
            self._endpoints[number] = FencedEndpoint(start.attempt)
            self._replace(number, self._work(number, start, pipes))
        for number, control in enumerate(self._controls):
            if number in lost:
                continue
            ends, sockets = self._ends_of(number, pipes)
            # If the worker is gone, `poll` raises.
            with suppress(OSError):
                send(control, self._endpoints[number].message(rewind._replace(ends=ends)))
                send_sockets(control, sockets)
        _close(pipes)

    def gone(self) -> frozenset[int]:
        dead = (i for i, process in enumerate(self._processes) if process.exitcode is not None)
        return frozenset(dead) - self._stopped

    def send(self, command: Command) -> None:
        for control, endpoint in zip(self._controls, self._endpoints, strict=True):
            # If the worker is gone, `poll` raises: after its last report, which may give the reason.
            with suppress(OSError):
                send(control, endpoint.message(command))

    def poll(self, seconds: float) -> list[Report]:
        death, self._death = self._death, None
        if death is not None:
            raise death
        reports: list[Report] = []
        for number, message in self._receive(seconds, self._stopped):
            # The later messages of a worker that has stopped don't count.
            if number in self._stopped or not self._endpoints[number].accepts(message):
                continue
            id, report = message.content
            if isinstance(report, Counted):
                self._counted[number] = report
                if report.observed is not None:
                    self._observed.append((number, report.observed))
            elif isinstance(report, (Stuck, Returned)):
                self._note_stuck(number, report)
            else:
                reports.append((id, report))
                if isinstance(report, Stopped):
                    # The process exits now, or after the last commit.
                    self._stopped.add(number)
        try:
            self._check_heartbeats(self._stopped)
        except WorkerDied as death:
            # The reports of other workers are not repeated.
            if not reports:
                raise
            self._death = death
        return reports

    def join(self) -> None:
        deadline = time.monotonic() + _ENDING
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
        if late := [number for number, process in enumerate(self._processes) if process.exitcode is None]:
            _logger.warning(
                "workers %s haven't acknowledged what they have read last, which may come again, within %g s",
                ", ".join(map(str, late)),
                _ENDING,
            )

    def watching(self) -> AbstractContextManager[Any]:
        return CallWatch(self._timeout)

    def counted(self) -> list[Counted]:
        return list(self._counted.values())

    def observed(self) -> list[tuple[int, Observed]]:
        taken, self._observed = self._observed, []
        return taken


def _close(pipes: Pipes) -> None:
    """Close this process's copies of pipes that workers have now."""
    for pair in pipes.values():
        for end in pair:
            end.close()


def _between(execution_graph: ExecutionGraph, start: Start, slots: int) -> list[ChannelId]:
    """Return the channels between subtasks of different slots."""
    n = execution_graph.parallelism
    forward = [
        ChannelId(edge.id, source, target)
        for task in execution_graph.tasks
        for edge in task.outputs
        if edge.kind is not EdgeKind.FORWARD
        for source in range(n)
        for target in range(n)
        if source % slots != target % slots
    ]
    return [*forward, *(back for id in forward for back in start.channels_back(id))]
