"""AddedRows: a stream of the rows that versions of a table add.

A table has one partition.  It is read version by version, and an offset is a version and a number of its rows.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ...frozen import frozen
from ...sdk.columns.column_elements import as_rows
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.timestamp import Timestamp

# A version, True if all of its rows are read instead of those that it adds, and the number of rows read so far.
Position: TypeAlias = tuple[int, bool, int]


@frozen
class VersionRows:
    """The rows of a version.

    Attributes:
      batches: record batches, always in the same order.
      micros: the time of the version, in microseconds; None if it isn't known.
    """

    batches: Iterator[Any]
    micros: int | None = None


class AddedRowsSource(UnboundedSource[Any]):
    """The rows that versions of a table add, from one on.  A subclass knows the table.

    Args:
      times: the event times of Rows.
      poll_interval: seconds between two looks for new versions.
    """

    # The class of the readers, which takes the source and a position.
    reader: type[AddedRowsReader]

    def __init__(self, times: EventTimes, poll_interval: float) -> None:
        self.times = times
        self.poll_interval = poll_interval
        # The time of arrival isn't repeated.
        self.repeatable = times.timestamp_fn is not None

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return the table, for checkpoints."""

    @abstractmethod
    def start(self) -> Position:
        """Return where reading begins without a checkpoint."""

    @abstractmethod
    def read(self, version: int, is_whole: bool) -> VersionRows | None:
        """Return the rows of a version; None if there is no such version yet.

        Args:
          is_whole: whether all rows of the version are wanted, or those that it adds.
        """

    def partitions(self) -> Sequence[Any]:
        return ["table"]

    def open(self, partition: Any, offset: Any | None) -> AddedRowsReader:
        return self.reader(self, self.start() if offset is None else offset)


class AddedRowsReader(EventTimeReader[Any]):
    """Reader of a table's added rows."""

    def __init__(self, source: AddedRowsSource, position: Any) -> None:
        super().__init__(source.times)
        self._source = source
        self._version, self._is_whole, self._row = position[:3]
        # The batches of the version that is read, and the next of them; None before it is opened.
        self._batches: Iterator[Any] | None = None
        self._batch: Any = None
        # When there was no new version at the last look.
        self._looked: float | None = None

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | int | None]:
        while self.end is None or self.offset() != self.end:
            if self._batches is None and not self._opened():
                return [], None
            if self._batch is None:
                self._following()
                continue
            wanted = max_elements
            if self.end is not None and self.end[:2] == (self._version, self._is_whole):
                wanted = min(wanted, self.end[2] - self._row)
            taken = self._batch.slice(0, wanted)
            self._row += taken.num_rows
            rest = self._batch.slice(taken.num_rows)
            assert self._batches is not None
            self._batch = rest if rest.num_rows else next(self._batches, None)
            elements = self.elements(taken)
            if self._batch is None:
                self._following()
            return elements
        return [], None

    def elements(self, batch: Any) -> tuple[list[Any], int | None]:
        """Return the elements of rows of the version, and their event time in microseconds, if they have one."""
        return as_rows(batch), None

    def opened(self, rows: VersionRows) -> None:
        """Begin the rows of a version."""

    def offset(self) -> Any:
        return self._version, self._is_whole, self._row

    def close(self) -> None:
        self._batches = self._batch = None

    def _opened(self) -> bool:
        """Open the version, and go to the row; return False if there is no such version yet."""
        interval = self._source.poll_interval
        if self.end is None and self._looked is not None and time.monotonic() - self._looked < interval:
            return False
        rows = self._source.read(self._version, self._is_whole)
        if rows is None:
            self._looked = time.monotonic()
            return False
        self._looked = None
        self._batches = batches = rows.batches
        self.opened(rows)
        skipped = self._row
        self._batch = next(batches, None)
        while self._batch is not None and skipped:
            if skipped < self._batch.num_rows:
                self._batch = self._batch.slice(skipped)
                break
            skipped -= self._batch.num_rows
            self._batch = next(batches, None)
        return True

    def _following(self) -> None:
        """Go to the next version."""
        self._version, self._is_whole, self._row = self._version + 1, False, 0
        self._batches = self._batch = None


AddedRowsSource.reader = AddedRowsReader
