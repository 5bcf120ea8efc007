"""The equivalent SQL of each query, run by DuckDB on the same events.

Rows have the form of `queries.py`.  Times are whole milliseconds; `//` is integer division, and `end` is a window's.
"""

from __future__ import annotations

from collections import Counter

import duckdb
import pyarrow as pa

from nexmark.generator import Generator
from nexmark.queries import Rows
from nexmark.settings import Settings

_WINNING = """
    SELECT auctions AS auction, bids AS bid FROM auctions JOIN bids ON bids.auction = auctions.id
    WHERE bids.date_time < auctions.expires AND bids.price >= auctions.reserve
    QUALIFY row_number() OVER (PARTITION BY auctions.id ORDER BY bids.price DESC, bids.date_time, bids.bidder) = 1
"""

# The statements of each query, whose rows belong together.  Names in braces are those of `parameters`.
SQL: dict[int, str] = {
    0: "SELECT 'Person', * FROM persons; SELECT 'Auction', * FROM auctions; SELECT 'Bid', * FROM bids",
    1: "SELECT auction, bidder, price * 89 // 100, date_time, extra FROM bids",
    2: "SELECT auction, price FROM bids WHERE auction % {skip} = 0",
    3: """
        SELECT name, city, state, auctions.id FROM auctions JOIN persons ON seller = persons.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
    """,
    4: f"""
        WITH winning AS ({_WINNING}),
        closed AS (
            SELECT auction.category, bid.price, unnest(range({{slides}})) AS slide,
                ((auction.expires - 1) // {{period}} + 1 + slide) * {{period}} AS "end"
            FROM winning
        )
        SELECT "end", category, floor(avg(price) + 0.5)::BIGINT FROM closed GROUP BY "end", category
    """,
    5: """
        WITH seen AS (
            SELECT auction, unnest(range({slides})) AS slide, (date_time // {period} + 1 + slide) * {period} AS "end"
            FROM bids
        ),
        counts AS (SELECT "end", auction, count(*) AS num FROM seen GROUP BY "end", auction)
        SELECT "end", auction, num FROM counts QUALIFY num = max(num) OVER (PARTITION BY "end")
    """,
    6: f"""
        WITH winning AS ({_WINNING}),
        last AS (
            SELECT auction.seller, bid.price FROM winning
            QUALIFY row_number() OVER (PARTITION BY auction.seller ORDER BY bid.date_time DESC, bid.price DESC) <= 10
        )
        SELECT seller, floor(avg(price) + 0.5)::BIGINT FROM last GROUP BY seller
    """,
    7: """
        SELECT (date_time // {size} + 1) * {size} AS "end", * FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY "end")
    """,
    8: """
        SELECT (persons.date_time // {size} + 1) * {size}, persons.id, persons.name, auctions.reserve
        FROM persons JOIN auctions
        ON auctions.seller = persons.id AND auctions.date_time // {size} = persons.date_time // {size}
    """,
    9: f"SELECT unnest(auction), unnest(bid) FROM ({_WINNING})",
    10: """
        SELECT (date_time // {size} + 1) * {size}, id % {shards}, 'Person', * FROM persons;
        SELECT (date_time // {size} + 1) * {size}, id % {shards}, 'Auction', * FROM auctions;
        SELECT (date_time // {size} + 1) * {size}, (31 * auction + bidder) % {shards}, 'Bid', * FROM bids
    """,
    11: """
        WITH gaps AS (
            SELECT bidder, date_time,
                date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time) >= {size} AS is_first
            FROM bids
        ),
        numbered AS (
            SELECT bidder, date_time,
                count(*) FILTER (is_first) OVER (
                    PARTITION BY bidder ORDER BY date_time RANGE UNBOUNDED PRECEDING
                ) AS session
            FROM gaps
        )
        SELECT max(date_time) + {size}, bidder, count(*) FROM numbered GROUP BY bidder, session
    """,
    12: "SELECT bidder, count(*) FROM bids GROUP BY bidder",
}


class Reference:
    """A DuckDB database with the events of a generator.

    Args:
      settings: those of the queries.
    """

    def __init__(self, generator: Generator, settings: Settings) -> None:
        self.database = duckdb.connect()
        self.parameters = {
            "skip": settings.auction_skip,
            "size": settings.window_size * 1000,
            "period": settings.window_period * 1000,
            "slides": settings.window_size // settings.window_period,
            "shards": settings.log_shards,
        }
        for name, table in tables(generator).items():
            self.database.register(f"given_{name}", table)
            self.database.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")

    def rows(self, query: int) -> Rows:
        """Run the SQL of a query and return its rows, each with the number of its occurrences."""
        found: Rows = Counter()
        for statement in SQL[query].split(";"):
            found.update(self.database.execute(statement.format(**self.parameters)).fetchall())
        return found


def tables(generator: Generator) -> dict[str, pa.Table]:
    """Return the events as Arrow tables of `persons`, `auctions` and `bids`."""
    blocks = [generator.columns_of(number) for number in range(generator.blocks)]
    names = ("persons", "auctions", "bids")
    return {name: pa.concat_tables(pa.table(getattr(block, name)) for block in blocks) for name in names}
