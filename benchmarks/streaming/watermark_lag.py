"""(d) MillWheel, figure 15: how far the watermark is behind, at each of three stages.

Windows of a tenth of a second, counted in three stages one after the other, with two processes and a
checkpoint every second.  A stage's lag is the time from a window's end to its result.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from harness.plots import plot
from harness.streams import CollectingSink, options, percentile
from harness.timing import Quantity

import penstock as beam

RATE = 2_000
KEYS = 20
STAGES = 3
SECONDS = int(os.environ.get("PENSTOCK_BENCHMARK_SECONDS", "20"))


class Lag(beam.DoFn):
    """Adds to a key's lags how long the window has been over."""

    def process(self, element: Any, end: Any = beam.DoFn.TimestampParam) -> Any:
        key, lags = element
        yield key, (*lags, (time.time_ns() // 1000 - end.micros) / 1000)


def longest(lags: Any) -> tuple[float, ...]:
    """Return the greatest lags of the stages before this one."""
    return max(lags, default=())


def lags() -> list[tuple[float, ...]]:
    """Of every window and key, milliseconds at each stage."""
    sink = CollectingSink()
    with tempfile.TemporaryDirectory() as directory:
        flags = {"parallelism": 2, "workers": 2, "checkpoint_dir": directory, "checkpoint_interval": 1}
        p = beam.Pipeline("local", options(**flags))
        numbers = p | beam.io.GenerateSequence(0, stop=RATE * SECONDS, elements_per_period=RATE, period=1, partitions=2)
        stage: Any = numbers | beam.Map(lambda n: (n % KEYS, ())) | beam.WindowInto(beam.window.FixedWindows(0.1))
        for number in range(1, STAGES + 1):
            stage = stage | f"stage {number}" >> beam.CombinePerKey(longest) | f"lag {number}" >> beam.ParDo(Lag())
            stage = stage | f"on {number}" >> beam.MapTuple(lambda key, own: ((key + 7) % KEYS, own))
        _ = stage | beam.io.Write(sink)
        p.run().wait_until_finish()
    # Without the beginning; and at the end the watermark goes to infinity, before windows are over.
    found = [own for _, own in sink.values]
    return [own for own in found[len(found) // 10 :] if own[0] > 0]


def run() -> list[Any]:
    by_stage = list(zip(*lags(), strict=True))
    shares = [share / 100 for share in range(1, 100)]
    plot(
        "watermark_lag",
        "Watermark lag (MillWheel, figure 15)",
        "percentile",
        "ms",
        {f"stage {i}": [(s * 100, percentile(own, s)) for s in shares] for i, own in enumerate(by_stage, 1)},
    )
    # The paper's three stages are seconds behind; ours must be well within a window of this length.
    return [
        Quantity(f"(d) watermark lag, stage {i}, median", percentile(own, 0.5), 100, "ms", digits=1)
        for i, own in enumerate(by_stage, 1)
    ]
