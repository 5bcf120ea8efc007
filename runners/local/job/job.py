"""A job: the run of a pipeline that takes checkpoints, commits sinks with them, and recovers (ABS, section 4.4).

The job runs in the process that the user started.  It starts one attempt after the other; an attempt decides when
checkpoints begin and when the run is over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....sdk.errors import CheckpointMismatchError, PenstockError, StaleWriterError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.control_requests import Answer, Listener, PendingRequests, RequestInbox, RequestKind
from ...execution.checkpoints.store import fresh_token
from ...execution.clock import ProcessingTime
from ...execution.page.event_log import Events, described_error
from ...execution.plan.execution_graph import ExecutionGraph
from ..workers.pool import Workers
from ..workers.processes import WorkerDied
from .attempt import Attempt, RestartNow
from .clocks import JobClocks
from .context import JobContext, JobGraph, JobSettings
from .delivery import Delivery
from .restart_strategy import Restarts
from .status import JobStatus, Phase, StatusTracker

if TYPE_CHECKING:
    from ...execution.inspection.committed_state import StepState

_logger = logger_of(__name__)


class Job:
    """The run of one pipeline.

    Args:
      delivery: what it recovers from.
      clock: returns microseconds of the monotonic clock; intervals and timeouts follow it.
      sleep: waits for some seconds.
      token: returns hexadecimal digits that no other call returns.
      inbox: the requests of other processes; None if there can be none.
      time: processing time; None to use `clock`.
      events: the events of the run, for a page and a log.
      temporary: a directory to remove if the run ends well: no later run can resume from it.

    Attributes:
      state: one of `PipelineState`.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        delivery: Delivery,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str] = fresh_token,
        inbox: RequestInbox | None = None,
        time: ProcessingTime | None = None,
        events: Events | None = None,
        temporary: str | None = None,
    ) -> None:
        self.state = PipelineState.RUNNING
        self._temporary = temporary
        self._delivery = delivery
        clocks = JobClocks(clock, sleep, time)
        requests = PendingRequests(inbox, clock)
        committer = delivery.committer_of(execution_graph.plan)
        labels = [task.label for task in execution_graph.tasks]
        self.context = JobContext(
            JobGraph(execution_graph),
            workers,
            settings,
            clocks,
            token,
            requests,
            StatusTracker(labels, clocks.time(), clock(), lambda: committer.metrics),
            committer,
            Restarts(settings.restarts, clocks, requests),
            Events() if events is None else events,
        )
        delivery.attach(self.context)

    # For any thread

    @property
    def execution_graph(self) -> ExecutionGraph:
        """The execution graph."""
        return self.context.graph.execution

    @property
    def status(self) -> JobStatus:
        """The status, at most a moment old."""
        return self.context.status.status

    @property
    def phase(self) -> Phase:
        """The phase."""
        if self.state != PipelineState.RUNNING:
            return Phase.ENDED
        return Phase.STOPPING if self.context.requests.kinds else self.context.status.phase

    @property
    def checkpoints_completed(self) -> int:
        """The number of checkpoints, or commits of productions, in this run."""
        return self.context.status.completed

    def peek_time(self) -> int:
        """Return processing time."""
        return self.context.clocks.time.peek()

    def committed_state(self, step: str) -> StepState:
        """Return the state of a step (`Delivery.committed_state`)."""
        return self._delivery.committed_state(step)

    def drain(self) -> None:
        """Stop the sources, and process everything that they have read."""
        self.context.requests.kinds.add(RequestKind.DRAIN)

    def cancel(self) -> None:
        """Stop at once; uncommitted results are lost."""
        self.context.requests.kinds.add(RequestKind.CANCEL)

    def stop_with_savepoint(self) -> None:
        """Take a savepoint, and stop."""
        self.context.requests.kinds.add(RequestKind.STOP)

    def take_savepoint(self, listener: Listener) -> None:
        """Take a savepoint, continue, and call the listener with the result."""
        self.context.requests.savepoints.append(listener)

    def restart(self, listener: Listener) -> None:
        """Restart from the last checkpoint, and call the listener when the attempt before has ended."""
        self.context.requests.restarts.append(listener)

    @property
    def has_checkpoints(self) -> bool:
        """Whether the job can restart without beginning anew."""
        return self._delivery.is_durable

    def stuck_steps(self) -> str:
        """Return the steps with a function that does not return, as text; "" if none are known."""
        return ", ".join(self.context.workers.stuck_steps())

    def kill_workers(self) -> None:
        """Kill the workers, because the program ends before the job has ended them."""
        self.context.workers.kill()

    # The run

    def run(self) -> None:
        """Run to the end.  Raises the error of a job that can't be restarted, after aborting uncommitted output."""
        with self.context.workers.watching():
            self._run()

    def _run(self) -> None:
        requests = self.context.requests
        try:
            self._delivery.take_over()
            self.context.events.open_log()
            self._run_attempts()
            self.context.committer.close()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
        except StaleWriterError as error:
            # The new owner commits and aborts.
            self.state = PipelineState.FAILED
            self.context.events.close_log()
            self.context.events.add("failed", error=described_error(error))
            raise
        except BaseException as error:
            self.state = PipelineState.FAILED
            self.context.events.add("failed", error=described_error(error))
            with suppress(Exception):
                self._delivery.abort()
            raise
        finally:
            last = self.context.status.last_checkpoint
            requests.close(self.state, None if last is None else last.epoch, self._delivery.ends_with_savepoint)

    def _run_attempts(self) -> None:
        context = self.context
        while True:
            attempt: Attempt | None = None
            try:
                begun = self._delivery.next_attempt()
                if isinstance(begun, str):
                    self.state = begun
                    return
                attempt = begun
                self.state = attempt.run()
                return
            except RestartNow:
                context.workers.end()
                if attempt is not None:
                    attempt.abandon()
                self._answer_restarts()
                continue
            except (StaleWriterError, CheckpointMismatchError):
                raise
            except (PenstockError, WorkerDied) as error:
                delay = self._delivery.restart_delay(error, attempt is not None and attempt.progressed)
                if delay is None:
                    if isinstance(error, WorkerDied):
                        raise PenstockError(text_or_class(error)) from error
                    raise
                if RequestKind.CANCEL not in context.requests.kinds:
                    _logger.warning("The pipeline failed, and restarts in %.1f s: %s", delay, text_or_class(error))
                context.status.restarted(text_or_class(error))
                context.status.phase = Phase.RESTARTING
                context.events.add("restart", delay=delay, error=described_error(error), is_requested=False)
            finally:
                context.workers.end()
            if attempt is not None:
                attempt.abandon()
            if context.restarts.wait(delay):
                self._delivery.cancel()
                self.state = PipelineState.CANCELLED
                return

    def _answer_restarts(self) -> None:
        """Answer the requests for a restart, which happens now."""
        context = self.context
        if not context.requests.restarts:
            return
        context.status.restarted("it was requested")
        context.status.phase = Phase.RESTARTING
        context.events.add("restart", delay=0.0, error=None, is_requested=True)
        last = context.status.last_checkpoint
        epoch = None if last is None else last.epoch
        while context.requests.restarts:
            text = "restarting from the beginning" if epoch is None else f"restarting from epoch {epoch}"
            context.requests.restarts.popleft()(Answer(True, text, epoch))
