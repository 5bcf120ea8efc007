"""Programs for each deployment, and the rows that they write."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Sequence

import attrs
from support.programs.spark_programs import environment

ROOT = pathlib.Path(__file__).parents[2]

# A file of its own for spark-submit, which runs no modules.
SESSIONS = """
from penstock.examples.session_lengths import run

run()
"""

WORDS = """
import argparse
import penstock as beam

parser = argparse.ArgumentParser()
parser.add_argument("--output")
parser.add_argument("--start_time", type=int, help="of a stream of ten seconds, instead of all lines at once")
ours, flags = parser.parse_known_args()

with beam.Pipeline(options=beam.options.PipelineOptions(flags)) as p:
    if ours.start_time:
        numbers = p | beam.io.GenerateSequence(0, 500, 50, 1, start_time=ours.start_time)
    else:
        numbers = p | beam.Create(range(500)) | beam.Map(lambda n: beam.window.TimestampedValue(n, n / 50))
    words = numbers | beam.FlatMap(lambda n: f"to be or not to be {n % 7}".split())
    windows = words | beam.WindowInto(beam.window.FixedWindows(1))
    rows = windows | beam.combiners.Count.PerElement() | beam.MapTuple(lambda word, n: {"word": word, "n": n})
    _ = rows | beam.io.WriteToSQLite(ours.output, "words", ["word", "window_start"], ["word", "n"], with_window=True)
"""


@attrs.frozen
class Program:
    """A program that writes rows into a table.

    Attributes:
      text: its file.
      flags: beside `--output`.
      query: selects the rows, in an order.
    """

    text: str
    flags: Sequence[str]
    query: str

    def install(self, directory: pathlib.Path) -> list[str]:
        """Write its file, `program.py`, and return its flags."""
        directory.mkdir(exist_ok=True)
        (directory / "program.py").write_text(self.text)
        return [f"--output={directory / 'out.db'}", *self.flags]

    def rows(self, directory: pathlib.Path) -> list[tuple[object, ...]]:
        """Return the rows that it has written."""
        connection = sqlite3.connect(directory / "out.db")
        try:
            return connection.execute(self.query).fetchall()
        finally:
            connection.close()

    def rows_of_one_process(self, directory: pathlib.Path, *more: str) -> list[tuple[object, ...]]:
        """Run it by the local runner, without checkpoints, and return its rows."""
        flags = [*self.install(directory), *more]
        run([sys.executable, "program.py", *flags], directory)
        return self.rows(directory)


# The wheel has no data: the commits are those of the checkout.
COMMITS = ROOT / "examples" / "data" / "commits.csv.gz"
SESSIONS_QUERY = "SELECT minutes, sessions FROM session_lengths ORDER BY minutes"
PROGRAMS = {
    "sessions": Program(SESSIONS, [f"--input={COMMITS}"], SESSIONS_QUERY),
    "words": Program(WORDS, [], "SELECT window_start, word, n FROM words ORDER BY 1, 2"),
}


def run(command: Sequence[str], directory: pathlib.Path, **more: str) -> str:
    """Run a command to its end, and return what it has written to standard error."""
    ran = subprocess.run(
        command, cwd=directory, env=environment(**more), capture_output=True, text=True, timeout=900, check=False
    )
    assert 0 == ran.returncode, f"{ran.stdout[-2000:]}\n{ran.stderr[-6000:]}"
    return ran.stderr


def spark_submit(master: str) -> list[str]:
    """Return spark-submit with options for a cluster on the loopback interface."""
    import pyspark

    command = [os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit"), "--master", master]
    settings = ("executor.memory=512m", "ui.enabled=false", "driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1")
    return [*command, *(option for setting in settings for option in ("--conf", f"spark.{setting}"))]
