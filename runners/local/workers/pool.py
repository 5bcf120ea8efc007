"""Workers, which run the subtasks of an attempt: the interface, and one slot in this process."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from ....sdk.redaction import logger_of
from ...execution.gc_tuning import rarely_collected
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.streaming.observation import Observed
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ..channels.channel import Channel, ChannelId
from .processes import WorkerDied
from .protocol import Command, Counted, Report, Rewind
from .slot import Slot, Start

_logger = logger_of(__name__)

# Seconds until idle sources are polled again, and the same if they had elements less than so many microseconds ago.
IDLE, SOON = 0.002, 0.0005
MOMENT = 20_000


class Workers(ABC):
    """Runs the subtasks of one attempt after the other.

    Attributes:
      slots: the number of slots.
    """

    slots: int = 1

    @abstractmethod
    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        """Start all subtasks."""

    @abstractmethod
    def send(self, command: Command) -> None:
        """Send a command to all slots."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Report]:
        """Return reports, as soon as there are any, or after so many seconds.  Raises `WorkerDied`."""

    def gone(self) -> frozenset[int]:
        """Return the slots whose processes have ended."""
        return frozenset()

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        """Restart the subtasks of a failover region, while the others go on.

        Args:
          start: the start of the subtasks that restart.
          lost: the slots that have ended, or are to be ended, and replaced.
        """
        raise WorkerDied(f"{type(self).__name__} can only restart as a whole")

    def counted(self) -> list[Counted]:
        """Return counts and status of the slots, as far as they are known; to be called a few times a second."""
        return []

    def observed(self) -> list[tuple[int, Observed]]:
        """Return what slots have observed since the last call, with their numbers."""
        return []

    def stuck(self) -> list[str]:
        """Return descriptions of calls that don't return, for display."""
        return []

    def stuck_steps(self) -> list[str]:
        """Return the labels of the steps of `stuck`, with the worker if there are several; from any thread."""
        return []

    def watching(self) -> AbstractContextManager[Any]:
        """Report calls of the job's thread that don't return, outside of steps too, in the `with` block."""
        return nullcontext()

    def have_looked_on(self, look_on: Callable[[], None]) -> None:
        """Have a function called repeatedly, on another thread, while a call keeps `poll` from returning."""

    def join(self) -> None:
        """Wait until the slots, which have stopped, have obeyed their last command."""

    def kill(self) -> None:
        """Kill the processes; may be called from any thread."""

    @abstractmethod
    def end(self) -> None:
        """End all slots, whatever they are doing."""


def ids_of(execution_graph: ExecutionGraph) -> list[SubtaskId]:
    """Return the ids of all subtasks."""
    n = execution_graph.parallelism
    return [SubtaskId(task.id, index) for task in execution_graph.tasks for index in range(n)]


class WorkersInThisProcess(Workers):
    """One slot in this process, which works while the job polls for reports.

    An exception of user code is raised with its own traceback.

    Args:
      timeout: seconds after which a call that has not returned is logged.
    """

    def __init__(
        self, clock: Callable[[], int], sleep: Callable[[float], Any] = time.sleep, timeout: float = 10.0
    ) -> None:
        self._timeout = timeout
        self._stuck: Stuck | None = None
        self._look_on: Callable[[], None] = lambda: None
        self._clock = clock
        self._sleep = sleep
        self._slot: Slot | None = None
        self._has_worked = False
        # What is entered for the time of an attempt.
        self._run = ExitStack()
        self._reports: list[Report] = []
        self._channels: dict[ChannelId, Channel] = {}
        self._observed: list[tuple[int, Observed]] = []

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._channels.clear()
        self._reports = []
        report = self._reports.append
        self._slot = start.slot_type(
            execution_graph, ids_of(execution_graph), start, self._channel, report, self._clock
        )
        self._slot.write_in_background()
        # Both take as long as a small step, so they are entered once.
        self._run.enter_context(rarely_collected())
        self._run.enter_context(self._slot.counting())
        self._slot.start()
        self._slot.count_for_nobody()

    def _report_call(self, report: Stuck | Returned) -> None:
        self._stuck = report if isinstance(report, Stuck) else None
        _logger.warning("%s", report)

    def stuck(self) -> list[str]:
        stuck = self._stuck
        return [] if stuck is None else [str(stuck)]

    def stuck_steps(self) -> list[str]:
        stuck = self._stuck
        return [] if stuck is None else [repr(stuck.step)]

    def watching(self) -> AbstractContextManager[Any]:
        return CallWatch(self._timeout, self._report_call, lambda: self._look_on())

    def have_looked_on(self, look_on: Callable[[], None]) -> None:
        self._look_on = look_on

    def _channel(self, id: ChannelId) -> Channel:
        if id not in self._channels:
            self._channels[id] = Channel(id)
        return self._channels[id]

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        for id in rewind.channels:
            self._channels.pop(id, None)
        self.slot.rewind(rewind, self._channel)
        self.slot.count_for_nobody()

    @property
    def slot(self) -> Slot:
        """The slot."""
        assert self._slot is not None
        return self._slot

    def send(self, command: Command) -> None:
        self.slot.obey(command)
        self.slot.count_for_nobody()

    def poll(self, seconds: float) -> list[Report]:
        # Subtasks have a turn every second time, even if there are reports: checkpoints alone could keep this busy.
        self._has_worked = not (self._reports and self._has_worked)
        until = time.monotonic() + seconds
        while self._has_worked and not self.slot.has_stopped:
            worked = self.slot.work()
            if not worked:
                self.slot.tick()
            if self._reports or time.monotonic() >= until:
                break
            if not worked and self.slot.wakeup is None:
                self._sleep(IDLE)
            elif not worked and self.slot.wakeup is not None:
                self.slot.wakeup.wait(IDLE)
        self.slot.count_for_nobody()
        taken, self._reports[:] = list(self._reports), []
        return taken

    def end(self) -> None:
        self._stuck = None
        self._run.close()
        if self._slot is not None:
            self._slot.abandon()
            self._slot = None

    def counted(self) -> list[Counted]:
        if self._slot is None:
            return []
        counted = self._slot.counted()
        if counted.observed is not None:
            self._observed.append((0, counted.observed))
        return [counted]

    def observed(self) -> list[tuple[int, Observed]]:
        taken, self._observed = self._observed, []
        return taken
