"""Queries 11 and 12: the bids of each bidder, by sessions and by processing time."""

from __future__ import annotations

from typing import Any

import penstock as beam
from nexmark.events import BidderCount
from nexmark.settings import Settings
from nexmark.simple import is_bid
from penstock.triggers import AccumulationMode, AfterCount, AfterProcessingTime, Repeatedly

ALLOWED_LATENESS = 1


class UserSessions(beam.PTransform):
    """Query 11: the number of bids in each session of a bidder, or of each `max_log_events` of them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        bids = events | "Bids" >> beam.Filter(is_bid)
        return self.of_bidders(bids | "Bidder" >> beam.Map(lambda bid: bid.bidder))

    def of_bidders(self, bidders: Any) -> Any:
        """Return the results for the bidder of each bid."""
        return (
            bidders
            | beam.WindowInto(
                beam.window.Sessions(self.settings.window_size),
                trigger=Repeatedly(AfterCount(self.settings.max_log_events)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=ALLOWED_LATENESS,
            )
            | "Count" >> beam.combiners.Count.PerElement()
            | "Project" >> beam.MapTuple(BidderCount)
        )


class ProcessingTimeWindows(beam.PTransform):
    """Query 12: the number of bids of a bidder in each span of processing time, from the first bid on."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.window_size = settings.window_size

    def expand(self, events: Any) -> Any:
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Bidder" >> beam.Map(lambda bid: bid.bidder)
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=Repeatedly(AfterProcessingTime(self.window_size)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
            | "Count" >> beam.combiners.Count.PerElement()
            | "Project" >> beam.MapTuple(BidderCount)
        )
