"""Events that decide a commit, and errors that name the way out.

A manifest that is written decides that its transactions commit, so every start tries again.  A commit that fails
because of the content of a record fails each time.  Two things end that: with `--on_commit_error=dead_letter` the sink
moves the record aside, and `penstock checkpoints rollback DIR` returns to the previous checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....frozen import frozen
from ....sdk.errors import CheckpointMismatchError, RejectedRecordError
from ....sdk.redaction import redacted

DEAD_LETTERS = "start it with --on_commit_error=dead_letter, which publishes all records except the refused ones"


@frozen
class Decision:
    """The event that decides a commit: the end of a run, a manifest, or a log.

    Attributes:
      undone: the consequence of a record that is refused before, such as "checkpoint 7 is not written".
      remedy: the way to run the fixed pipeline.
    """

    undone: str
    remedy: str

    @contextmanager
    def precommitting(self) -> Iterator[None]:
        """Add the consequence and the possible remedies to the error of a refused record."""
        try:
            yield
        except RejectedRecordError as error:
            explain(error, f"{self.undone}, since it couldn't be published: ", f"{self.remedy}; or {DEAD_LETTERS}")
            raise

    def published_before(self, sinks: Sequence[str]) -> tuple[str, ...]:
        """Return which of these sinks may have published something already, before an earlier process was killed."""
        return ()

    def commit_failed(self, error: Exception, transaction: str, sink: str, published: Sequence[str]) -> None:
        """Add the remedies to the error of a decided commit.

        Args:
          sink: the label of the sink that failed.
          published: the labels of the sinks that have published something of it, or may have.
        """


END_OF_RUN = Decision("nothing is published", "Fix the pipeline and run it again")


@frozen
class LogDecision(Decision):
    """The logs of subtasks, which every start commits until that succeeds."""

    directory: str

    @classmethod
    def of(cls, directory: str) -> LogDecision:
        """Return the decision of the logs in a directory."""
        return cls(
            f"{directory}: the results are not published",
            "The logs contain the results: run the fixed pipeline with another --checkpoint_dir",
            directory,
        )

    def commit_failed(self, error: Exception, transaction: str, sink: str, published: Sequence[str]) -> None:
        explain(
            error,
            f"{self.directory}: transaction {transaction} is in the logs, and can't be published: ",
            f"Every start tries this again. To continue without the refused records, {DEAD_LETTERS}",
        )


PRODUCTION = Decision("a production is not logged", "Fix the pipeline and start it again: it resumes from its logs")


def explain(error: BaseException, before: str, after: str) -> None:
    """Put text around the message of an error, which keeps its class and attributes."""
    if error.args and isinstance(error.args[0], str):
        error.args = (f"{redacted(before)}{error.args[0]}. {redacted(after)}", *error.args[1:])


def unpublished_output(directory: str, checkpoint: str, gone: Sequence[str]) -> CheckpointMismatchError:
    """Return the error for output that a checkpoint has decided, of sinks that the pipeline doesn't have."""
    labels = ", ".join(map(repr, gone))
    return CheckpointMismatchError(
        f"{directory}: {checkpoint} has output of {labels}, which the pipeline doesn't have, and it may be "
        "unpublished. Start the pipeline once with the sink under this label, which publishes the output, and stop it "
        "with a savepoint; --allow_dropped_state drops no output. Or return to the checkpoint before, whose input is "
        f"read again: `penstock checkpoints rollback {directory} --allow_repeated_results`"
    )


def moved_target(directory: str, label: str, before: str, now: str, error: Exception) -> CheckpointMismatchError:
    """Return the error for output of a sink that has another target now, where it can't be published."""
    return CheckpointMismatchError(
        f"{directory}: its newest checkpoint has output of {label!r} for {before}, which may be unpublished, but the "
        f"sink writes to {now} now, where it can't be published: {redacted(str(error))}. Start the pipeline once with "
        "the former target, which publishes the output, and stop it with a savepoint; then change the target. Or "
        "return to the checkpoint before, whose input is read again: "
        f"`penstock checkpoints rollback {directory} --allow_repeated_results`"
    )


def staged_elsewhere(directory: str, label: str, before: str, now: str) -> CheckpointMismatchError:
    """Return the error for staged output of an unfinished bounded run, whose sink has another target now."""
    return CheckpointMismatchError(
        f"{directory}: its unfinished run has staged output of {label!r} for {before}, but the sink writes to {now} "
        "now. Give it the former target, or start from the beginning with another --checkpoint_dir: nothing is "
        "published yet"
    )
