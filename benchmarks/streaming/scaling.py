"""(b) ABS, figure 7's shape: run time with one worker and with two, with aligned snapshots every second and without.

The paper adds machines and input alike, and has the time stay what it is.  Two cores carry two workers: the
input stays the same, and the time is to become less.
"""

from __future__ import annotations

from typing import Any

from harness.plots import plot
from harness.streams import interleaved
from harness.timing import Ratio

from streaming.snapshot_intervals import NEVER, ROUNDS, run_time

_WORKERS = (1, 2)


def run() -> list[Any]:
    variants = [(interval, workers) for interval in (1.0, NEVER) for workers in _WORKERS]
    # One worker is this process, and a second subtask of each task would only cost.
    times = interleaved(
        variants, ROUNDS, lambda variant: run_time("aligned", variant[0], parallelism=variant[1], workers=variant[1])
    )
    for (interval, workers), own in times.items():
        print(f"    {workers} workers, {'no snapshots' if interval == NEVER else 'every second':<12} {own}")
    seconds = {variant: own.wall for variant, own in times.items()}
    plot(
        "scaling",
        "Run time by workers (ABS, figure 7)",
        "workers",
        "seconds",
        {
            "aligned, every second": [(workers, seconds[1.0, workers]) for workers in _WORKERS],
            "no snapshots": [(workers, seconds[NEVER, workers]) for workers in _WORKERS],
        },
    )
    return [
        Ratio("(b) two workers, one, snapshots every second", seconds[1.0, 2], seconds[1.0, 1], 1.0),
        Ratio("(b) two workers, one, no snapshots", seconds[NEVER, 2], seconds[NEVER, 1], 1.0),
    ]
