"""The sinks' transactions of a job of producers, of which only the newest job may begin any (MillWheel, section 5.4).

The names of open transactions are in a log with a sequencer, as productions are: a job that takes the directory
over claims a greater generation, and only then reads which transactions are open.  A zombie that is still there
writes into a file which nobody reads any more, is told so, and begins nothing.

The log also says whose logs there are: see `layout.py`.

So before anything is staged in a transaction, its name is where every later owner finds it; and what is
taken for open was begun by whoever owned the log then.  Commits need no fence: what is in a subtask's log is to be
committed by whoever knows of it, and doing that twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ....sdk.errors import SnapshotError
from ...execution.commit_errors import DEAD_LETTERS, explain
from ...execution.disk import Disk
from ...execution.fusion import Plan
from ...execution.log_listing import ListedLog, LogListing
from ...execution.production_log import ProductionLog
from ...execution.records import RecordType
from ...execution.user_code import guarded
from ..transactions import Staged, Transactions
from .layout import Layout

# Where the log is, beside those of the subtasks.
JOB = "job"

# The log begins anew when it has so many bytes.
_LONG = 1 << 16


class FencedTransactions(Transactions):
    """Transactions that begin several at a time, each with the sinks of one task; of the newest owner alone.

    Attributes:
      layout: whose logs there are; None before there are any.

    >>> from penstock.runners.execution.fusion import fuse
    >>> from penstock.runners.execution.simulated_disk import SimulatedDisk
    >>> from random import Random
    >>> import penstock as beam
    >>> plan, disk = fuse(beam.Pipeline().graph(), bool), SimulatedDisk(Random(0))
    >>> zombie, owner = FencedTransactions(plan, disk, "dir"), FencedTransactions(plan, disk, "dir")
    >>> zombie.take_over("aa"); owner.take_over("bb"); zombie.check()
    Traceback (most recent call last):
    penstock.sdk.errors.StaleWriterError: dir/job: 00000002-bb has taken over from 00000001-aa
    """

    def __init__(self, plan: Plan, disk: Disk, directory: str) -> None:
        super().__init__(plan, disk, directory)
        self._directory = directory
        self._log = _log_of(disk, directory)
        self.layout: Layout | None = None
        # Of those that began here.
        self._labels: dict[str, frozenset[str]] = {}

    def recall(self) -> None:
        """Nothing: `take_over` does it, once it is known whose directory it is."""

    def take_over(self, token: str) -> None:
        """Become the owner, and find what is open.  Raises `StaleWriterError` if somebody else does just then."""
        assert self._disk is not None
        self._log = _log_of(self._disk, self._directory)
        for record in self._log.take_over(token)[-1:]:
            noted = _NOTED.decode(record, self._log.directory)
            self._open, self.layout, self._knows_open = noted.open, noted.layout, True
        self._begin_log()

    def use(self, layout: Layout) -> None:
        """From now on these are the logs that count."""
        self.layout = layout
        self._write()

    def check(self) -> None:
        """Raises `StaleWriterError` if somebody has taken over."""
        try:
            self._log.check()
        except OSError as error:
            raise SnapshotError(f"{self._log.directory} can't be read: {error}") from error

    def begin_all(self, transactions: Mapping[str, frozenset[str]]) -> None:
        """Begin them, each for sinks with these labels; they are written down once."""
        if not self._sinks or not transactions:
            return
        self._labels.update(transactions)
        self._open += [each for each in transactions if each not in self._open]
        self._write()
        for transaction, labels in transactions.items():
            for label in sorted(labels):
                guarded(label, partial(self._sinks[label].prepare, transaction))

    def abort(self, but: Sequence[str] = ()) -> None:
        if self._sinks:
            # What is open here may be in a log by now, and its successor's to commit.
            self.check()
        super().abort(but)

    def commit(self, staged: Staged) -> tuple[str, ...]:
        transactions = self._in_order(staged)
        for transaction in transactions:
            # Of one that began elsewhere it isn't known which sinks have prepared it.
            for label in sorted(self._labels.get(transaction, self._sinks.keys())):
                tokens = [token for own, token in staged.get(label, ()) if own == transaction]
                try:
                    guarded(label, partial(self._sinks[label].commit, transaction, tokens))
                except Exception as error:
                    before = f"{self._directory}: transaction {transaction} is in the logs, and can't be published: "
                    explain(
                        error,
                        before,
                        f"Every start tries this again. To continue without the refused records, {DEAD_LETTERS}",
                    )
                    raise
        self._open = [each for each in self._open if each not in transactions]
        for transaction in transactions:
            self._labels.pop(transaction, None)
        return tuple(transactions)

    def _write(self) -> None:
        if self._log.is_broken or self._log.length >= _LONG:
            self._begin_log()
        else:
            self._log.append(self._record())

    def _begin_log(self) -> None:
        self._log.begin([self._record()])

    def _record(self) -> bytes:
        layout = None if self.layout is None else self.layout.as_data()
        return _NOTED.encode(self._open, layout)


@attrs.frozen
class _Noted:
    """What one record says."""

    open: list[str]
    layout: Layout | None


def _noted_of(open: list[str], layout: list[Any] | None) -> _Noted:
    return _Noted(open, None if layout is None else Layout.of_data(*layout))


_NOTED = RecordType("job", 1, {1: _noted_of})


def listing_of(disk: Disk, directory: str) -> LogListing:
    """Return the list in which the job's own log is."""
    return LogListing(disk, f"{directory}/listed-{JOB}")


def _log_of(disk: Disk, directory: str) -> ProductionLog:
    listing = listing_of(disk, directory)
    listed = ListedLog(listing, 0) if disk.exists(listing.path) else None
    return ProductionLog(disk, f"{directory}/{JOB}", ahead=1 << 12, listed=listed)


def _noted(disk: Disk, directory: str) -> _Noted:
    log = _log_of(disk, directory)
    records = log.read()
    return _NOTED.decode(records[-1], log.directory) if records else _Noted([], None)


def open_transactions(disk: Disk, directory: str) -> list[str]:
    """What a job has left open, for whoever looks without taking over."""
    return _noted(disk, directory).open


def noted_layout(disk: Disk, directory: str) -> Layout | None:
    """Whose logs there are, for whoever looks without taking over; None if there are none."""
    return _noted(disk, directory).layout
