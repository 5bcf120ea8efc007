"""A table outside of a simulated run, which outlives its processes, and a sink that holds all to the rules.

What has to hold (two-phase commit):

- nothing is visible that wasn't staged for a transaction and committed;
- nothing is committed that wasn't precommitted;
- a transaction that was aborted is not committed later, nor one committed with other tokens than before;
- nothing is written into a transaction before it has been prepared, or after it is over, but by zombies,
  of whom nothing ever becomes visible then;
- whenever a transaction begins, every table has had the same ones committed: what is visible in all of them
  together is a part of the run up to one barrier;
- at every moment, what is visible has nothing that the whole result hasn't, and takes nothing back
  that it never had.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from ....sdk.bundle import Bundle
from ....sdk.errors import SinkError
from ....sdk.sink import Sink, SinkWriter
from .world import SimulatedWorld

# A value, its timestamp in microseconds and its windows.
Row = Hashable


class BrokenPromise(BaseException):
    """A rule was broken.  Not an `Exception`, so that no recovery hides it."""


class SimulatedTable:
    """What was written, staged and visible.

    Args:
      expected: how often each row is there in the end, if no moment may have more; None where results
        may be replaced in between.

    Attributes:
      visible: by row, how often it is there: what was added less what was taken back.
      committed: by transaction, the tokens that it was committed with.
      together: the tables that are committed to together.
    """

    def __init__(self, name: str, expected: Mapping[Row, int] | None = None) -> None:
        self.name = name
        self.visible: Counter[Row] = Counter()
        self.committed: dict[str, tuple[str, ...]] = {}
        self.together: Sequence[SimulatedTable] = ()
        self._expected = expected
        self._prepared: set[str] = set()
        self._aborted: set[str] = set()
        self._precommitted: set[str] = set()
        self._staged: dict[str, dict[str, list[tuple[Row, int]]]] = {}

    def prepare(self, transaction: str) -> None:
        """A transaction begins."""
        self._require(transaction not in self.committed, f"{transaction} was committed, and is prepared again")
        for other in self.together:
            apart = sorted(self.committed.keys() ^ other.committed.keys())
            self._require(not apart, f"{apart} were committed here or in {other.name}, and not in both")
        self._prepared.add(transaction)

    def opened(self, transaction: str) -> None:
        """Somebody will write in a transaction."""
        self._require(transaction in self._prepared, f"{transaction} is written in, and not prepared")
        self._require(transaction not in self.committed, f"{transaction} is written in after it was committed")
        self._require(transaction not in self._aborted, f"{transaction} is written in after it was aborted")

    def stage(self, transaction: str, token: str, rows: list[tuple[Row, int]], is_zombie: bool = False) -> None:
        """What somebody wrote is durable; of a zombie, it isn't if the transaction is over."""
        if is_zombie and (transaction in self.committed or transaction in self._aborted):
            return
        self.opened(transaction)
        self._staged.setdefault(transaction, {})[token] = rows

    def precommit(self, tokens: Sequence[str]) -> None:
        """Record the tokens that were precommitted."""
        self._precommitted.update(tokens)

    def decided(self, transaction: str, tokens: Sequence[str]) -> None:
        """A commit is decided."""
        unknown = sorted(set(tokens) - self._precommitted)
        self._require(not unknown, f"{transaction} is committed with {unknown}, which was not precommitted")

    def commit(self, transaction: str, tokens: Sequence[str]) -> None:
        """Make it visible; if that has been done, nothing happens."""
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

    def abort(self, transaction: str) -> None:
        """Remove what anybody staged for a transaction, unless it was committed."""
        if transaction not in self.committed:
            self._aborted.add(transaction)
            self._staged.pop(transaction, None)

    def check_end(self, expected: Mapping[Row, int], remembered: Collection[str]) -> None:
        """The run is over: everything is there, once, and nothing besides.

        Args:
          remembered: transactions that the next start would abort, since something failed.
        """
        self._check_rows()
        found = +self.visible
        missing, surplus = Counter(expected) - found, found - Counter(expected)
        self._require(not missing and not surplus, f"missing: {_shown(missing)}; too much: {_shown(surplus)}")
        forgotten = sorted(self._staged.keys() - set(remembered))
        self._require(not forgotten, f"staged and left behind: {forgotten}")

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise BrokenPromise(f"{self.name}: {otherwise}")


def _shown(rows: Counter[Row]) -> str:
    some = [f"{count} × {row}" for row, count in sorted(rows.items(), key=repr)[:5]]
    more = len(rows) - len(some)
    return ", ".join(some) + (f" and {more} more" if more > 0 else "") or "nothing"


class SimulatedSink(Sink[Any]):
    """Writes into a table of the world's; may die or fail before and after anything that it does."""

    accepts_retractions: ClassVar[bool] = True

    def __init__(self, world: SimulatedWorld, table: SimulatedTable) -> None:
        self._world = world
        self._table = table

    def prepare(self, transaction: str) -> None:
        self._before("prepare", transaction)
        self._table.prepare(transaction)
        self._after("prepare", transaction)

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        if not self._world.is_zombie:
            self._table.opened(transaction)
        return _Writer(self, transaction, unit)

    def stage(self, transaction: str, token: str, rows: list[tuple[Row, int]]) -> None:
        """What a writer has is made durable."""
        self._before("stage", token)
        self._table.stage(transaction, token, rows, self._world.is_zombie)
        self._after("stage", token)

    def precommit(self, transactions: Mapping[str, Sequence[Any]]) -> None:
        for staged in transactions.values():
            self._table.precommit(staged)

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        self._before("commit", transaction)
        self._table.decided(transaction, staged)
        self._table.commit(transaction, staged)
        if self._world.random.random() < 0.1:
            # A request that is sent twice.
            self._table.commit(transaction, staged)
        self._after("commit", transaction)

    def abort(self, transaction: str) -> None:
        self._before("abort", transaction)
        self._table.abort(transaction)
        self._after("abort", transaction)

    def _before(self, what: str, of: str) -> None:
        self._world.step(f"{self._table.name}: {what} {of}")
        self._fail(f"{self._table.name}: {what} {of}")

    def _after(self, what: str, of: str) -> None:
        # The answer may get lost.
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
    """Keeps the rows that it is given, for the result that all others are compared with."""

    accepts_retractions: ClassVar[bool] = True

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def prepare(self, transaction: str) -> None:
        pass

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        return _Collector(self.rows)

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        pass

    def abort(self, transaction: str) -> None:
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
    """Elements as rows, each with its sign."""
    return [((plain(value), micros, windows), sign) for value, micros, windows, _, sign in bundle.rows()]


def plain(value: Any) -> Hashable:
    """A value by which to compare: the elements of a list, which may have been grouped in any order, are sorted.

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
