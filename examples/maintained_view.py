"""A maintained view: two tables of PostgreSQL joined, aggregated, and written to a third, which follows each change.

The view is the query

    SELECT region, count(*) AS orders, sum(price) AS total
    FROM customers JOIN orders ON orders.customer = customers.id GROUP BY region

PostgreSQL would compute it again for each reader, or from time to time (`MATERIALIZED VIEW`).  This pipeline reads the
rows of both tables, and then each of their changes, from a replication slot.  A changed or deleted row is *retracted*:
the join takes it out of the rows of its customer, the sums subtract it, and the row of the region is corrected or
deleted.  When the pipeline is stopped, or killed, it goes on from its checkpoint.  (Dataflow Model, section 2.3.)

    createdb shop
    python -m penstock.examples.maintained_view --url=postgresql://localhost/shop --create --checkpoint_dir=/tmp/view
    psql shop -c "INSERT INTO orders VALUES (7, 1, 70)" -c "TABLE regions"

With a runner for bounded pipelines (`--runner=spark-batch`) the table is written once, of the rows that there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import penstock as beam
from penstock.triggers import AccumulationMode, AfterProcessingTime, Repeatedly


class Customer(NamedTuple):
    """A row of the first table."""

    id: int
    region: str


class Order(NamedTuple):
    """A row of the second table."""

    id: int
    customer: int
    price: int


# The tables, with what PostgreSQL needs so that it logs the former rows of changes.
TABLES = """
    CREATE TABLE IF NOT EXISTS customers (id int PRIMARY KEY, region text NOT NULL);
    CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY, customer int NOT NULL, price int NOT NULL);
    ALTER TABLE customers REPLICA IDENTITY FULL;
    ALTER TABLE orders REPLICA IDENTITY FULL;
    CREATE TABLE IF NOT EXISTS regions (region text PRIMARY KEY, orders bigint NOT NULL, total bigint NOT NULL)
"""

ROWS = """
    INSERT INTO customers VALUES (1, 'north'), (2, 'south') ON CONFLICT DO NOTHING;
    INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30) ON CONFLICT DO NOTHING
"""

VIEW = """
    SELECT region, count(*) AS orders, sum(price) AS total
    FROM customers JOIN orders ON orders.customer = customers.id GROUP BY region
"""


class Maintained(beam.PTransform):
    """Windows for results that are corrected a moment after each change.

    Args:
      delay: seconds that changes are collected for.
    """

    def __init__(self, delay: float = 0.1) -> None:
        super().__init__()
        self.delay = delay

    def expand(self, rows: Any) -> Any:
        return rows | beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(self.delay)),
            accumulation_mode=AccumulationMode.RETRACTING,
        )


def joined(_customer: int, rows: dict[str, list[Any]]) -> Iterator[tuple[str, int]]:
    """The region and the price of each order of a customer."""
    for region in rows["regions"]:
        for price in rows["prices"]:
            yield region, price


class Regions(beam.PTransform):
    """The view, of the PCollections of both tables: pairs of a region, and its number of orders with their sum."""

    def expand(self, tables: Any) -> Any:
        customers, orders = tables
        of_customer = {
            "regions": customers | "Regions" >> beam.Map(lambda row: (row.id, row.region)),
            "prices": orders | "Prices" >> beam.Map(lambda row: (row.customer, row.price)),
        }
        count_and_sum = beam.combiners.TupleCombineFn(beam.combiners.CountCombineFn(), sum).with_common_input()
        windowed = {name: pcoll | f"Maintain{name}" >> Maintained() for name, pcoll in of_customer.items()}
        return windowed | beam.CoGroupByKey() | beam.FlatMapTuple(joined) | beam.CombinePerKey(count_and_sum)


def build(p: Any, url: str, slot: str = "maintained_view") -> None:
    """Add the pipeline that maintains the table `regions`."""
    read = beam.io.ReadFromPostgresChanges(
        url, ["customers", "orders"], slot, type={"customers": Customer, "orders": Order}
    )
    tables = p | "Read" >> read
    regions = (tables["customers"], tables["orders"]) | Regions()
    rows = regions | "Row" >> beam.MapTuple(
        lambda region, found: beam.Row(region=region, orders=found[0], total=found[1])
    )
    _ = rows | beam.io.WriteToSQL(url, "regions", "region", {"region": str, "orders": int, "total": int})


def run(argv: Sequence[str] | None = None) -> None:
    """Maintain the table until the pipeline is stopped."""
    parser = argparse.ArgumentParser(description="A table that follows two others.", allow_abbrev=False)
    parser.add_argument("--url", required=True, help="The database, as postgresql://user:password@host/database.")
    parser.add_argument("--slot", default="maintained_view", help="The replication slot, made if it doesn't exist.")
    parser.add_argument("--create", action="store_true", help="Make the tables, with some rows.")
    ours, for_the_pipeline = parser.parse_known_args(argv)
    if ours.create:
        create(ours.url)
    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        build(p, ours.url, ours.slot)


def create(url: str) -> None:
    """Make the tables, with some rows."""
    import psycopg

    with psycopg.connect(url) as database:
        database.execute(TABLES)
        database.execute(ROWS)


if __name__ == "__main__":
    run()
