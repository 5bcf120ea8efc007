"""Queries 0 to 2: each event by itself."""

from __future__ import annotations

from typing import Any

import penstock as beam
from nexmark.events import AuctionPrice, Bid, Event
from nexmark.settings import Settings


def is_bid(event: Event) -> bool:
    return isinstance(event, Bid)


class PassThrough(beam.PTransform):
    """Query 0: all events, unchanged.  Its cost is that of the source and the sink."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()

    def expand(self, events: Any) -> Any:
        return events | beam.Map(lambda event: event)


class CurrencyConversion(beam.PTransform):
    """Query 1: all bids, with prices in euros."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()

    def expand(self, events: Any) -> Any:
        return events | "Bids" >> beam.Filter(is_bid) | "ToEuros" >> beam.Map(in_euros)


def in_euros(bid: Bid) -> Bid:
    return Bid(bid.auction, bid.bidder, bid.price * 89 // 100, bid.date_time, bid.extra)


class Selection(beam.PTransform):
    """Query 2: the prices of all bids for some auctions."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.skip = settings.auction_skip

    def expand(self, events: Any) -> Any:
        skip = self.skip
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Select" >> beam.Filter(lambda bid: bid.auction % skip == 0)
            | "Project" >> beam.Map(lambda bid: AuctionPrice(bid.auction, bid.price))
        )
