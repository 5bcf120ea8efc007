"""The soak: a stream at full rate for an hour; memory, open files and checkpoints must not grow.

`python benchmarks soak --minutes 60`.  Numbers are generated as fast as they are taken, by two worker
processes; each is summed by key and window of ten seconds, and counted by a DoFn with state; both results go to
SQLite, exactly once, with a checkpoint every second.  Each minute says what the processes hold.  Not one
of the benchmarks that run when none is named.

What is judged, after the first five minutes (or a twelfth of the time, if that is less):

memory       the median of the last quarter is within a twentieth (and 4 MB) of the first quarter's
open files   the same number, but for two
checkpoints  no more files at the end than a chain of ten for each part of those that are retained

`--results FILE` adds five of the minutes to a file, as the other benchmarks do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import attrs
from harness.processes import children_of, open_files, resident
from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures

import penstock as beam
from penstock.sdk.options import PipelineOptions
from penstock.sdk.userstate import ReadModifyWriteStateSpec

KEYS = 10_007
RETAINED = 3
# Of each part, the whole snapshot and the changes that follow it.
_FILES_OF_A_PART = 11


class CountByKey(beam.DoFn):
    """Says every hundredth time how often a key has come."""

    COUNT = ReadModifyWriteStateSpec("count")

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        n = (count.read() or 0) + 1
        count.write(n)
        if n % 100 == 0:
            yield element[0], n


@attrs.frozen
class Minute:
    """The measurements of a minute: megabytes and open files of all processes, files of checkpoints, records so far."""

    memory: float
    files: int
    checkpoint_files: int
    records: int


def start(directory: Path) -> Any:
    """The pipeline, running."""
    options = PipelineOptions(
        [
            "--parallelism=2",
            "--workers=2",
            f"--checkpoint_dir={directory / 'checkpoints'}",
            "--checkpoint_interval=1",
            f"--checkpoint_retention={RETAINED}",
        ]
    )
    p = beam.Pipeline("local", options)
    database = directory / "results.db"
    pairs = p | beam.io.GenerateSequence(0, partitions=2) | beam.Map(lambda n: (n % KEYS, n))
    sums = pairs | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)
    _ = sums | beam.io.WriteToSQLite(database, "sums", key="key", columns=["key", "sum"], latest=True)
    counts = pairs | beam.ParDo(CountByKey())
    _ = counts | "counts" >> beam.io.WriteToSQLite(
        database, "counts", key="key", columns=["key", "n"], row=lambda pair: pair, latest=True
    )
    return p.run()


def look(directory: Path) -> Minute:
    """Return the current measurements of the processes."""
    pids = [os.getpid(), *children_of(os.getpid())]
    checkpoints = [path for path in (directory / "checkpoints").rglob("*") if path.is_file()]
    return Minute(sum(map(resident, pids)), sum(map(open_files, pids)), len(checkpoints), _records(directory))


def _records(directory: Path) -> int:
    """How many records have been counted in what is committed."""
    try:
        connection = sqlite3.connect(f"file:{directory / 'results.db'}?mode=ro", uri=True, timeout=60)
        try:
            return int(connection.execute("SELECT coalesce(sum(n), 0) FROM counts").fetchone()[0])
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return 0


def judge(minutes: Sequence[Minute]) -> list[str]:
    """Return the measurements that grow."""
    settled = minutes[min(5, len(minutes) // 12) :]
    quarter = max(1, len(settled) // 4)
    first, last = settled[:quarter], settled[-quarter:]
    wrong = []
    before, after = median(m.memory for m in first), median(m.memory for m in last)
    if after > before * 1.05 + 4:
        wrong.append(f"memory: {before:.1f} MB at first, {after:.1f} MB at last")
    before, after = median(m.files for m in first), median(m.files for m in last)
    if after > before + 2:
        wrong.append(f"open files: {before:.0f} at first, {after:.0f} at last")
    # A part for each of two subtasks of no more than six tasks, one for the sinks, and the manifests.
    most = RETAINED * (13 * _FILES_OF_A_PART + 1) + 20
    if minutes[-1].checkpoint_files > most:
        wrong.append(f"checkpoints: {minutes[-1].checkpoint_files} files at last, expected at most {most}")
    if minutes[-1].records == 0 or any(b.records <= a.records for a, b in itertools.pairwise(minutes)):
        wrong.append("no records came in")
    return wrong


def rows(minutes: Sequence[Minute]) -> list[Figures]:
    """Return the rows of a table, with the measurements of five minutes: near the start, of each quarter, and the last.

    >>> [row.name for row in rows([Minute(100.0, 40, 20, 1_000 * n) for n in range(60)])]
    ['3', '15', '30', '45', '60']
    """
    shown = dict.fromkeys(max(1, round(share * len(minutes))) for share in (0.05, 0.25, 0.5, 0.75, 1))
    return [
        Figures(
            str(minute),
            {
                "memory of all processes": Figure(own.memory, "MB", 1),
                "open files": Figure(own.files),
                "files of checkpoints": Figure(own.checkpoint_files),
                "records": Figure(own.records),
            },
            "minute",
        )
        for minute in shown
        for own in [minutes[minute - 1]]
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks soak")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args(arguments)
    wanted, about = given.minutes, circumstances()
    found: list[Minute] = []
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as temporary:
        directory = Path(temporary)
        result = start(directory)
        began = time.monotonic()
        for minute in range(1, wanted + 1):
            samples = []
            while (left := began + minute * 60 - time.monotonic()) > 0:
                time.sleep(min(2.0, left))
                # A file that is being written just now is open for a moment.
                samples.append(look(directory))
                if result.state != "RUNNING":
                    result.wait_until_finish()
            found.append(
                Minute(
                    median(s.memory for s in samples),
                    int(median(s.files for s in samples)),
                    samples[-1].checkpoint_files,
                    samples[-1].records,
                )
            )
            own = found[-1]
            print(
                f"minute {minute:>3}   memory {own.memory:7.1f} MB   open files {own.files:>4}   "
                f"checkpoint files {own.checkpoint_files:>4}   records {own.records:>12,}",
                flush=True,
            )
        result.cancel()
    if given.results is not None:
        add(given.results, "soak", about, as_data(rows(found)))
    wrong = judge(found)
    for complaint in wrong:
        print(f"OVER   {complaint}")
    if not wrong:
        print(f"ok: flat for {wanted} minutes, {found[-1].records:,} records")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
