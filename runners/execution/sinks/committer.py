"""Two-phase commit of all sinks of a pipeline, the same for every runner.

A transaction *begins* before a worker writes in it.  Workers stage their output; the process that runs the pipeline
*precommits* the staged output, writes the decision (a checkpoint's manifest, a batch's, a log), and then *commits*.
Output staged in a transaction that no decision names is *aborted*.  Runners differ in the transactions' names (of a
run, an epoch, a batch or a subtask), in the file with the names of open transactions, and in the decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs

from ....sdk.errors import RejectedRecordError, SnapshotError, StaleWriterError
from ....sdk.graph import Graph, ParDo, Transform
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.options import PipelineOptions, SinkOptions
from ....sdk.redaction import logger_of
from ....sdk.sink import LabelledSink, Sink
from ..plan.fusion import Output, Plan
from ..serialization.records import RecordType, pickled, unpickled
from ..user_errors import guarded
from .errors import END_OF_RUN, Decision, moved_target
from .known_sinks import KnownSink, KnownSinks, in_place_of, moved

# By sink label, pairs of a transaction and a token.
Staged: TypeAlias = Mapping[str, Sequence[tuple[str, Any]]]

# The advice for a token that can't be pickled.
STAGED_IS_DATA = "What a sink's writer stages has to be data."

_logger = logger_of(__name__)


class OpenTransactions(ABC):
    """Durable names of open transactions, which the next start aborts if no decision names them."""

    @abstractmethod
    def write(self, names: Sequence[str]) -> None:
        """Replace the names.

        Raises `SnapshotError` if the disk fails.
        """

    def check(self) -> None:
        """Raise `StaleWriterError` if another job has taken the names over."""


class SinkCommitter:
    """Prepares, commits and aborts the transactions of all sinks of a plan.

    Args:
      names: keeps the names of open transactions.  None if no later start can resume the run.
      known: keeps what a later start has to know of the sinks, if it can resume the run.
      metrics: counts what sinks report during commits, such as dead letters.

    Attributes:
      metrics: what sinks have reported during commits.
    """

    def __init__(
        self,
        plan: Plan,
        names: OpenTransactions | None = None,
        metrics: MetricsContainer | None = None,
        known: KnownSinks | None = None,
    ) -> None:
        self.metrics = MetricsContainer() if metrics is None else metrics
        self._sinks = sinks_of(plan)
        self._names = names
        self._known = known
        # By label, sinks that the pipeline doesn't have any more: those that take their places, and the others.
        self._former: dict[str, LabelledSink] = {}
        self._gone: dict[str, KnownSink] = {}
        # The labels of the sinks of the run before: of an open transaction others have nothing, and aren't prepared.
        self._before: Collection[str] = self.labels
        # By label, sinks that had another target in the run before.
        self._moved: dict[str, KnownSink] = {}
        # By open transaction, in the order in which they began, the labels of its sinks.
        self._open: dict[str, Collection[str]] = {}
        # True if transactions that aren't open are known to be over.
        self._knows_open = False
        # Pairs of an open transaction and the label of a sink that has published it.
        self._published: set[tuple[str, str]] = set()
        # The open transactions that began here.  An earlier process may have committed a part of any other.
        self._begun: set[str] = set()

    @property
    def open(self) -> tuple[str, ...]:
        """Return the transactions that have begun and are neither committed nor aborted."""
        return tuple(self._open)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the sinks."""
        return tuple(self._sinks)

    @property
    def has_sinks(self) -> bool:
        """Return True if the plan has sinks."""
        return bool(self._sinks)

    def still_open(self, tokens: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return the tokens of open transactions: a subtask reports committed ones until it hears of the commit."""
        return [(transaction, token) for transaction, token in tokens if transaction in self._open]

    def recover(self, names: Sequence[str] | None) -> None:
        """Take over the transactions that an earlier run left open.

        Args:
          names: None if they aren't known.
        """
        known = {} if self._known is None else self._known.read()
        self._former = in_place_of(known, self._sinks)
        self._gone = {each: of for each, of in known.items() if each not in self._sinks and each not in self._former}
        self._moved = moved(known, self._sinks)
        self._before = [label for label in self._sinks if label in known or not known] + list(self._former)
        if names is not None:
            self._open = dict.fromkeys(names, self._before)
            self._knows_open = True

    def unpublished(self, staged: Staged) -> list[str]:
        """Return the labels of sinks that have staged output of open transactions, and that can't commit it.

        They are gone from the pipeline, and no other sink takes their places.
        """
        return [
            label
            for label, tokens in staged.items()
            if label not in self._sinks
            and label not in self._former
            and any(not self._knows_open or transaction in self._open for transaction, _ in tokens)
        ]

    @property
    def moved(self) -> dict[str, tuple[str, str]]:
        """Return the former and the present target of each sink that had another one in the run before, by label."""
        return {label: (of.where, KnownSink.of(self._sinks[label]).where) for label, of in self._moved.items()}

    @property
    def renamed(self) -> Collection[str]:
        """Return the labels of sinks that are gone, and whose places others have taken."""
        return self._former.keys()

    def begin(self, transaction: str) -> None:
        """Begin a transaction of all sinks; see `begin_all`."""
        self.begin_all({transaction: self.labels})

    def begin_all(self, transactions: Mapping[str, Collection[str]]) -> None:
        """Begin transactions, each of the sinks with these labels: write down the names, then prepare the sinks.

        Raises `SinkError` if a sink can't be written to, and `SnapshotError` if the disk can't.
        """
        if not self._sinks or not transactions:
            return
        if self._known is not None:
            self._write_sinks(self._known)
        self._open.update(transactions)
        self._begun.update(transactions)
        self.write_names()
        for transaction, labels in transactions.items():
            for label, sink in self._sinks.items():
                if label in labels:
                    guarded(label, partial(sink.prepare, transaction))

    def _write_sinks(self, file: KnownSinks) -> None:
        """Write down the sinks, before the first transaction of this run."""
        if self._gone:
            _logger.warning(
                "%s: the sinks %s are gone. What they have staged, and not committed, stays at their targets",
                file.directory,
                ", ".join(f"{label!r} ({of.where})" for label, of in self._gone.items()),
            )
        if self._moved:
            _logger.warning(
                "%s: the sinks %s have other targets now. What they have staged before, and not committed, stays there",
                file.directory,
                ", ".join(f"{label!r} (formerly {of.where})" for label, of in self._moved.items()),
            )
        remaining = {label for labels in self._open.values() for label in labels}
        former = {label: KnownSink.of(sink) for label, sink in self._former.items() if label in remaining}
        file.write(former | {label: KnownSink.of(sink) for label, sink in self._sinks.items()})
        self._gone, self._moved, self._known = {}, {}, None

    def transactions_resolved(self) -> None:
        """Take transactions that aren't open as over: the newest checkpoint's have been committed."""
        self._knows_open = True

    def note_commits(self) -> None:
        """Write the names of the open transactions behind a commit, if the disk takes them.

        Readers may take published files away, so the next start had better not commit them again.
        """
        try:
            self.write_names()
        except StaleWriterError:
            raise
        except SnapshotError as error:
            # The next transaction writes them.
            _logger.warning("%s", error)

    def write_names(self) -> None:
        """Write the names of the open transactions.

        Raises `SnapshotError` if the disk fails.
        """
        if self._names is not None:
            self._names.write(tuple(self._open))

    def precommit(self, staged: Staged, decision: Decision) -> None:
        """Check that the staged output can be published; raise the sink's error otherwise.

        Args:
          decision: the event that decides the commit, if no sink raises.
        """
        transactions = self._in_order(staged)
        with decision.precommitting():
            for label, sink in self._sinks.items():
                own = [pair for pair in staged.get(label, ()) if pair[0] in transactions]
                precommit(label, sink, by_transaction(own, transactions))
            self._check_names(staged, transactions)

    def _check_names(self, staged: Staged, transactions: Sequence[str]) -> None:
        """Raise `RejectedRecordError` if two sinks would create files of one name: the last one's would stay."""
        naming = {label: sink for label, sink in self._sinks.items() if type(sink.sink).names is not Sink.names}
        taken: dict[str, str] = {}
        for label, sink in naming.items() if len(naming) > 1 else ():
            own = by_transaction([pair for pair in staged.get(label, ()) if pair[0] in transactions], transactions)
            for transaction, tokens in own.items():
                for name in sink.names(transaction, tokens):
                    if taken.setdefault(name, label) != label:
                        error = RejectedRecordError(
                            f"{label}: {name!r} can't be published, since {taken[name]} publishes a file of that name, "
                            "too; write to another directory, or give its files other names"
                        )
                        error.record, error.transform = name, label
                        raise error

    def commit(self, staged: Staged, decision: Decision, complete: Collection[str] = ()) -> tuple[str, ...]:
        """Publish the staged output and return its transactions, which are over.  Idempotent.

        Args:
          decision: the event that has decided the commit.
          complete: open transactions that are committed even if nothing was staged in them.
        """
        transactions = self._in_order(staged, complete)
        sinks = self._sinks | self._former
        tokens = {label: by_transaction(staged.get(label, ()), transactions) for label in sinks}
        published = self._published_before(transactions, tokens, decision)
        for transaction in transactions:
            for label in self._open.get(transaction, self._before):
                own = tokens[label][transaction]
                try:
                    with scoped(self.metrics, label):
                        guarded(label, partial(sinks[label].commit, transaction, own))
                except Exception as error:
                    self._check_target(label, error)
                    decision.commit_failed(error, transaction, label, tuple(published))
                    raise
                self._published.add((transaction, label))
                if own:
                    published[label] = None
        for transaction in transactions:
            self._is_over(transaction)
        return tuple(transactions)

    def _published_before(
        self, transactions: Sequence[str], tokens: Mapping[str, Mapping[str, Sequence[Any]]], decision: Decision
    ) -> dict[str, None]:
        """Return the labels of sinks that have published something of these transactions before, or may have."""
        published = {label: None for transaction, label in self._published if transaction in transactions}
        if not self._begun.issuperset(transactions):
            staging = [label for label, own in tokens.items() if any(own.values())]
            published |= dict.fromkeys(decision.published_before(staging))
        return published

    def _check_target(self, label: str, error: Exception) -> None:
        """Raise `CheckpointMismatchError` if a commit may have failed because the sink has another target now.

        The output may be published at the former one, so that a rollback would repeat it.
        """
        if label in self._moved and self._known is not None:
            raise moved_target(self._known.directory, label, *self.moved[label], error) from error

    def publish(self, transaction: str, tokens: Mapping[str, Sequence[Any]]) -> None:
        """Precommit and commit the only transaction of a run without checkpoints.

        Args:
          tokens: the staged output of each sink, by label.
        """
        staged = {label: [(transaction, token) for token in own] for label, own in tokens.items()}
        self.precommit(staged, END_OF_RUN)
        self.commit(staged, END_OF_RUN, [transaction])

    def close_before(self, transaction: str) -> None:
        """Abort the open transactions that began before this one, in which no subtask writes any more.

        If a sink fails, the next call tries it again.  The names are written with the next `begin`.
        """
        if transaction in self._open:
            for earlier in self.open[: self.open.index(transaction)]:
                self._abort(earlier)

    def abort(self, but: Collection[str] = ()) -> None:
        """Remove the staged output of all open transactions except these.

        If a sink fails, the next call tries it again.  Raises `StaleWriterError` if another job has taken over: its
        transactions are open here, too.
        """
        if self._sinks and self._names is not None:
            self._names.check()
        for transaction in self.open:
            if transaction not in but:
                self._abort(transaction)
        if self._sinks:
            self.write_names()

    def close(self) -> None:
        """Close the sinks, after the last commit of a run that hasn't failed."""
        for label, sink in self._sinks.items():
            try:
                guarded(label, sink.close)
            except Exception as error:
                # Its output is committed.
                _logger.warning("%s: the sink can't be closed: %s", label, error)

    def _abort(self, transaction: str) -> None:
        """Abort a transaction at each sink that hasn't published it; it stays open if a sink fails."""
        is_removed = True
        for label in self._open[transaction]:
            if (transaction, label) not in self._published:
                try:
                    (self._sinks.get(label) or self._former[label]).abort(transaction)
                except Exception:
                    is_removed = False
        if is_removed:
            self._is_over(transaction)

    def _is_over(self, transaction: str) -> None:
        self._open.pop(transaction, None)
        self._begun.discard(transaction)
        self._published = {each for each in self._published if each[0] != transaction}

    def _in_order(self, staged: Staged, complete: Collection[str] = ()) -> list[str]:
        """Return the transactions with staged output, in the order of their commits.

        That is the order in which they began, since a later one may replace or retract the output of an earlier one.
        Transactions that aren't open were committed before.  They are left out, since readers may have removed their
        output; where the open ones are unknown, they are committed again.
        """
        named = {transaction for tokens in staged.values() for transaction, _ in tokens} | set(complete)
        if self._knows_open:
            named &= self._open.keys()
        began = {transaction: number for number, transaction in enumerate(self._open)}
        return sorted(named, key=lambda each: (began.get(each, -1), each))


def by_transaction(tokens: Sequence[tuple[str, Any]], order: Sequence[str]) -> dict[str, list[Any]]:
    """Group pairs of a transaction and a token by transaction, in this order."""
    found: dict[str, list[Any]] = {transaction: [] for transaction in order}
    for transaction, token in tokens:
        found.setdefault(transaction, []).append(token)
    return found


def precommit(label: str, sink: LabelledSink, transactions: Mapping[str, Sequence[Any]]) -> None:
    """Precommit a sink, if anything is staged for it; errors name it by its label."""
    if any(transactions.values()):
        guarded(label, partial(sink.precommit, transactions))


# --- Staged output in files


def staged_as_data(staged: Staged) -> list[Any]:
    """Return staged output as fields of a record: by label, transactions and pickled tokens."""
    return [
        (label, [(transaction, pickled(token, label, STAGED_IS_DATA)) for transaction, token in own])
        for label, own in staged.items()
    ]


def staged_of(data: list[Any], where: str) -> Staged:
    """Return the staged output of `staged_as_data`.

    Args:
      where: the file, for errors.
    """
    return {
        label: [(transaction, unpickled(token, f"{label}: what it has staged", where)) for transaction, token in own]
        for label, own in data
    }


# The record of a checkpoint's part with the staged output of sinks.
_STAGED: RecordType[list[Any]] = RecordType("staged", 1, {1: lambda staged: staged})


def encode_staged(staged: Staged) -> bytes:
    """Return staged output as a record."""
    return _STAGED.encode(staged_as_data(staged))


def decode_staged(data: bytes, where: str) -> Staged:
    """Return the staged output of `encode_staged`.

    Raises the errors of `unpickled` and `decode_record`.
    """
    return staged_of(_STAGED.decode(data, where), where)


# --- The sinks of a pipeline


def sinks_of(plan: Plan) -> dict[str, LabelledSink]:
    """Return the sinks of a plan by the labels of their steps."""
    found: dict[str, LabelledSink] = {}
    for step in plan.steps:
        if isinstance(step, Output):
            primitive = step.transform.primitive
            assert isinstance(primitive, ParDo)
            assert primitive.sink is not None
            found[step.transform.label] = primitive.sink
    return found


def with_replaced_sinks(graph: Graph, replaced: Callable[[str, LabelledSink], LabelledSink]) -> Graph:
    """Return the graph with `replaced(label, sink)` in the place of each sink.  The label is that of the step."""

    def with_sink(transform: Transform) -> Transform:
        primitive = transform.primitive
        if not isinstance(primitive, ParDo) or primitive.sink is None:
            return transform
        return attrs.evolve(
            transform, primitive=attrs.evolve(primitive, sink=replaced(transform.label, primitive.sink))
        )

    return attrs.evolve(graph, transforms=tuple(map(with_sink, graph.transforms)))


def committing_often(graph: Graph) -> Graph:
    """Return the graph with sinks that many transactions can be committed to.

    Sinks of bounded inputs are included: beside an unbounded input, their transactions don't wait for the end either.
    """
    return with_replaced_sinks(graph, lambda _, sink: attrs.evolve(sink, many_transactions=True))


def with_dead_letters(graph: Graph, options: PipelineOptions) -> Graph:
    """Return the graph with sinks that move refused records aside, if `--on_commit_error=dead_letter` says so."""
    if options.view_as(SinkOptions).on_commit_error != "dead_letter":
        return graph

    def moving(label: str, sink: LabelledSink) -> LabelledSink:
        has_dead_letters = sink.sink.spec.has_dead_letters
        if not has_dead_letters:
            _logger.warning(
                "%s: --on_commit_error=dead_letter: its sink has no place for dead letters, so an error of its commit "
                "still fails the run",
                label,
            )
        return attrs.evolve(sink, dead_letters=has_dead_letters)

    return with_replaced_sinks(graph, moving)
