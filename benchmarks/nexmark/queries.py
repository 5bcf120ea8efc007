"""The queries by their numbers, and their results in the form in which they are compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs

import penstock as beam
from nexmark.activity import ProcessingTimeWindows, UserSessions
from nexmark.hot_items import HighestBid, HotItems
from nexmark.joins import LocalItemSuggestion, MonitorNewUsers
from nexmark.logs import LogToFiles
from nexmark.settings import Settings
from nexmark.simple import CurrencyConversion, PassThrough, Selection
from nexmark.winning_bids import AveragePriceForCategory, AverageSellingPriceBySeller, WinningBids


@attrs.frozen
class Result:
    """A result of a query with the window and the index of its pane.

    Attributes:
      start, end: those of the window, in milliseconds since 1970.
    """

    value: Any
    start: int
    end: int
    pane: int


def described(value: Any, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam) -> Result:
    """Return an element as a `Result`."""
    return Result(value, window.start.micros // 1000, window.end.micros // 1000, pane.index)


Rows = Counter[tuple[Any, ...]]


def values(results: Iterable[Result]) -> Rows:
    return Counter(tuple(result.value) for result in results)


def values_of_types(results: Iterable[Result]) -> Rows:
    return Counter((type(result.value).__name__, *result.value) for result in results)


def values_of_windows(results: Iterable[Result]) -> Rows:
    return Counter((result.end, *result.value) for result in results)


def winners(results: Iterable[Result]) -> Rows:
    return Counter((*result.value.auction, *result.value.bid) for result in results)


def last_panes(results: Iterable[Result]) -> Rows:
    last = {result.value[0]: tuple(result.value) for result in sorted(results, key=lambda result: result.pane)}
    return Counter(last.values())


def sums_of_panes(results: Iterable[Result]) -> Rows:
    """Return the counts of all panes of each bidder as one."""
    totals: Counter[Any] = Counter()
    for result in results:
        totals[result.value.bidder] += result.value.bids
    return Counter(totals.items())


def sums_of_sessions(results: Iterable[Result]) -> Rows:
    """Return the counts of all panes of each session as one.

    The window of a pane is the session as it was when the pane was emitted, so panes of a session overlap.
    """
    rows: Rows = Counter()
    for bidder, panes in groupby(sorted(results, key=lambda r: (r.value.bidder, r.start)), lambda r: r.value.bidder):
        end, bids = None, 0
        for pane in panes:
            if end is not None and pane.start >= end:
                rows[end, bidder, bids] += 1
                end, bids = None, 0
            end, bids = max(end or pane.end, pane.end), bids + pane.value.bids
        rows[end, bidder, bids] += 1
    return rows


def logged(results: Iterable[Result]) -> Rows:
    """Return the lines of all files of the indexes, each with the window and the shard."""
    rows: Rows = Counter()
    for result in results:
        index = result.value
        assert Path(index.path).read_text().splitlines() == [file.path for file in index.files], index.path
        for file in index.files:
            lines = Path(file.path).read_text().splitlines()
            assert len(lines) == file.records, file.path
            rows.update((result.end, file.shard, *json.loads(line)) for line in lines)
    return rows


@attrs.frozen
class Query:
    """A query.

    Attributes:
      transform: makes the transform from events to results.
      rows: the comparable form of its results.
    """

    title: str
    transform: Callable[[Settings], beam.PTransform]
    rows: Callable[[Iterable[Result]], Rows]


QUERIES = {
    0: Query("Pass through", PassThrough, values_of_types),
    1: Query("Currency conversion", CurrencyConversion, values),
    2: Query("Selection", Selection, values),
    3: Query("Local item suggestion", LocalItemSuggestion, values),
    4: Query("Average price for a category", AveragePriceForCategory, values_of_windows),
    5: Query("Hot items", HotItems, values_of_windows),
    6: Query("Average selling price by seller", AverageSellingPriceBySeller, last_panes),
    7: Query("Highest bid", HighestBid, values_of_windows),
    8: Query("Monitor new users", MonitorNewUsers, values_of_windows),
    9: Query("Winning bids", WinningBids, winners),
    10: Query("Log to sharded files", LogToFiles, logged),
    11: Query("User sessions", UserSessions, sums_of_sessions),
    12: Query("Processing time windows", ProcessingTimeWindows, sums_of_panes),
}
