"""A wrong `merge_accumulators` is found by a simulation, though a stream in one process needn't merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import penstock as beam
from penstock.runners.local.simulation.merging_often import MergingOften, merging_often
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.sdk.combine_fn import CombineFn
from penstock.sdk.errors import SimulationError
from penstock.testing import TestPipeline
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows


class Total(CombineFn[int, int, int]):
    """A sum, step by step."""

    def create_accumulator(self, *args: Any) -> int:
        return 0

    def add_input(self, accumulator: int, element: int, *args: Any) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int], *args: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int, *args: Any) -> int:
        return accumulator


class Forgets(Total):
    """Merging takes the first accumulator alone."""

    def merge_accumulators(self, accumulators: Iterable[int], *args: Any) -> int:
        return next(iter(accumulators))


class Fails(Total):
    """Merging can't be done with an empty accumulator."""

    def merge_accumulators(self, accumulators: Iterable[int], *args: Any) -> int:
        return sum(1 // accumulator * accumulator for accumulator in accumulators)


def totals(combiner: Any, **changes: Any) -> Any:
    p = TestPipeline()
    pairs = p | beam.Create([("a" if n % 4 else "b", n) for n in range(1, 13)])
    if changes:
        pairs = pairs | beam.WindowInto(GlobalWindows(), **changes)
    pairs | "Total" >> beam.CombinePerKey(combiner)
    return p.graph()


SETTINGS = SimulationSettings(parallelism=1)


def test_a_wrong_merge_is_found_and_named() -> None:
    simulation = Simulation(totals(Forgets()), SETTINGS)
    with pytest.raises(SimulationError, match=r"'Total' returns another result if its combiner \(Forgets\) merges"):
        simulation.run(1)


def test_a_function_that_is_not_associative_is_found_and_named() -> None:
    """It is called with its own results among the values."""
    simulation = Simulation(totals(lambda values: sum(value * value for value in values)), SETTINGS)
    with pytest.raises(SimulationError, match="'Total' returns another result if its combiner"):
        simulation.run(1)


def test_a_merge_that_fails_is_told_of() -> None:
    with pytest.raises(SimulationError, match="A plain run whose combiners merge fails, too: .*ZeroDivision"):
        Simulation(totals(Fails()), SETTINGS).run(1)


@pytest.mark.parametrize("combiner", [Total(), sum, max, lambda values: sum(values)])
def test_a_right_merge_passes(combiner: Any) -> None:
    simulation = Simulation(totals(combiner), SETTINGS)
    for seed in range(5):
        simulation.run(seed)


def test_what_may_be_retracted_is_taken_back_from_what_was_merged() -> None:
    changes = {"trigger": Repeatedly(AfterCount(1)), "accumulation_mode": AccumulationMode.RETRACTING}
    Simulation(totals(Total(), **changes), SETTINGS).run(1)


def test_combiners_of_the_package_stay_as_they_are() -> None:
    """Their laws have tests of their own, and some are approximations."""
    combined = merging_often(totals(sum)).transforms[-1].primitive.combine.object
    assert not isinstance(combined, MergingOften)
    combined = merging_often(totals(Total())).transforms[-1].primitive.combine.object
    assert isinstance(combined, MergingOften)
