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

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic

from ..frozen import frozen
from .elements.bundle import Bundle
from .errors import UnsupportedError
from .transaction_series import series_of
from .type_variables import T


@frozen
class SinkSpec:
    """What a sink can do, which is known while the pipeline is built.

    Attributes:
      accepts_retractions: whether it accepts retractions, which have sign -1.
      retractions_advice: of a sink that accepts them with other parameters, what to do, such as "give
        retractions='upsert'"; else "".
      takes_columns: whether its writers write columns without making elements of them.
      has_dead_letters: whether `commit` can write refused records to dead letters; see `SinkContext.dead_letters`.

    >>> from penstock.io import WriteToChangelog, WriteToText
    >>> WriteToText("out").sink.spec.accepts_retractions, WriteToChangelog("out").sink.spec.accepts_retractions
    (False, True)
    """

    accepts_retractions: bool = False
    retractions_advice: str = ""
    takes_columns: bool = False
    has_dead_letters: bool = False


@frozen
class SinkContext:
    """For whom, and for which transaction, a method of a sink is called.

    Attributes:
      label: the full label of the transform that writes.  What a sink keeps at its target is named by the label and the
        transaction: another sink of the pipeline may have the same target.
      transaction: the name of the transaction.  No other of the run, or of another run, has it.
      unit: of a writer, a name that no other worker or attempt has in the transaction; else "".
      many_transactions: whether the run commits many transactions, none of which may replace the output of another.
      dead_letters: whether `commit` writes refused records to dead letters instead of failing
        (`--on_commit_error=dead_letter`).  Always False for a sink without them.

    >>> SinkContext("counts/Write", "00000012-5be1").series
    '-5be1'
    """

    label: str
    transaction: str
    unit: str = ""
    many_transactions: bool = False
    dead_letters: bool = False

    @property
    def series(self) -> str | None:
        """The part of the name that the transactions of one start of a stream share; None for the name of a batch.

        Transactions of a series are committed in the order of their names, so a sink may store only the last one.
        """
        return series_of(self.transaction)


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
    def write(self, pcoll: Any, label: str) -> Any:
        """Apply the transforms that write a PCollection, and return the output of the write.

        Args:
          label: the full label of the transform that writes.
        """


class Sink(ABC, Generic[T]):
    """Output of a pipeline.  Picklable.

    Attributes:
      spec: what the sink can do.  A class attribute, unless it depends on the arguments of the constructor.

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
    ...     def prepare(self, context):
    ...         pass
    ...     def open_writer(self, context):
    ...         return Kept()
    ...     def commit(self, context, staged):
    ...         print(sorted(value for token in staged for value in token))
    ...     def abort(self, context):
    ...         pass
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([2, 1]) | beam.io.Write(Printed())
    [1, 2]
    """

    spec: SinkSpec = SinkSpec()

    def target(self) -> str | None:
        """Return what the sink writes to, as text without secrets, for checkpoints.

        After a sink was renamed, a start commits what it has staged by the sink with the same target, in contexts with
        the old label.  Returns None for a sink for which that isn't possible.
        """
        return None

    @abstractmethod
    def prepare(self, context: SinkContext) -> None:
        """Prepare a transaction, before the run starts.  Raises `SinkError` if the sink can't be written to."""

    @abstractmethod
    def open_writer(self, context: SinkContext) -> SinkWriter[T]:
        """Return a writer for one worker, which `context.unit` names."""

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        """Raise `RejectedRecordError` for a record that `commit` could not publish, and publish nothing.

        Called before the checkpoint that decides the commit is written.  May be called again, in any process.

        Args:
          staged: the tokens of one or more transactions, in the order of their commits; some may be committed already.
            Their contexts differ in nothing else.
        """

    @abstractmethod
    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        """Publish the staged elements.  Idempotent: a second call changes nothing."""

    @abstractmethod
    def abort(self, context: SinkContext) -> None:
        """Remove everything that any worker staged for the transaction."""

    def names(self, context: SinkContext, staged: Sequence[Any]) -> Iterable[str]:
        """Return the names of what a commit creates, such as files, which no other sink of a pipeline may create.

        Called in `precommit`'s place in a run, if another sink has names, too.
        """
        return ()

    def close(self) -> None:
        """Wait until readers find all that was committed, and release what commits have kept open.

        Called where `commit` is called, after the last commit of a run that hasn't failed.
        """


@frozen
class LabelledSink:
    """A sink in a pipeline: what a runner calls by transaction, and the sink is called in contexts.

    Attributes:
      label: the full label of the transform that writes, which may be a composite.
      many_transactions, dead_letters: as in `SinkContext`.
    """

    sink: Sink[Any]
    label: str
    many_transactions: bool = False
    dead_letters: bool = False

    def context(self, transaction: str, unit: str = "") -> SinkContext:
        """Return the context of a transaction, or of a worker's writer."""
        return SinkContext(self.label, transaction, unit, self.many_transactions, self.dead_letters)

    def prepare(self, transaction: str) -> None:
        """Prepare a transaction."""
        self.sink.prepare(self.context(transaction))

    def precommit(self, staged: Mapping[str, Sequence[Any]]) -> None:
        """Check the tokens of transactions, in the order of their commits."""
        self.sink.precommit({self.context(transaction): tokens for transaction, tokens in staged.items()})

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        """Publish the staged elements."""
        self.sink.commit(self.context(transaction), staged)

    def abort(self, transaction: str) -> None:
        """Remove everything that any worker staged for the transaction."""
        self.sink.abort(self.context(transaction))

    def names(self, transaction: str, staged: Sequence[Any]) -> Iterable[str]:
        """Return the names of what a commit creates."""
        return self.sink.names(self.context(transaction), staged)

    def close(self) -> None:
        """Close the sink, after the last commit."""
        self.sink.close()


# What sinks had before they had a spec and contexts, and what they have instead.
_FORMER = {
    "accepts_retractions": "spec = SinkSpec(accepts_retractions=True)",
    "takes_columns": "spec = SinkSpec(takes_columns=True)",
    "retractions_advice": "spec = SinkSpec(retractions_advice=...)",
    "for_many_transactions": "context.many_transactions",
    "with_dead_letters": "spec = SinkSpec(has_dead_letters=True) and context.dead_letters",
    "labelled": "context.label",
}


def check_interface(sink: Sink[Any], label: str) -> None:
    """Raise `UnsupportedError` for a sink with the methods and attributes of an earlier version.

    Args:
      label: of the transform that writes.
    """
    kind = type(sink).__name__
    for name, instead in _FORMER.items():
        if hasattr(sink, name):
            raise UnsupportedError(f"{label}: {kind} has {name}, as sinks of an earlier version; use {instead} instead")
    try:
        inspect.signature(sink.open_writer).bind(None)
    except TypeError:
        raise UnsupportedError(
            f"{label}: {kind}.open_writer must take a SinkContext; sinks of an earlier version took the names of a "
            "transaction and a unit. Let all methods of the sink take the context in their place: they are "
            "context.transaction and context.unit"
        ) from None
