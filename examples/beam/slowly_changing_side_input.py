"""A slowly changing side input: payments are converted by the exchange rates of their hour.

Rates are read again each hour. Both inputs have windows of an hour, so that a payment sees the rates of its own hour.
"""

import argparse

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from samples import WriteOrPrint

NINE_O_CLOCK = 1_700_038_800
MINUTE = 60
HOUR = 60 * MINUTE

# Minutes after nine, amount and currency.
PAYMENTS = [(4, 100, "EUR"), (12, 250, "GBP"), (59, 80, "EUR"), (61, 80, "EUR"), (119, 40, "GBP"), (170, 99, "EUR")]


def read_rates(time):
    """Return the rates that a service publishes at that time; here they are computed from it."""
    hour = (int(time) - NINE_O_CLOCK) // HOUR
    return {"EUR": 1.08 + hour / 100, "GBP": 1.25 - hour / 100}


def convert(payment, rates, window=beam.DoFn.WindowParam):
    amount, currency = payment
    dollars = amount * rates[currency]
    return f"{window.start.to_utc_datetime():%H:%M} {amount} {currency} are {dollars:.2f} USD"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Convert payments to dollars.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--hours", type=int, default=3, help="How many hours to run, from nine o'clock on.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        rates = (
            p
            | "EachHour" >> PeriodicImpulse(NINE_O_CLOCK, NINE_O_CLOCK + args.hours * HOUR, fire_interval=HOUR)
            | "ReadRates" >> beam.Map(read_rates)
            | "RatesByHour" >> beam.WindowInto(FixedWindows(HOUR))
        )
        (
            p
            | "Payments" >> beam.Create(PAYMENTS)
            | "Times" >> beam.Map(lambda payment: TimestampedValue(payment[1:], NINE_O_CLOCK + payment[0] * MINUTE))
            | "PaymentsByHour" >> beam.WindowInto(FixedWindows(HOUR))
            | "Convert" >> beam.Map(convert, beam.pvalue.AsSingleton(rates))
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
