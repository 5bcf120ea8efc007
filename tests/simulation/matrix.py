"""The matrix of the simulation: six pipelines by checkpoint mode or delivery.

Weak productions may come twice, which is for what is behind them to bear: under them the pipelines run in a form
to which twice is as good as once.  Three cells are empty, and `REFUSED` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
from simulation.six_pipelines import IDEMPOTENT, PIPELINES

import penstock as beam
from penstock.runners.local.simulation.run import Simulation, SimulationError, SimulationSettings

COLUMNS: dict[str, dict[str, Any]] = {
    "aligned": {"mode": "aligned"},
    "unaligned": {"mode": "unaligned"},
    "synchronous": {"mode": "synchronous"},
    "strong": {"delivery": "strong"},
    "weak": {"delivery": "weak"},
    "regions": {"recovery": "region"},
}

REFUSED = {
    ("loop", "unaligned"): "checkpoints of a loop are aligned; --checkpoint_mode=unaligned is refused with one",
    ("loop", "regions"): "a loop restarts as a whole; --recovery=region is refused with one",
    ("sessions_with_retractions", "weak"): "what is taken back twice isn't what is taken back once",
}


@attrs.frozen
class Cell:
    """One pipeline in one column."""

    pipeline: str
    column: str

    def __str__(self) -> str:
        return f"{self.pipeline}, {self.column}"

    @property
    def build(self) -> Callable[[beam.Pipeline], None]:
        """The function that builds the pipeline."""
        return (IDEMPOTENT if self.column == "weak" else PIPELINES)[self.pipeline]

    def simulation(self, **settings: Any) -> Simulation:
        """Return the simulation of this cell."""
        pipeline = beam.Pipeline()
        self.build(pipeline)
        return Simulation(pipeline.graph(), SimulationSettings(**COLUMNS[self.column], **settings))


CELLS = [Cell(name, column) for name in PIPELINES for column in COLUMNS if (name, column) not in REFUSED]


def shares(seeds: int) -> dict[Cell, range]:
    """Each cell's seeds: so many in all, no two the same, and each cell has as many as another, or one more.

    >>> own = shares(100)
    >>> sorted({len(seeds) for seeds in own.values()}), len({seed for seeds in own.values() for seed in seeds})
    ([3, 4], 100)
    """
    begins = [seeds * i // len(CELLS) for i in range(len(CELLS) + 1)]
    return {cell: range(*pair) for cell, *pair in zip(CELLS, begins, begins[1:], strict=False)}


@attrs.frozen
class Tried:
    """The results of some seeds of one cell.

    Attributes:
      totals: what has happened in them, counted.
      failures: of each that failed, what was wrong.
    """

    cell: Cell
    seeds: int
    totals: Counter[str]
    failures: tuple[str, ...]


def tried(cell: Cell, seeds: range) -> Tried:
    """Run a cell under all of the seeds, also after a failure."""
    simulation = cell.simulation()
    totals: Counter[str] = Counter()
    failures: list[str] = []
    for seed in seeds:
        try:
            run = simulation.run(seed)
        except SimulationError as error:
            failures.append(str(error))
        else:
            totals.update(run.counts, steps=run.steps, starts=run.starts, checkpoints=run.checkpoints)
            totals["faults"] += run.harm
    return Tried(cell, len(seeds), totals, tuple(failures))
