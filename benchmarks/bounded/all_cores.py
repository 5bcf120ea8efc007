"""(j) All cores: bounded pipelines with two workers, four and eight, and a stream with two, against one worker.

Text files in, text files out, each run in a process of its own.  Two workers are compared by the clock on the wall;
four and eight, which may have no core to run on, by CPU time: what the division of the work costs.  A run over an
empty file is the start-up, and is subtracted.

Two cores that share caches or execution units are each slower while both work, and processes that share a core by turns
lose the contents of its caches at each turn.  Both would be counted as costs of the division.  So CPU time is measured
on one core, for one worker as for eight, and all runs are scheduled round robin in real time where the system permits
it (`CAP_SYS_NICE`): a process keeps its core until it waits, or for 100 ms.  Else the printed line says that time
slicing is included.  Without an end of its turn, first in, first out, a process that collects a child can wait in the
kernel for the child to leave the core that it has itself: a run was seen to spin for half an hour.

The file of words has 300 MB.  Each worker's table holds most of the 200,000 distinct words, and what it costs to merge
the tables doesn't grow with the file.

The memory of the worker processes: a word count of 1 GB with four workers, and a GroupByKey of 5 GB of pairs
(`PENSTOCK_BENCHMARK_GIGABYTES`) with two.

`python benchmarks/bounded/all_cores.py NAME WORKERS SOURCE TARGET [real-time] [one-core]` is one run; it prints its
seconds by the clock and of CPU, and 1 if it was scheduled in real time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
from harness.inputs import (
    event_file,
    events,
    large_word_file,
    number_file,
    scratch_directory,
)
from harness.processes import children_of, cpu_of_this_and_children, environment, output_of_program, resident
from harness.streams import CollectingSink, CountingSink, Times, options
from harness.timing import RUNS, Quantity, Ratio
from streaming.running_sum import panes

import penstock as beam
from bounded.text_files import line_of, sessions, windowed_sums, word_count

EVENTS = 4_000_000
NUMBERS = 5_000_000
CHAINED = 8_000_000
KEYS = 100_003
# How often the stream has the events of the hour: often enough that its start-up is below 5% of the run.
HOURS = 10
GIGABYTES = float(os.environ.get("PENSTOCK_BENCHMARK_GIGABYTES", "5"))
_BYTES_OF_A_VALUE = 1000


def chain(p: Any, source: Path, target: str) -> Any:
    """Five Maps and a Filter, between a Map that parses and one that formats."""
    return (
        p
        | beam.io.ReadFromText(source)
        | "parse" >> beam.Map(int)
        | "1" >> beam.Map(lambda x: x + 1)
        | "2" >> beam.Map(lambda x: x * 3)
        | "3" >> beam.Map(lambda x: x ^ 0x5555)
        | "4" >> beam.Filter(lambda x: x % 3 != 0)
        | "5" >> beam.Map(lambda x: x - 7)
        | "6" >> beam.Map(lambda x: x // 2)
        | "format" >> beam.Map(str)
        | beam.io.WriteToText(target)
    )


def pair_of(line: str) -> tuple[int, int]:
    number = int(line)
    return number * 7919 % KEYS, number


def groups(p: Any, source: Path, target: str) -> Any:
    """Groups of pairs; a line for each key, with the sum of its group."""
    return (
        p
        | beam.io.ReadFromText(source)
        | beam.Map(pair_of)
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, numbers: f"{key},{sum(numbers)}")
        | beam.io.WriteToText(target)
    )


def large_pair_of(line: str) -> tuple[int, str]:
    return int(line) * 7919 % KEYS, line.zfill(_BYTES_OF_A_VALUE)


def line_of_large_group(group: tuple[int, Iterable[str]]) -> str:
    key, values = group
    return f"{key},{sum(int(value[-12:]) for value in values)}"


def large_groups(p: Any, source: Path, target: str) -> Any:
    """As `groups`, with values of 1,000 bytes."""
    return (
        p
        | beam.io.ReadFromText(source)
        | beam.Map(large_pair_of)
        | beam.GroupByKey()
        | beam.Map(line_of_large_group)
        | beam.io.WriteToText(target)
    )


def streamed() -> list[tuple[str, int]]:
    return [(key, value) for key, _, value in events()] * HOURS


def stream(p: Any, source: Path, target: str, sink: Any = None) -> Any:
    """A running sum for each key, whose panes are counted."""
    empty = source.stat().st_size == 0
    return panes(p | beam.Create([] if empty else streamed(), reshuffle=False)) | beam.io.Write(sink or CountingSink())


PIPELINES: dict[str, Callable[..., Any]] = {
    "word_count": word_count,
    "windowed_sums": windowed_sums,
    "sessions": sessions,
    "chain": chain,
    "groups": groups,
    "large_groups": large_groups,
    "stream": stream,
}


def flags_of(name: str, workers: int, directory: str) -> dict[str, Any]:
    # In real time a worker sends no heartbeats while it waits for a core.
    flags: dict[str, Any] = {"parallelism": workers, "worker_timeout": 600}
    if name == "stream":
        flags |= {"workers": workers, "checkpoint_dir": f"{directory}/checkpoints", "checkpoint_interval": 1}
    return flags


def main(name: str, workers: str, source: str, target: str, *scheduling: str) -> None:
    """Run a pipeline; print the seconds by the clock and of CPU, and how it was scheduled."""
    in_real_time = "real-time" in scheduling and schedule_in_real_time()
    if "one-core" in scheduling:
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    p = beam.Pipeline("local", options(**flags_of(name, int(workers), str(Path(target).parent))))
    PIPELINES[name](p, Path(source), target)
    cpu, wall = cpu_of_this_and_children(), time.perf_counter()
    p.run().wait_until_finish()
    print(time.perf_counter() - wall, cpu_of_this_and_children() - cpu, int(in_real_time))


def schedule_in_real_time() -> bool:
    """Schedule this process and its children round robin in real time; return False if the system doesn't permit it."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


