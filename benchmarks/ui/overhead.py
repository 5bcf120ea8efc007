"""`python -m benchmarks.ui.overhead`: the processor time of a job without a page, with one, and with one that is open.

The job has 200 steps and, on two workers, 32 subtasks of each task; it processes a fixed number of elements.  Its
processor time is that of the job and its workers, without the server's, and without the browser's: a client that reads
the API every second.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import threading
import time
import urllib.request
from statistics import median
from typing import Any

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

_DOCUMENTS = ("status", "graph", "checkpoints", "panes?step=Sum&key=1")


def build(p: beam.Pipeline, elements: int) -> None:
    """Add 200 steps, with two shuffles."""
    steps: Any = p | "Read" >> beam.io.GenerateSequence(0, elements, 1_000_000, 1, partitions=32)
    for number in range(98):
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


def _browse(url: str, is_over: threading.Event) -> None:
    while not is_over.wait(1.0):
        for name in _DOCUMENTS:
            with urllib.request.urlopen(f"{url}api/{name}", timeout=30) as answer:
                answer.read()


def measure(mode: str, elements: int, parallelism: int, workers: int) -> float:
    """Run the job in this process, and return the processor time of it and its workers, in seconds."""
    flags: dict[str, Any] = {} if mode == "none" else {"ui_port": 0}
    options = PipelineOptions(parallelism=parallelism, workers=workers, checkpoint_interval=1, **flags)
    p = beam.Pipeline(options=options)
    build(p, elements)
    began = time.process_time() + _of_children()
    result = p.run()
    is_over = threading.Event()
    browser: subprocess.Popen[bytes] | None = None
    if mode == "open":
        # A process of its own: its time is not the job's.
        command = [sys.executable, "-m", "benchmarks.ui.overhead", "--browse", str(result.ui_url)]
        browser = subprocess.Popen(command)
    server = 0.0
    page = result._observers.page
    while not _has_ended(result):
        if page.pid is not None:
            server = _time_of(page.pid)
        time.sleep(0.2)
    result.wait_until_finish()
    is_over.set()
    if browser is not None:
        browser.kill()
        browser.wait()
    own = _time_of(browser.pid) if browser is not None else 0.0
    spent = time.process_time() + _of_children() - began - server - own
    print(f"{mode:7} job {spent:.2f} s, server {server:.2f} s", flush=True)
    return spent


def _has_ended(result: Any) -> bool:
    return bool(result.state != "RUNNING")


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _time_of(pid: int) -> float:
    """Return the processor time of a process, in seconds; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    """Run each mode several times, in turn, each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--elements", type=int, default=300_000)
    parser.add_argument("--parallelism", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mode", choices=["none", "closed", "open"])
    parser.add_argument("--browse")
    given = parser.parse_args()
    if given.browse:
        _browse(given.browse, threading.Event())
    elif given.mode:
        print("SPENT", measure(given.mode, given.elements, given.parallelism, given.workers))
    else:
        spent: dict[str, list[float]] = {"none": [], "closed": [], "open": []}
        for _ in range(given.rounds):
            for mode, times in spent.items():
                command = [sys.executable, "-m", "benchmarks.ui.overhead", "--mode", mode, *sys.argv[1:]]
                ran = subprocess.run(command, capture_output=True, text=True, check=True)
                times.append(float(ran.stdout.rpartition("SPENT ")[2]))
        base = median(spent["none"])
        for mode, times in spent.items():
            print(f"{mode:7} {median(times):.2f} s of processor time ({median(times) / base - 1:+.1%})")


if __name__ == "__main__":
    main()
