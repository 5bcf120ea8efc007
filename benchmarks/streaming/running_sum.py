"""(e) A keyed running sum of a million events, against a loop over a dictionary.

What a keyed running sum is: the sum so far of each key, accumulating, of which a pane comes out as the stream
goes on.  Here a pane for each key that has changed after each bundle of 16,384 events (`Always`, asked after each
bundle), from a streaming job with a checkpoint every second.  The loop by hand does the same: adds up, and after so
many events puts out the sums that have changed.

A DoFn with state puts out a sum for each single event, and is compared with a loop that does that too.

Two workers against one: the same DoFn, whose elements cost five microseconds of user code besides; then both running
sums of three times the events without other user code.  Two workers fold the events of several bundles before the
shuffle, and put out fewer panes for it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from statistics import median
from typing import Any

from harness.inputs import events
from harness.streams import CountingSink, RunningSum, options
from harness.timing import RUNS, Ratio, compare

import penstock as beam
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.sources.bounded import ValuesSource
from penstock.triggers import AccumulationMode, Always

EVENTS = int(os.environ.get("PENSTOCK_BENCHMARK_EVENTS", "1000000"))
# Seconds of user code for each element.
COST = 5e-6

Pairs = list[tuple[str, int]]


def stream(pairs: Pairs, transform: Callable[[Any], Any], **flags: Any) -> int:
    """How many sums come out of a job."""
    return stream_of(beam.Create(pairs, reshuffle=False), transform, **flags)


def stream_of(source: Any, transform: Callable[[Any], Any], **flags: Any) -> int:
    """The same, with any source."""
    sink = CountingSink()
    with tempfile.TemporaryDirectory() as directory:
        p = beam.Pipeline("local", options(checkpoint_dir=directory, checkpoint_interval=1, **flags))
        _ = transform(p | source) | beam.io.Write(sink)
        p.run().wait_until_finish()
    return sink.count


def panes(pairs: Any) -> Any:
    """An accumulating sum for each key, with panes as the stream goes on."""
    windowing = beam.WindowInto(
        beam.window.GlobalWindows(), trigger=Always(), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    return pairs | windowing | beam.CombinePerKey(sum)


def panes_by_hand(pairs: Pairs) -> int:
    sums: dict[str, int] = {}
    out: list[tuple[str, int]] = []
    rest = iter(pairs)
    while bundle := list(islice(rest, BUNDLE_SIZE)):
        changed = set()
        for key, value in bundle:
            sums[key] = sums.get(key, 0) + value
            changed.add(key)
        out += [(key, sums[key]) for key in changed]
    return len(out)


def about(panes: int) -> int:
    """The number of panes in hundreds of thousands: the first bundles are smaller, so there are some more."""
    return round(panes / 100_000)


def elements(pairs: Any) -> Any:
    """A sum for each element, by a DoFn with state."""
    return pairs | beam.ParDo(RunningSum())


def elements_by_hand(pairs: Pairs) -> int:
    sums: dict[str, int] = {}
    out: list[tuple[str, int]] = []
    for key, value in pairs:
        total = sums[key] = sums.get(key, 0) + value
        out.append((key, total))
    return len(out)


def costly(pair: tuple[str, int]) -> tuple[str, int]:
    """Five microseconds of user code."""
    until = time.perf_counter() + COST
    while time.perf_counter() < until:
        pass
    return pair


def by_workers(name: str, pairs: Pairs, transform: Callable[[Any], Any], limit: float, gives_all: bool) -> Ratio:
    """The time of two workers against that of one.

    Args:
      gives_all: whether a sum comes out for each pair.
    """
    times: dict[int, list[float]] = {1: [], 2: []}
    values = ValuesSource(pairs)
    # Part of the start, once for all.
    values.identity()
    for number in range(RUNS):
        for workers in (1, 2) if number % 2 else (2, 1):
            before = time.perf_counter()
            count = stream_of(beam.io.Read(values), transform, parallelism=workers, workers=workers)
            times[workers].append(time.perf_counter() - before)
            assert count == len(pairs) or not gives_all
    return Ratio(f"(e) two workers, one; {name}", median(times[2]), median(times[1]), limit)


def run() -> list[Ratio]:
    pairs = [(key, value) for key, _, value in events()[:EVENTS]]
    return [
        compare(
            "(e) running sum: panes of what has changed",
            lambda: about(stream(pairs, panes)),
            lambda: about(panes_by_hand(pairs)),
            3.0,
        ),
        compare(
            "(e) running sum: a DoFn with state",
            lambda: stream(pairs, elements),
            lambda: elements_by_hand(pairs),
            10.0,
        ),
        by_workers("5 µs an element", pairs, lambda p: elements(p) | "user code" >> beam.Map(costly), 1.0, True),
        by_workers("panes", 3 * pairs, panes, 0.8, False),
        by_workers("a DoFn with state", 3 * pairs, elements, 0.8, True),
    ]
