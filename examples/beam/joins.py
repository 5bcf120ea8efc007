"""Joins of orders with customers: inner, left outer and full outer by CoGroupByKey, and a lookup in a side input."""

import argparse
import os

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class Join(beam.PTransform):
    """Join two PCollections of pairs by key: from `{"left": ..., "right": ...}` to `(key, left, right)`.

    `keep` names the sides whose values are kept without a partner; the other side is then None.
    """

    def __init__(self, keep=()):
        super().__init__()
        self.keep = keep

    def expand(self, sides):
        return sides | beam.CoGroupByKey() | beam.FlatMapTuple(self.pairs)

    def pairs(self, key, values):
        lefts, rights = list(values["left"]), list(values["right"])
        if not rights and "left" in self.keep:
            rights = [None]
        if not lefts and "right" in self.keep:
            lefts = [None]
        for left in lefts:
            for right in rights:
                yield key, left, right


def customer_and_order(line):
    customer, product = line.split(",")[:2]
    return customer, product


def look_up(order, names):
    customer, product = order
    return f"lookup: {product} for {names.get(customer, 'an unknown customer')}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Join orders with customers.")
    parser.add_argument("--input", default=os.path.join(DATA, "orders.csv"), help="Orders: customer, product, ...")
    parser.add_argument("--customers", default=os.path.join(DATA, "customers.csv"), help="Customers: key, name.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        orders = p | "Orders" >> beam.io.ReadFromText(args.input) | "Order" >> beam.Map(customer_and_order)
        names = (
            p
            | "Customers" >> beam.io.ReadFromText(args.customers)
            | "Customer" >> beam.Map(lambda line: tuple(line.split(",")))
        )
        joined = [
            {"left": orders, "right": names}
            | f"Join{kind}" >> Join(keep)
            | f"Format{kind}" >> beam.Map(lambda row, kind=kind: f"{kind}: {' '.join(map(str, row))}")
            for kind, keep in [("inner", ()), ("left", ("left",)), ("full", ("left", "right"))]
        ]
        looked_up = orders | "Lookup" >> beam.Map(look_up, names=beam.pvalue.AsDict(names))
        [*joined, looked_up] | beam.Flatten() | "Write" >> WriteOrPrint(args.output)


if __name__ == "__main__":
    run()
