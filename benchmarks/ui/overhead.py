"""`python benchmarks ui_overhead`: the processor time of a job without a page, and with one that no browser shows.

A job processes a fixed number of elements as fast as it can, on two workers.  Its processor time is that of its process
and its workers, their threads included; the server of the page is a process of its own.  The two runs of a pair go on
at the same time, and change the order in which they start, since other programs change the speed of the machine.
`--results FILE` adds what was found to a file, as the other benchmarks do.  `python benchmarks ui_open` measures a page
that a browser shows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.processes import cpu_of_this_and_children, output_of
from harness.results import add, as_data, circumstances

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from ui.jobs import JOBS
from ui.shares import row

# Without a page; with one that no browser shows.
MODES = ("none", "closed")

# By mode, the mode that it is compared with.
COMPARED = {"closed": "none"}

_BENCHMARKS = Path(__file__).parents[1]


# --- One run


def run(job: str, mode: str, elements: int, parallelism: int, workers: int) -> None:
    """Run a job in this process, and print the processor time of it and its workers, and its duration, in seconds."""
    flags: dict[str, Any] = {"ui_port": 0} if mode == "closed" else {}
    options = PipelineOptions(parallelism=parallelism, workers=workers, checkpoint_interval=2, **flags)
    p = beam.Pipeline(options=options)
    JOBS[job][0](p, elements, None)
    began, clock = cpu_of_this_and_children(), time.monotonic()
    result: Any = p.run()
    page = result._observers.page
    ended: dict[int, float] = {}

    def waitpid(pid: int, flags: int) -> tuple[int, int]:
        found, status, used = os.wait4(pid, flags)
        ended[found] = used.ru_utime + used.ru_stime
        return found, status

    # The server is a child, too, and its time is not the job's.
    with patch.object(os, "waitpid", waitpid):
        result.wait_until_finish()
    server = 0.0 if page.pid is None else ended[page.pid]
    spent = cpu_of_this_and_children() - began - server
    print("SPENT", spent, time.monotonic() - clock, server)


# --- Rounds


def measured(job: str, mode: str, arguments: list[str]) -> tuple[float, float, float]:
    """Run a job in a process of its own; return its processor time, its duration, and the server's time."""
    output = output_of(str(_BENCHMARKS), "ui_overhead", "--run", mode, "--job", job, *arguments)
    spent = next(line for line in output.splitlines() if line.startswith("SPENT")).split()[1:]
    used, took, server = map(float, spent)
    return used, took, server


def pair(job: str, mode: str, is_first: bool, arguments: list[str]) -> float:
    """Run a mode and the one that it is compared with at the same time; return the share that it adds."""
    modes = [mode, COMPARED[mode]] if is_first else [COMPARED[mode], mode]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(modes, pool.map(lambda each: measured(job, each, arguments), modes), strict=True))
    for each, (used, took, server) in found.items():
        print(f"{each:9} {used:7.2f} s of processor time in {took:.1f} s, server {server:.2f} s", flush=True)
    return found[mode][0] / found[COMPARED[mode]][0] - 1


def main(names: Sequence[str] | None = None) -> int:
    """Run each mode beside the one that it is compared with, and print the median of what it adds."""
    parser = argparse.ArgumentParser(prog="benchmarks ui_overhead")
    parser.add_argument("--job", choices=list(JOBS), default="orders")
    parser.add_argument("--modes", nargs="+", choices=list(COMPARED), default=list(COMPARED))
    parser.add_argument("--elements", type=int)
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--run", choices=MODES, help=argparse.SUPPRESS)
    given = parser.parse_args(names)
    _, elements, parallelism = JOBS[given.job]
    elements, parallelism = given.elements or elements, given.parallelism or parallelism
    if given.run:
        run(given.job, given.run, elements, parallelism, given.workers)
        return 0
    arguments = [f"--elements={elements}", f"--parallelism={parallelism}", f"--workers={given.workers}"]
    about = circumstances()
    added: dict[str, list[float]] = {mode: [] for mode in given.modes}
    for number in range(given.rounds):
        for mode, shares in added.items():
            shares.append(pair(given.job, mode, number % 2 == 0, arguments))
    found = [row(f"{given.job}: {mode}, against {COMPARED[mode]}", "pairs", shares) for mode, shares in added.items()]
    for one in found:
        print(one)
    if given.results is not None:
        add(given.results, f"ui_overhead, {given.job}", about, as_data(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
