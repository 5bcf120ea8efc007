"""A job: the run of a pipeline that takes checkpoints, commits sinks with them, and recovers (ABS, section 4.4).

The job runs in the process that the user started.  It starts one attempt after the other; an attempt decides when
checkpoints begin and when the run is over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....sdk.errors import (
    CheckpointMismatchError,
    PenstockError,
    StaleWriterError,
    UncertainCommitError,
    UnsupportedError,
)
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.manifest import CheckpointKind
from ...execution.checkpoints.store import SnapshotStore, fresh_token
from ...execution.clock import ProcessingTime
from ...execution.page.event_log import described_error
from ...execution.plan.execution_graph import ExecutionGraph
from ...execution.sinks.checkpoint_commits import OpenTransactionsFile
from ...execution.sinks.known_sinks import KnownSinks
from ..workers.pool import Workers
from ..workers.processes import WorkerDied
from .attempt import Attempt, RestartNow
from .checkpoint_attempt import CheckpointAttempt
from .context import JobContext, JobSettings
from .control_requests import Answer, Listener, RequestInbox, RequestKind
from .failover_region import FailoverRegions
from .recovery import CheckpointRecovery
from .regional_attempt import RegionalAttempt
from .status import JobStatus, Phase

if TYPE_CHECKING:
    from ...execution.inspection.committed_state import StepState

_logger = logger_of(__name__)


class Job:
    """The run of one pipeline.

    Args:
      store: the snapshot store; None for a run without checkpoints, which commits at its end.
      clock: returns microseconds of the monotonic clock; intervals and timeouts follow it.
      sleep: waits for some seconds.
      token: returns hexadecimal digits that no other call returns.
      inbox: the requests of other processes; None if there can be none.
      time: processing time; None to use `clock`.

    Attributes:
      state: one of `PipelineState`.
      temporary: a directory to remove if the run ends well: no later run can resume from it.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        store: SnapshotStore | None,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str] = fresh_token,
        inbox: RequestInbox | None = None,
        time: ProcessingTime | None = None,
    ) -> None:
        self.state = PipelineState.RUNNING
        self.temporary: str | None = None
        self._store = store
        self._open_names = None if store is None else OpenTransactionsFile(store.disk, store.directory)
        self.context = JobContext(
            execution_graph,
            workers,
            settings,
            self._open_names,
            clock,
            sleep,
            token,
            inbox,
            time,
            None if store is None else KnownSinks(store.disk, store.directory),
        )
        self._recovery = CheckpointRecovery(self.context, store)
        self._has_begun = False

    # For any thread

    @property
    def execution_graph(self) -> ExecutionGraph:
        """The execution graph."""
        return self.context.execution_graph

    @property
    def status(self) -> JobStatus:
        """The status, at most a moment old."""
        return self.context.status.status

    @property
    def phase(self) -> Phase:
        """The phase."""
        if self.state != PipelineState.RUNNING:
            return Phase.ENDED
        return Phase.STOPPING if self.context.requests.kinds else self.context.phase

    @property
    def checkpoints_completed(self) -> int:
        """The number of checkpoints, or commits of productions, in this run."""
        return self.context.checkpoints_completed

    def peek_time(self) -> int:
        """Return processing time."""
        return self.context.time.peek()

    def committed_state(self, step: str) -> StepState:
        """Return the state of a step as the newest complete checkpoint has it, for reads in any thread.

        Raises `UnsupportedError` if the job takes no checkpoints, and `StateNotFoundError` for an unknown step.
        """
        from ...execution.inspection.committed_state import state_of_step

        store = self._store
        if store is None:
            raise UnsupportedError(
                f"{step}: its state can't be read, because this run takes no checkpoints. Give --checkpoint_dir, with "
                "--delivery=barriers"
            )
        return state_of_step(store, self.execution_graph.plan, step)

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
        return self._store is not None

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
            self._take_over()
            self.context.events.open_log()
            self._run_attempts()
            self.context.committer.close()
            if self.temporary is not None:
                shutil.rmtree(self.temporary, ignore_errors=True)
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
                self._abort()
            raise
        finally:
            last = self.context.last_checkpoint
            requests.close(self.state, None if last is None else last.epoch, self._ends_with_savepoint)

    @property
    def _ends_with_savepoint(self) -> bool:
        """Whether the next run can resume without losing anything of this one."""
        last = self.context.last_checkpoint
        return last is not None and last.kind is CheckpointKind.SAVEPOINT

    def _take_over(self) -> None:
        """Become the owner of the directory, which ends any other run that writes to it."""
        context = self.context
        if self._open_names is not None:
            context.committer.recover(self._open_names.read())
        self._recovery.take_over()
        if self._store is not None:
            context.requests.open(context.token)
        if context.settings.recovers_regions:
            for why in FailoverRegions(context.execution_graph).reasons:
                _logger.warning("--recovery=region: the receivers of a task restart with it where %s", why)

    def _run_attempts(self) -> None:
        context = self.context
        context.restarts = context.settings.restarts.fresh()
        while True:
            attempt: Attempt | None = None
            try:
                attempt = self._next_attempt()
                if attempt is not None:
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
                delay = self._restart_delay(error, attempt is not None and attempt.progressed)
                if delay is None:
                    if isinstance(error, WorkerDied):
                        raise PenstockError(text_or_class(error)) from error
                    raise
                if RequestKind.CANCEL not in context.requests.kinds:
                    _logger.warning("The pipeline failed, and restarts in %.1f s: %s", delay, text_or_class(error))
                context.status.restarted(text_or_class(error))
                context.phase = Phase.RESTARTING
                context.events.add("restart", delay=delay, error=described_error(error), is_requested=False)
            finally:
                context.workers.end()
            if attempt is not None:
                attempt.abandon()
            if context.wait_for_restart(delay):
                self._cancel()
                self.state = PipelineState.CANCELLED
                return

    def _answer_restarts(self) -> None:
        """Answer the requests for a restart, which happens now."""
        context = self.context
        if not context.requests.restarts:
            return
        context.status.restarted("it was requested")
        context.phase = Phase.RESTARTING
        context.events.add("restart", delay=0.0, error=None, is_requested=True)
        last = context.last_checkpoint
        epoch = None if last is None else last.epoch
        while context.requests.restarts:
            text = "restarting from the beginning" if epoch is None else f"restarting from epoch {epoch}"
            context.requests.restarts.popleft()(Answer(True, text, epoch))

    def _next_attempt(self) -> Attempt | None:
        """Return the next attempt, ready to run; or set the final state and return None if the run has ended."""
        context, store = self.context, self._store
        checkpoint = self._recovery.recover()
        ended = None if checkpoint is None else checkpoint.metadata.get("ended")
        if checkpoint is not None and store is not None and ended is not None:
            _logger.warning(
                "%s: the run of these checkpoints has ended (%s, epoch %d), and there is nothing left to do; to run "
                "the pipeline again, give another --checkpoint_dir",
                store.directory,
                ended,
                checkpoint.epoch,
            )
            context.last_checkpoint = checkpoint
            self.state = ended
            return None
        kind = RegionalAttempt if context.settings.recovers_regions else CheckpointAttempt
        attempt = kind(context, store, self._recovery, checkpoint)
        attempt.prepare()
        self._has_begun = True
        return attempt

    def _restart_delay(self, error: Exception, progressed: bool) -> float | None:
        """Return the seconds to wait before a restart, or None if the job fails."""
        # An error before the first attempt would come again.
        if not self._has_begun:
            return None
        if self._store is None:
            if isinstance(error, WorkerDied):
                raise PenstockError(
                    f"{text_or_class(error)}; without --checkpoint_dir there is no checkpoint to restart from"
                ) from error
            return None
        self._recovery.is_in_doubt |= isinstance(error, UncertainCommitError)
        return self.context.restart_delay(progressed)

    def _cancel(self) -> None:
        """Leave committed and aborted what an attempt would have left, cancelled."""
        self._recovery.recover()

    def _abort(self) -> None:
        """Abort uncommitted output: the job has failed."""
        self._recovery.abort()
