"""Slots in processes of their own, forked from the one that runs the pipeline."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from ..execution.execution_graph import EdgeKind, ExecutionGraph
from .channel import ChannelId
from .commands import Command, Counted, Report, Stopped
from .conversation import Conversation
from .heartbeats import SILENCE, Heartbeats
from .slot import Start
from .slot_process import SlotProcess
from .subtask import SubtaskId
from .workers import WorkerDied, Workers, ids_of

_logger = logging.getLogger(__name__)


class Launch(NamedTuple):
    """What a worker begins with.

    Attributes:
      number: its slot's.
      pipes: both ends of the pipes between all slots.
      controls: of each worker the job's end, and its own.
    """

    number: int
    execution_graph: ExecutionGraph
    ids: list[SubtaskId]
    start: Start
    pipes: dict[ChannelId, tuple[socket.socket, socket.socket]]
    controls: list[tuple[Connection, Connection]]
    beats: Heartbeats


class ForkedWorkers(Workers):
    """So many slots, each a process with one loop; a subtask runs in the slot of its number.

    Pipes are inherited, so nothing listens anywhere, and functions needn't be pickled.

    Args:
      clock: microseconds since 1970.
      timeout: a worker of which nothing is heard for so many seconds is given up.
    """

    def __init__(self, slots: int, clock: Callable[[], int], timeout: float = 10.0) -> None:
        self.slots = slots
        self._timeout = timeout
        self._clock = clock
        self._processes: list[Any] = []
        self._controls: list[Connection] = []
        self._conversations: list[Conversation] = []
        self._beats: Heartbeats | None = None
        self._silent: set[int] = set()
        self._stopped: set[int] = set()
        self._counted: dict[int, Counted] = {}

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        pipes = {id: socket.socketpair() for id in _between(execution_graph, start, self.slots)}
        own: list[list[SubtaskId]] = [[] for _ in range(self.slots)]
        for id in ids_of(execution_graph):
            own[id.index % self.slots].append(id)
        controls = [Pipe() for _ in range(self.slots)]
        self._controls = [ours for ours, _ in controls]
        self._conversations = [Conversation(start.attempt) for _ in controls]
        self._counted = {}
        beats = self._beats = Heartbeats(self.slots)
        self._silent = set()
        self._stopped = set()
        for number in range(self.slots):
            launch = Launch(number, execution_graph, own[number], start, pipes, controls, beats)
            self._processes.append(self._launch(launch))
        for _, theirs in controls:
            theirs.close()
        for pair in pipes.values():
            for end in pair:
                end.close()

    def _launch(self, launch: Launch) -> Any:
        """Start a process."""

        def run() -> None:
            number = launch.number
            for i, (ours, theirs) in enumerate(launch.controls):
                ours.close()
                if i != number:
                    theirs.close()
            launch.beats.beat_on(number)
            control = launch.controls[number][1]
            process = SlotProcess(
                launch.execution_graph, launch.ids, launch.start, launch.pipes, control, self._clock, number, self.slots
            )
            process.run()

        context = multiprocessing.get_context("fork")
        process = context.Process(target=run, name=f"penstock worker {launch.number}", daemon=True)
        process.start()
        return process

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._processes]

    def send(self, command: Command) -> None:
        for control, conversation in zip(self._controls, self._conversations, strict=True):
            # If nobody is there any more, `poll` tells: after what it may have said of the reason.
            with suppress(OSError):
                control.send(conversation.say(command))

    def poll(self, seconds: float) -> list[Report]:
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
                    reports.append((id, report))
                    if isinstance(report, Stopped):
                        # It ends now.
                        self._stopped.add(number)
            except (EOFError, OSError):
                if reports:
                    # It may have said why.
                    return reports
                raise self._died(number) from None
        self._listen()
        return reports

    def _listen(self) -> None:
        """Warn of workers that have fallen silent; raises `WorkerDied` when one has been for too long."""
        assert self._beats is not None
        for number, silence in enumerate(self._beats.silences()):
            if number in self._stopped:
                continue
            name = f"worker {number} (pid {self.pids[number]})"
            if silence >= self._timeout:
                raise WorkerDied(f"{name} hangs: no sign of life for {silence:.1f} s (--worker_timeout)")
            if silence >= SILENCE and number not in self._silent:
                self._silent.add(number)
                _logger.warning(
                    "%s gives no sign of life; it will be killed after %g s (--worker_timeout)", name, self._timeout
                )
            elif silence < SILENCE and number in self._silent:
                self._silent.remove(number)
                _logger.warning("%s is alive again", name)

    def counted(self) -> list[Counted]:
        return list(self._counted.values())

    def _died(self, number: int) -> WorkerDied:
        process = self._processes[number]
        process.join(1)
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
        return WorkerDied(f"worker {number} (pid {process.pid}) {how}")

    def end(self) -> None:
        for process in self._processes:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.join()
            process.close()
        for control in self._controls:
            control.close()
        self._processes, self._controls = [], []
        if self._beats is not None:
            self._beats.close()
            self._beats = None


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
