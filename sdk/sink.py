"""What a sink is to a runner: two-phase commit.

Nothing that a run writes is visible before the whole run has succeeded.  Workers
*stage* what they are given; when every stage of the pipeline is done, the process that
runs the pipeline *commits* all of it, for every sink; when anything fails it *aborts*.
The transaction's id names what is committed as one: a batch run, or an epoch.

Once a checkpoint is durable its transactions are committed by every start until that succeeds.  So before a
checkpoint is written each sink *precommits*: it checks that its target accepts the staged records while the run can
still fail and restart.

A retried or speculated worker opens a writer of its own, under another `unit`; only the
tokens of attempts that the runner accepted are passed to `commit`, and whatever else was
staged for the transaction is removed by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from .bundle import Bundle

T = TypeVar("T")


class SinkWriter(ABC, Generic[T]):
    """Stages what one worker is given."""

    @abstractmethod
    def write(self, bundle: Bundle) -> None:
        """Take the elements of one bundle."""

    @abstractmethod
    def stage(self) -> Any:
        """Make what was written durable and close; what `commit` needs to publish it.

        The token is picklable.
        """

    @abstractmethod
    def discard(self) -> None:
        """Close and remove what was written: this worker has failed."""


class Sink(ABC, Generic[T]):
    """Where the results of a pipeline leave it.  Picklable."""

    # Whether it knows what to do with an element whose sign is -1.
    accepts_retractions: ClassVar[bool] = False

    @abstractmethod
    def prepare(self, transaction: str) -> None:
        """Once, before anything runs: raises `SinkError` when it can't be written to."""

    @abstractmethod
    def open_writer(self, transaction: str, unit: str) -> SinkWriter[T]:
        """A writer for one worker; `unit` is unique to this worker and attempt."""

    def for_many_transactions(self) -> Sink[T]:
        """The same sink for a run that commits again and again: what one transaction publishes, no other replaces."""
        return self

    def with_dead_letters(self) -> Sink[T] | None:
        """The same sink for `--on_commit_error=dead_letter`: its `commit` writes refused records to dead letters.

        Returns None for a sink without dead letters; its `commit` raises then.
        """
        return None

    def precommit(self, transactions: Mapping[str, Sequence[Any]]) -> None:
        """Raise `RejectedRecordError` for a record that `commit` could not publish; nothing becomes visible.

        Called before the checkpoint is written that decides the commit.  May be called again, in any process.

        Args:
          transactions: their tokens, in the order of the commits to come; some may be committed meanwhile.
        """

    @abstractmethod
    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        """Publish what was staged.  Idempotent: a second call changes nothing."""

    @abstractmethod
    def abort(self, transaction: str) -> None:
        """Remove whatever was staged for the transaction, whoever staged it."""
