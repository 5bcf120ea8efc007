"""Dead letters: lines that can't be parsed are kept with the error, and don't stop the pipeline.

Two ways: `with_exception_handling` takes exceptions of a function, and a DoFn tags what it rejects.
"""

import argparse
import os
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from samples import DATA, WriteOrPrint


class Order(NamedTuple):
    customer: str
    product: str
    amount: int
    price: float


def parse(line):
    """Return the order of a line; ValueError if it isn't one."""
    customer, product, amount, price = line.split(",")
    return Order(customer, product, int(amount), float(price))


class Validate(beam.DoFn):
    """Emit valid orders, and others to the output `invalid` with what is wrong."""

    def process(self, order):
        if order.amount < 1:
            yield beam.pvalue.TaggedOutput("invalid", f"{order.customer} ordered {order.amount} of {order.product}")
        else:
            yield order


def dead_letter(failed):
    """Return a line for an element that failed: the element, then the exception's type, text and traceback."""
    line, (kind, _, _) = failed
    return f"not an order: {line} ({kind.__name__})"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Sum orders, and keep those that are wrong.")
    parser.add_argument("--input", default=os.path.join(DATA, "orders.csv"), help="Orders, one a line.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument(
        "--dead_letters", help="Prefix of the text files for what is wrong; without it, it goes to the output."
    )
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        orders, failed = (
            p
            | "Read" >> beam.io.ReadFromText(args.input)
            | "Parse" >> beam.Map(parse).with_exception_handling(exc_class=ValueError)
        )
        checked = orders | "Validate" >> beam.ParDo(Validate()).with_outputs("invalid", main="valid")
        sums = (
            checked.valid
            | "Price" >> beam.Map(lambda order: (order.customer, order.amount * order.price))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Format" >> beam.MapTuple(lambda customer, total: f"{customer}: {total:.2f}")
        )
        wrong = (failed | "Failed" >> beam.Map(dead_letter), checked.invalid) | "Wrong" >> beam.Flatten()
        if args.dead_letters:
            wrong | "WriteWrong" >> beam.io.WriteToText(args.dead_letters)
            sums | "Write" >> WriteOrPrint(args.output)
        else:
            (sums, wrong) | "All" >> beam.Flatten() | "Write" >> WriteOrPrint(args.output)


if __name__ == "__main__":
    run()
