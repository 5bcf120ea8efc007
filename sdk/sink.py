"""Sink: the interface of sinks, with two-phase commit.

The output of a run is invisible until the whole run has succeeded.  Workers *stage* elements.  When every stage of the
pipeline is done, the process that runs the pipeline *commits* the staged elements of every sink; on a failure it
*aborts*.  A transaction is one atomic commit: of a batch run, or of an epoch.

Once a checkpoint is durable, every restart commits its transactions until that succeeds.  So before a checkpoint is
written each sink *precommits*: it checks that its target accepts the staged records while the run can still fail and
restart.

A retried or speculative task opens its own writer, under another `unit`.  Only the tokens of attempts that the runner
accepted are passed to `commit`, which removes everything else that was staged for the transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from .elements.bundle import Bundle

T = TypeVar("T")


class SinkWriter(ABC, Generic[T]):
    """Writer that stages one worker's elements.

    >>> from penstock.io import SinkWriter
    >>> class Kept(SinkWriter):
    ...     def __init__(self):
    ...         self.values = []
    ...     def write(self, bundle):
    ...         self.values.extend(bundle.values)
    ...     def stage(self):
    ...         return tuple(self.values)
    ...     def discard(self):
    ...         self.values.clear()
    """

    @abstractmethod
    def write(self, bundle: Bundle) -> None:
        """Write the elements of one bundle."""

    @abstractmethod
    def stage(self) -> Any:
        """Make the written elements durable, close, and return the token that `commit` needs to publish them.

        The token is picklable.
        """

    @abstractmethod
    def discard(self) -> None:
        """Close, and remove the written elements, after a failure of this worker."""


class ComposedSink(ABC):
    """A sink with an interface of its own, which `Write` expands into transforms."""

    @abstractmethod
    def write(self, pcoll: Any) -> Any:
        """Apply the transforms that write a PCollection, and return the output of the write."""


class Sink(ABC, Generic[T]):
    """Output of a pipeline.  Picklable.

    >>> import penstock as beam
    >>> from penstock.io import Sink, SinkWriter
    >>> class Kept(SinkWriter):
    ...     def __init__(self):
    ...         self.values = []
    ...     def write(self, bundle):
    ...         self.values.extend(bundle.values)
    ...     def stage(self):
    ...         return tuple(self.values)
    ...     def discard(self):
    ...         self.values.clear()
    >>> class Printed(Sink):
    ...     def prepare(self, transaction):
    ...         pass
    ...     def open_writer(self, transaction, unit):
    ...         return Kept()
    ...     def commit(self, transaction, staged):
    ...         print(sorted(value for token in staged for value in token))
    ...     def abort(self, transaction):
    ...         pass
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([2, 1]) | beam.io.Write(Printed())
    [1, 2]
    """

    # Whether it accepts retractions, which have sign -1.
    accepts_retractions: ClassVar[bool] = False
    # Of a sink that accepts them with other parameters, what to do, such as "give retractions='upsert'"; else "".
    retractions_advice: str = ""
    # Whether its writers write columns without making elements of them.
    takes_columns: bool = False
    # Whether it has the label of the transform that writes.
    is_labelled: bool = False

    def labelled(self, label: str) -> Sink[T]:
        """Return the sink of the transform with this full label.

        A sink that keeps something at its target names it by the label: another sink of the pipeline may have the same
        target.
        """
        return self

    def target(self) -> str | None:
        """Return what the sink writes to, as text without secrets, for checkpoints.

        After a sink was renamed, a start commits what it has staged by the sink with the same target, `labelled` as
        the old one.  Returns None for a sink for which that isn't possible.
        """
        return None

    @abstractmethod
    def prepare(self, transaction: str) -> None:
        """Prepare a transaction, before the run starts.  Raises `SinkError` if the sink can't be written to."""

    @abstractmethod
    def open_writer(self, transaction: str, unit: str) -> SinkWriter[T]:
        """Return a writer for one worker.  `unit` is unique to the worker and the attempt."""

    def for_many_transactions(self) -> Sink[T]:
        """Return the sink for a run with many commits, where no transaction replaces the output of another."""
        return self

    def with_dead_letters(self) -> Sink[T] | None:
        """Return the sink for `--on_commit_error=dead_letter`, whose `commit` writes refused records to dead letters.

        Returns None for a sink without dead letters, whose `commit` raises instead.
        """
        return None

    def precommit(self, transactions: Mapping[str, Sequence[Any]]) -> None:
        """Raise `RejectedRecordError` for a record that `commit` could not publish, and publish nothing.

        Called before the checkpoint that decides the commit is written.  May be called again, in any process.

        Args:
          transactions: their tokens, in the order of their commits; some may be committed already.
        """

    @abstractmethod
    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        """Publish the staged elements.  Idempotent: a second call changes nothing."""

    @abstractmethod
    def abort(self, transaction: str) -> None:
        """Remove everything that any worker staged for the transaction."""

    def names(self, transaction: str, staged: Sequence[Any]) -> Iterable[str]:
        """Return the names of what a commit creates, such as files, which no other sink of a pipeline may create.

        Called in `precommit`'s place in a run, if another sink has names, too.
        """
        return ()

    def close(self) -> None:
        """Wait until readers find all that was committed, and release what commits have kept open.

        Called where `commit` is called, after the last commit of a run that hasn't failed.
        """
