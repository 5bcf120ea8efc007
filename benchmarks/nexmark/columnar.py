"""The queries on columns: each event type is a PCollection of its own.

Results are rows of the names of the row variants' results, so both are compared with the same SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import penstock as beam
from nexmark import activity, logs, winning_bids
from nexmark.events import Auction, Bid, BidderCount, IdNameReserve, typed
from nexmark.hot_items import MostBids, auction_counts, has_price
from nexmark.joins import CATEGORY, STATES, JoinPersonWithAuctions
from nexmark.queries import (
    Query,
    Result,
    Rows,
    last_panes,
    logged,
    sums_of_panes,
    sums_of_sessions,
    values,
    values_of_windows,
    winners,
)
from nexmark.settings import Settings
from penstock.triggers import AccumulationMode, AfterProcessingTime, Repeatedly


class _OnColumns(beam.PTransform):
    """A query: a transform of the PCollections of persons, auctions and bids."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings


class PassThrough(_OnColumns):
    """Query 0: all events, unchanged."""

    def expand(self, events: Any) -> Any:
        return tuple(events.values()) | beam.Flatten()


class CurrencyConversion(_OnColumns):
    """Query 1: all bids, with prices in euros."""

    def expand(self, events: Any) -> Any:
        fields = {name: beam.col(name) for name in ("auction", "bidder", "price", "date_time", "extra")}
        return events["bids"] | "ToEuros" >> beam.Select(**{**fields, "price": fields["price"] * 89 // 100})


class Selection(_OnColumns):
    """Query 2: the prices of all bids for some auctions."""

    def expand(self, events: Any) -> Any:
        is_chosen = beam.col("auction") % self.settings.auction_skip == 0
        return events["bids"] | "Select" >> beam.Filter(is_chosen) | "Project" >> beam.Select("auction", "price")


class LocalItemSuggestion(_OnColumns):
    """Query 3: sellers from three states, and their auctions of one category.  What is left for the join are rows."""

    def expand(self, events: Any) -> Any:
        auctions = (
            events["auctions"]
            | "AuctionsOfCategory" >> beam.Filter(beam.col("category") == CATEGORY)
            | "FieldsOfAuctions" >> beam.Select("id", "seller", "date_time")
            | "BySeller" >> beam.Map(lambda auction: (auction.seller, auction))
        )
        persons = (
            events["persons"]
            | "PersonsOfStates" >> beam.Filter(beam.col("state").isin(STATES))
            | "FieldsOfPersons" >> beam.Select("id", "name", "city", "state", "date_time")
            | "ById" >> beam.Map(lambda person: (person.id, person))
        )
        join = JoinPersonWithAuctions(self.settings.max_auctions_waiting_time)
        return (auctions, persons) | beam.Flatten() | "Join" >> beam.ParDo(join)


class WinningBids(_OnColumns):
    """Query 9: each closed auction that has been won, with its bid.  The windows look at rows."""

    # The fields that are used; all of them are part of the result.
    fields_of_auctions: tuple[str, ...] = Auction._fields
    fields_of_bids: tuple[str, ...] = Bid._fields

    def expand(self, events: Any) -> Any:
        windows = winning_bids.AuctionWindows(self.settings.open_time)
        auctions = events["auctions"] | "FieldsOfAuctions" >> beam.Select(*self.fields_of_auctions)
        bids = events["bids"] | "FieldsOfBids" >> beam.Select(*self.fields_of_bids)
        return winning_bids.joined(
            auctions | "WindowsOfAuctions" >> beam.WindowInto(windows),
            bids | "WindowsOfBids" >> beam.WindowInto(windows),
        )


class _Winners(WinningBids):
    """The winners with the fields that queries 4 and 6 use."""

    fields_of_auctions = ("id", "category", "seller", "reserve", "expires")
    fields_of_bids = ("auction", "bidder", "price", "date_time")


class AveragePriceForCategory(_OnColumns):
    """Query 4: the average price of the auctions of each category, in sliding windows.  The winners are rows."""

    def expand(self, events: Any) -> Any:
        winners = events | _Winners(self.settings)
        return winning_bids.AveragePriceForCategory(self.settings).of_winners(winners)


class HotItems(_OnColumns):
    """Query 5: the auctions with the most bids, in sliding windows.  The counts are rows again."""

    def expand(self, events: Any) -> Any:
        windows = beam.window.SlidingWindows(self.settings.window_size, self.settings.window_period)
        return (
            events["bids"]
            | beam.WindowInto(windows)
            | "Auction" >> beam.Map(beam.col("auction"))
            | "Count" >> beam.combiners.Count.PerElement()
            | "Most" >> beam.CombineGlobally(MostBids()).without_defaults()
            | "Select" >> beam.FlatMap(auction_counts)
        )


class AverageSellingPriceBySeller(_OnColumns):
    """Query 6: the average price of each seller's last ten auctions.  The winners are rows."""

    def expand(self, events: Any) -> Any:
        winners = events | _Winners(self.settings)
        return winning_bids.AverageSellingPriceBySeller(self.settings).of_winners(winners)


class HighestBid(_OnColumns):
    """Query 7: the bids with the highest price of each window.  The maximum is of columns, its bids are rows."""

    def expand(self, events: Any) -> Any:
        bids = events["bids"] | beam.WindowInto(beam.window.FixedWindows(self.settings.window_size))
        highest = bids | "Price" >> beam.Map(beam.col("price")) | "Max" >> beam.CombineGlobally(max).without_defaults()
        return bids | "Select" >> beam.Filter(has_price, price=beam.pvalue.AsSingleton(highest))


class MonitorNewUsers(_OnColumns):
    """Query 8: the persons who have opened auctions in the window in which they registered."""

    def expand(self, events: Any) -> Any:
        windows = beam.window.FixedWindows(self.settings.window_size)
        persons = events["persons"] | "WindowsOfPersons" >> beam.WindowInto(windows)
        auctions = events["auctions"] | "WindowsOfAuctions" >> beam.WindowInto(windows)
        inputs = {
            "names": persons | "ById" >> beam.Map((beam.col("id"), beam.col("name"))),
            "reserves": auctions | "BySeller" >> beam.Map((beam.col("seller"), beam.col("reserve"))),
        }
        return inputs | beam.CoGroupByKey() | "Select" >> beam.FlatMap(new_sellers)


def new_sellers(element: tuple[int, dict[str, list[Any]]]) -> Iterator[IdNameReserve]:
    person, values = element
    for name in values["names"]:
        for reserve in values["reserves"]:
            yield IdNameReserve(person, name, reserve)


class LogToFiles(_OnColumns):
    """Query 10: all events into files, by shard and window.  Shards are computed on columns, and panes have rows."""

    def expand(self, events: Any) -> Any:
        shards = {
            "persons": beam.col("id"),
            "auctions": beam.col("id"),
            "bids": 31 * beam.col("auction") + beam.col("bidder"),
        }
        sharded = [
            events[kind] | f"Shard {kind}" >> beam.WithKeys(number % self.settings.log_shards)
            for kind, number in shards.items()
        ]
        return logs.LogToFiles(self.settings).of_sharded(sharded | beam.Flatten())


class UserSessions(_OnColumns):
    """Query 11: the number of bids in each session of a bidder.  The bidders are rows."""

    def expand(self, events: Any) -> Any:
        bidders = events["bids"] | "Bidder" >> beam.Map(beam.col("bidder"))
        return activity.UserSessions(self.settings).of_bidders(bidders)


class ProcessingTimeWindows(_OnColumns):
    """Query 12: the number of bids of a bidder in each span of processing time, from the first bid on."""

    def expand(self, events: Any) -> Any:
        windows = beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(self.settings.window_size)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        bidders = events["bids"] | "Bidder" >> beam.Map(beam.col("bidder")) | windows
        return bidders | "Count" >> beam.combiners.Count.PerElement() | "Project" >> beam.MapTuple(BidderCount)


def values_of_types(results: Iterable[Result]) -> Rows:
    return Counter(typed(result.value) for result in results)


COLUMNAR = {
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