# Comparison of numbers of workers


@attrs.frozen
class Case:
    """A pipeline and its input; the limits of two workers' wall and, if that is judged, of more workers' CPU."""

    name: str
    source: Path
    wall: float
    cpu: float | None = 1.25


@attrs.frozen
class _Run:
    """A number of workers, over the whole input or, for the start-up, over an empty file; on all cores or on one."""

    workers: int
    whole: bool
    one_core: bool = False


def compared(case: Case) -> list[Ratio]:
    # The threads of a stream's workers need their turns.
    scheduling = [] if case.name == "stream" else ["real-time"]
    runs = [_Run(n, whole) for n in (1, 2) for whole in (True, False)]
    if case.cpu is not None:
        runs += [_Run(n, whole, one_core=True) for n in (1, 4, 8) for whole in (True, False)]
    times = {run: Times() for run in runs}
    results, in_real_time = set(), True
    with tempfile.TemporaryDirectory(dir=scratch_directory()) as temporary:
        empty = Path(temporary, "empty")
        empty.touch()
        for number in range(RUNS):
            for run in runs[:: -1 if number % 2 else 1]:
                source = case.source if run.whole else empty
                target = Path(temporary, "target")
                arguments = [case.name, str(run.workers), str(source), str(target / "lines"), *scheduling]
                arguments += ["one-core"] * run.one_core
                wall, cpu, was = map(float, output_of_program(__file__, *arguments).split())
                times[run].walls.append(wall)
                times[run].cpus.append(cpu)
                in_real_time = in_real_time and bool(was or not scheduling)
                if run.whole and case.name != "stream":
                    results.add(digest(target))
                shutil.rmtree(target, ignore_errors=True)
    assert len(results) <= 1, f"{case.name}: the results differ"
    walls = {n: times[_Run(n, True)].wall - times[_Run(n, False)].wall for n in (1, 2)}
    start_up = times[_Run(2, False)].wall / times[_Run(2, True)].wall
    print(f"    {case.name}: start-up of two workers is {start_up:.1%} of the run")
    slicing = "" if in_real_time else ", with time slicing"
    found = [Ratio(f"(j) {case.name}: wall{slicing}, two workers / one", walls[2], walls[1], case.wall)]
    if case.cpu is not None:
        cpus = {n: times[_Run(n, True, True)].cpu - times[_Run(n, False, True)].cpu for n in (1, 4, 8)}
        for n in (4, 8):
            found.append(Ratio(f"(j) {case.name}: CPU{slicing}, {n} workers / one", cpus[n], cpus[1], case.cpu))
    return found


