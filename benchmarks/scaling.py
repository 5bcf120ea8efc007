"""(b) ABS, figure 7's shape: run time with one worker and with two, with aligned snapshots every second and without.

The paper adds machines and input alike, and has the time stay what it is.  Two cores carry two workers: the
input stays the same, and the time is to become less.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from plots import plot
from snapshot_intervals import NEVER, ROUNDS, run_time
from timing import Ratio

_WORKERS = (1, 2)


def run() -> list[Any]:
    variants = [(interval, workers) for interval in (1.0, NEVER) for workers in _WORKERS]
    times: dict[tuple[float, int], list[float]] = {variant: [] for variant in variants}
    for number in range(ROUNDS):
        for interval, workers in variants[:: -1 if number % 2 else 1]:
            # One worker is this process, and a second subtask of each task would only cost.
            times[interval, workers].append(run_time("aligned", interval, parallelism=workers, workers=workers))
    seconds = {variant: median(own) for variant, own in times.items()}
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
