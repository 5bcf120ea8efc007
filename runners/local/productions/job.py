"""A job of producers: each subtask is durable by itself, so there are no barriers.

The job decides when sinks commit and when the run is over.  Staged output is committed when the production with its
token is in a log, which the subtask reports then.  A subtask that resumes reports all tokens that it does not know to
be committed; committing is idempotent.  Each transaction belongs to one subtask, and is allotted in advance; but a
bounded pipeline publishes everything at its end, in one transaction.

When a worker dies, another one resumes from its logs; no other subtask restarts, and nothing that was acknowledged is
processed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from ....sdk.errors import SnapshotError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.store import fresh_token
from ...execution.clock import ProcessingTime
from ...execution.plan.execution_graph import ExecutionGraph
from ...execution.sinks.committer import SinkCommitter
from ..job.attempt import Attempt
from ..job.context import JobSettings
from ..job.control_requests import Answer, RequestInbox
from ..job.job import Job
from ..workers.pool import Workers
from .attempt import ProductionAttempt
from .directory import NO_CUT, ProductionDirectory, Productions
from .fenced_transactions import FencedTransactions
from .log_layout import SAVEPOINTS, Layout, begin_layout, remove_layout, staged_of, write_savepoint
from .merged_logs import MergedLogs, merge_logs

_logger = logger_of(__name__)


class ProductionJob(Job):
    """The run of one pipeline, exactly once by productions."""

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        productions: Productions,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str] = fresh_token,
        inbox: RequestInbox | None = None,
        time: ProcessingTime | None = None,
    ) -> None:
        super().__init__(execution_graph, workers, settings, None, clock, sleep, token, inbox, time)
        fenced = FencedTransactions(productions.disk, productions.directory)
        self.context.committer = SinkCommitter(execution_graph.plan, fenced)
        self._directory = ProductionDirectory(self.context, productions, fenced)

    @property
    def has_checkpoints(self) -> bool:
        # The logs.
        return True

    @property
    def _ends_with_savepoint(self) -> bool:
        # The logs have everything that is durable, whenever the run stops.
        return True

    def _take_over(self) -> None:
        directory, context = self._directory, self.context
        directory.check()
        context.committer.recover(directory.fenced.take_over(context.token()))
        context.requests.open(context.token)
        directory.resume_layout()

    def _next_attempt(self) -> Attempt | None:
        # The attempt before may have ended, and failed to publish.
        ended = self._directory.publish_ended()
        if ended is not None:
            self.state = ended
            return None
        if self._directory.is_quiescent:
            self._merge_logs()
        return ProductionAttempt(self.context, self._directory)

    def _restart_delay(self, error: Exception, progressed: bool) -> float | None:
        return self.context.restart_delay(progressed)

    def _cancel(self) -> None:
        """Leave the logs to the next run."""

    def _abort(self) -> None:
        # The next run commits the output in the logs.
        if not self._directory.productions.is_kept:
            self.context.committer.abort()

    # While no worker runs

    def _merge_logs(self) -> None:
        """Take savepoints, and change the parallelism."""
        context, directory = self.context, self._directory
        directory.fenced.check()
        merged = merge_logs(context.execution_graph, directory.disk, directory.logs, context.token(), directory.listing)
        if not context.commits_at_end:
            context.committer.commit(staged_of(merged), directory.decision)
            merged = attrs.evolve(merged, staged=())
        if context.requests.savepoints:
            answer = self._write_savepoint(merged)
            while context.requests.savepoints:
                context.requests.savepoints.popleft()(answer)
        if context.execution_graph.parallelism != directory.wanted.parallelism:
            self._change_layout(merged)
        directory.is_quiescent = False

    def _write_savepoint(self, merged: MergedLogs) -> Answer:
        context, directory = self.context, self._directory
        if weak := directory.weak_labels(context.execution_graph):
            return Answer(False, f"the savepoint failed: {NO_CUT.format(weak)}")
        try:
            epoch = write_savepoint(
                merged,
                directory.disk,
                directory.path,
                next(iter(context.committer.open), None) if context.commits_at_end else None,
                context.token,
                lambda: context.clock() / 1_000_000,
                directory.productions.allow_untrusted,
                context.sources,
                context.state_shapes,
            )
        except SnapshotError as error:
            return Answer(False, f"the savepoint failed: {text_or_class(error)}")
        return Answer(True, f"savepoint of epoch {epoch}, in {directory.path}/{SAVEPOINTS}", epoch)

    def _change_layout(self, merged: MergedLogs) -> None:
        directory, before, replaced = self._directory, self.context.execution_graph, self._directory.layout
        layout = Layout.of(directory.wanted, replaced.number + 1)
        begin_layout(merged, layout, directory.wanted, directory.disk, directory.path, self.context.token())
        directory.use(layout)
        self.context.use(directory.wanted)
        _logger.info(
            "%s: each task resumes with %d subtasks; it had %d",
            directory.path,
            layout.parallelism,
            before.parallelism,
        )
        remove_layout(replaced, before, directory.disk, directory.path)
