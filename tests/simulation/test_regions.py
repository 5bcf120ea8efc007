"""Simulations in which only the failover region of a failure restarts, with all other faults."""

from __future__ import annotations

import attrs
import pytest
from simulation.matrix import folding
from simulation.negative_controls import WorkersWithoutReplayDedup
from simulation.simulated_pipelines import join, script

import penstock as beam
from penstock.runners.local.simulation.run import Simulation, SimulationSettings
from penstock.runners.local.simulation.world import Faults
from penstock.sdk.errors import SimulationError

# Workers die and hang rather than that anything else happens.
FAULTS = Faults(deaths=10, failures=1, failing=0.005, hangs=2, repeating=0.05, stopped=1)
SETTINGS = SimulationSettings(recovery="region", parallelism=3, faults=FAULTS)


def one_shuffle(p: beam.Pipeline) -> None:
    """Long enough for a few checkpoints."""
    numbers = p | beam.io.Read(script(1, 3, 80)) | beam.WindowInto(beam.window.FixedWindows(10))
    _ = numbers | beam.CombinePerKey(sum) | beam.Map(lambda pair: pair)


def two_components(p: beam.Pipeline) -> None:
    """No channel leads from one to the other."""
    for name, combined in (("Left", sum), ("Right", max)):
        numbers = p | name >> beam.io.Read(script(1, 3, 30))
        _ = (
            numbers
            | f"{name}W" >> beam.WindowInto(beam.window.FixedWindows(20))
            | f"{name}C" >> beam.CombinePerKey(combined)
        )


def simulation(build: object, settings: SimulationSettings = SETTINGS) -> Simulation:
    """Return the simulation of a pipeline."""
    p = beam.Pipeline()
    build(p)  # type: ignore[operator]
    return Simulation(p.graph(), settings)


def test_regions_start_again_and_nothing_is_lost_or_comes_twice() -> None:
    """Over many seeds some failures restart a region, and some the whole graph."""
    traces = [simulation(build).run(seed).trace for build in (one_shuffle, two_components, join) for seed in range(5)]
    lines = [line for trace in traces for line in trace]
    for what in ("subtasks restart from epoch", "The whole graph restarts, not a region"):
        assert any(what in line for line in lines), what


def test_folded_elements_are_not_lost_and_do_not_come_twice() -> None:
    """Sources' tasks send accumulators too; after the restart of a region they replay elements."""
    with folding() as count:
        lines = [line for seed in range(12) for line in simulation(one_shuffle).run(seed).trace]

    assert any("subtasks restart from epoch" in line for line in lines)
    assert count["accumulators"] < count["folded"]


def test_if_repetitions_are_not_dropped_results_are_wrong() -> None:
    """A negative control: some seed finds wrong results."""
    found = simulation(one_shuffle, attrs.evolve(SETTINGS, workers=WorkersWithoutReplayDedup))

    def run_all() -> None:
        for seed in range(15, 75):
            found.run(seed)

    with pytest.raises(SimulationError, match="seed"):
        run_all()
