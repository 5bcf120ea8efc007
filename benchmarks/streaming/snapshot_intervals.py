"""(a) ABS, figure 6: run time against the interval between snapshots, aligned, unaligned and stopping the world.

The paper's topology: six operators, of which three lie behind a shuffle and keep an aggregate of each key.  The
measure is wall-clock time, since a snapshot that stops the world wastes time and not CPU.  All variants run in turn,
each round beginning with another one, and are compared round by round.  The CPU time of all processes is reported too.
`PENSTOCK_BENCHMARK_EVENTS` makes the input smaller, `PENSTOCK_BENCHMARK_ROUNDS` reduces the rounds.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

from harness.plots import plot
from harness.streams import CountingSink, RunningSum, Times, interleaved, options
from harness.timing import Figure, Figures, Quantity, Ratio, Result

import penstock as beam
from penstock.runners.local.job import barrier_delivery
from penstock.runners.local.job.checkpoint_attempt import CheckpointAttempt
from penstock.runners.local.workers.protocol import Pause

EVENTS = int(os.environ.get("PENSTOCK_BENCHMARK_EVENTS", "1000000"))
ROUNDS = int(os.environ.get("PENSTOCK_BENCHMARK_ROUNDS", "5"))
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


class StoppingTheWorld(CheckpointAttempt):
    """Pauses the sources until a checkpoint is complete: the baseline that barriers are measured against."""

    def _begin(self, now: int) -> None:
        self._context.workers.send(Pause(True))
        super()._begin(now)

    def _give_up(self, why: str) -> None:
        super()._give_up(why)
        self._context.workers.send(Pause(False))

    def _complete(self, epoch: int, parts: Any) -> None:
        super()._complete(epoch, parts)
        if not self._is_final:
            self._context.workers.send(Pause(False))


def run_time(mode: str, interval: float, **flags: Any) -> float:
    """Seconds of one run, with two subtasks of each task in two processes, unless the flags say otherwise."""
    with tempfile.TemporaryDirectory() as directory:
        # As often as the interval says, however long one takes.
        flags = {"parallelism": 2, "workers": 2, "checkpoint_min_pause": 0, **flags}
        stops = mode == "synchronous"
        flags["checkpoint_mode"] = "aligned" if stops else mode
        p = beam.Pipeline("local", options(checkpoint_dir=directory, checkpoint_interval=interval, **flags))
        sink = topology(p)
        before = time.perf_counter()
        with patch.object(barrier_delivery, "CheckpointAttempt", StoppingTheWorld) if stops else nullcontext():
            p.run().wait_until_finish()
        seconds = time.perf_counter() - before
    assert sink.count == EVENTS, f"{sink.count} elements came out"
    return seconds


def run() -> list[Result]:
    never: Variant = ("aligned", NEVER)
    variants: list[Variant] = [never, *((mode, each) for each in INTERVALS for mode in MODES)]
    times = interleaved(variants, ROUNDS, lambda variant: run_time(*variant))
    plot(
        "snapshot_intervals",
        "Run time against snapshot interval (ABS, figure 6)",
        "seconds from one snapshot to the next",
        "seconds",
        {mode: [(each, times[mode, each].wall) for each in INTERVALS] for mode in MODES},
        log=True,
        level=("none", times[never].wall),
    )
    print(f"    {'none':<12}         {times[never]}")
    for mode in MODES:
        for each in INTERVALS:
            print(f"    {mode:<12} {each:5.1f} s {times[mode, each]}")
    second, none = times["aligned", 1.0], times[never]
    return [
        # Round by round, as a share of the median.
        Ratio("(a) aligned snapshots every second, none", second.against(none) * none.wall, none.wall, 1.05),
        *(
            Quantity(f"(a) aligned, synchronous; every {each} s", against, 1.0, "of the time", 2)
            for each in INTERVALS
            for against in [times["aligned", each].against(times["synchronous", each])]
        ),
        *(_medians(mode, times, "wall", mode) for mode in MODES),
        *(_medians(f"{mode}, CPU", times, "cpu", mode) for mode in MODES),
    ]


def _medians(name: str, times: dict[Variant, Times], clock: str, mode: str) -> Figures:
    own = {variant: Figure(getattr(found, clock), "s", 2) for variant, found in times.items()}
    columns = {f"{each:g} s": own[mode, each] for each in INTERVALS}
    return Figures(name, {**columns, "none": own[mode, NEVER]} if (mode, NEVER) in own else columns)
