"""Workers: whoever runs the subtasks of an attempt.  In this process, or in processes of their own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ....sdk.redaction import logger_of
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.stuck_calls import CallWatch, Returned, Stuck
from ..channels.channel import Channel, ChannelId
from .protocol import Command, Counted, Pause, Report, Rewind
from .slot import Slot, Start
from .watch import Watch

_logger = logger_of(__name__)

# How long to sleep, in seconds, when there is nothing to do, before sources are asked again; and how long while they
# had something a moment ago, which is so many microseconds.
IDLE, SOON = 0.002, 0.0005
MOMENT = 20_000


class WorkerDied(Exception):
    """A worker is gone, or says nothing any more; what is known of it is the text.

    Attributes:
      number: its slot's; None if it isn't known.
    """

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(text)
        self.number = number


class Workers(ABC):
    """Run the subtasks of one attempt after the other.

    Attributes:
      slots: how many slots there are.
    """

    slots: int = 1

    @abstractmethod
    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        """Start all subtasks."""

    @abstractmethod
    def send(self, command: Command) -> None:
        """Tell all of them."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Report]:
        """What they have to say: at once if they do, else after at most so many seconds.

        Raises `WorkerDied`.
        """

    def gone(self) -> frozenset[int]:
        """The slots that are no more."""
        return frozenset()

    def rewind(self, start: Start, rewind: Rewind, lost: frozenset[int]) -> None:
        """Have some subtasks go back, and the others go on.

        Args:
          start: what those start from that go back.
          lost: the slots that are no more, or are to be ended: others take their places.
        """
        raise WorkerDied(f"{type(self).__name__} can only start again as a whole")

    def counted(self) -> list[Counted]:
        """How the slots are getting on, as far as that is known; to be asked a few times a second."""
        return []

    def stuck(self) -> list[str]:
        """Return what is known of calls that don't return, for people."""
        return []

    def stuck_steps(self) -> list[str]:
        """Return the labels of the steps of `stuck`, with the worker if there are several; from any thread."""
        return []

    def watching(self) -> AbstractContextManager[Any]:
        """Inside of the `with` block calls of the job's thread that don't return are named, outside of steps too."""
        return nullcontext()

    def have_looked_on(self, look_on: Callable[[], None]) -> None:
        """Have a function called now and then, on another thread, while a call keeps `poll` from returning."""

    def kill(self) -> None:
        """Have them be gone, from whatever thread, while the job is busy with something else."""

    @abstractmethod
    def end(self) -> None:
        """Be rid of them, whatever they are doing."""


def ids_of(execution_graph: ExecutionGraph) -> list[SubtaskId]:
    """All subtasks."""
    n = execution_graph.parallelism
    return [SubtaskId(task.id, index) for task in execution_graph.tasks for index in range(n)]


class WorkersInThisProcess(Workers):
    """One slot, whose work is done while somebody waits for reports.

    An exception of user code is raised where it happens, with its own traceback.

    Args:
      timeout: seconds after which a call that has not returned is named in the log.
    """

    def __init__(
        self, clock: Callable[[], int], sleep: Callable[[float], Any] = time.sleep, timeout: float = 10.0
    ) -> None:
        self._timeout = timeout
        self._watch: Watch | None = None
        self._stuck: Stuck | None = None
        self._look_on: Callable[[], None] = lambda: None
        self._clock = clock
        self._sleep = sleep
        self._slot: Slot | None = None
        self._reports: list[Report] = []
        self._channels: dict[ChannelId, Channel] = {}

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        self._channels.clear()
        self._reports = []
        report = self._reports.append
        self._slot = start.slot(execution_graph, ids_of(execution_graph), self._channel, report, self._clock)
        self._slot.fork()
        self._watch = Watch(self._slot.time_slice, self._timeout, self._tell, lambda: self._look_on())
        self._watch.start()
        self._slot.start()

    def _tell(self, news: Stuck | Returned) -> None:
        self._stuck = news if isinstance(news, Stuck) else None
        _logger.warning("%s", news)

    def stuck(self) -> list[str]:
        stuck = self._stuck
        return [] if stuck is None else [str(stuck)]

    def stuck_steps(self) -> list[str]:
        stuck = self._stuck
        return [] if stuck is None else [repr(stuck.step)]

    def watching(self) -> AbstractContextManager[Any]:
        return CallWatch(self._timeout, self._tell, self._is_in_step)

    def _is_in_step(self) -> bool:
        slot = self._slot
        return slot is not None and slot.time_slice.began is not None

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

    @property
    def slot(self) -> Slot:
        """The slot."""
        assert self._slot is not None
        return self._slot

    def send(self, command: Command) -> None:
        self.slot.obey(command)
        if isinstance(command, Pause) and not command.is_paused:
            # Who may go on does something before it is told to wait again, however soon that is.
            self.slot.work()

    def poll(self, seconds: float) -> list[Report]:
        until = time.monotonic() + seconds
        # Also where there is something to hear everybody has a turn, or checkpoints alone could keep this busy.
        while not self.slot.has_stopped:
            worked = self.slot.work()
            if not worked:
                self.slot.tick()
            if self._reports or time.monotonic() >= until:
                break
            if not worked:
                self._sleep(IDLE)
        taken, self._reports[:] = list(self._reports), []
        return taken

    def end(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch, self._stuck = None, None
        if self._slot is not None:
            self._slot.abandon()
            self._slot = None

    def counted(self) -> list[Counted]:
        return [] if self._slot is None else [self._slot.counted()]
