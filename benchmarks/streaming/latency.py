"""(c) MillWheel, figure 13: how long a record takes through one shuffle, at 2,000 records a second.

From when the record is due to when it is processed behind the shuffle, with two processes, and aligned checkpoints
every second; then with strong delivery, where each record waits for the log.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from harness.plots import plot
from harness.streams import CollectingSink, MicrosSinceDue, options, percentile
from harness.timing import Quantity

import penstock as beam

RATE = 2_000
SECONDS = int(os.environ.get("PENSTOCK_BENCHMARK_SECONDS", "20"))
DELIVERIES: dict[str, dict[str, Any]] = {
    "aligned checkpoints": {"checkpoint_mode": "aligned"},
    "strong delivery": {"delivery": "strong"},
}


def latencies(delivery: dict[str, Any]) -> list[float]:
    """Milliseconds of each record, without those of the first two seconds."""
    sink = CollectingSink()
    with tempfile.TemporaryDirectory() as directory:
        flags = {"parallelism": 2, "workers": 2, "checkpoint_dir": directory, "checkpoint_interval": 1}
        p = beam.Pipeline("local", options(**flags, **delivery))
        numbers = p | beam.io.GenerateSequence(0, stop=RATE * SECONDS, elements_per_period=RATE, period=1, partitions=2)
        _ = numbers | beam.Map(lambda n: (n, n)) | beam.ParDo(MicrosSinceDue()) | beam.io.Write(sink)
        p.run().wait_until_finish()
    assert len(sink.values) == RATE * SECONDS
    return [micros / 1000 for n, micros in sink.values if n >= 2 * RATE]


def run() -> list[Any]:
    found, lines = [], {}
    for name, delivery in DELIVERIES.items():
        own = latencies(delivery)
        shares = [share / 100 for share in range(1, 100)]
        lines[name] = [(share * 100, percentile(own, share)) for share in shares]
        found.append(Quantity(f"(c) latency, {name}, p50", percentile(own, 0.5), 2, "ms", digits=2))
        found.append(Quantity(f"(c) latency, {name}, p99", percentile(own, 0.99), 20, "ms", digits=2))
    plot("latency", "Record latency through one shuffle (MillWheel, figure 13)", "percentile", "ms", lines)
    return found