def digest(directory: Path) -> tuple[int, int]:
    """The number of lines of a directory's files, and the sum of their hashes."""
    count = total = 0
    for path in directory.iterdir():
        with path.open("rb") as file:
            for line in file:
                count += 1
                total += hash(line)
    return count, total


def check_stream() -> None:
    """Check that with two workers the last pane of each key is its sum."""
    sink, totals, last = CollectingSink(), dict[str, int](), dict[str, int]()
    with tempfile.TemporaryDirectory() as directory:
        p = beam.Pipeline("local", options(**flags_of("stream", 2, directory)))
        stream(p, Path(__file__), "", sink)
        p.run().wait_until_finish()
    for key, value in streamed():
        totals[key] = totals.get(key, 0) + value
    for key, total in sink.values:
        last[key] = max(last.get(key, 0), total)
    assert last == totals, "stream: the results differ"


# Memory


def memory_of(name: str, workers: int, source: Path, target: Path) -> tuple[float, float]:
    """The peak of the largest worker process, and that of the sum of all processes of a run, in MB."""
    arguments = [sys.executable, __file__, name, str(workers), str(source), str(target / "lines")]
    largest = together = 0.0
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=environment()) as process:
        while process.poll() is None:
            sizes = [resident(pid) for pid in children_of(process.pid)]
            largest = max([largest, *sizes])
            together = max(together, resident(process.pid) + sum(sizes))
            time.sleep(0.05)
    if process.returncode != 0:
        raise RuntimeError(f"{name} failed")
    return largest, together


def memory() -> list[Quantity]:
    found = []
    words = large_word_file()
    pairs = int(GIGABYTES * 1e9) // _BYTES_OF_A_VALUE
    numbers = number_file(pairs)
    with tempfile.TemporaryDirectory(dir=scratch_directory()) as temporary:
        counts, sums = Path(temporary, "counts"), Path(temporary, "sums")
        largest, _ = memory_of("word_count", 4, words, counts)
        assert digest(counts)[0] > 0, "word_count: nothing was written"
        found.append(Quantity("(j) word count of 1 GB, four workers: each", largest, 150, "MB"))
        _, together = memory_of("large_groups", 2, numbers, sums)
        expected: dict[int, int] = {}
        for number in range(pairs):
            key = number * 7919 % KEYS
            expected[key] = expected.get(key, 0) + number
        lines = itertools.chain.from_iterable(path.read_text().splitlines() for path in sums.iterdir())
        assert sorted(lines) == sorted(map(line_of, expected.items())), "large_groups: the results differ"
        found.append(Quantity(f"(j) groups of {GIGABYTES:g} GB, two workers: all", together, 1000, "MB"))
    return found


def run() -> list[Any]:
    by_key = event_file(EVENTS)
    cases = [
        Case("word_count", large_word_file(3), 0.6),
        Case("windowed_sums", by_key, 0.6),
        Case("sessions", by_key, 0.6),
        Case("chain", number_file(CHAINED), 0.6),
        # To move a pair of numbers costs more than to group it.
        Case("groups", number_file(NUMBERS), 1.1, cpu=2.15),
        Case("stream", Path(__file__), 0.8, cpu=None),
    ]
    check_stream()
    found: list[Any] = []
    for case in cases:
        found += compared(case)
    return found + memory()


if __name__ == "__main__":
    main(*sys.argv[1:])
