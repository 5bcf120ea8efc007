"""The matrix of the simulation: seven pipelines by checkpoint mode, delivery or state backend.

Weak productions may come twice, which is for what is behind them to bear: under them the pipelines run in a form
to which twice is as good as once.  Four cells are empty: the runner refuses two, and `MEANINGLESS` says why the others
are.

A simulation has too few elements to be worth a fold.  Under odd seeds all elements are folded that may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs
from simulation.prefixes import PREFIXES
from simulation.simulated_pipelines import IDEMPOTENT, PIPELINES

import penstock as beam
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.sdk.errors import SimulationError
from penstock.sdk.graph import Graph

COLUMNS: dict[str, dict[str, Any]] = {
    "aligned": {"mode": "aligned"},
    "unaligned": {"mode": "unaligned"},
    "strong": {"delivery": "strong"},
    "weak": {"delivery": "weak"},
    "regions": {"recovery": "region"},
    "rocksdb": {"state": StateSettings(2_000)},
}

MEANINGLESS = {
    ("sessions_with_retractions", "weak"): "what is taken back twice isn't what is taken back once",
    ("transfers", "weak"): "what is taken back twice isn't what is taken back once",
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

    @property
    def graph(self) -> Graph:
        """The graph of the pipeline."""
        pipeline = beam.Pipeline()
        self.build(pipeline)
        return pipeline.graph()

    def simulation(self, **settings: Any) -> Simulation:
        """Return the simulation of this cell."""
        settings = COLUMNS[self.column] | {"is_prefix": PREFIXES.get(self.pipeline)} | settings
        return Simulation(self.graph, SimulationSettings(**settings))


ALL = [Cell(name, column) for name in PIPELINES for column in COLUMNS if (name, column) not in MEANINGLESS]
REFUSED = {
    cell: why for cell in ALL if (why := SimulationSettings(**COLUMNS[cell.column]).refusal(cell.graph)) is not None
}
CELLS = [cell for cell in ALL if cell not in REFUSED]


def shares(seeds: int) -> dict[Cell, range]:
    """Each cell's seeds: so many in all, no two the same, and each cell has as many as another, or one more.

    >>> own = shares(100)
    >>> sorted({len(seeds) for seeds in own.values()}), len({seed for seeds in own.values() for seed in seeds})
    ([2, 3], 100)
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


@contextmanager
def folding() -> Iterator[Counter[str]]:
    """Fold all foldable elements before a shuffle, with any gain, in the `with` block.

    Yields the numbers of elements that went through a table, and of accumulators that were sent of them.
    """
    count: Counter[str] = Counter()
    smallest, worth, take = pre_aggregation.SMALLEST, pre_aggregation._WORTH, pre_aggregation.PreAggregation.take

    def counting(self: pre_aggregation.PreAggregation) -> Any:
        taken = take(self)
        for _, folded in taken:
            count.update(folded=folded.elements, accumulators=len(folded))
        return taken

    pre_aggregation.SMALLEST, pre_aggregation._WORTH = 1, 1e9
    pre_aggregation.PreAggregation.take = counting  # type: ignore[method-assign]
    try:
        yield count
    finally:
        pre_aggregation.SMALLEST, pre_aggregation._WORTH = smallest, worth
        pre_aggregation.PreAggregation.take = take  # type: ignore[method-assign]


def tried(cell: Cell, seeds: range) -> Tried:
    """Run a cell under all of the seeds, also after a failure."""
    simulation = cell.simulation()
    totals: Counter[str] = Counter()
    failures: list[str] = []
    for seed in seeds:
        try:
            with folding() if seed % 2 else nullcontext(Counter[str]()) as folded:
                run = simulation.run(seed)
        except SimulationError as error:
            failures.append(str(error))
        else:
            totals.update(run.counts, steps=run.steps, starts=run.starts, checkpoints=run.checkpoints)
            totals["faults"] += run.harm
            totals.update(folded)
    return Tried(cell, len(seeds), totals, tuple(failures))
