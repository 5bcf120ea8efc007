"""Log of the open transactions of a job of producers, fenced by a sequencer (MillWheel, section 5.4).

A job that takes the directory over claims a greater generation, and then reads which transactions are open.  A zombie
writes into a file that no job reads any more.  Its next write raises `StaleWriterError`, so it begins no transaction.
The name of a transaction is in the log before a worker writes in it, so every later owner finds it.

Commits need no fence: the tokens in a subtask's log are certain to be committed, and a second commit changes nothing.

The log also contains the layout of the subtasks' logs: see `log_layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....frozen import frozen
from ....sdk.errors import SnapshotError
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.log_listing import ListedLog, LogListing
from ...execution.checkpoints.storage import Disk
from ...execution.serialization.records import RecordType
from ...execution.sinks.committer import OpenTransactions
from .log import ProductionLog
from .log_layout import Layout

# The directory of the log, beside those of the subtasks.
JOB = "job"

# The size in bytes from which the log is compacted.
_LONG = 1 << 16


class FencedTransactions(OpenTransactions):
    """The log with the names of open transactions; only its newest owner appends to it.

    Attributes:
      layout: the layout of the current logs; None before there are any.

    >>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
    >>> from random import Random
    >>> disk = SimulatedDisk(Random(0))
    >>> zombie, owner = FencedTransactions(disk, "dir"), FencedTransactions(disk, "dir")
    >>> _ = zombie.take_over("aa"), owner.take_over("bb"); zombie.check()
    Traceback (most recent call last):
    penstock.sdk.errors.StaleWriterError: dir/job: 00000002-bb has taken over from 00000001-aa
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._log = _log_of(disk, directory)
        self.layout: Layout | None = None

    def take_over(self, token: str) -> list[str] | None:
        """Become the owner and return the open transactions.

        Returns None if the log is new.  Raises `StaleWriterError` if another job takes over at the same time.
        """
        self._log = _log_of(self._disk, self._directory)
        names = None
        for record in self._log.take_over(token)[-1:]:
            noted = _NOTED.decode(record, self._log.directory)
            names, self.layout = noted.open, noted.layout
        self._log.begin([self._record(names or ())])
        return names

    def check(self) -> None:
        """Raise `StaleWriterError` if another job has taken over."""
        try:
            self._log.check()
        except OSError as error:
            raise SnapshotError(f"{self._log.directory} can't be read: {text_or_class(error)}") from error

    def write(self, names: Sequence[str]) -> None:
        record = self._record(names)
        if self._log.is_broken or self._log.length >= _LONG:
            self._log.begin([record])
        else:
            self._log.append(record)

    def _record(self, names: Sequence[str]) -> bytes:
        layout = None if self.layout is None else self.layout.as_data()
        return _NOTED.encode(list(names), layout)


@frozen
class _Noted:
    """The contents of a record."""

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
    """Return the open transactions without taking the log over."""
    return _noted(disk, directory).open


def noted_layout(disk: Disk, directory: str) -> Layout | None:
    """Return the layout of the current logs, or None, without taking the log over."""
    return _noted(disk, directory).layout
