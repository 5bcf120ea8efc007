"""Zombies: processes that continue after they were replaced.  Their late writes are refused, and results are right."""

from __future__ import annotations

import os
import pathlib
import signal
from collections import Counter

from support.programs.running_program import RunningProgram, children

PROGRAM = """
import os
import sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.testing import ScriptedSource

class Gated(ScriptedSource):
    def open(self, partition, offset):
        reader = super().open(partition, offset)
        poll = reader.poll

        def gated(most, now):
            if not os.path.exists("go"):
                most = min(most, 500 - reader.offset())
            return poll(most, now) if most else None

        reader.poll = gated
        return reader

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as p:
        numbers = [[beam.window.TimestampedValue(n, n / 1000) for n in range(i, 1500, 2)] for i in range(2)]
        _ = (
            p
            | beam.io.Read(Gated(numbers))
            | "Key" >> beam.Map(lambda n: (n % 5, n))
            | beam.WindowInto(beam.window.FixedWindows(0.1))
            | beam.CombinePerKey(sum)
            | "Row" >> beam.Map(lambda pair, w=beam.DoFn.WindowParam: f"{w.start.micros} {pair[0]} {pair[1]}")
            | beam.io.WriteToText("sums", ".txt")
        )
"""


def rows(directory: pathlib.Path) -> Counter[tuple[int, ...]]:
    """Return the published rows, with the number of times that each occurs."""
    # Not in a database: a stopped process may have it locked.
    lines = [line for file in directory.glob("sums*.txt") for line in file.read_text().splitlines()]
    return Counter(tuple(map(int, line.split())) for line in lines)


def test_a_stopped_run_that_continues_beside_its_successor_is_refused(tmp_path: pathlib.Path) -> None:
    """All of its processes continue when the second run has ended; their writes have no effect."""
    flags = ["--delivery=strong", "--checkpoint_dir=kept", "--parallelism=2"]
    expected: Counter[tuple[int, int]] = Counter()
    for n in range(1500):
        micros = n * 1000
        expected[micros - micros % 100_000, n % 5] += n

    with RunningProgram(tmp_path, PROGRAM, *flags, name="first.py") as first:
        first.wait_until(lambda: rows(tmp_path), "the first results")
        pid = first.process.pid
        # The coordinator last: until it has waited for its workers, a signal finds them.
        first.wait_until(lambda: 2 == len(children(pid)), "the workers")
        zombies = [*children(pid), pid]
        for zombie in zombies:
            os.kill(zombie, signal.SIGSTOP)
        (tmp_path / "go").touch()
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
