"""cells and fold: what a grouping holds, and how it becomes results."""

from __future__ import annotations

from typing import Any

import pytest
from support.execution.stages import GroupingAlone, bundle, only, plan_of, row, window

import penstock as beam
from penstock.runners.execution.plan.fusion import Grouping
from penstock.runners.execution.windows.cell_table import CellTable
from penstock.runners.execution.windows.combining import Fold
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError
from penstock.windowing import FixedWindows, GlobalWindow, Sessions, TimestampCombiner


class Longest(beam.CombineFn):
    """Without an inline form; counts its life cycle."""

    events: list[str] = []

    def setup(self) -> None:
        self.events.append("setup")

    def create_accumulator(self) -> str:
        return ""

    def add_input(self, accumulator: str, element: str) -> str:
        return max(accumulator, element, key=len)

    def merge_accumulators(self, accumulators: Any) -> str:
        return max(accumulators, key=len)

    def compact(self, accumulator: str) -> str:
        return accumulator.strip()

    def extract_output(self, accumulator: str) -> str:
        return accumulator.upper()

    def teardown(self) -> None:
        self.events.append("teardown")


def fold_of(grouping: Any, *before: Any) -> Fold:
    def build(p: beam.Pipeline) -> Any:
        pcoll = p | beam.Create([("a", 1)]).with_output_types(Any)
        for transform in before:
            pcoll = pcoll | transform
        return pcoll | grouping

    return Fold(only(plan_of(build).steps, Grouping).transform)


# Cells


def test_a_window_is_opened_once() -> None:
    """Opening it again returns the same cells."""
    cells = CellTable()
    assert cells.open(window(0, 60)) is cells.open(window(0, 60))


def test_cells_count_keys_in_each_window() -> None:
    """A key of two windows is two cells."""
    grouping = GroupingAlone(beam.WindowInto(FixedWindows(60)), beam.CombinePerKey(sum))
    grouping.process(bundle(row(("a", 1), 0), row(("a", 1), 30), row(("a", 1), 60), row(("b", 1), 60)))
    assert 3 == len(grouping.operator.cells)


def test_cells_count_keys_whose_windows_have_yet_to_merge() -> None:
    """Not their elements."""
    grouping = GroupingAlone(beam.WindowInto(Sessions(60)), beam.CombinePerKey(sum))
    grouping.process(bundle(row(("a", 1), 0), row(("a", 1), 30), row(("b", 1), 60)))
    assert 2 == len(grouping.operator.cells)


def test_cells_are_taken_out_once() -> None:
    """A second removal finds nothing."""
    grouping = GroupingAlone(beam.CombinePerKey(sum)).process(Bundle([("a", 1), ("a", 2)]))
    taken = [(cells.window, cells.accumulators) for cells in grouping.operator.cells.take()]
    assert [(GlobalWindow(), {"a": 3})] == taken
    assert 0 == len(grouping.operator.cells)


@pytest.mark.parametrize("window_fn", [FixedWindows(60), Sessions(60)])
def test_only_keys_that_are_new_in_a_bundle_are_looked_at(window_fn: Any) -> None:
    """A key without an encoding is found in the bundle that brings it, and named."""
    grouping = GroupingAlone(beam.WindowInto(window_fn), beam.CombinePerKey(sum))
    grouping.process(bundle(row(("a", 1)), row((("b", 2), 1))))
    with pytest.raises(InvalidKeyError, match="<object object at .*> .an object. has no deterministic encoding"):
        grouping.process(bundle(row(("a", 1)), row((object(), 1))))


# Fold


def test_a_plain_grouping_folds_values_into_lists() -> None:
    """An accumulator is the list of its values, and so is the result."""
    fold = fold_of(beam.GroupByKey())
    assert [1, 2, 3] == fold.merged([fold.of([1, 2]), fold.of([3])])
    assert not fold.extracts
    assert [1] == fold.extracted([1])
    assert [[1], [2]] == fold.compacted([[1], [2]])


def test_a_fold_makes_merges_compacts_and_extracts_accumulators() -> None:
    """As its combiner says."""
    fold = fold_of(beam.CombinePerKey(Longest()))
    assert "ccc " == fold.merged([fold.of(["a", "bb"]), fold.of(["ccc "])])
    assert ["ccc"] == fold.compacted(["ccc "])
    assert fold.extracts
    assert "CCC" == fold.extracted("ccc")


def test_one_accumulator_needs_no_merging() -> None:
    """It is handed on as it is."""
    accumulator = object()
    assert accumulator is fold_of(beam.CombinePerKey(Longest())).merged([accumulator])


def test_a_result_that_is_its_accumulator_is_not_extracted() -> None:
    """A sum is what has been summed."""
    fold = fold_of(beam.CombinePerKey(sum))
    assert not fold.extracts
    assert 7 == fold.extracted(7)


def test_a_fold_has_a_combiner_of_its_own() -> None:
    """The combiners of two workers are independent."""
    combiner = Longest()
    fold = fold_of(beam.CombinePerKey(combiner))
    fold.setup()
    fold.teardown()
    assert combiner is not fold.combine_fn
    assert ["setup", "teardown"] == fold.combine_fn.events  # type: ignore[union-attr]


def test_a_plain_grouping_has_nothing_to_set_up() -> None:
    """Its life cycle is empty."""
    fold = fold_of(beam.GroupByKey())
    fold.setup()
    fold.teardown()
    assert fold.combine_fn is None


@pytest.mark.parametrize(
    ("combiner", "width"),
    [
        (TimestampCombiner.OUTPUT_AT_EOW, 3),
        (TimestampCombiner.OUTPUT_AT_EARLIEST, 4),
        (TimestampCombiner.OUTPUT_AT_LATEST, 4),
    ],
)
def test_timestamps_are_kept_where_a_combiner_looks_at_them(combiner: TimestampCombiner, width: int) -> None:
    """Of elements whose windows have yet to merge."""
    windowed = beam.WindowInto(Sessions(60), timestamp_combiner=combiner)
    grouping = GroupingAlone(windowed, beam.CombinePerKey(sum)).process(bundle(row(("a", 7), 5), row(("a", 8), 1)))
    entries = [5_000_000, 60_000_000, 7, 5_000_000][:width] + [1_000_000, 60_000_000, 8, 1_000_000][:width]
    assert width == grouping.fold.operation.pending_width
    assert {"a": entries} == grouping.operator.cells.pending
