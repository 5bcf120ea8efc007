"""What becomes of a commit that a sink can't do: dead letters, and errors that name the way out.

A manifest that is written decides that its transactions commit, so every start tries again.  A commit that fails for
what is in a record fails each time.  Two things end that: `--on_commit_error=dead_letter`, with which the sink moves
the record aside, and `penstock checkpoints rollback DIR`, which goes back to the checkpoint before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs

from ...sdk.errors import CorruptSnapshotError, RejectedRecordError, SnapshotError
from ...sdk.graph import Graph, ParDo, Transform
from ...sdk.options import PipelineOptions, SinkOptions
from ...sdk.redaction import redacted
from ...sdk.sink import Sink
from .disk import Disk
from .manifest import Checkpoint, sealed, unsealed
from .user_code import guarded

_logger = logging.getLogger(__name__)

# What a failed commit is noted in, among the checkpoints; and what is in it.
NOTE = "failed-commit"
_FORMAT = "penstock failed commit"

# In a checkpoint's metadata, the epoch of the one before it; None for the first.
PREVIOUS = "previous"

DEAD_LETTERS = "start it with --on_commit_error=dead_letter, which moves what is refused aside and publishes the rest"


def with_dead_letters(graph: Graph, options: PipelineOptions) -> Graph:
    """The graph with sinks that move refused records aside, where `--on_commit_error=dead_letter` says so."""
    if options.view_as(SinkOptions).on_commit_error != "dead_letter":
        return graph

    def moving(transform: Transform) -> Transform:
        primitive = transform.primitive
        if not isinstance(primitive, ParDo) or primitive.sink is None:
            return transform
        sink = primitive.sink.with_dead_letters()
        if sink is None:
            _logger.warning(
                "%s: --on_commit_error=dead_letter: its sink has no place for dead letters, so an error of its commit "
                "still fails the run",
                transform.label,
            )
            return transform
        return attrs.evolve(transform, primitive=attrs.evolve(primitive, sink=sink))

    return attrs.evolve(graph, transforms=tuple(map(moving, graph.transforms)))


def by_transaction(tokens: Sequence[tuple[str, Any]], order: Sequence[str]) -> dict[str, list[Any]]:
    """Pairs of a transaction and a token as tokens by transaction, in this order."""
    found: dict[str, list[Any]] = {transaction: [] for transaction in order}
    for transaction, token in tokens:
        found.setdefault(transaction, []).append(token)
    return found


def explain(error: BaseException, before: str, behind: str) -> None:
    """Put text around the message of an error, which stays the error that it is."""
    if error.args and isinstance(error.args[0], str):
        error.args = (f"{redacted(before)}{error.args[0]}. {redacted(behind)}", *error.args[1:])


@attrs.frozen
class FailedCommit:
    """A commit that has failed when it was decided already.

    Attributes:
      manifest: the name of the checkpoint's manifest.
      sink: the label of the sink that failed.
      error: what it said.
      published: the labels of the sinks that have published what they staged.
    """

    manifest: str
    sink: str
    error: str
    published: tuple[str, ...]

    def write(self, disk: Disk, directory: str) -> None:
        """Note it among the checkpoints; raises `SnapshotError`."""
        try:
            disk.write_atomically(f"{directory}/{NOTE}", sealed(_FORMAT, self))
        except OSError as error:
            raise SnapshotError(f"{directory}/{NOTE} can't be written: {error}") from error

    @staticmethod
    def read(disk: Disk, directory: str) -> FailedCommit | None:
        """The last that was noted there; None if there is none."""
        path = f"{directory}/{NOTE}"
        try:
            return unsealed(path, disk.read(path), _FORMAT, FailedCommit)
        except FileNotFoundError:
            return None
        except CorruptSnapshotError as error:
            _logger.warning("%s; going on without it", error)
            return None


def commit_failed(
    error: Exception, disk: Disk, directory: str, checkpoint: Checkpoint, sink: str, published: Sequence[str]
) -> None:
    """Note that the commit of a checkpoint has failed, and have the error say what can be done."""
    note = FailedCommit(str(checkpoint.name()), sink, redacted(str(error)), tuple(published))
    try:
        note.write(disk, directory)
    except SnapshotError as failure:
        _logger.warning("%s", failure)
    explain(
        error,
        f"{directory}: checkpoint {checkpoint.epoch} is complete, and can't be published: ",
        "Every start tries this again. If what it refuses can't be mended there: `penstock checkpoints rollback "
        f"{directory}` goes back to the checkpoint before, from which a mended pipeline reads the same input again; "
        f"or {DEAD_LETTERS}",
    )


def commit_succeeded(disk: Disk, directory: str) -> None:
    """Remove the note of a commit that has failed before."""
    path = f"{directory}/{NOTE}"
    if disk.exists(path):
        disk.remove(path)


@contextmanager
def precommitting(what: str, then: str) -> Iterator[None]:
    """Have the error of a refused record say what is not done because of it, and what can be done.

    Args:
      what: such as "checkpoint 7 is not written".
      then: a sentence for the user of a mended pipeline.
    """
    try:
        yield
    except RejectedRecordError as error:
        explain(error, f"{what}, since it couldn't be published: ", f"{then}; or {DEAD_LETTERS}")
        raise


def precommit(label: str, sink: Sink[Any], transactions: Mapping[str, Sequence[Any]]) -> None:
    """Precommit a sink, where anything is staged for it; errors name it by its label."""
    if any(transactions.values()):
        guarded(label, partial(sink.precommit, transactions))
