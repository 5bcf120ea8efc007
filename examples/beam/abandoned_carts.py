"""State and timers: a cart is abandoned when nothing is put into it for half an hour, and it isn't paid."""

import argparse

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue
from samples import WriteOrPrint

MINUTE = 60

# Minute, user, and what is put into the cart; None is the payment.
ACTIONS = [
    (0, "ada", "lamp"),
    (5, "grace", "desk"),
    (20, "ada", "chair"),
    (25, "edsger", "rug"),
    (30, "grace", None),
    (50, "edsger", "lamp"),
    (90, "ada", "shelf"),
    (100, "ada", None),
]


class AbandonedCarts(beam.DoFn):
    """Emit the user and the cart, half an hour after the last action, unless the cart was paid."""

    CART = BagStateSpec("cart", StrUtf8Coder())
    TIMEOUT = TimerSpec("timeout", TimeDomain.WATERMARK)

    def process(
        self,
        action,
        time=beam.DoFn.TimestampParam,
        cart=beam.DoFn.StateParam(CART),
        timeout=beam.DoFn.TimerParam(TIMEOUT),
    ):
        _user, product = action
        if product is None:
            cart.clear()
            timeout.clear()
        else:
            cart.add(product)
            timeout.set(time + 30 * MINUTE)

    @on_timer(TIMEOUT)
    def abandoned(self, user=beam.DoFn.KeyParam, cart=beam.DoFn.StateParam(CART), time=beam.DoFn.TimestampParam):
        yield f"minute {int(time) // MINUTE}: {user} left {', '.join(sorted(cart.read()))}"
        cart.clear()


class Actions(beam.PTransform):
    """The actions as a stream; each action moves the watermark to its own time."""

    def expand(self, p):
        stream = TestStream()
        for minute, user, product in ACTIONS:
            time = minute * MINUTE
            stream.add_elements([TimestampedValue((user, product), time)])
            stream.advance_watermark_to(time + 1)
        return p | stream.advance_watermark_to_infinity()


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print abandoned carts.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)
    options = PipelineOptions(pipeline_args)
    options.view_as(StandardOptions).streaming = True

    with beam.Pipeline(options=options) as p:
        (
            p
            | "Actions" >> Actions()
            | "Abandoned" >> beam.ParDo(AbandonedCarts())
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
