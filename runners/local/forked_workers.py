"""Slots in processes of their own, forked from the one that runs the pipeline."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from .channel import ChannelId
from .commands import Command, Report, Stopped
from .execution_graph import EdgeKind, ExecutionGraph
from .slot import Start
from .slot_process import SlotProcess
from .subtask import SubtaskId
from .workers import WorkerDied, Workers, ids_of

# A worker that hasn't said anything for so many seconds is hung.
HUNG_AFTER = 60.0


class ForkedWorkers(Workers):
    """So many slots, each a process with one loop; a subtask runs in the slot of its number.

    Pipes are inherited, so nothing listens anywhere, and functions needn't be pickled.

    Args:
      clock: microseconds since 1970.
    """

    def __init__(self, slots: int, clock: Callable[[], int]) -> None:
        self.slots = slots
        self._clock = clock
        self._processes: list[Any] = []
        self._controls: list[Connection] = []
        self._heard: list[int] = []
        self._stopped: set[int] = set()

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        context = multiprocessing.get_context("fork")
        pipes = {id: socket.socketpair() for id in _between(execution_graph, self.slots)}
        own: list[list[SubtaskId]] = [[] for _ in range(self.slots)]
        for id in ids_of(execution_graph):
            own[id.index % self.slots].append(id)
        controls = [context.Pipe() for _ in range(self.slots)]
        self._controls = [ours for ours, _ in controls]
        self._heard = [self._clock()] * self.slots
        self._stopped = set()
        for number in range(self.slots):

            def run(number: int = number) -> None:
                for i, (ours, theirs) in enumerate(controls):
                    ours.close()
                    if i != number:
                        theirs.close()
                process = SlotProcess(
                    execution_graph, own[number], start, pipes, controls[number][1], self._clock, number, self.slots
                )
                process.run()

            process = context.Process(target=run, name=f"penstock worker {number}", daemon=True)
            process.start()
            self._processes.append(process)
        for _, theirs in controls:
            theirs.close()
        for pair in pipes.values():
            for end in pair:
                end.close()

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._processes]

    def send(self, command: Command) -> None:
        for control in self._controls:
            # If nobody is there any more, `poll` tells: after what it may have said of the reason.
            with suppress(OSError):
                control.send(command)

    def poll(self, seconds: float) -> list[Report]:
        reports: list[Report] = []
        running = [control for i, control in enumerate(self._controls) if i not in self._stopped]
        for ready in wait(running, seconds):
            number = self._controls.index(ready)  # type: ignore[arg-type]
            try:
                while number not in self._stopped and self._controls[number].poll():
                    reports.append(self._controls[number].recv())
                    if isinstance(reports[-1][1], Stopped):
                        # It ends now.
                        self._stopped.add(number)
            except (EOFError, OSError):
                if reports:
                    # It may have said why.
                    return reports
                raise self._died(number) from None
            self._heard[number] = self._clock()
        for number, heard in enumerate(self._heard):
            if number not in self._stopped and self._clock() - heard > HUNG_AFTER * 1_000_000:
                raise WorkerDied(f"worker {number} (pid {self.pids[number]}) has said nothing for {HUNG_AFTER:.0f} s")
        return reports

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


def _between(execution_graph: ExecutionGraph, slots: int) -> list[ChannelId]:
    """The channels between subtasks of different slots."""
    n = execution_graph.parallelism
    return [
        ChannelId(edge.id, source, target)
        for task in execution_graph.tasks
        for edge in task.outputs
        if edge.kind is not EdgeKind.FORWARD
        for source in range(n)
        for target in range(n)
        if source % slots != target % slots
    ]
