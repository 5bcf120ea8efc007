"""An attempt: the run of a job from one start of its workers until they end.

The base class receives reports, and decides what is due and when the run is over.  Subclasses add what they rest on:
checkpoints or productions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from ....sdk.errors import StaleWriterError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.control_requests import RequestKind
from ...execution.error_transport import local
from ...execution.plan.execution_graph import SubtaskId
from ..subtask.reports import Completed, Played, Quiesced, TaskMetrics
from ..workers.protocol import Drain, Failed, Report, Stopped
from ..workers.slot import Start
from .context import JobContext
from .quiescence import Quiescence
from .status import Phase

_logger = logger_of(__name__)

# The interval between two updates of the status, in microseconds.
_STATUS_INTERVAL = 250_000

# How long to wait for reports, in seconds.
_POLL_TIMEOUT = 0.05


class RestartNow(Exception):
    """Ends an attempt; the job starts the next one at once."""


class Attempt(ABC):
    """The run of a job from one start of its workers until they end.

    Attributes:
      progressed: something became durable since the last restart.
    """

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._name = context.token()
        self._completed: set[SubtaskId] = set()
        self._quiescence = Quiescence(
            context.graph.subtasks,
            context.workers,
            context.clocks.steady,
            context.barriers.next,
            context.graph.has_script,
            context.graph.has_loops,
        )
        self._next_status = 0
        self._drained = False
        # The end has begun: the subtasks have nothing left to do but to stop.
        self._is_final = False
        # By slot that has stopped, what it had counted.
        self._metrics: list[TaskMetrics] = []
        self.progressed = False

    def run(self) -> str:
        """Run until the end, and return the final state of the run."""
        context = self._context
        context.status.phase = Phase.STARTING
        start = self._first_start()
        context.status.restored(None if start.checkpoint is None else start.checkpoint.epoch)
        context.workers.start(context.graph.execution, start)
        context.observation.restarted()
        if context.graph.has_script:
            self._quiescence.request()
        while True:
            for subtask, report in self._reports():
                state = self._process(subtask, report)
                if state is not None:
                    return state
            if self._begin_due():
                return PipelineState.CANCELLED

    @abstractmethod
    def _first_start(self) -> Start:
        """Return what all subtasks start from."""

    def _reports(self) -> list[Report]:
        return self._context.workers.poll(_POLL_TIMEOUT)

    def abandon(self) -> None:
        """Remove what is incomplete after a failure."""

    def _restart_part(
        self, part: Collection[SubtaskId], how: str, error: Exception, restart: Callable[[], None]
    ) -> None:
        """Restart some subtasks, while the others go on; raise the error if the whole graph has to restart.

        Args:
          how: "resume from their logs", for example.
          error: why they restart.
          restart: restarts them.
        """
        context = self._context
        delay = context.restarts.delay(self.progressed)
        self.progressed = False
        if delay is None:
            raise error
        of = len(context.graph.subtasks)
        _logger.warning(
            "The pipeline failed, and %d of its %d subtasks %s in %.1f s: %s", len(part), of, how, delay, error
        )
        context.status.restarted(text_or_class(error))
        context.restarts.wait(delay)
        try:
            restart()
        except StaleWriterError:
            raise
        except Exception as failure:
            _logger.warning("These subtasks can't restart, so the whole graph does: %s", failure)
            raise error from failure

    # Checkpoints and commits

    def _begin_due(self) -> bool:
        """Begin what is due.  Returns whether the run is cancelled."""
        context, now = self._context, self._context.clocks.steady()
        context.status.turned_at = now
        context.requests.poll()
        if now >= self._next_status and not self._is_final:
            self._next_status = now + _STATUS_INTERVAL
            context.clocks.check_wall_clock()
            counted = context.workers.counted()
            context.status.update(context.clocks.time(), counted)
            # A slot counts after it has restored its subtasks.
            if len(counted) == context.workers.slots:
                context.status.phase = Phase.RUNNING
            context.observation.exchange(context.workers)
            if context.requests.restarts and not self._is_cancelled():
                raise RestartNow
        if self._is_cancelled():
            return True
        if not self._is_catching_up():
            if RequestKind.DRAIN in context.requests.kinds and not self._drained:
                self._drained = True
                context.workers.send(Drain())
            self._begin_next(now)
        return False

    @abstractmethod
    def _is_cancelled(self) -> bool:
        """Return whether the run is cancelled, and can end now."""

    def _is_catching_up(self) -> bool:
        """Return whether restarted subtasks have yet to catch up with the others."""
        return False

    @abstractmethod
    def _begin_next(self, now: int) -> None:
        """Begin a checkpoint, a commit or the end, if it is due."""

    @property
    def _is_complete(self) -> bool:
        """Whether all subtasks have completed."""
        return len(self._completed) == len(self._context.graph.subtasks)

    # Reports

    def _process(self, subtask: SubtaskId | None, report: Any) -> str | None:
        """Process a report.  Returns the final state of the run if it is over, or None."""
        if isinstance(report, Failed):
            raise local(report.error)
        if isinstance(report, Stopped):
            self._metrics.append(report.metrics)
            self._context.status.stopped(report.times)
            return self._finish() if len(self._metrics) == self._context.workers.slots else None
        assert subtask is not None
        if isinstance(report, Completed):
            self._completed.add(subtask)
        elif isinstance(report, Played):
            self._quiescence.request()
        else:
            assert isinstance(report, Quiesced)
            self._quiescence.process(subtask, report)
        return None

    @abstractmethod
    def _finish(self) -> str:
        """Publish what is left, after all slots have stopped, and return the final state of the run."""
