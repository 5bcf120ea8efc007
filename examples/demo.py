"""The demo that `make demo` runs: two of the examples in this process, and what they found."""

from __future__ import annotations

import csv
import glob
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import penstock as beam
from penstock.examples import commits, wordcount

PYTHON = os.path.relpath(sys.executable)
EXAMPLES = os.path.relpath(pathlib.Path(__file__).parent)

TRY_NEXT = f"""\
What to try next

That pipeline, drawn:
  {PYTHON} -m penstock graph {EXAMPLES}/commits.py
Pairs of coauthors, by a join:
  {PYTHON} -m penstock run {EXAMPLES}/coauthors.py --output=/tmp/coauthors
What else pipelines run on, and what is missing for it:
  {PYTHON} -m penstock runners
The first program on Spark, where that is installed:
  {PYTHON} -m penstock run {EXAMPLES}/wordcount.py --output=/tmp/words --runner=spark-batch

README.md has a first pipeline, and the examples are short and meant to be read."""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; with rich, where it is installed, a pretty one."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    right = [all(isinstance(row[i], int) for row in rows) for i in range(len(columns))]
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print_plain(title, columns, cells, right)
        return
    pretty = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, is_right in zip(columns, right, strict=True):
        pretty.add_column(name, justify="right" if is_right else "left")
    for line in cells:
        pretty.add_row(*line)
    console = Console(highlight=False)
    console.print(f"[bold]{title}[/bold]\n")
    console.print(pretty)
    console.print()


def print_plain(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    """The same table without rich."""
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    print(f"{title}\n")
    for line in [columns, ["-" * width for width in widths], *cells]:
        aligned = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        print("  ".join(aligned).rstrip())
    print()


def timed(what: str, run: Callable[[], str]) -> str:
    """Run a pipeline; what it returns."""
    print(f"{what} ... ", end="", flush=True)
    began = time.perf_counter()
    written = run()
    print(f"{time.perf_counter() - began:.1f} s\n", flush=True)
    return written


def records(pattern: str) -> list[dict[str, str]]:
    """The records of CSV files."""
    found: list[dict[str, str]] = []
    for path in glob.glob(pattern):
        with open(path, newline="") as file:
            found.extend(csv.DictReader(file))
    return found


def show_words(pattern: str) -> None:
    """The most frequent words."""
    counts: list[tuple[str, int]] = []
    for path in glob.glob(pattern):
        with open(path) as file:
            counts.extend((word, int(n)) for word, _, n in (line.rpartition(": ") for line in file))
    counts.sort(key=itemgetter(1), reverse=True)
    table(f"The most frequent of {len(counts):,} words", ["word", "times"], counts[:8])


def show_months(pattern: str) -> None:
    """The busiest month of the busiest repositories."""
    busiest: dict[str, tuple[str, str, int]] = {}
    for row in records(pattern):
        month = row["repository"], row["month"], int(row["commits"])
        busiest[month[0]] = max(busiest.get(month[0], month), month, key=itemgetter(2))
    rows = sorted(busiest.values(), key=itemgetter(2), reverse=True)
    table("Each repository's busiest month", ["repository", "month", "commits"], rows[:8])


def show_sessions(pattern: str) -> None:
    """The longest sessions."""
    rows = sorted(records(pattern), key=lambda row: int(row["seconds"]), reverse=True)
    shown = [
        (row["author"], row["start"][:16].replace("T", " "), f"{int(row['seconds']) / 3600:.1f} h", int(row["commits"]))
        for row in rows[:8]
    ]
    table(f"The longest of {len(rows):,} work sessions", ["author", "began", "lasted", "commits"], shown)


def main() -> None:
    """Run the demo."""
    print(f"penstock {beam.__version__}: two pipelines, run in this process\n")
    with tempfile.TemporaryDirectory() as directory:
        counting = "Counting the words of Python's own library"
        show_words(timed(counting, lambda: wordcount.run([f"--output={directory}/words"])))
        grouping = "Grouping 15 years of commits by month, and by session"
        timed(grouping, lambda: commits.run([f"--output={directory}/commits"]))
        show_months(f"{directory}/commits-per-month-*.csv")
        show_sessions(f"{directory}/commits-sessions-*.csv")
    print(TRY_NEXT)


if __name__ == "__main__":
    main()
