"""The sinks of a run, and the transactions that they are written in.

What is staged in a transaction becomes visible when a checkpoint that knows of it is
durable: first the checkpoint, then the commit, which can be repeated.  So that nothing staged is
forgotten when everything dies, the names of open transactions are written down before
anybody writes in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ...sdk.errors import CorruptSnapshotError, SnapshotError
from ...sdk.graph import Graph, ParDo, Transform
from ...sdk.redaction import logger_of
from ...sdk.sink import Sink
from ..execution.commit_errors import by_transaction, precommit
from ..execution.disk import Disk
from ..execution.fusion import Output, Plan
from ..execution.manifest import sealed, unsealed
from ..execution.records import RecordType, pickled, unpickled
from ..execution.user_code import guarded

# By sink label, pairs of a transaction and a token.
Staged = Mapping[str, Sequence[tuple[str, Any]]]

# What to do about a token that can't be pickled.
STAGED_IS_DATA = "What a sink's writer stages has to be data."

# What the names of open transactions are kept in, among the checkpoints; and what is in it.
OPEN = "transactions"
_FORMAT = "penstock open transactions"

_logger = logger_of(__name__)


def staged_as_data(staged: Staged) -> list[Any]:
    """Return what was staged as fields of a record: by label, transactions and pickled tokens."""
    return [
        (label, [(transaction, pickled(token, label, STAGED_IS_DATA)) for transaction, token in own])
        for label, own in staged.items()
    ]


def staged_of(data: list[Any], where: str) -> Staged:
    """Return what `staged_as_data` was given.

    Args:
      where: the file, for errors.
    """
    return {
        label: [(transaction, unpickled(token, f"{label}: what it has staged", where)) for transaction, token in own]
        for label, own in data
    }


# The record of a checkpoint's part that tells what sinks have staged.
_STAGED: RecordType[list[Any]] = RecordType("staged", 1, {1: lambda staged: staged})


def encode_staged(staged: Staged) -> bytes:
    """Return what was staged as a record."""
    return _STAGED.encode(staged_as_data(staged))


def decode_staged(data: bytes, where: str) -> Staged:
    """Return what `encode_staged` was given; raises what `unpickled` and `decode_record` do."""
    return staged_of(_STAGED.decode(data, where), where)


class Transactions:
    """Prepares, commits and aborts.

    Args:
      disk, directory: where open transactions are written down; None if nobody could come back to them.

    Attributes:
      failed: the label of the sink whose last commit has failed, and those of the sinks that had published before.
    """

    def __init__(self, plan: Plan, disk: Disk | None, directory: str) -> None:
        self._sinks: dict[str, Sink[Any]] = {}
        for step in plan.steps:
            if isinstance(step, Output):
                primitive = step.transform.primitive
                assert isinstance(primitive, ParDo)
                assert primitive.sink is not None
                self._sinks[step.transform.label] = primitive.sink
        self._disk = disk
        self._path = f"{directory}/{OPEN}"
        self._open: list[str] = []
        # Whether it is known which ones are: those that aren't open are over.
        self._knows_open = False
        self.failed: tuple[str, tuple[str, ...]] | None = None

    @property
    def open(self) -> tuple[str, ...]:
        """The transactions that have begun and are neither committed nor aborted."""
        return tuple(self._open)

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the sinks."""
        return tuple(self._sinks)

    def still_open(self, tokens: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Those of what a subtask has staged that aren't committed: it may not have heard yet of those that are."""
        return [(transaction, token) for transaction, token in tokens if transaction in self._open]

    @property
    def has_sinks(self) -> bool:
        """Whether anything is written at all."""
        return bool(self._sinks)

    def recall(self) -> None:
        """Find the transactions that an earlier run has left open."""
        if self._disk is None or not self._disk.exists(self._path):
            return
        try:
            self._open = unsealed(self._path, self._disk.read(self._path), _FORMAT, list[str])
            self._knows_open = True
        except CorruptSnapshotError as error:
            # What a checkpoint knows of is committed all the same.
            _logger.warning(
                "%s; going on without the names in it: what was staged, and never committed, stays at the sinks", error
            )

    def begin(self, transaction: str) -> None:
        """Begin a transaction, before anybody writes in it.

        Raises `SinkError` where a sink can't be written to, and `SnapshotError` where the disk can't.
        """
        if not self._sinks:
            return
        if transaction not in self._open:
            self._open.append(transaction)
        self._write()
        for label, sink in self._sinks.items():
            guarded(label, partial(sink.prepare, transaction))

    def _in_order(self, staged: Staged) -> list[str]:
        """The transactions that something was staged in, in the order of their commits.

        That is the order in which they began, since a later one may replace or take back what is in an earlier one.
        Those that aren't open were committed before.  They are left out, since what they have published may have been
        taken away by its readers; where it isn't known what is open, they are committed again.
        """
        named = {transaction for tokens in staged.values() for transaction, _ in tokens}
        if self._knows_open:
            named &= set(self._open)
        began = {transaction: number for number, transaction in enumerate(self._open)}
        return sorted(named, key=lambda each: (began.get(each, -1), each))

    def precommit(self, staged: Staged) -> None:
        """Check that the staged output can be published; raises the sink's error."""
        transactions = self._in_order(staged)
        for label, sink in self._sinks.items():
            own = [pair for pair in staged.get(label, ()) if pair[0] in transactions]
            precommit(label, sink, by_transaction(own, transactions))

    def commit(self, staged: Staged) -> tuple[str, ...]:
        """Publish what was staged: of these transactions nothing else remains.  Can be repeated."""
        transactions = self._in_order(staged)
        published: list[str] = []
        for label, sink in self._sinks.items():
            by_own = by_transaction(staged.get(label, ()), transactions)
            try:
                for transaction in transactions:
                    guarded(label, partial(sink.commit, transaction, by_own[transaction]))
            except Exception:
                self.failed = label, tuple(published)
                raise
            if any(by_own.values()):
                published.append(label)
        self.failed = None
        self._open = [transaction for transaction in self._open if transaction not in transactions]
        return tuple(transactions)

    def close_before(self, transaction: str) -> None:
        """Nobody writes any more in what began before this one, and what is still open of that is empty: remove it.

        Where a sink fails, the next call tries again.  Who reads the names of what is open, before they are written
        down the next time, removes it once more.
        """
        if transaction in self._open:
            since = self._open.index(transaction)
            self._open[:since] = [each for each in self._open[:since] if not self._is_removed(each)]

    def abort(self, but: Sequence[str] = ()) -> None:
        """Remove whatever was staged, but in these transactions; where a sink fails, the next call tries again."""
        self._open = [each for each in self._open if each in but or not self._is_removed(each)]
        if self._sinks:
            self._write()

    def _is_removed(self, transaction: str) -> bool:
        is_removed = True
        for sink in self._sinks.values():
            try:
                sink.abort(transaction)
            except Exception:
                is_removed = False
        return is_removed

    def _write(self) -> None:
        if self._disk is not None:
            try:
                self._disk.write_atomically(self._path, sealed(_FORMAT, self._open))
            except OSError as error:
                raise SnapshotError(f"{self._path} can't be written: {error}") from error


def committing_often(graph: Graph) -> Graph:
    """The graph with sinks that many transactions may be committed to.

    Those of bounded inputs too: where there are others without an end, nothing waits for one.
    """

    def with_sink(transform: Transform) -> Transform:
        primitive = transform.primitive
        if not isinstance(primitive, ParDo) or primitive.sink is None:
            return transform
        sink = primitive.sink.for_many_transactions()
        return attrs.evolve(transform, primitive=attrs.evolve(primitive, sink=sink))

    return attrs.evolve(graph, transforms=tuple(map(with_sink, graph.transforms)))
