"""Nexmark: queries 0 to 12 of Beam's suite over the events of an auction site (docs/nexmark.md).

`python benchmarks nexmark --runner=local --events=1000000` prints a table of what they cost.

events.py        persons, auctions, bids, and the results of the queries
generator.py     the events, drawn from a seed, as rows or as columns
sources.py       a bounded source and an unbounded one, which read the same events
settings.py      parameters of the queries
simple.py        queries 0, 1 and 2: maps and filters
joins.py         queries 3 and 8: a DoFn with state, and CoGroupByKey
winning_bids.py  queries 4, 6 and 9: windows of auctions, which merge; averages
hot_items.py     queries 5 and 7: sliding windows, and a side input
logs.py          query 10: files
activity.py      queries 11 and 12: sessions, and processing time
queries.py       all of them by number, and their results in a form that can be compared
parquet.py       the events in Parquet files, as columns, bounded and as a stream
columnar.py      the queries on columns
reference.py     the equivalent SQL, run by DuckDB
command.py       the command

The results of a bounded run, of a stream and of the SQL are equal.  Event times are exact and no event is late, so
panes that the watermark fires are the same everywhere: queries 4, 5, 7, 8 and 9 have one pane for each window, and 0 to
3 have none.  Three queries have panes that depend on the order of arrival, on the bundles or on the clock.  They are
compared in a form that doesn't:

- Query 6 emits a seller's price whenever one of the seller's auctions has been won.  The last price of each seller
  counts.  It is that of the ten latest winning bids by their own times, whatever the order of arrival.
- Queries 11 and 12 emit counts of the bids since the last pane, whenever a session has `max_log_events` or a span of
  processing time is over.  The sum of the panes of each session, and of each bidder, counts.
- Query 10 writes a file for each pane.  The lines of all files of a window and shard count.

Query 3 forgets a person after `max_auctions_waiting_time`, which the generator's sellers don't exceed.  So its results
are those of a join.  Of equal bids, queries 4, 6 and 9 take that of the bidder with the least id, and not the first to
arrive.
"""
