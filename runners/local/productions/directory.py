"""The directory of a job of producers: the subtasks' logs, the open transactions, and the record of the end.

It also knows which tasks are weak.  The steps of a task run together, and are one production: it is as strong as the
strongest of them.  Sources and sinks are as strong as the steps beside them: a source reads the same input again, and
a sink receives durable output only.
"""

from __future__ import annotations

from contextlib import suppress

import attrs

from ....frozen import frozen
from ....sdk.errors import CheckpointMismatchError, CorruptSnapshotError, SnapshotError
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.catalog import OWNER, trusted
from ...execution.checkpoints.log_listing import LogListing
from ...execution.checkpoints.storage import Disk
from ...execution.plan.execution_graph import ExecutionGraph, Task
from ...execution.plan.fusion import Grouping, Keyed, Stage, Step
from ...execution.plan.source_identities import changes_of_sources, described, sources_of
from ...execution.sinks.committer import Staged
from ...execution.sinks.errors import LogDecision
from ...execution.state.schema import mismatches
from ..job.context import JobContext
from ..workers.pool import ids_of
from .fenced_transactions import JOB, FencedTransactions, listing_of, noted_layout
from .log_layout import Layout
from .producer import GroupCommit
from .production import decode_ended, encode_ended
from .slot import log_directory

_STRONG = "strong"

# A weak task's output may be in its receiver's log and in no log of its own; then it is produced again.  A cut of all
# logs does not know the watermarks at which it was produced, and would take late records for records on time.
NO_CUT = (
    "after a restart, weak productions ({}) may send elements again whose windows have closed, and that would open the "
    "windows anew"
)

# Leaves offsets as they are.
_UNCHANGED = UnboundedSource.rescale


@frozen
class Productions:
    """Where the logs are, and which guarantees they give.

    Attributes:
      is_kept: a later run may resume from the directory.
      delivery: "strong" or "weak", for transforms that don't set it.
      allow_untrusted: read logs that other users could have written.
    """

    disk: Disk
    directory: str
    is_kept: bool = True
    delivery: str = _STRONG
    allow_untrusted: bool = False
    group_commit: GroupCommit = attrs.field(factory=GroupCommit)


def weak_tasks(execution_graph: ExecutionGraph, default: str) -> frozenset[int]:
    """Return the tasks all of whose steps are weak.

    Args:
      default: "strong" or "weak", for transforms that don't set it.
    """
    return frozenset(task.id for task in execution_graph.tasks if _is_weak(task, default))


def _is_weak(task: Task, default: str) -> bool:
    deliveries = [delivery or default for step in task.steps for delivery in _deliveries(step)]
    return _STRONG not in (deliveries or [default])


def _deliveries(step: Step) -> list[str | None]:
    if isinstance(step, Stage):
        return [transform.delivery for transform in step.operations]
    return [step.transform.delivery] if isinstance(step, (Grouping, Keyed)) else []


