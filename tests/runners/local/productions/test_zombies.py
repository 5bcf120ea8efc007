"""Processes that are taken for dead and come back: whatever they write late is refused, and the results are right."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from collections import Counter

from running_program import RunningProgram

PROGRAM = """
import sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

if __name__ == "__main__":
    start_time = float(sys.argv[1])
    with beam.Pipeline(options=PipelineOptions(sys.argv[2:])) as p:
        _ = (
            p
            | beam.io.GenerateSequence(0, 1500, 1000, 1, partitions=2, start_time=start_time)
            | "Key" >> beam.Map(lambda n: (n % 5, n))
            | beam.WindowInto(beam.window.FixedWindows(0.1))
            | beam.CombinePerKey(sum)
            | "Row" >> beam.Map(lambda pair, w=beam.DoFn.WindowParam: f"{w.start.micros} {pair[0]} {pair[1]}")
            | beam.io.WriteToText("sums", ".txt")
        )
"""


def children(pid: int) -> list[int]:
    """The processes that another one has started, from any of its threads."""
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def rows(directory: pathlib.Path) -> Counter[tuple[int, ...]]:
    """What can be read, and how often it is there."""
    # Not in a database: whoever is stopped may have it locked.
    lines = [line for file in directory.glob("sums*.txt") for line in file.read_text().splitlines()]
    return Counter(tuple(map(int, line.split())) for line in lines)


def test_a_run_that_was_stopped_and_goes_on_beside_its_successor_is_refused(tmp_path: pathlib.Path) -> None:
    """All of its processes wake up when the second run has done everything; nothing that they write counts."""
    start = int(time.time())
    flags = [str(start), "--delivery=strong", "--checkpoint_dir=kept", "--parallelism=2"]
    expected: Counter[tuple[int, int]] = Counter()
    for n in range(1500):
        micros = start * 1_000_000 + n * 1000
        expected[micros - micros % 100_000, n % 5] += n

    with RunningProgram(tmp_path, PROGRAM, *flags, name="first.py") as first:
        first.wait_until(lambda: rows(tmp_path), "the first results")
        pid = first.process.pid
        zombies = [pid, *children(pid)]
        assert 3 == len(zombies)
        for zombie in zombies:
            os.kill(zombie, signal.SIGSTOP)
        try:
            with RunningProgram(tmp_path, PROGRAM, *flags, name="second.py") as second:
                assert 0 == second.ended(), second.log
        finally:
            for zombie in zombies:
                os.kill(zombie, signal.SIGCONT)
        code = first.ended()

    assert 0 != code
    assert "has taken over from" in first.log
    assert Counter((*window, total) for window, total in expected.items()) == rows(tmp_path)
