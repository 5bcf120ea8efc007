"""`python benchmarks ui_overhead`: the processor time of a job without a page, with one, and with one that is open.

Two jobs process a fixed number of elements as fast as they can, on two workers: `orders` parses JSON and sums it by key
and window; `steps` has 200 steps, and 32 subtasks of each task.  A job's processor time is that of its process and its
workers, their threads included; the server of the page and the browser have processes of their own.  The two runs of a
pair go on at the same time, and change the order in which they start, since other programs change the speed of the
machine.  The exit status is 1 when an open page costs more than its limit.  `--results FILE` adds what was found to a
file, as the other benchmarks do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest.mock import patch

from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.local.workers import watch
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark

# Without samples of steps and without a page; without a page; with one that no browser shows; with one that is shown.
MODES = ("unsampled", "none", "closed", "open")

# By mode, the mode that it is compared with.
COMPARED = {"none": "unsampled", "closed": "none", "open": "none"}

# The greatest share that an open page may add.
LIMIT = 0.02

_BENCHMARKS = Path(__file__).parents[1]

# What a page that shows the table of steps fetches when it has changed.
_DOCUMENTS = ("run", "status", "checkpoints")


# --- Jobs


def order(n: int) -> str:
    """Return an order as JSON; one customer in a hundred has most of them."""
    customer = 7 if n % 5 == 0 else n % 1000
    return json.dumps({"id": n, "customer": f"customer {customer}", "amount": n % 97, "items": [n % 7, n % 11]})


def is_paid(parsed: dict[str, Any]) -> bool:
    """Leave some orders out."""
    return bool(parsed["amount"])


def amount_of(parsed: dict[str, Any]) -> tuple[str, int]:
    """Return the customer and the amount."""
    return parsed["customer"], parsed["amount"] * len(parsed["items"])


def as_text(pair: tuple[str, int]) -> str:
    """Return a line of a report."""
    return f"{pair[0]}: {pair[1]:,}"


def orders(p: beam.Pipeline, elements: int) -> None:
    """Add the sums of orders by customer, in windows with early panes."""
    lines = (
        p | "Read" >> beam.io.GenerateSequence(0, elements, 10_000_000, 1, partitions=4) | "Order" >> beam.Map(order)
    )
    paid = lines | "Parse" >> beam.Map(json.loads) | "Paid" >> beam.Filter(is_paid)
    windows = beam.WindowInto(
        beam.window.FixedWindows(5),
        trigger=AfterWatermark(early=AfterProcessingTime(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
    )
    sums = paid | "Amount" >> beam.Map(amount_of) | windows | "Sum" >> beam.CombinePerKey(sum)
    _ = sums | "Text" >> beam.Map(as_text)


def steps(p: beam.Pipeline, elements: int) -> None:
    """Add 200 steps, with two shuffles."""
    steps: Any = p | "Read" >> beam.io.GenerateSequence(0, elements, 10_000_000, 1, partitions=32)
    for number in range(97):
        steps = steps | f"First {number}" >> beam.Map(_next)
    steps = steps | beam.WindowInto(beam.window.FixedWindows(10)) | "Pairs" >> beam.Map(_pair)
    steps = steps | "Sum" >> beam.CombinePerKey(sum)
    for number in range(96):
        steps = steps | f"Second {number}" >> beam.Map(_same)
    _ = steps | "All" >> beam.GroupByKey() | "Last" >> beam.Map(_same)


def _next(n: int) -> int:
    return n + 1


def _pair(n: int) -> tuple[int, int]:
    return n % 100, n


def _same(pair: Any) -> Any:
    return pair


# By name: what adds the job, the number of elements, and the parallelism.
JOBS: dict[str, tuple[Callable[[beam.Pipeline, int], None], int, int]] = {
    "orders": (orders, 1_500_000, 2),
    "steps": (steps, 2_000_000, 32),
}


# --- One run


def run(job: str, mode: str, elements: int, parallelism: int, workers: int) -> None:
    """Run a job in this process, and print the processor time of it and its workers, and its duration, in seconds.

    The URL of the page is printed before, for a browser in another process.
    """
    flags: dict[str, Any] = {"ui_port": 0} if mode in ("closed", "open") else {}
    if mode == "unsampled":
        # Workers are forked, and have it, too.
        patch.object(watch, "_SAMPLES", 1 << 60).start()
    options = PipelineOptions(parallelism=parallelism, workers=workers, checkpoint_interval=2, **flags)
    p = beam.Pipeline(options=options)
    JOBS[job][0](p, elements)
    began, clock = time.process_time() + _of_children(), time.monotonic()
    result: Any = p.run()
    page = result._observers.page
    print("PAGE", result.ui_url or "none", flush=True)
    ended: dict[int, float] = {}

    def waitpid(pid: int, flags: int) -> tuple[int, int]:
        found, status, used = os.wait4(pid, flags)
        ended[found] = used.ru_utime + used.ru_stime
        return found, status

    # The server is a child, too, and its time is not the job's.
    with patch.object(os, "waitpid", waitpid):
        result.wait_until_finish()
    server = 0.0 if page.pid is None else ended[page.pid]
    spent = time.process_time() + _of_children() - began - server
    print("SPENT", spent, time.monotonic() - clock, server)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- The browser


def browse(url: str, is_over: threading.Event) -> int:
    """Do what a page that is open does, until the job ends; return the number of documents that were fetched."""
    fetched = 0
    with suppress(OSError), urllib.request.urlopen(f"{url}api/events", timeout=30) as events:
        for line in events:
            if is_over.is_set():
                break
            if line.startswith(b"data:"):
                for name in _DOCUMENTS:
                    with urllib.request.urlopen(f"{url}api/{name}", timeout=30) as answer:
                        answer.read()
                    fetched += 1
    return fetched


# --- Rounds


def measured(job: str, mode: str, arguments: list[str]) -> tuple[float, float, float]:
    """Run a job in a process of its own; return its processor time, its duration, and the server's time."""
    command = [sys.executable, str(_BENCHMARKS), "ui_overhead", "--run", mode, "--job", job, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        is_over = threading.Event()
        browser = None
        if mode == "open":
            browser = threading.Thread(target=browse, args=(url, is_over), daemon=True)
            browser.start()
        spent = next(line for line in process.stdout if line.startswith("SPENT")).split()[1:]
        is_over.set()
        if browser is not None:
            browser.join(30)
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


def row(job: str, mode: str, shares: Sequence[float]) -> Figures:
    """Return the row of a mode in a table.

    >>> print(row("steps", "open", [0.01, -0.02, 0.0]))
    steps: open, against none                    pairs 3   median 0.0 %   lower quartile -2.0 %   upper quartile 1.0 %
    """
    low, _, high = quantiles(shares) if len(shares) > 1 else [*shares] * 3
    found = {
        "pairs": Figure(len(shares)),
        "median": Figure(median(shares) * 100, "%", 1),
        "lower quartile": Figure(low * 100, "%", 1),
        "upper quartile": Figure(high * 100, "%", 1),
    }
    return Figures(f"{job}: {mode}, against {COMPARED[mode]}", found)


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
    found = [row(given.job, mode, shares) for mode, shares in added.items()]
    for one in found:
        print(one)
    if given.results is not None:
        add(given.results, f"ui_overhead, {given.job}", about, as_data(found))
    return int("open" in added and median(added["open"]) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
