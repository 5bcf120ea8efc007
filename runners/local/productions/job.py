"""A job of producers: there are no barriers, since each subtask is durable by itself.

What is left to decide is when sinks commit, and when it is over.  What was staged is committed when the
production that knows of it is in its log, which the subtask reports then; a subtask that goes on reports all that it
doesn't know to be committed, so nothing is forgotten, and committing is idempotent.  Each transaction
belongs to one subtask, which is allotted a few in advance; but what ends is published at its end, all at once, in one.

When a worker dies, another takes its place, and goes on from its logs: nobody goes back, and nothing that was
acknowledged is done again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from ....sdk.errors import (
    CheckpointMismatchError,
    CorruptSnapshotError,
    PenstockError,
    SnapshotError,
    StaleWriterError,
)
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ....sdk.sources.unbounded import UnboundedSource
from ...execution.checkpoints.catalog import OWNER as OWNER
from ...execution.checkpoints.catalog import trusted
from ...execution.checkpoints.log_listing import LogListing
from ...execution.checkpoints.storage import Disk
from ...execution.checkpoints.store import fresh_token
from ...execution.clock import ProcessingTime
from ...execution.plan.execution_graph import ExecutionGraph
from ...execution.plan.source_identities import changes_of_sources, described, sources_of
from ...execution.sinks.committer import SinkCommitter, Staged
from ...execution.sinks.errors import LogDecision
from ...execution.state.schema import mismatches
from ..job.control_requests import Answer, Inbox, Wish
from ..job.job import Job, JobSettings
from ..workers.pool import WorkerDied, Workers, ids_of
from .attempt import ProductionAttempt, RestWanted
from .delivery import STRONG, weak_tasks
from .fenced_transactions import JOB, FencedTransactions, listing_of, noted_layout
from .log_layout import SAVEPOINTS, Layout, begin_layout, remove_layout, staged_of, write_savepoint
from .merged_logs import Folded, fold
from .producer import GroupCommit
from .production import decode_ended
from .slot import log_directory

_logger = logger_of(__name__)


# Of weak tasks: what they have sent may be taken by its receiver, and be in no log.  It is made again then; but
# whoever goes on from all logs together doesn't know how far watermarks were, and would take it for being on time.
_NO_CUT = "weak productions may send again what came before windows were closed, and would open them anew ({})"


# Leaves offsets as they are.
_UNCHANGED = UnboundedSource.rescale


@attrs.frozen
class Productions:
    """Where logs are, and which guarantees they give.

    Attributes:
      is_kept: whether somebody may start again from that directory.
      allow_untrusted: read logs even if other users could have written them.
      delivery: "strong" or "weak", of the transforms of which nothing was said.
    """

    disk: Disk
    directory: str
    is_kept: bool = True
    delivery: str = STRONG
    allow_untrusted: bool = False
    group_commit: GroupCommit = attrs.field(factory=GroupCommit)


class ProductionJob(Job):
    """One pipeline's run, exactly once by productions."""

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        productions: Productions,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str] = fresh_token,
        inbox: Inbox | None = None,
        time: ProcessingTime | None = None,
    ) -> None:
        super().__init__(execution_graph, workers, settings, None, clock, sleep, token, inbox, time)
        self._productions = productions
        # How many subtasks each task is to have; until then it runs with as many as there were.
        self._wanted = execution_graph
        self._is_at_rest = False
        self._fenced = FencedTransactions(productions.disk, productions.directory)
        self._transactions = SinkCommitter(execution_graph.plan, self._fenced)

    @property
    def _ended_path(self) -> str:
        return f"{self._productions.directory}/ended"

    @property
    def logs(self) -> str:
        """Where the logs are that count."""
        layout = self._fenced.layout
        assert layout is not None
        return layout.directory(self._productions.directory)

    @property
    def listing(self) -> str:
        """The path of the list of these logs."""
        layout = self._fenced.layout
        assert layout is not None
        return layout.listing(self._productions.directory)

    @property
    def decision(self) -> LogDecision:
        """The event that decides the commit of staged output."""
        return LogDecision.of(self._productions.directory)

    @property
    def wants_rest(self) -> bool:
        """Whether all logs are to be read: for a savepoint, or for another number of subtasks."""
        return bool(self._savepoints) or self._graph.parallelism != self._wanted.parallelism

    @property
    def _ends_with_savepoint(self) -> bool:
        # What is durable is in the logs, whenever it stops.
        return True

    def _run_attempts(self) -> None:
        self._check_directory()
        self._transactions.recover(self._fenced.take_over(self._token()))
        self._open_inbox()
        self._go_on_with_layout()
        self.restarts = self._settings.restarts.fresh()
        while True:
            attempt = None
            try:
                # Also when the attempt before has failed in publishing, or doesn't know whether it has ended.
                if self._publish_what_ended():
                    return
                if self._is_at_rest:
                    self._rest()
                attempt = ProductionAttempt(self)
                self.state = attempt.run()
                return
            except RestWanted:
                self._is_at_rest = True
                continue
            except (StaleWriterError, CheckpointMismatchError):
                raise
            except (PenstockError, WorkerDied) as error:
                wait = self.after_failure(attempt)
                if wait is None:
                    if isinstance(error, WorkerDied):
                        raise PenstockError(str(error)) from error
                    raise
                if Wish.CANCEL not in self._wishes:
                    _logger.warning("the pipeline failed, and goes on in %.1f seconds: %s", wait, error)
                self._observations.restarted(str(error))
            finally:
                self._workers.end()
            if self._is_cancelled_within(wait):
                self.state = PipelineState.CANCELLED
                return

    # What is done while nobody writes

    def _go_on_with_layout(self) -> None:
        """Begin the first layout, or go on with the one that there is, whatever it was made for."""
        layout = self._fenced.layout
        if layout is None:
            layout = Layout.of(self._wanted, 1)
            layout.make_listing(self._productions.disk, self._productions.directory)
            self._use_layout(layout)
        if (layout.sources, layout.state) != (self.sources, self.shapes):
            layout = attrs.evolve(layout, sources=self.sources, state=self.shapes)
            self._use_layout(layout)
        self._use(layout.graph(self._wanted.plan, self._productions.directory))

    def _use_layout(self, layout: Layout) -> None:
        """Write down that these are the logs that count."""
        self._fenced.layout = layout
        self._transactions.write_names()

    def _use(self, execution_graph: ExecutionGraph) -> None:
        self._graph = execution_graph
        self._subtasks = ids_of(execution_graph)

    def _rest(self) -> None:
        """All logs have begun, and the workers have ended: take savepoints, and change the number of subtasks."""
        self._fenced.check()
        folded = fold(self._graph, self._productions.disk, self.logs, self._token(), self.listing)
        if not self._commits_at_end:
            self._transactions.commit(staged_of(folded), self.decision)
            folded = attrs.evolve(folded, staged=())
        if self._savepoints:
            self._take_savepoint(folded)
        if self._graph.parallelism != self._wanted.parallelism:
            self._change_layout(folded)
        self._is_at_rest = False

    def _take_savepoint(self, folded: Folded) -> None:
        productions = self._productions
        if weak := self._weak_labels(self._graph):
            while self._savepoints:
                self._savepoints.popleft()(Answer(False, f"the savepoint failed: {_NO_CUT.format(weak)}"))
            return
        transaction = next(iter(self._transactions.open), None) if self._commits_at_end else None
        try:
            epoch = write_savepoint(
                folded,
                productions.disk,
                productions.directory,
                transaction,
                self._token,
                lambda: self._clock() / 1_000_000,
                productions.allow_untrusted,
                self.sources,
                self.shapes,
            )
        except SnapshotError as error:
            answer = Answer(False, f"the savepoint failed: {error}")
        else:
            answer = Answer(True, f"savepoint of epoch {epoch}, in {productions.directory}/{SAVEPOINTS}", epoch)
        while self._savepoints:
            self._savepoints.popleft()(answer)

    def _change_layout(self, folded: Folded) -> None:
        disk, directory, before = self._productions.disk, self._productions.directory, self._graph
        replaced = self._fenced.layout
        assert replaced is not None
        layout = Layout.of(self._wanted, replaced.number + 1)
        begin_layout(folded, layout, self._wanted, disk, directory, self._token())
        self._use_layout(layout)
        self._use(self._wanted)
        _logger.info(
            "%s: each task goes on with %d subtasks; it had %d",
            self._productions.directory,
            layout.parallelism,
            before.parallelism,
        )
        remove_layout(replaced, before, disk, directory)

    def _settle(self, checkpoint: object) -> None:
        """It has failed for good: what is staged and in a log is the next start's to commit."""
        if not self._productions.is_kept:
            self._transactions.abort()

    def _check_directory(self) -> None:
        """Raises `CheckpointMismatchError` if what is there is of another pipeline.

        And `UntrustedSnapshotError` if others may have written it.
        """
        disk, directory = self._productions.disk, self._productions.directory
        path = f"{directory}/{OWNER}"
        if disk.exists(path):
            if not self._productions.allow_untrusted:
                trusted(disk, directory, path)
            listing_of(disk, directory).require()
            # Before anything is taken over: a mistake must not end the run whose directory it is.
            layout = noted_layout(disk, directory)
            if layout is None:
                self._must_be_new(directory)
            else:
                LogListing(disk, layout.listing(directory)).require()
                before = layout.graph(self._wanted.plan, directory)
                self._check_layouts_sources(layout)
                self._check_layouts_state(layout)
                if not self._productions.allow_untrusted:
                    self._check_who_wrote(before, layout.directory(directory))
                weak = self._weak_labels(before)
                if weak and layout.parallelism != self._wanted.parallelism:
                    raise CheckpointMismatchError(
                        f"{directory}: {_NO_CUT.format(weak)}. It can only go on with as many subtasks as it had: "
                        f"expected --parallelism={layout.parallelism}, got {self._wanted.parallelism}"
                    )
            return
        if any(name.startswith("manifest-") for name in disk.list(directory)):
            raise CheckpointMismatchError(
                f"{directory} has checkpoints, which were taken with --delivery=barriers; go on with that, or give "
                "another --checkpoint_dir"
            )
        # Who has only claimed the job's log has not been certain of this file yet.
        if any(name.startswith("productions-") for name in disk.list(f"{directory}/{JOB}")):
            raise CorruptSnapshotError(path, "no such file", f"that of the logs that are in {directory}")
        try:
            disk.make_directory(directory)
            if not self._productions.allow_untrusted:
                trusted(disk, directory)
            # First the list: where it is missing later on, it is lost.
            listing_of(disk, directory).create(1)
            disk.write_atomically(path, b"{}")
        except OSError as error:
            raise SnapshotError(f"{path} can't be written: {error}") from error

    def _check_layouts_sources(self, layout: Layout) -> None:
        """Raises `CheckpointMismatchError` if a source isn't what it was."""
        sources = sources_of(self._wanted.plan)
        changes = changes_of_sources(layout.sources, self.sources, sources)
        # Positions of all partitions together would be needed, and those are in several logs.
        shared = [c for c in changes if c.rescalable and type(sources[c.label]).rescale is not _UNCHANGED]
        refused = [c for c in changes if not c.is_rescalable and c not in shared]
        if shared or (refused and not self._settings.allow_changed_sources):
            advice = (
                "restore their parameters"
                if shared
                else "restore their parameters, or, if the same input has another name or address now, give "
                "--allow_changed_sources to resume from those positions"
            )
            raise CheckpointMismatchError(
                f"{self._productions.directory}: these sources have changed since the logs were written: "
                f"{described(shared or refused)}. With --delivery=strong or weak a pipeline resumes with the same "
                f"sources only: {advice}"
            )

    def _check_layouts_state(self, layout: Layout) -> None:
        """Raise `CheckpointMismatchError` if the steps keep something else now than they did."""
        if changed := mismatches(layout.state, self.shapes):
            raise CheckpointMismatchError(
                f"{self._productions.directory}: the logs have state of another kind than the pipeline keeps: "
                f"{'; '.join(map(str, changed))}. With --delivery=strong or weak a pipeline goes on with the "
                "same state only: let these transforms keep what they kept, or begin anew with another --checkpoint_dir"
            )

    def _must_be_new(self, directory: str) -> None:
        """Raise `CorruptSnapshotError` if there are logs, and nothing that says whose they are."""
        for id in ids_of(self._wanted):
            if self._productions.disk.list(log_directory(directory, id)):
                raise CorruptSnapshotError(
                    f"{directory}/{JOB}", "no log", f"the log of the job whose logs are in {directory}"
                )

    def _check_who_wrote(self, before: ExecutionGraph, logs: str) -> None:
        """Raises `UntrustedSnapshotError` if somebody else could have written what is pickled."""
        disk = self._productions.disk
        if disk.exists(self._ended_path):
            trusted(disk, self._ended_path)
        for id in ids_of(before):
            own = log_directory(logs, id)
            names = [name for name in disk.list(own) if name.startswith("productions-")]
            for path in [own, *(f"{own}/{name}" for name in names)] if names else []:
                # Who is still at work there may begin the log anew.
                with suppress(FileNotFoundError):
                    trusted(disk, path)

    def _weak_labels(self, execution_graph: ExecutionGraph) -> str:
        """The tasks that send what is in no log; none where nothing is sent."""
        weak = weak_tasks(execution_graph, self._productions.delivery)
        return ", ".join(task.label for task in execution_graph.tasks if task.id in weak and task.outputs)

    def _publish_what_ended(self) -> bool:
        """Whether everything has been done, and was to be published only."""
        disk = self._productions.disk
        if not disk.exists(self._ended_path):
            return False
        state, staged = decode_ended(disk.read(self._ended_path), self._ended_path)
        self._end(state, staged)
        return True

    def _end(self, state: str, staged: Staged) -> None:
        """Everything has been done: publish what is published at the end."""
        complete = self._transactions.open if self._commits_at_end else ()
        self._transactions.commit(staged, self.decision, complete)
        self._transactions.abort()
        self.state = state
