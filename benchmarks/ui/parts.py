"""`python benchmarks ui_parts`: the share of a job's processor time that goes into each thing it does for an open page.

The job runs in this process, and a client shows its page, as in `python benchmarks ui_open`.  Each function that works
for the page is timed by the clock of its thread.  The job's clocks show the processor time of the process: what is done
once a second is done once in a second of work, however busy the machine is.  So the shares are the same when other
programs run, and a change of a tenth of a percent is seen; what a page changes in the speed of other code, such as by
the processor's caches, isn't.  The exit status is 1 when an open page costs more than its limit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.operators.edge_sampler import EdgeSampler
from penstock.runners.execution.page.feed import PageFeed
from penstock.runners.execution.page.observer import Observation, WorkerObserver
from penstock.runners.execution.stages.traffic import EdgeTraffic, StageTraffic
from ui.jobs import JOBS
from ui.open_page import LIMIT, opened

# By what they do, the methods that work for a page, none of which calls another one of them.
PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "edges": ((EdgeTraffic, "count"),),
    "keys": ((EdgeSampler, "_take_keys"),),
    "stages": ((StageTraffic, "sample"), (StageTraffic, "_take"), (StageTraffic, "sampled")),
    "reports": ((WorkerObserver, "taken"), (Observation, "exchange")),
    "status": ((PageFeed, "_send_news"),),
}

# Calls that find out what timing a call takes.
_EMPTY = 20_000


class Spent:
    """The processor time of methods, by part, without that of the timing itself."""

    def __init__(self) -> None:
        self._nanoseconds = Counter[str]()
        self._calls = Counter[str]()

    def time(self, part: str, kind: Any, name: str) -> None:
        """Time the calls of a method of a class from now on."""
        method, clock = getattr(kind, name), time.thread_time_ns

        def timed(*arguments: Any, **named: Any) -> Any:
            began = clock()
            try:
                return method(*arguments, **named)
            finally:
                self._nanoseconds[part] += clock() - began
                self._calls[part] += 1

        setattr(kind, name, timed)

    def seconds(self, part: str, empty: float) -> float:
        """Return the seconds of a part, if an empty call seems to take so many seconds."""
        return max(0.0, self._nanoseconds[part] / 1e9 - self._calls[part] * empty)


class _Empty:
    def call(self, first: Any, second: Any) -> None:
        pass


def seconds_of_empty_call(spent: Spent) -> float:
    """Return the seconds that a call of nothing seems to take."""
    spent.time("empty", _Empty, "call")
    empty = _Empty()
    for _ in range(_EMPTY):
        empty.call(1, 2)
    return spent.seconds("empty", 0.0) / _EMPTY


def count_time_by_work() -> None:
    """Have all clocks show the processor time of this process from now on."""
    worked = time.process_time
    for name in ("time", "monotonic"):
        began = getattr(time, name)() - worked()
        setattr(time, name, lambda began=began: began + worked())
        setattr(time, f"{name}_ns", lambda began=began: int(1e9 * (began + worked())))


def shares(job: str, elements: int, parallelism: int) -> dict[str, float]:
    """Run a job to its end, and return the share of its processor time that each part has taken."""
    spent = Spent()
    empty = seconds_of_empty_call(spent)
    for part, methods in PARTS.items():
        for kind, name in methods:
            spent.time(part, kind, name)
    p = beam.Pipeline(options=PipelineOptions(parallelism=parallelism, workers=1, checkpoint_interval=2, ui_port=0))
    JOBS[job][0](p, elements, None)
    count_time_by_work()
    began = time.process_time()
    result: Any = p.run()
    with opened(result.ui_url):
        result.wait_until_finish()
        total = time.process_time() - began
    return {part: spent.seconds(part, empty) / total for part in PARTS}


def main(names: Sequence[str] | None = None) -> int:
    """Print the share of each part, and of all."""
    parser = argparse.ArgumentParser(prog="benchmarks ui_parts")
    parser.add_argument("--job", choices=list(JOBS), default="orders")
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--elements", type=int)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(names)
    _, elements, parallelism = JOBS[given.job]
    about = circumstances()
    found = shares(given.job, given.elements or elements, given.parallelism or parallelism)
    found["together"] = sum(found.values())
    row = Figures(given.job, {part: Figure(share * 100, "%", 2) for part, share in found.items()})
    print(row)
    if given.results is not None:
        add(given.results, f"ui_parts, {given.job}", about, as_data([row]))
    return int(found["together"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
