"""Delivery by productions: each subtask is durable by itself, so there are no barriers (MillWheel, section 5).

The job decides when sinks commit and when the run is over.  Staged output is committed when the production with its
token is in a log, which the subtask reports then.  A subtask that resumes reports all tokens that it does not know to
be committed; committing is idempotent.  Each transaction belongs to one subtask, and is allotted in advance; but a
bounded pipeline publishes everything at its end, in one transaction.

When a worker dies, another one resumes from its logs; no other subtask restarts, and nothing that was acknowledged is
processed again.
"""

from __future__ import annotations

import attrs

from ....sdk.errors import SnapshotError
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.control_requests import Answer
from ...execution.plan.fusion import Plan
from ...execution.sinks.committer import SinkCommitter
from ..job.context import JobContext
from ..job.delivery import Delivery
from .attempt import ProductionAttempt
from .directory import NO_CUT, ProductionDirectory, Productions
from .fenced_transactions import FencedTransactions
from .log_layout import SAVEPOINTS, Layout, begin_layout, remove_layout, staged_of, write_savepoint
from .merged_logs import MergedLogs, merge_logs

_logger = logger_of(__name__)


class ProductionDelivery(Delivery):
    """Exactly once, or at least once where productions are weak, by a log of each subtask."""

    is_durable = True

    def __init__(self, productions: Productions) -> None:
        self._productions = productions
        self._fenced = FencedTransactions(productions.disk, productions.directory)

    def committer_of(self, plan: Plan) -> SinkCommitter:
        return SinkCommitter(plan, self._fenced)

    def attach(self, context: JobContext) -> None:
        self._context = context
        self._directory = ProductionDirectory(context, self._productions, self._fenced)

    def take_over(self) -> None:
        directory, context = self._directory, self._context
        directory.check()
        context.committer.recover(self._fenced.take_over(context.token()))
        context.requests.open(context.token)
        directory.resume_layout()

    def next_attempt(self) -> ProductionAttempt | str:
        # The attempt before may have ended, and failed to publish.
        ended = self._directory.publish_ended()
        if ended is not None:
            return ended
        if self._directory.is_quiescent:
            self._merge_logs()
        return ProductionAttempt(self._context, self._directory)

    def restart_delay(self, error: Exception, progressed: bool) -> float | None:
        return self._context.restarts.delay(progressed)

    def cancel(self) -> None:
        """Leave the logs to the next run."""

    def abort(self) -> None:
        # The next run commits the output in the logs.
        if not self._productions.is_kept:
            self._context.committer.abort()

    @property
    def ends_with_savepoint(self) -> bool:
        # The logs have everything that is durable, whenever the run stops.
        return True

    # While no worker runs

    def _merge_logs(self) -> None:
        """Take savepoints, and change the parallelism."""
        context, directory = self._context, self._directory
        directory.fenced.check()
        merged = merge_logs(context.graph.execution, directory.disk, directory.logs, context.token(), directory.listing)
        if not context.graph.commits_at_end:
            context.committer.commit(staged_of(merged), directory.decision)
            merged = attrs.evolve(merged, staged=())
        if context.requests.savepoints:
            answer = self._write_savepoint(merged)
            while context.requests.savepoints:
                context.requests.savepoints.popleft()(answer)
        if context.graph.execution.parallelism != directory.wanted.parallelism:
            self._change_layout(merged)
        directory.is_quiescent = False

    def _write_savepoint(self, merged: MergedLogs) -> Answer:
        context, directory = self._context, self._directory
        if weak := directory.weak_labels(context.graph.execution):
            return Answer(False, f"the savepoint failed: {NO_CUT.format(weak)}")
        try:
            epoch = write_savepoint(
                merged,
                directory.disk,
                directory.path,
                next(iter(context.committer.open), None) if context.graph.commits_at_end else None,
                context.token,
                lambda: context.clocks.steady() / 1_000_000,
                directory.productions.allow_untrusted,
                context.graph.sources,
                context.graph.state_shapes,
            )
        except SnapshotError as error:
            return Answer(False, f"the savepoint failed: {text_or_class(error)}")
        return Answer(True, f"savepoint of epoch {epoch}, in {directory.path}/{SAVEPOINTS}", epoch)

    def _change_layout(self, merged: MergedLogs) -> None:
        directory, before, replaced = self._directory, self._context.graph.execution, self._directory.layout
        layout = Layout.of(directory.wanted, replaced.number + 1)
        begin_layout(merged, layout, directory.wanted, directory.disk, directory.path, self._context.token())
        directory.use(layout)
        self._context.graph.use(directory.wanted)
        _logger.info(
            "%s: each task resumes with %d subtasks; it had %d",
            directory.path,
            layout.parallelism,
            before.parallelism,
        )
        remove_layout(replaced, before, directory.disk, directory.path)
