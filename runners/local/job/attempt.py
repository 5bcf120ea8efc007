"""An attempt: from one start of a job's workers to their end.

It hears what they report, and decides what is due and when it is over.  What is common to all attempts is here; what
they rest on, checkpoints or productions, makes the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ....sdk.runner import PipelineState
from ...execution.error_transport import local
from ...execution.plan.execution_graph import SubtaskId
from ..subtask.reports import Completed, Played, Settled
from ..subtask.tally import Tally
from ..workers.protocol import Drain, Failed, Report, Stopped
from ..workers.slot import Start
from .control_requests import Wish
from .quiescence import Settling

if TYPE_CHECKING:
    from .job import Job

# How long, in microseconds, from one look at how the slots are getting on to the next.
_LOOK = 250_000

# How long, in seconds, it waits for something to hear.
_PATIENCE = 0.05


class Attempt(ABC):
    """From one start of the workers to their end.

    Attributes:
      progressed: whether something became durable.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._name = job._token()
        self._completed: set[SubtaskId] = set()
        self._settling = Settling(
            job._subtasks, job._workers, job._clock, job.next_barrier, job._has_script, job._has_loops
        )
        self._next_look = 0
        self._drained = False
        # Whether nobody has anything left to do, but for what belongs to the end.
        self._is_final = False
        # What the slots had counted when they stopped.
        self._tallies: list[Tally] = []
        self.progressed = False

    def run(self) -> str:
        """Run until the end; the state of the run then."""
        job = self._job
        start = self._first_start()
        job._observations.restored(None if start.checkpoint is None else start.checkpoint.epoch)
        job._workers.start(job._graph, start)
        if job._has_script:
            self._settling.ask()
        while True:
            for subtask, report in self._reports():
                done = self._hear(subtask, report)
                if done is not None:
                    return done
            if self._look():
                return PipelineState.CANCELLED

    @abstractmethod
    def _first_start(self) -> Start:
        """What all subtasks start from."""

    def _reports(self) -> list[Report]:
        """What there is to hear."""
        return self._job._workers.poll(_PATIENCE)

    # What is due

    def _look(self) -> bool:
        """Begin what is due; whether the run is cancelled."""
        job, now = self._job, self._job._clock()
        job.look_at_requests()
        if now >= self._next_look and not self._is_final:
            self._next_look = now + _LOOK
            job.look_at_clock()
            job._observations.looked(job.now(), job._workers.counted())
        if self._is_cancelled():
            return True
        if not self._is_catching_up():
            if Wish.DRAIN in job._wishes and not self._drained:
                self._drained = True
                job._workers.send(Drain())
            self._begin_what_is_due(now)
        return False

    @abstractmethod
    def _is_cancelled(self) -> bool:
        """Whether it is to stop at once, and is ready to."""

    def _is_catching_up(self) -> bool:
        """Whether some have gone back, and aren't where the others are."""
        return False

    @abstractmethod
    def _begin_what_is_due(self, now: int) -> None:
        """Begin a checkpoint, or the end, or whatever it is time for."""

    @property
    def _is_complete(self) -> bool:
        """Whether nothing more will come out of anybody."""
        return len(self._completed) == len(self._job._subtasks)

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        """Take in a report; the state of the run, if it is over."""
        if isinstance(report, Failed):
            raise local(report.error)
        if isinstance(report, Stopped):
            self._tallies.append(report.tally)
            return self._finish() if len(self._tallies) == self._job._workers.slots else None
        assert subtask is not None
        if isinstance(report, Completed):
            self._completed.add(subtask)
        elif isinstance(report, Played):
            self._settling.ask()
        else:
            assert isinstance(report, Settled)
            self._settling.heard(subtask, report)
        return None

    @abstractmethod
    def _finish(self) -> str:
        """All slots have stopped: publish what there is; the state of the run."""
