"""Run the whole matrix under seeds: `python tests/simulation --seeds 10000`.

Each cell gets an equal share, and no seed is used twice.  Ends with status 1 if a seed has failed.  `--results FILE`
adds the totals to a file, as benchmarks do: docs/performance.json, for a table in docs/simulation.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import sys
import time
from collections import Counter, defaultdict

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures
from simulation.matrix import CELLS, COLUMNS, MEANINGLESS, REFUSED, Cell, Tried, shares, tried

# So many seeds are tried between two lines of progress.
_PIECE = 25


def main() -> None:
    """Run the matrix in so many processes and print the results."""
    parser = argparse.ArgumentParser(prog="tests/simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many, over all cells")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many run at the same time")
    parser.add_argument("--column", choices=COLUMNS, action="append", help="only these columns' shares")
    parser.add_argument("--pipeline", choices=sorted({c.pipeline for c in CELLS}), action="append", help="and rows'")
    parser.add_argument("--results", type=pathlib.Path, help="a file to which the totals are added")
    options = parser.parse_args()
    about = circumstances()
    began = time.monotonic()
    pieces = [
        (cell, range(options.first + start, options.first + min(start + _PIECE, own.stop)))
        for cell, own in shares(options.seeds).items()
        if cell.column in (options.column or COLUMNS) and cell.pipeline in (options.pipeline or cell.pipeline)
        for start in range(own.start, own.stop, _PIECE)
    ]
    found: dict[Cell, list[Tried]] = defaultdict(list)
    is_watched = sys.stderr.isatty()
    with multiprocessing.Pool(options.processes) as pool:
        for done, piece in enumerate(pool.imap_unordered(_tried, pieces), 1):
            found[piece.cell].append(piece)
            for failure in piece.failures:
                print(f"{piece.cell}: {failure}", flush=True)
            # Without a terminal, print a line now and then.
            if is_watched or done % 20 == 0:
                end = "" if is_watched else "\n"
                print(f"\r{done} of {len(pieces)} pieces"[not is_watched :], end=end, file=sys.stderr, flush=True)
    if is_watched:
        print(file=sys.stderr)
    totals = _summary(found)
    print(f"{time.monotonic() - began:.0f} s")
    if options.results is not None:
        add(options.results, "simulation", about, as_data([_row(totals)]))
    sys.exit(1 if totals["failed"] else 0)


def _tried(piece: tuple[Cell, range]) -> Tried:
    return tried(*piece)


# By the head of a column, what is counted.
_COLUMNS = {
    "failed": "failed",
    "starts": "starts",
    "checkpoints and commits": "checkpoints",
    "crashes": "deaths",
    "failures of disk and sinks": "failures",
    "hangs": "hangs",
    "zombies": "zombies",
    "duplicates": "repetitions",
    "steps": "steps",
}


def _row(totals: Counter[str]) -> Figures:
    row = {head: Figure(totals[counted]) for head, counted in _COLUMNS.items()}
    return Figures(f"{totals['seeds']:,}", row, "seeds")


def _summary(found: dict[Cell, list[Tried]]) -> Counter[str]:
    """Print a table of the cells, and return the totals."""
    totals: Counter[str] = Counter()
    print(f"{'pipeline':26} {'column':12} {'seeds':>6} {'failed':>6} {'starts':>7} {'faults':>12}")
    for cell in (cell for cell in CELLS if cell in found):
        own = Counter[str]()
        for piece in found[cell]:
            own.update(piece.totals, seeds=piece.seeds, failed=len(piece.failures))
        totals.update(own)
        counts = f"{own['seeds']:6} {own['failed']:6} {own['starts']:7} {own['faults']:12}"
        print(f"{cell.pipeline:26} {cell.column:12} {counts}")
    refused = {(cell.pipeline, cell.column): why for cell, why in REFUSED.items()}
    for (pipeline, column), why in (refused | MEANINGLESS).items():
        print(f"{pipeline:26} {column:12}      - ({why})")
    print(
        ", ".join(
            f"{totals[what]} {what}" for what in ("seeds", "failed", *sorted(totals.keys() - {"seeds", "failed"}))
        )
    )
    return totals


if __name__ == "__main__":
    main()
