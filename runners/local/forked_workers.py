"""Slots in processes of their own, forked from the one that runs the pipeline."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NamedTuple

from ...sdk.redaction import logger_of
from ..execution.execution_graph import EdgeKind, ExecutionGraph
from ..execution.stuck_calls import CallWatch, Returned, Stuck
from .channel import ChannelId
from .commands import Command, Counted, Report, Rewind, Stopped
from .conversation import Conversation
from .handing_over import hand_over
from .heartbeats import SILENCE, Heartbeats
from .orphans import end_with_parent
from .slot_process import SlotProcess
from .start import Start
from .subtask import SubtaskId
from .workers import WorkerDied, Workers, ids_of

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
        # What is to be raised, when what others have said has been heard.
        self._death: WorkerDied | None = None
        self._stopped: set[int] = set()
        self._counted: dict[int, Counted] = {}
        self._stuck: dict[int, Stuck] = {}

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

    def _bury(self, number: int) -> None:
        """Be rid of a worker, whatever it is doing."""
        process = self._processes[number]
        with suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        self._controls[number].close()
        self._silent.discard(number)
        self._counted.pop(number, None)
        self._stuck.pop(number, None)

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
        job = os.getpid()

        def run() -> None:
            end_with_parent(job)
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
            self._listen()
        except WorkerDied as death:
            # Whoever goes on says everything once.
            if not reports:
                raise
            self._death = death
        return reports

    def _listen(self) -> None:
        """Warn of workers that have fallen silent; raises `WorkerDied` when one has been for too long."""
        assert self._beats is not None
        for number, silence in enumerate(self._beats.silences()):
            if number in self._stopped:
                continue
            name = f"worker {number} (pid {self.pids[number]})"
            if silence >= self._timeout:
                raise WorkerDied(f"{name} hangs: no sign of life for {silence:.1f} s (--worker_timeout)", number)
            if silence >= SILENCE and number not in self._silent:
                self._silent.add(number)
                _logger.warning(
                    "%s gives no sign of life; it will be killed after %g s (--worker_timeout)", name, self._timeout
                )
            elif silence < SILENCE and number in self._silent:
                self._silent.remove(number)
                _logger.warning("%s is alive again", name)

    def _heard_of(self, number: int, news: Stuck | Returned) -> None:
        """A worker is stuck in a call, or no more."""
        if isinstance(news, Stuck):
            self._stuck[number] = news
        else:
            self._stuck.pop(number, None)
        _logger.warning("worker %d (pid %d): %s", number, self.pids[number], news)

    def stuck_steps(self) -> list[str]:
        return [f"{stuck.step!r} in worker {number}" for number, stuck in sorted(dict(self._stuck).items())]

    def watching(self) -> AbstractContextManager[Any]:
        return CallWatch(self._timeout)

    def stuck(self) -> list[str]:
        return [f"worker {number} (pid {self.pids[number]}): {stuck}" for number, stuck in sorted(self._stuck.items())]

    def counted(self) -> list[Counted]:
        return list(self._counted.values())

    def _died(self, number: int) -> WorkerDied:
        process = self._processes[number]
        process.join(1)
        code = process.exitcode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"exited unexpectedly with status {code} (does user code call os._exit?)"
        return WorkerDied(f"worker {number} (pid {process.pid}) {how}", number)

    def kill(self) -> None:
        for process in list(self._processes):
            # Its end may have been seen meanwhile.
            with suppress(OSError, ValueError):
                os.kill(process.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        for process in self._processes:
            # Of one that is closed already whoever was told so was interrupted.
            with suppress(ValueError):
                process.join()
                process.close()
        for control in self._controls:
            control.close()
        self._processes, self._controls = [], []
        if self._beats is not None:
            self._beats.close()
            self._beats = None


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
