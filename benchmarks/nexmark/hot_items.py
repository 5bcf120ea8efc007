"""Queries 5 and 7: the largest of each window, by a combiner and by a side input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock as beam
from nexmark.events import AuctionCount, Bid
from nexmark.settings import Settings
from nexmark.simple import is_bid


class HotItems(beam.PTransform):
    """Query 5: the auctions with the most bids, in sliding windows."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        settings = self.settings
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | beam.WindowInto(beam.window.SlidingWindows(settings.window_size, settings.window_period))
            | "Auction" >> beam.Map(lambda bid: bid.auction)
            | "Count" >> beam.combiners.Count.PerElement()
            | "Most" >> beam.CombineGlobally(MostBids()).without_defaults().with_fanout(settings.fanout)
            | "Select" >> beam.FlatMap(auction_counts)
        )


class MostBids(beam.CombineFn):
    """All keys with the largest count, and the count."""

    def create_accumulator(self) -> tuple[int, list[int]]:
        return 0, []

    def add_input(self, accumulator: tuple[int, list[int]], element: tuple[int, int]) -> tuple[int, list[int]]:
        auction, count = element
        return self.merge_accumulators([accumulator, (count, [auction])])

    def merge_accumulators(self, accumulators: Any) -> tuple[int, list[int]]:
        largest, keys = self.create_accumulator()
        for count, auctions in accumulators:
            if count > largest:
                largest, keys = count, list(auctions)
            elif count == largest:
                keys += auctions
        return largest, keys

    def extract_output(self, accumulator: tuple[int, list[int]]) -> tuple[int, list[int]]:
        return accumulator


def auction_counts(most: tuple[int, list[int]]) -> Iterator[AuctionCount]:
    count, auctions = most
    for auction in auctions:
        yield AuctionCount(auction, count)


class HighestBid(beam.PTransform):
    """Query 7: the bids with the highest price of each window, which is a side input."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        windows = beam.window.FixedWindows(self.settings.window_size)
        bids = events | "Bids" >> beam.Filter(is_bid) | beam.WindowInto(windows)
        highest = (
            bids
            | "Price" >> beam.Map(lambda bid: bid.price)
            | "Max" >> beam.CombineGlobally(max).without_defaults().with_fanout(self.settings.fanout)
        )
        return bids | "Select" >> beam.Filter(has_price, price=beam.pvalue.AsSingleton(highest))


def has_price(bid: Bid, price: int) -> bool:
    return bid.price == price
