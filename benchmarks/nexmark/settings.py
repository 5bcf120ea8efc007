"""Settings of the queries, with the values of Beam's suite."""

from __future__ import annotations

import attrs


@attrs.frozen
class Settings:
    """Parameters of the queries.

    Attributes:
      window_size: seconds of the windows of queries 5, 7, 8, 10 and 12, the sliding ones of 4, and the gap of 11.
      window_period: seconds between two sliding windows of queries 4 and 5.
      auction_skip: query 2 selects the auctions whose ids are multiples of it.
      fanout: the parts of the first step of a combination, in queries 4, 5 and 7.
      max_auctions_waiting_time: seconds for which query 3 remembers a person or an auction.
      max_log_events: the events of a file of query 10, and of a result of query 11, at most.
      log_shards: the number of shards of query 10.
      log_directory: the directory for the files of query 10.
      open_time: seconds for which a bid waits for its auction in queries 4, 6 and 9; Beam's is twice the average time
        for which auctions are open.
    """

    window_size: int = 10
    window_period: int = 5
    auction_skip: int = 123
    fanout: int = 5
    max_auctions_waiting_time: int = 600
    max_log_events: int = 100_000
    log_shards: int = 5
    log_directory: str = "nexmark-logs"
    open_time: float = 1 / 3
