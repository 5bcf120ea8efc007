"""(a) ABS, figure 6: run time against the interval between snapshots, aligned, unaligned and stopping the world.

The paper's topology: six operators, of which three lie behind a shuffle and keep an aggregate of each key.  By the
clock on the wall, since who stops the world wastes time and not CPU: all variants in turn, the median of
several rounds.  `PENSTOCK_BENCHMARK_EVENTS` makes the input smaller, `PENSTOCK_BENCHMARK_ROUNDS` the rounds fewer.
"""

from __future__ import annotations

import os
import tempfile
import time
from statistics import median
from typing import Any

import attrs
from plots import plot
from streams import CountingSink, RunningSum, options
from timing import Ratio

import penstock as beam

EVENTS = int(os.environ.get("PENSTOCK_BENCHMARK_EVENTS", "1000000"))
ROUNDS = int(os.environ.get("PENSTOCK_BENCHMARK_ROUNDS", "3"))
KEYS = 10_000
INTERVALS = (0.1, 0.5, 1.0, 3.0)
MODES = ("aligned", "unaligned", "synchronous")
# Longer than any run: there is a checkpoint at the end, as there is in all of them.
NEVER = 10_000.0

Variant = tuple[str, float]


def topology(p: Any, events: int = EVENTS) -> CountingSink:
    """Source, map, three aggregates, sink."""
    sink = CountingSink()
    numbers = p | "source" >> beam.Create(range(events), reshuffle=False)
    pairs = numbers | "map" >> beam.Map(lambda n: (n * 7919 % KEYS, n))
    first = pairs | "first" >> beam.ParDo(RunningSum()) | beam.MapTuple(lambda key, total: (total % KEYS, 1))
    second = first | "second" >> beam.ParDo(RunningSum()) | "key" >> beam.MapTuple(lambda key, n: (key * 31 % KEYS, n))
    _ = second | "third" >> beam.ParDo(RunningSum()) | "sink" >> beam.io.Write(sink)
    return sink


def run_time(mode: str, interval: float, **flags: Any) -> float:
    """Seconds of one run, with two subtasks of each task in two processes, unless the flags say otherwise."""
    with tempfile.TemporaryDirectory() as directory:
        flags = {"parallelism": 2, "workers": 2, **flags}
        p = beam.Pipeline(
            "local",
            options(checkpoint_dir=directory, checkpoint_interval=interval, checkpoint_mode=mode, **flags),
        )
        sink = topology(p)
        before = time.perf_counter()
        p.run().wait_until_finish()
        seconds = time.perf_counter() - before
    assert sink.count == EVENTS, f"{sink.count} elements came out"
    return seconds


@attrs.frozen
class Better:
    """Whether one variant takes less time than another at an interval."""

    interval: float
    aligned: float
    synchronous: float

    @property
    def passes(self) -> bool:
        return self.aligned <= self.synchronous

    def __str__(self) -> str:
        verdict = "ok" if self.passes else "OVER"
        return (
            f"{f'(a) snapshots every {self.interval} s':<44} aligned {self.aligned:6.2f} s   "
            f"synchronous {self.synchronous:6.2f} s   {verdict}"
        )


def run() -> list[Any]:
    variants: list[Variant] = [("aligned", NEVER), *((mode, each) for each in INTERVALS for mode in MODES)]
    times: dict[Variant, list[float]] = {variant: [] for variant in variants}
    for number in range(ROUNDS):
        for variant in variants[:: -1 if number % 2 else 1]:
            times[variant].append(run_time(*variant))
    seconds = {variant: median(own) for variant, own in times.items()}
    never = seconds["aligned", NEVER]
    plot(
        "snapshot_intervals",
        "Run time against snapshot interval (ABS, figure 6)",
        "seconds from one snapshot to the next",
        "seconds",
        {mode: [(each, seconds[mode, each]) for each in INTERVALS] for mode in MODES},
        log=True,
        level=("none", never),
    )
    for mode in MODES:
        print(f"    {mode:<12}", "   ".join(f"{each} s: {seconds[mode, each]:.2f} s" for each in INTERVALS))
    return [
        Ratio("(a) aligned snapshots every second, none", seconds["aligned", 1.0], never, 1.05),
        *(Better(each, seconds["aligned", each], seconds["synchronous", each]) for each in INTERVALS),
    ]
