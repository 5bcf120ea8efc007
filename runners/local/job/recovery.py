"""Recovery from the newest complete checkpoint: check it against the pipeline, and commit what it has staged."""

from __future__ import annotations

from collections.abc import Collection

from ....sdk.errors import CheckpointMismatchError, CorruptSnapshotError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.execution_graph import label_of
from ...execution.plan.source_identities import ADVICE, changes_of_sources, described, sources_of
from ...execution.sinks.checkpoint_commits import ManifestDecision, commit_succeeded
from ...execution.sinks.committer import Staged, decode_staged
from ...execution.sinks.errors import END_OF_RUN, Decision, staged_elsewhere, unpublished_output
from ...execution.state.schema import mismatches
from ...execution.streaming.restored import restored_line
from ..workers.snapshot_writer import PROCESSING_TIME, PUBLISHED, SINKS
from .context import JobContext

_logger = logger_of(__name__)


class CheckpointRecovery:
    """The checkpoint that a job restarts from, and the transaction that it continues.

    Args:
      store: the snapshot store; None for a run without checkpoints, which commits at its end.

    Attributes:
      store: the snapshot store.
      epoch: the greatest epoch that has begun.
      unfinished: the transaction that the newest checkpoint continues, or None.
      carried: the tokens that were staged in it before this attempt.
      is_in_doubt: the commit of the last manifest may or may not have succeeded.
      sources_begun_anew: the labels of sources whose checkpointed positions are dropped.
    """

    def __init__(self, context: JobContext, store: SnapshotStore | None) -> None:
        self._context = context
        self.store = store
        self.epoch = 0
        self.unfinished: str | None = None
        self.carried: Staged = {}
        self.is_in_doubt = False
        self.sources_begun_anew: frozenset[str] = frozenset()

    def next_epoch(self) -> int:
        """Return the epoch of the next checkpoint."""
        self.epoch += 1
        return self.epoch

    def decision_of(self, epoch: int) -> Decision:
        """Return the event that decides the commit of a checkpoint's staged output."""
        if self.store is None:
            return END_OF_RUN
        at_end = self._context.graph.commits_at_end
        return (ManifestDecision.of_last_checkpoint if at_end else ManifestDecision.of_checkpoint)(self.store, epoch)

    def take_over(self) -> None:
        """Become the owner of the checkpoints; raise `CheckpointMismatchError` for those of another pipeline."""
        if self.store is None:
            return
        # Checked first: a mistake must not end the job that writes these checkpoints.
        for checkpoint in self.store.checkpoints()[:1]:
            try:
                staged = _staged_in(self.store, checkpoint)
            except CorruptSnapshotError:
                # It is skipped.
                staged = {}
            self._check(self.store, checkpoint, staged)
        self.store.take_over()

    def recover(self) -> Checkpoint | None:
        """Commit what the newest checkpoint has staged, and abort everything else.

        Returns the checkpoint to restart from, or None.
        """
        store, context = self.store, self._context
        if store is None:
            return None
        if self.is_in_doubt:
            # The fence makes the manifest in doubt count now or never.
            store.sweep()
            store.take_over()
            self.is_in_doubt = False
        recovery = store.newest_complete()
        checkpoint = recovery.checkpoint
        if checkpoint is None:
            self._resolve_transactions(store, None)
            return None
        self._check(store, checkpoint, _staged_in(store, checkpoint))
        self.epoch = max(self.epoch, checkpoint.epoch)
        skipped = [skip.epoch for skip in recovery.skipped if skip.was_committed]
        if skipped and context.committer.has_sinks:
            _logger.warning(
                "%s: resuming from epoch %d. The published output of epoch %s stays, and is published again",
                store.directory,
                checkpoint.epoch,
                ", ".join(map(str, reversed(skipped))),
            )
        self._resolve_transactions(store, checkpoint)
        if not context.graph.has_script:
            context.clocks.time.go_on_from(checkpoint.metadata.get(PROCESSING_TIME, 0))
        metadata, n = checkpoint.metadata, context.graph.execution.parallelism
        before = next((part["of"] for part in metadata["parts"].values()), n)
        what = f"{checkpoint.kind.value} {checkpoint.epoch}"
        offsets = metadata.get("offsets", {})
        _logger.info("%s", restored_line(store.directory, what, store.age_of(checkpoint), n, before, offsets))
        return checkpoint

    def abort(self) -> None:
        """Abort everything that the newest checkpoint has not staged: the run has failed."""
        if self.store is None:
            self._context.committer.abort()
        else:
            self._resolve_transactions(self.store, self.store.newest_complete().checkpoint)

    def _resolve_transactions(self, store: SnapshotStore, checkpoint: Checkpoint | None) -> None:
        """Commit what the newest checkpoint has staged, and abort everything else."""
        committer = self._context.committer
        # Raises if another job owns the checkpoints: it commits and aborts then.
        store.sweep()
        staged = {} if checkpoint is None else _staged_in(store, checkpoint)
        if committer.unpublished(staged):
            # The start is refused.  The next one, of the pipeline that has these sinks, commits their output.
            return
        self.unfinished = None if checkpoint is None else checkpoint.metadata.get("transaction")
        if self.unfinished is not None:
            self.carried = staged
            committer.abort(but=[self.unfinished])
            return
        self.carried = {}
        epoch, complete = (0, None) if checkpoint is None else (checkpoint.epoch, checkpoint.metadata.get(PUBLISHED))
        committed = committer.commit(staged, self.decision_of(epoch), () if complete is None else (complete,))
        committer.transactions_resolved()
        committer.abort(but=committed)
        commit_succeeded(store.disk, store.directory)

    def _check(self, store: SnapshotStore, checkpoint: Checkpoint, staged: Staged) -> None:
        """Raise `CheckpointMismatchError` if the pipeline can't restore a checkpoint."""
        parts = checkpoint.metadata["parts"].values()
        if not all("subtask" in part for part in parts):
            raise CheckpointMismatchError(
                f"{store.directory}: its checkpoints were written by another runner; give another --checkpoint_dir"
            )
        self._check_sinks(store, checkpoint, staged)
        plan, allows_dropped = self._context.graph.execution.plan, self._context.settings.allow_dropped_state
        known = {label_of(step) for step in plan.steps} | {node.producer for node in plan.graph.pcollections.values()}
        known |= {f"{n.producer}[{n.tag}]" for n in plan.graph.pcollections.values()}
        kept = {label for part in parts for label in part["labels"]}
        kept |= {label for label, tokens in staged.items() if tokens}
        unknown = sorted(kept - known)
        if unknown and not allows_dropped:
            raise CheckpointMismatchError(
                f"{store.directory}: checkpoint {checkpoint.epoch} has state of {', '.join(map(repr, unknown))}, "
                "which the pipeline doesn't have. Give the transforms the labels that they had, or give "
                "--allow_dropped_state to resume without that state"
            )
        self._check_shapes(store, checkpoint, kept & known)
        self._check_sources(store, checkpoint)

    def _check_sinks(self, store: SnapshotStore, checkpoint: Checkpoint, staged: Staged) -> None:
        """Raise `CheckpointMismatchError` for output of a sink that is gone, if it may be unpublished."""
        gone = self._context.committer.unpublished(staged)
        if checkpoint.metadata.get("transaction") is not None:
            # The output of all starts is published at the end, by the same sinks.
            gone += [label for label in self._context.committer.renamed if staged.get(label)]
            for label, targets in self._context.committer.moved.items():
                if staged.get(label):
                    raise staged_elsewhere(store.directory, label, *targets)
        if gone:
            raise unpublished_output(store.directory, f"checkpoint {checkpoint.epoch}", gone)

    def _check_shapes(self, store: SnapshotStore, checkpoint: Checkpoint, labels: Collection[str]) -> None:
        """Raise `CheckpointMismatchError` if a step keeps state of another kind now."""
        before = {label: kept for label, kept in checkpoint.metadata.get("state", {}).items() if label in labels}
        changed = mismatches(before, self._context.graph.state_shapes)
        if changed and not self._context.settings.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{store.directory}: checkpoint {checkpoint.epoch} has state of another kind than the pipeline "
                f"keeps: {'; '.join(map(str, changed))}. Let these transforms keep what they kept, or give "
                "--allow_dropped_state to resume without that state"
            )

    def _check_sources(self, store: SnapshotStore, checkpoint: Checkpoint) -> None:
        """Raise `CheckpointMismatchError` if a source has changed and can't resume from its positions."""
        context = self._context
        before = checkpoint.metadata.get("sources", {})
        changes = changes_of_sources(before, context.graph.sources, sources_of(context.graph.execution.plan))
        changed = [change for change in changes if not change.is_rescalable]
        self.sources_begun_anew = frozenset()
        if not changed or context.settings.allow_changed_sources:
            return
        if not context.settings.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{store.directory}: these sources have changed since checkpoint {checkpoint.epoch}: "
                f"{described(changed)}. {ADVICE}"
            )
        self.sources_begun_anew = frozenset(change.label for change in changed)


def _staged_in(store: SnapshotStore, checkpoint: Checkpoint) -> Staged:
    for part in checkpoint.parts:
        if part.name == SINKS:
            ((_, records),) = store.read_part(part)
            return decode_staged(b"".join(records), path_of(store.directory, part.files[-1]))
    return {}
