"""Table of a simulation, which outlives the simulated processes, and its sink, which checks the rules of commits.

The rules of the two-phase commit:

- only rows that were staged for a transaction, and committed, are visible;
- only tokens that were precommitted are committed;
- an aborted transaction is not committed later, nor a committed one with other tokens than before;
- a transaction is written to only after it was prepared, and before it has ended; rows that a zombie writes later are
  never visible;
- whenever a transaction begins, the same transactions have been committed to every table: the visible rows of all
  tables are the result up to one barrier;
- at every moment the visible rows are part of the whole result, and no row is retracted that wasn't there;
- after each commit the visible rows are the result of a prefix of the input, if it is known how to tell.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from ....sdk.elements.bundle import Bundle
from ....sdk.errors import SinkError
from ....sdk.sink import Sink, SinkContext, SinkSpec, SinkWriter
from .world import SimulatedWorld

# A value, its timestamp in microseconds and its windows.
Row = Hashable


class RuleViolated(BaseException):
    """A rule of commits was violated.  Not an `Exception`, so that no recovery hides it."""


class SimulatedTable:
    """Table with staged and visible rows.

    Args:
      expected: the count of each row at the end, if it may never be exceeded; None if results may be replaced.

    Attributes:
      visible: the count of each row: additions less retractions.
      committed: the tokens of committed transactions.
      together: the tables that take part in the same transactions.
      is_prefix: tells whether the visible rows are the result of a prefix of the input.
    """

    def __init__(self, name: str, expected: Mapping[Row, int] | None = None) -> None:
        self.name = name
        self.visible: Counter[Row] = Counter()
        self.committed: dict[str, tuple[str, ...]] = {}
        self.together: Sequence[SimulatedTable] = ()
        self.is_prefix: Callable[[], bool] = _unknown
        self._expected = expected
        self._prepared: set[str] = set()
        self._aborted: set[str] = set()
        self._precommitted: set[str] = set()
        self._staged: dict[str, dict[str, list[tuple[Row, int]]]] = {}

    def prepare(self, transaction: str) -> None:
        """Begin a transaction."""
        self._require(transaction not in self.committed, f"{transaction} was committed, and is prepared again")
        for other in self.together:
            apart = sorted(self.committed.keys() ^ other.committed.keys())
            self._require(not apart, f"{apart} were committed here or in {other.name}, and not in both")
        self._prepared.add(transaction)

    def opened(self, transaction: str) -> None:
        """Check that a transaction may be written to."""
        self._require(transaction in self._prepared, f"{transaction} is written in, and not prepared")
        self._require(transaction not in self.committed, f"{transaction} is written in after it was committed")
        self._require(transaction not in self._aborted, f"{transaction} is written in after it was aborted")

    def stage(self, transaction: str, token: str, rows: list[tuple[Row, int]], is_zombie: bool = False) -> None:
        """Stage rows; those of a zombie are ignored if the transaction has ended."""
        if is_zombie and (transaction in self.committed or transaction in self._aborted):
            return
        self.opened(transaction)
        self._staged.setdefault(transaction, {})[token] = rows

    def precommit(self, tokens: Sequence[str]) -> None:
        """Record the tokens that were precommitted."""
        self._precommitted.update(tokens)

    def decided(self, transaction: str, tokens: Sequence[str]) -> None:
        """Check the tokens of a commit."""
        unknown = sorted(set(tokens) - self._precommitted)
        self._require(not unknown, f"{transaction} is committed with {unknown}, which was not precommitted")

    def commit(self, transaction: str, tokens: Sequence[str]) -> None:
        """Make the rows of a transaction visible, unless it was committed before."""
        own = tuple(sorted(tokens))
        before = self.committed.get(transaction)
        if before is not None:
            self._require(before == own, f"{transaction} was committed with {before}, and now with {own}")
            return
        self._require(transaction not in self._aborted, f"{transaction} was aborted, and now it is committed")
        self._require(len(set(own)) == len(own), f"{transaction} is committed with a token twice: {own}")
        staged = self._staged.pop(transaction, {})
        for token in own:
            self._require(token in staged, f"{transaction} is committed with {token}, which isn't there")
            for row, sign in staged[token]:
                self.visible[row] += sign
        self.committed[transaction] = own
        self._check_rows()

    def _check_rows(self) -> None:
        for row, count in self.visible.items():
            self._require(count >= 0, f"{row} is taken back more often than it was there")
            if self._expected is not None:
                least = self._expected.get(row, 0)
                self._require(count <= least, f"{row} is there {count} times, and {least} times in the end")
        self._require(self.is_prefix(), f"the result of no prefix of the input is visible: {_shown(+self.visible)}")

    def abort(self, transaction: str) -> None:
        """Remove the staged rows of a transaction, unless it was committed."""
        if transaction not in self.committed:
            self._aborted.add(transaction)
            self._staged.pop(transaction, None)

    def check_end(self, expected: Mapping[Row, int], remembered: Collection[str]) -> None:
        """Check the rows at the end of a run: all that are expected, once, and no others.

        Args:
          remembered: transactions that the next start would abort.
        """
        self._check_rows()
        found = +self.visible
        missing, surplus = Counter(expected) - found, found - Counter(expected)
        self._require(not missing and not surplus, f"missing: {_shown(missing)}; too much: {_shown(surplus)}")
        forgotten = sorted(self._staged.keys() - set(remembered))
        self._require(not forgotten, f"staged and left behind: {forgotten}")

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise RuleViolated(f"{self.name}: {otherwise}")


def _unknown() -> bool:
    return True


def _shown(rows: Counter[Row]) -> str:
    some = [f"{count} × {row}" for row, count in sorted(rows.items(), key=repr)[:5]]
    more = len(rows) - len(some)
    return ", ".join(some) + (f" and {more} more" if more > 0 else "") or "nothing"


class SimulatedSink(Sink[Any]):
    """Sink of a table; its process may die, or the operation fail, before and after each operation."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self, world: SimulatedWorld, table: SimulatedTable) -> None:
        self._world = world
        self._table = table

    def prepare(self, context: SinkContext) -> None:
        transaction = context.transaction
        self._before("prepare", transaction)
        self._table.prepare(transaction)
        self._after("prepare", transaction)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        if not self._world.is_zombie:
            self._table.opened(context.transaction)
        return _Writer(self, context.transaction, context.unit)

    def stage(self, transaction: str, token: str, rows: list[tuple[Row, int]]) -> None:
        """Stage the rows of a writer."""
        self._before("stage", token)
        self._table.stage(transaction, token, rows, self._world.is_zombie)
        self._after("stage", token)

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        for tokens in staged.values():
            self._table.precommit(tokens)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        transaction = context.transaction
        self._before("commit", transaction)
        self._table.decided(transaction, staged)
        self._table.commit(transaction, staged)
        if self._world.random.random() < 0.1:
            # The request is sent twice.
            self._table.commit(transaction, staged)
        self._after("commit", transaction)

    def abort(self, context: SinkContext) -> None:
        transaction = context.transaction
        self._before("abort", transaction)
        self._table.abort(transaction)
        self._after("abort", transaction)

    def _before(self, what: str, of: str) -> None:
        self._world.step(f"{self._table.name}: {what} {of}")
        self._fail(f"{self._table.name}: {what} {of}")

    def _after(self, what: str, of: str) -> None:
        # The answer may be lost.
        self._world.step(f"{self._table.name}: {what} {of} is done")
        self._fail(f"{self._table.name}: the answer to {what} {of}")

    def _fail(self, what: str) -> None:
        if self._world.fails(what):
            raise SinkError(errno.EIO, os.strerror(errno.EIO), what)


