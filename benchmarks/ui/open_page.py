"""`python benchmarks ui_open`: the processor time that an open page adds to a job, for each element.

Two jobs of the same steps run side by side as fast as they can, without an end, each with a page, and each with half of
the cores: what a page does once a second is a greater share of a worker that has no core for itself.  In a slot of some
seconds the processor time of a job and its workers, their threads included, is divided by the number of elements that
they have read.  The page of the first job is open in one slot and that of the second in the next, so what makes one
job or one slot slower than another cancels out, and a machine that becomes slower for a moment changes both jobs.  The
servers of the pages and the client are other processes.  The exit status is 1 when an open page costs more than its
limit.  `--results FILE` adds what was found to a file, as the other benchmarks do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from harness.processes import children_of
from harness.results import add, as_data, circumstances

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from ui.jobs import JOBS, Tally
from ui.shares import row

# The greatest share that an open page may add.
LIMIT = 0.02

# Seconds until a page is counted as closed after its client has gone, or all parts of a job know that it is open.
_SETTLING = 8.0

# Of each job, so that each worker has a core.
_WORKERS = max(1, len(os.sched_getaffinity(0)) // 2)

# More elements than any run reads.
_ENDLESS = 1 << 50

_BENCHMARKS = Path(__file__).parents[1]

# What a page that shows the table of steps fetches when it has changed.
_DOCUMENTS = ("run", "status", "checkpoints")


# --- The job


def run(job: str, tally: str, parallelism: int, workers: int) -> None:
    """Run a job until the input of this process ends; print the URL of its page, and the process of its server."""
    p = beam.Pipeline(
        options=PipelineOptions(parallelism=parallelism, workers=workers, checkpoint_interval=2, ui_port=0)
    )
    JOBS[job][0](p, _ENDLESS, Tally(tally))
    result: Any = p.run()
    print("PAGE", result.ui_url, result._observers.page.pid, flush=True)
    sys.stdin.read()
    result.cancel()


class RunningJob:
    """A job in a process of its own, seen from outside.

    Attributes:
      url: of its page.
    """

    def __init__(self, process: subprocess.Popen[str], tally: Tally, url: str, server: int) -> None:
        self.url = url
        self._process = process
        self._tally = tally
        self._server = server

    @staticmethod
    @contextmanager
    def started(job: str, arguments: Sequence[str]) -> Iterator[RunningJob]:
        """A job that runs within a block."""
        with tempfile.TemporaryDirectory() as directory:
            tally = Tally.created(f"{directory}/tally")
            command = [sys.executable, str(_BENCHMARKS), "ui_open", "--run", tally.path, "--job", job, *arguments]
            pipe = subprocess.PIPE
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
                assert process.stdout is not None
                _, url, server = process.stdout.readline().split()
                yield RunningJob(process, tally, url, int(server))
                process.communicate(timeout=60)

    def spent(self) -> float:
        """Return the seconds of processor time so far, of the job and its workers."""
        pids = [self._process.pid]
        for pid in pids:
            pids += [child for child in children_of(pid) if child != self._server]
        return sum(map(_ticks_of, pids)) / os.sysconf("SC_CLK_TCK")

    def read(self) -> int:
        """Return the number of elements that were read so far."""
        return self._tally.total()


def _ticks_of(pid: int) -> int:
    # The name, in parentheses, may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# --- The client


@contextmanager
def opened(url: str) -> Iterator[None]:
    """Do what a page does that is open, within a block."""
    is_over = threading.Event()
    client = threading.Thread(target=_browse, args=(url, is_over), daemon=True)
    client.start()
    yield
    is_over.set()
    client.join(30)


def _browse(url: str, is_over: threading.Event) -> None:
    with suppress(OSError), urllib.request.urlopen(f"{url}api/events", timeout=30) as events:
        for line in events:
            if is_over.is_set():
                break
            if line.startswith(b"data:"):
                for name in _DOCUMENTS:
                    with urllib.request.urlopen(f"{url}api/{name}", timeout=30) as answer:
                        answer.read()


# --- Slots


def costs(jobs: Sequence[RunningJob], seconds: float) -> list[float]:
    """Return the processor time of an element of each job in the next seconds, in microseconds."""
    spent, read = [job.spent() for job in jobs], [job.read() for job in jobs]
    time.sleep(seconds)
    return [
        (job.spent() - spent_before) / (job.read() - read_before) * 1e6
        for job, spent_before, read_before in zip(jobs, spent, read, strict=True)
    ]


def shares(first: RunningJob, second: RunningJob, rounds: int, seconds: float) -> Iterator[float]:
    """Yield the share of an element's processor time that an open page adds, of each two slots."""
    for _ in range(rounds):
        slots = []
        for job in (first, second):
            with opened(job.url):
                time.sleep(_SETTLING)
                slots.append(costs((first, second), seconds))
        (first_open, second_closed), (first_closed, second_open) = slots
        print(
            f"first open {first_open:.2f} us an element, second closed {second_closed:.2f};"
            f" first closed {first_closed:.2f}, second open {second_open:.2f}",
            flush=True,
        )
        yield ((first_open / second_closed) * (second_open / first_closed)) ** 0.5 - 1


def main(names: Sequence[str] | None = None) -> int:
    """Compare jobs whose page is open with those whose page is closed, and print what it adds."""
    parser = argparse.ArgumentParser(prog="benchmarks ui_open")
    parser.add_argument("--job", choices=list(JOBS), default="orders")
    parser.add_argument("--parallelism", type=int)
    parser.add_argument("--workers", type=int, default=_WORKERS, help="of each job")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a slot")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args(names)
    parallelism = given.parallelism or JOBS[given.job][2]
    if given.run:
        run(given.job, given.run, parallelism, given.workers)
        return 0
    about = circumstances()
    arguments = [f"--parallelism={parallelism}", f"--workers={given.workers}"]
    with RunningJob.started(given.job, arguments) as first, RunningJob.started(given.job, arguments) as second:
        added = list(shares(first, second, given.rounds, given.seconds))
    found = row(f"{given.job}: open, against closed", "pairs of slots", added)
    print(found)
    if given.results is not None:
        add(given.results, f"ui_open, {given.job}", about, as_data([found]))
    return int(median(added) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
