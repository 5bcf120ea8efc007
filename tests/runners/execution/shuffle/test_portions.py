"""Bundles cut so that what a stage folds before a shuffle stays bounded."""

from __future__ import annotations

from typing import Any

import pytest
from groupings import grouping_of

import penstock as beam
from penstock.runners.execution.plan.fusion import Stage, fuse, shrinks
from penstock.runners.execution.shuffle import blocks as shuffle_blocks
from penstock.runners.execution.shuffle.blocks import ShuffleWriter
from penstock.runners.execution.shuffle.portions import Portions
from penstock.runners.execution.stages.executor import StageExecutor
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.bundle import Bundle
from penstock.windowing import Sessions


class Run:
    """A stage of a FlatMap and a fold; `most` is the most that its writer has held, in entries."""

    def __init__(self, expansion: int, window_fn: Any) -> None:
        p = beam.Pipeline()
        pcoll = p | beam.Create([0]) | beam.FlatMap(lambda i: [(i * 100_000 + j, 1) for j in range(expansion)])
        if window_fn is not None:
            pcoll = pcoll | beam.WindowInto(window_fn)
        pcoll | beam.CombinePerKey(sum)
        (stage,) = (s for s in fuse(p.graph(), shrinks).steps if isinstance(s, Stage))
        assert stage.fold is not None
        self.writer = ShuffleWriter(Fold(stage.fold), lambda group, block: None)
        self.most = 0
        self.executor = StageExecutor(
            stage, lambda tag, bundle: None, None, self.writer.cells, self.writer.fold, self.folded
        )
        self.portions = Portions(self.writer)

    def folded(self) -> None:
        cells = self.writer.cells
        # Of sessions a start, a size and a value.
        held = sum(map(len, cells.pending.values())) // 3 + sum(len(c.accumulators) for c in cells.by_window.values())
        self.most = max(self.most, held)
        self.writer.folded()

    def process(self, bundle: Bundle) -> list[int]:
        sizes = []
        for part in self.portions(bundle):
            sizes.append(len(part))
            self.executor.process(part)
        return sizes


@pytest.mark.parametrize("window_fn", [None, Sessions(10)], ids=["global", "sessions"])
@pytest.mark.parametrize("expansion", [1, 10, 1000, 5000])
def test_what_is_held_is_bounded_whatever_a_flat_map_makes(
    expansion: int, window_fn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All elements are processed, and counted."""
    monkeypatch.setattr(shuffle_blocks, "BUFFERED_ENTRIES", 10_000)
    run = Run(expansion, window_fn)
    n = 100_000 // expansion
    assert n == sum(run.process(Bundle(list(range(n)))))
    assert 15_000 >= run.most
    assert n * expansion == run.writer.entries()


def test_a_stage_that_makes_little_soon_gets_whole_bundles() -> None:
    """The overhead is a few small portions, once."""
    run = Run(1, None)
    assert [1, 4, 16, 64, 256, 659] == run.process(Bundle(list(range(1000))))
    assert [1000] == run.process(Bundle(list(range(1000, 2000))))


def test_a_bundle_keeps_its_columns_in_its_portions() -> None:
    """Timestamps and windows go with their values."""
    portions = Portions(ShuffleWriter(Fold(grouping_of(beam.GroupByKey())), lambda group, block: None))
    parts = list(portions(Bundle(["a", "b", "c"], [1, 2, 3])))
    assert [(["a"], [1]), (["b", "c"], [2, 3])] == [(part.values, part.timestamps) for part in parts]