class _Writer(SinkWriter[Any]):
    def __init__(self, sink: SimulatedSink, transaction: str, unit: str) -> None:
        self._sink = sink
        self._transaction = transaction
        self._token = f"{transaction}/{unit}"
        self._rows: list[tuple[Row, int]] = []

    def write(self, bundle: Bundle) -> None:
        self._rows += rows_of(bundle)

    def stage(self) -> Any:
        self._sink.stage(self._transaction, self._token, self._rows)
        return self._token

    def discard(self) -> None:
        self._rows = []


class CollectingSink(Sink[Any]):
    """Sink that collects rows, for the result that others are compared with."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _Collector(self.rows)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        pass

    def abort(self, context: SinkContext) -> None:
        pass


class _Collector(SinkWriter[Any]):
    def __init__(self, rows: Counter[Row]) -> None:
        self._rows = rows

    def write(self, bundle: Bundle) -> None:
        for row, sign in rows_of(bundle):
            self._rows[row] += sign

    def stage(self) -> Any:
        return None

    def discard(self) -> None:
        pass


def rows_of(bundle: Bundle) -> list[tuple[Row, int]]:
    """Return the elements of a bundle as rows, each with its sign."""
    return [((plain(value), micros, windows), sign) for value, micros, windows, _, sign in bundle.rows()]


def plain(value: Any) -> Hashable:
    """Return a value to compare by: the elements of lists, which may be grouped in any order, are sorted.

    >>> plain((1, [3, 2])) == plain((1, [2, 3]))
    True
    """
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, Mapping):
        return "mapping", tuple(sorted(((plain(k), plain(v)) for k, v in value.items()), key=repr))
    if isinstance(value, (list, set, frozenset)) or (
        isinstance(value, Collection) and not isinstance(value, (str, bytes))
    ):
        return "values", tuple(sorted(map(plain, value), key=repr))
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value  # type: ignore[no-any-return]