class ProductionDirectory:
    """The directory of a job of producers.

    Args:
      wanted: the execution graph with the parallelism that the job is to have.

    Attributes:
      fenced: the log of the open transactions.
      is_quiescent: all logs have begun anew and no worker runs, so the logs can be read together.
    """

    def __init__(self, context: JobContext, productions: Productions, fenced: FencedTransactions) -> None:
        self._context = context
        self.productions = productions
        self.disk, self.path = productions.disk, productions.directory
        self.wanted = context.graph.execution
        self.fenced = fenced
        self.is_quiescent = False

    @property
    def layout(self) -> Layout:
        """The layout of the current logs."""
        assert self.fenced.layout is not None
        return self.fenced.layout

    @property
    def logs(self) -> str:
        """The directory of the current logs."""
        return self.layout.directory(self.path)

    @property
    def listing(self) -> str:
        """The path of the list of the current logs."""
        return self.layout.listing(self.path)

    @property
    def decision(self) -> LogDecision:
        """The event that decides the commit of staged output."""
        return LogDecision.of(self.path)

    @property
    def needs_quiescence(self) -> bool:
        """Whether the logs have to be read together: for a savepoint, or to change the parallelism."""
        context = self._context
        return bool(context.requests.savepoints) or context.graph.execution.parallelism != self.wanted.parallelism

    def weak_labels(self, execution_graph: ExecutionGraph) -> str:
        """Return the weak tasks that have outputs, as text."""
        weak = weak_tasks(execution_graph, self.productions.delivery)
        return ", ".join(task.label for task in execution_graph.tasks if task.id in weak and task.outputs)

    # Layouts

    def resume_layout(self) -> None:
        """Begin the first layout, or resume the current one with the parallelism that it has."""
        context = self._context
        layout = self.fenced.layout
        if layout is None:
            layout = Layout.of(self.wanted, 1)
            layout.make_listing(self.disk, self.path)
            self.use(layout)
        if (layout.sources, layout.state) != (context.graph.sources, context.graph.state_shapes):
            layout = attrs.evolve(layout, sources=context.graph.sources, state=context.graph.state_shapes)
            self.use(layout)
        context.graph.use(layout.graph(self.wanted.plan, self.path))

    def use(self, layout: Layout) -> None:
        """Record the layout of the current logs."""
        self.fenced.layout = layout
        self._context.committer.write_names()

    # The end

    @property
    def _ended_path(self) -> str:
        return f"{self.path}/ended"

    def publish_ended(self) -> str | None:
        """Publish the output of a run that has ended, and return its final state; return None if it has not ended."""
        if not self.disk.exists(self._ended_path):
            return None
        state, staged = decode_ended(self.disk.read(self._ended_path), self._ended_path)
        self._publish(staged)
        return state

    def end(self, state: str, staged: Staged) -> None:
        """Record that the run has ended, and publish its output.

        Args:
          state: the final state of the run.
        """
        self.fenced.check()
        self._context.committer.precommit(staged, self.decision)
        try:
            self.disk.write_atomically(self._ended_path, encode_ended(state, staged))
        except OSError as error:
            raise SnapshotError(f"{self._ended_path} can't be written: {text_or_class(error)}") from error
        self._publish(staged)

    def _publish(self, staged: Staged) -> None:
        committer = self._context.committer
        committer.commit(staged, self.decision, committer.open if self._context.graph.commits_at_end else ())
        committer.abort()

    # Checks before the job takes the directory over: a mistake must not end the run whose directory it is.

    def check(self) -> None:
        """Create the directory, or check it against the pipeline.

        Raises `CheckpointMismatchError` if it belongs to another pipeline, and `UntrustedSnapshotError` if other users
        may have written it.
        """
        disk, path = self.disk, f"{self.path}/{OWNER}"
        if disk.exists(path):
            self._check_logs(path)
            return
        if any(name.startswith("manifest-") for name in disk.list(self.path)):
            raise CheckpointMismatchError(
                f"{self.path} has checkpoints, which were taken with --delivery=barriers; resume with that, or give "
                "another --checkpoint_dir"
            )
        # A job that was killed while it took over may have left a claim, but no record.
        if any(name.startswith("productions-") for name in disk.list(f"{self.path}/{JOB}")):
            raise CorruptSnapshotError(path, "no such file", f"that of the logs that are in {self.path}")
        try:
            disk.make_directory(self.path)
            if not self.productions.allow_untrusted:
                trusted(disk, self.path)
            # The list is written first: if it is missing later, it is lost.
            listing_of(disk, self.path).create(1)
            disk.write_atomically(path, b"{}")
        except OSError as error:
            raise SnapshotError(f"{path} can't be written: {text_or_class(error)}") from error

    def _check_logs(self, owner: str) -> None:
        disk, directory, trusts = self.disk, self.path, self.productions.allow_untrusted
        if not trusts:
            trusted(disk, directory, owner)
        listing_of(disk, directory).require()
        layout = noted_layout(disk, directory)
        if layout is None:
            self._check_empty()
            return
        LogListing(disk, layout.listing(directory)).require()
        before = layout.graph(self.wanted.plan, directory)
        self._check_sources(layout)
        self._check_state(layout)
        if not trusts:
            self._check_trusted(before, layout.directory(directory))
        weak = self.weak_labels(before)
        if weak and layout.parallelism != self.wanted.parallelism:
            raise CheckpointMismatchError(
                f"{directory}: {NO_CUT.format(weak)}. The parallelism can't change: "
                f"expected --parallelism={layout.parallelism}, got {self.wanted.parallelism}"
            )

    def _check_sources(self, layout: Layout) -> None:
        """Raise `CheckpointMismatchError` if a source has changed."""
        sources = sources_of(self.wanted.plan)
        changes = changes_of_sources(layout.sources, self._context.graph.sources, sources)
        # Rescaling needs the positions of all partitions, which are in several logs.
        shared = [c for c in changes if c.rescalable and type(sources[c.label]).rescale is not _UNCHANGED]
        refused = [c for c in changes if not c.is_rescalable and c not in shared]
        if shared or (refused and not self._context.settings.allow_changed_sources):
            advice = (
                "restore their parameters"
                if shared
                else "restore their parameters, or, if the same input has another name or address now, give "
                "--allow_changed_sources to resume from those positions"
            )
            raise CheckpointMismatchError(
                f"{self.path}: these sources have changed since the logs were written: "
                f"{described(shared or refused)}. With --delivery=strong or weak a pipeline resumes with the same "
                f"sources only: {advice}"
            )

    def _check_state(self, layout: Layout) -> None:
        """Raise `CheckpointMismatchError` if a step keeps state of another kind now."""
        if changed := mismatches(layout.state, self._context.graph.state_shapes):
            raise CheckpointMismatchError(
                f"{self.path}: the logs have state of another kind than the pipeline keeps: "
                f"{'; '.join(map(str, changed))}. With --delivery=strong or weak a pipeline resumes with the "
                "same state only: let these transforms keep what they kept, or begin anew with another --checkpoint_dir"
            )

    def _check_empty(self) -> None:
        """Raise `CorruptSnapshotError` if there are logs without a layout."""
        for id in ids_of(self.wanted):
            if self.disk.list(log_directory(self.path, id)):
                raise CorruptSnapshotError(
                    f"{self.path}/{JOB}", "no log", f"the log of the job whose logs are in {self.path}"
                )

    def _check_trusted(self, before: ExecutionGraph, logs: str) -> None:
        """Raise `UntrustedSnapshotError` if other users could have written pickled values."""
        disk = self.disk
        if disk.exists(self._ended_path):
            trusted(disk, self._ended_path)
        for id in ids_of(before):
            own = log_directory(logs, id)
            names = [name for name in disk.list(own) if name.startswith("productions-")]
            for path in [own, *(f"{own}/{name}" for name in names)] if names else []:
                # The run that still writes may replace its file.
                with suppress(FileNotFoundError):
                    trusted(disk, path)
