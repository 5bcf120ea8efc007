"""(i) Calls of a service, 20 ms each, 200 at once, against asyncio by hand: in a batch and in a stream of one worker.

The ratio is that of medians of interleaved runs.  The time is the best of the runs, which other work on the machine
lengthens least: calls wait by the clock on the wall.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from harness.keeping_sink import KeepingSink
from harness.streams import CountingSink, options
from harness.timing import Quantity, Ratio

import penstock as beam

CALLS, CONCURRENCY, SECONDS = 10_000, 200, 0.02


async def call(n: int) -> int:
    await asyncio.sleep(SECONDS)
    return n


def by_hand() -> float:
    """Seconds of a loop with a semaphore."""

    async def limited(n: int, limit: asyncio.Semaphore) -> int:
        async with limit:
            return await call(n)

    async def gathered() -> list[int]:
        limit = asyncio.Semaphore(CONCURRENCY)
        return await asyncio.gather(*(limited(n, limit) for n in range(CALLS)))

    began = time.perf_counter()
    assert sum(range(CALLS)) == sum(asyncio.run(gathered()))
    return time.perf_counter() - began


def batch() -> float:
    """Seconds of a bounded pipeline."""
    sink = KeepingSink()
    p = beam.Pipeline("local", options())
    answers = p | beam.Create(range(CALLS)) | beam.AsyncMap(call, concurrency=CONCURRENCY)
    _ = answers | beam.CombineGlobally(sum) | beam.io.Write(sink)
    began = time.perf_counter()
    p.run().wait_until_finish()
    assert [sum(range(CALLS))] == list(sink.values())
    return time.perf_counter() - began


def stream() -> float:
    """Seconds of a stream."""
    sink = CountingSink()
    p = beam.Pipeline("local", options())
    # Unbounded, since it has a rate; all numbers are due at once.
    numbers = p | beam.io.GenerateSequence(0, CALLS, CALLS, 0.001, start_time=0)
    _ = numbers | beam.AsyncMap(call, concurrency=CONCURRENCY) | beam.io.Write(sink)
    began = time.perf_counter()
    p.run().wait_until_finish()
    return time.perf_counter() - began


def run() -> list[Any]:
    times: dict[Callable[[], float], list[float]] = {measured: [] for measured in (by_hand, batch, stream)}
    for _ in range(7):
        for measured, own in times.items():
            own.append(measured())
    hand = median(times[by_hand])
    found: list[Any] = []
    for name, own in (("a batch", times[batch]), ("a stream", times[stream])):
        found.append(Ratio(f"(i) 10,000 calls of 20 ms, {name}", median(own), hand, 1.25))
        found.append(Quantity(f"(i) 10,000 calls of 20 ms, {name}, best", min(own) * 1000, 1500, "ms"))
    return found
