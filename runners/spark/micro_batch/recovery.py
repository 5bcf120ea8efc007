"""Find the committed batch that a run of micro-batches continues from, and check that the pipeline can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ....frozen import frozen
from ....sdk.errors import CheckpointMismatchError
from ....sdk.redaction import logger_of
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.execution_graph import label_of
from ...execution.plan.fusion import Plan
from ...execution.plan.source_identities import ADVICE, described
from ...execution.sinks.committer import sinks_of
from ...execution.sinks.errors import unpublished_output
from .commit_log import Committed
from .sources import DriverSources

_logger = logger_of(__name__)


@frozen
class Recovery:
    """The checks of a committed batch before a run continues from it.

    Attributes:
      allow_dropped_state: whether state, output and positions of transforms that the pipeline no longer has may be
        dropped.
      renamed: the labels of sinks that the pipeline has under other labels now.
      is_published: returns whether the output of a batch is known to be published.
      allow_changed_sources: whether changed sources resume from their checkpointed positions.
    """

    store: SnapshotStore
    plan: Plan
    sources: DriverSources
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    renamed: Collection[str] = ()
    is_published: Callable[[int], bool] = lambda _: False

    def newest(self) -> tuple[Checkpoint, Committed] | None:
        """Return the newest committed batch that is undamaged, or None.

        Raises `CheckpointMismatchError` if another runner wrote it, or if it has state, output or positions of
        transforms that the pipeline doesn't have.
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
                "%s: Continuing from batch %d. Sinks have published batch %s already, and will publish it again",
                self.store.directory,
                checkpoint.epoch,
                ", ".join(map(str, reversed(skipped))),
            )
        if committed.is_complete:
            _logger.warning(
                "%s: The run of these checkpoints has ended with batch %d, and there is nothing left to do. To run the "
                "pipeline from the beginning, give another --checkpoint_dir",
                self.store.directory,
                checkpoint.epoch,
            )
        return checkpoint, committed

    def _check_runner(self, checkpoint: Checkpoint) -> None:
        parts = checkpoint.metadata.get("parts", {})
        if not all("level" in part for part in parts.values()):
            raise CheckpointMismatchError(
                f"{self.store.directory}: another runner wrote these checkpoints. Give another --checkpoint_dir"
            )

    def _check_state(self, checkpoint: Checkpoint) -> None:
        kept = (label for part in checkpoint.metadata["parts"].values() for label in part["labels"])
        if unknown := self._unknown(kept):
            raise CheckpointMismatchError(
                f"{self.store.directory}: batch {checkpoint.epoch} has state of {unknown}, which the "
                "pipeline doesn't have. Give the transforms the labels that they had, or drop that state with "
                "--allow_dropped_state"
            )

    def _check_sinks(self, committed: Committed) -> None:
        """Raise `CheckpointMismatchError` for output of a sink that is gone, if it may be unpublished."""
        sinks = {*sinks_of(self.plan), *self.renamed}
        gone = [label for label, tokens in committed.staged.items() if tokens and label not in sinks]
        # The plan of the next batch is written once the output of this one is published.
        if gone and not (self.allow_dropped_state and self.is_published(committed.number)):
            raise unpublished_output(self.store.directory, f"batch {committed.number}", gone)

    def _check_sources(self, committed: Committed) -> None:
        """Raise `CheckpointMismatchError` for positions of an unbounded source that the pipeline no longer has."""
        gone = ", ".join(sorted(map(repr, self.sources.unknown(committed.positions))))
        if gone and not self.allow_dropped_state:
            raise CheckpointMismatchError(
                f"{self.store.directory}: batch {committed.number} has read from {gone}, which the "
                "pipeline doesn't have. Give the source the label that it had, or drop its position with "
                "--allow_dropped_state. A source with another label is read from the beginning"
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
        self.sources.reset_labels = {change.label for change in changed}

    def _unknown(self, labels: Iterable[str]) -> str:
        """Return the labels that the pipeline doesn't have as text; "" if they may be dropped."""
        if self.allow_dropped_state:
            return ""
        nodes = self.plan.graph.pcollections.values()
        known = {label_of(step) for step in self.plan.steps} | {node.producer for node in nodes}
        known |= {f"{node.producer}[{node.tag}]" for node in nodes}
        return ", ".join(sorted(map(repr, set(labels) - known)))
