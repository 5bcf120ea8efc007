"""Where a run of micro-batches goes on: from the newest batch that is committed, if it is one of this pipeline's."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ....sdk.errors import CheckpointMismatchError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.execution_graph import label_of
from ...execution.plan.fusion import Plan
from ...execution.plan.source_identities import ADVICE, described
from .commit_log import Committed
from .sources import DriverSources

_logger = logger_of(__name__)


@attrs.frozen
class Recovery:
    """Finds it, and refuses what this pipeline can't go on from.

    Attributes:
      allow_dropped_state: whether what has no place in the pipeline any more may be dropped.
      allow_changed_sources: resume changed sources from their checkpointed positions, too.
    """

    store: SnapshotStore
    plan: Plan
    sources: DriverSources
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False

    def newest(self) -> tuple[Checkpoint, Committed] | None:
        """The newest batch that is committed, and whole; None if there is none.

        Raises `CheckpointMismatchError` if it isn't one of this runner's, or has something of a transform that the
        pipeline doesn't have.
        """
        found = self.store.newest_complete()
        checkpoint = found.checkpoint
        if checkpoint is None:
            return None
        self._check_runner(checkpoint)
        committed = Committed.read(self.store, checkpoint)
        self._check_state(checkpoint)
        self._check_sinks(committed)
        self._check_sources(committed)
        self._check_identities(committed)
        skipped = [skip.epoch for skip in found.skipped if skip.was_committed]
        if skipped and committed.staged:
            _logger.warning(
                "%s: goes on from batch %d; what sinks have published of batch %s stays, and comes again",
                self.store.directory,
                checkpoint.epoch,
                ", ".join(map(str, reversed(skipped))),
            )
        if committed.is_complete:
            _logger.warning(
                "%s: the run that these checkpoints are of has ended, with batch %d, and there is nothing left to do; "
                "to run the pipeline anew, give another --checkpoint_dir",
                self.store.directory,
                checkpoint.epoch,
            )
        return checkpoint, committed

    def _check_runner(self, checkpoint: Checkpoint) -> None:
        parts = checkpoint.metadata.get("parts", {})
        if not all("level" in part for part in parts.values()):
            raise CheckpointMismatchError(
                f"{self.store.directory}: its checkpoints were written by another runner; give another --checkpoint_dir"
            )

    def _check_state(self, checkpoint: Checkpoint) -> None:
        kept = (label for part in checkpoint.metadata["parts"].values() for label in part["labels"])
        if unknown := self._unknown(kept):
            raise CheckpointMismatchError(
                f"{self.store.directory}: batch {checkpoint.epoch} has state of {unknown}, which the "
                "pipeline doesn't have. Give the transforms the labels that they had, or say --allow_dropped_state to "
                "go on without that state"
            )

    def _check_sinks(self, committed: Committed) -> None:
        """What it has staged for a sink that is gone nobody would publish."""
        if unknown := self._unknown(label for label, tokens in committed.staged.items() if tokens):
            raise CheckpointMismatchError(
                f"{self.store.directory}: batch {committed.number} has staged something for {unknown}, which the "
                "pipeline doesn't have, and nobody knows if it was published. Give the sink the label that it had, or "
                "say --allow_dropped_state to go on without it"
            )

    def _check_sources(self, committed: Committed) -> None:
        """A source that is gone might have had more, and under another label it would be read from the beginning."""
        gone = ", ".join(sorted(map(repr, self.sources.unknown(committed.positions))))
        if gone and not self.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self.store.directory}: batch {committed.number} has read from {gone}, which the "
                "pipeline doesn't have. Give the source the label that it had, or say --allow_dropped_state to go on "
                "without it; a source with another label is read from the beginning"
            )

    def _check_identities(self, committed: Committed) -> None:
        """Raise `CheckpointMismatchError` if a source has changed since its positions were committed."""
        changed = [change for change in self.sources.changes(committed.positions) if not change.is_rescalable]
        if not changed or self.allow_changed_sources:
            return
        if not self.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self.store.directory}: these sources have changed since batch {committed.number}: "
                f"{described(changed)}. {ADVICE}"
            )
        self.sources.begun_anew = {change.label for change in changed}

    def _unknown(self, labels: Iterable[str]) -> str:
        """Those of the labels that the pipeline doesn't have, for people; "" if they may be dropped."""
        if self.allow_dropped_state:
            return ""
        nodes = self.plan.graph.pcollections.values()
        known = {label_of(step) for step in self.plan.steps} | {node.producer for node in nodes}
        known |= {f"{node.producer}[{node.tag}]" for node in nodes}
        return ", ".join(sorted(map(repr, set(labels) - known)))
