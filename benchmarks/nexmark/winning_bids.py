"""Queries 4, 6 and 9: the bid that has won each auction, and averages of their prices.

An auction is won by the highest bid before its expiry that reaches its reserve; of several, by the earliest, and then
by that of the bidder with the least id.  Beam's suite takes the first of those to arrive, which differs between runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nlargest
from operator import itemgetter
from typing import Any

import penstock as beam
from nexmark.events import Auction, AuctionBid, Bid, CategoryPrice, SellerPrice
from nexmark.settings import Settings
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly


class AuctionWindow(beam.window.IntervalWindow):
    """The time in which an auction is open, which differs from a bid's window of the same times."""

    def __eq__(self, other: object) -> bool:
        return type(other) is AuctionWindow and tuple.__eq__(self, other)

    __hash__ = beam.window.IntervalWindow.__hash__


class AuctionWindows(beam.window.WindowFn):
    """A window for each auction, into which the windows of its bids merge.

    Bids and auctions are grouped by the auction's id, so windows merge among those of one auction only.

    Args:
      open_time: seconds for which a bid waits for its auction.
    """

    def __init__(self, open_time: float) -> None:
        self.open_time = open_time

    def assign(self, context: Any) -> list[Any]:
        event = context.element
        # An `Auction`, or a Row of its fields.
        if "expires" in event._fields:
            return [AuctionWindow(context.timestamp, event.expires / 1000)]
        return [beam.window.IntervalWindow(context.timestamp, context.timestamp + self.open_time)]

    def merge(self, merge_context: Any) -> None:
        auctions = [window for window in merge_context.windows if isinstance(window, AuctionWindow)]
        for auction in auctions:
            bids = [w for w in merge_context.windows if w != auction and w.start < auction.end]
            if bids:
                merge_context.merge([auction, *bids], auction)


class WinningBids(beam.PTransform):
    """Query 9: each closed auction that has been won, with its bid."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.open_time = settings.open_time

    def expand(self, events: Any) -> Any:
        windowed = (
            events
            | "AuctionsAndBids" >> beam.Filter(lambda event: isinstance(event, (Auction, Bid)))
            | beam.WindowInto(AuctionWindows(self.open_time))
        )
        auctions = windowed | "Auctions" >> beam.Filter(lambda event: isinstance(event, Auction))
        bids = windowed | "Bids" >> beam.Filter(lambda event: isinstance(event, Bid))
        return joined(auctions, bids)


def joined(auctions: Any, bids: Any) -> Any:
    """Return the winners of auctions, of auctions and bids in `AuctionWindows`."""
    inputs = {
        "auctions": auctions | "ById" >> beam.Map(lambda auction: (auction.id, auction)),
        "bids": bids | "ByAuction" >> beam.Map(lambda bid: (bid.auction, bid)),
    }
    return inputs | beam.CoGroupByKey() | "Select" >> beam.FlatMap(won)


def won(element: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[AuctionBid]:
    _, values = element
    for auction in values["auctions"]:
        valid = [bid for bid in values["bids"] if bid.price >= auction.reserve]
        if valid:
            yield AuctionBid(auction, max(valid, key=lambda bid: (bid.price, -bid.date_time, -bid.bidder)))


class AveragePriceForCategory(beam.PTransform):
    """Query 4: the average price of the auctions of each category, in sliding windows.

    An auction belongs to the windows in which it closes.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        return self.of_winners(events | WinningBids(self.settings))

    def of_winners(self, winners: Any) -> Any:
        """Return the results, of those of query 9."""
        settings = self.settings
        return (
            winners
            | "ByCategory" >> beam.Map(lambda winner: (winner.auction.category, winner.bid.price))
            | beam.WindowInto(beam.window.SlidingWindows(settings.window_size, settings.window_period))
            | "Mean" >> beam.CombinePerKey(beam.combiners.MeanCombineFn()).with_hot_key_fanout(settings.fanout)
            | "Project" >> beam.MapTuple(lambda category, price: CategoryPrice(category, rounded(price)))
        )


class AverageSellingPriceBySeller(beam.PTransform):
    """Query 6: the average price of each seller's last ten auctions, whenever one has been won."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        return self.of_winners(events | WinningBids(self.settings))

    def of_winners(self, winners: Any) -> Any:
        """Return the results, of those of query 9."""
        return (
            winners
            | "BySeller" >> beam.Map(lambda winner: (winner.auction.seller, winner.bid))
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | "Mean" >> beam.CombinePerKey(MeanOfLast(10))
            | "Project" >> beam.MapTuple(SellerPrice)
        )


class MeanOfLast(beam.CombineFn):
    """The rounded mean price of the last bids, by their times and then prices."""

    def __init__(self, count: int) -> None:
        self.count = count

    def create_accumulator(self) -> list[tuple[int, int]]:
        return []

    def add_input(self, accumulator: list[tuple[int, int]], bid: Bid) -> list[tuple[int, int]]:
        return nlargest(self.count, [*accumulator, (bid.date_time, bid.price)])

    def merge_accumulators(self, accumulators: Iterable[list[tuple[int, int]]]) -> list[tuple[int, int]]:
        return nlargest(self.count, (entry for accumulator in accumulators for entry in accumulator))

    def extract_output(self, accumulator: list[tuple[int, int]]) -> int:
        return rounded(sum(map(itemgetter(1), accumulator)) / len(accumulator)) if accumulator else 0


def rounded(price: float) -> int:
    """Return the nearest integer, and of two the larger one."""
    return int(price + 0.5)
