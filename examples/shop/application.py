"""The application: joins orders with their payments, and maintains a table in a lake and a dashboard.

    python -m penstock.examples.shop.application --url=postgresql://localhost/shop --servers=localhost:9092 \\
        --prices=http://localhost:8000 --lake=/tmp/lake --checkpoint_dir=/tmp/kept

Each change of an order or a payment retracts the former row, and the joined row, the sums of the category, the table of
the lake and the dashboard follow.  It runs until it is stopped, and goes on from its checkpoint.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow

import penstock as beam
from penstock.io.enrichment_handlers import HttpEnrichmentHandler
from penstock.transforms.enrichment import Enrichment
from penstock.triggers import AccumulationMode, AfterProcessingTime, Repeatedly


class Order(NamedTuple):
    """A row of the table `orders`."""

    id: int
    item: str
    quantity: int


class Payment(NamedTuple):
    """A payment of an order."""

    id: int
    order_id: int
    amount: int


# A row of the table in the lake.
ORDERS = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("item", pyarrow.string()),
        ("category", pyarrow.string()),
        ("due", pyarrow.int64()),
        ("paid", pyarrow.int64()),
    ]
)

# A row of the dashboard.
DASHBOARD = {"category": str, "orders": int, "due": int, "paid": int}


class Maintained(beam.PTransform):
    """Windows for results that are corrected a moment after each change."""

    def expand(self, rows: Any) -> Any:
        return rows | beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=Repeatedly(AfterProcessingTime(0.1)),
            accumulation_mode=AccumulationMode.RETRACTING,
        )


def with_payments(id: int, found: dict[str, list[Any]]) -> Iterator[beam.Row]:
    """The row of an order: what is due, and what has been paid."""
    for order in found["orders"]:
        due = order.quantity * order.price
        yield beam.Row(id=id, item=order.item, category=order.category, due=due, paid=sum(found["payments"]))


class OrdersWithPayments(beam.PTransform):
    """The orders, with their categories, and with what is due and paid.

    Args:
      prices: the address of the web service.
    """

    def __init__(self, prices: str) -> None:
        super().__init__()
        self.prices = prices

    def expand(self, inputs: Any) -> Any:
        orders, payments = inputs
        known = Enrichment(HttpEnrichmentHandler(self.prices + "/items/{item}"), timeout=10, concurrency=50)
        of_order = {
            "orders": orders
            | "Fields" >> beam.Map(lambda order: beam.Row(**order._asdict()))
            | "Category and price" >> known
            | "By order" >> beam.Map(lambda row: (row.id, row)),
            "payments": payments | "Of order" >> beam.Map(lambda payment: (payment.order_id, payment.amount)),
        }
        windowed = {name: rows | f"Maintain {name}" >> Maintained() for name, rows in of_order.items()}
        return windowed | beam.CoGroupByKey() | beam.FlatMapTuple(with_payments)


def build(p: Any, url: str, servers: str, prices: str, lake: str) -> None:
    """Add the pipeline."""
    orders = p | "Orders" >> beam.io.ReadFromPostgresChanges(url, "orders", "shop", type=Order)
    config = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    messages = p | "Payments" >> beam.io.ReadFromKafka(config, "payments")
    payments = messages | beam.io.FromDebezium(type=Payment, key="id")
    joined = (orders, payments) | "Join" >> OrdersWithPayments(prices)
    _ = joined | "Lake" >> beam.io.WriteToIceberg(
        "shop.orders", catalog_properties={"warehouse": lake}, schema=ORDERS, key="id"
    )
    sums = beam.combiners.TupleCombineFn(sum, sum, sum)
    _ = (
        joined
        | "Category" >> beam.Map(lambda row: (row.category, (1, row.due, row.paid)))
        | "Sums" >> beam.CombinePerKey(sums)
        | "Line" >> beam.MapTuple(lambda category, of: beam.Row(category=category, orders=of[0], due=of[1], paid=of[2]))
        | "Dashboard" >> beam.io.WriteToSQL(url, "dashboard", "category", DASHBOARD)
    )


def run(argv: Sequence[str] | None = None) -> None:
    """Run the application until it is stopped."""
    parser = argparse.ArgumentParser(description="A shop's tables.", allow_abbrev=False)
    parser.add_argument("--url", required=True, help="The database, as postgresql://user:password@host/database.")
    parser.add_argument("--servers", required=True, help="Kafka's brokers, as host:port.")
    parser.add_argument("--prices", required=True, help="The web service, as http://host:port.")
    parser.add_argument("--lake", required=True, help="The directory of the table of Iceberg.")
    ours, for_the_pipeline = parser.parse_known_args(argv)
    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        build(p, ours.url, ours.servers, ours.prices, ours.lake)


if __name__ == "__main__":
    run()
