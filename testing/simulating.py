"""The fixture `simulate`: a pipeline under many seeds, with all that can go wrong, in a test.

>>> import penstock as beam
>>> p = beam.Pipeline()
>>> _ = p | beam.Create([1, 2, 2]) | beam.combiners.Count.PerElement()
>>> simulate_pipeline(p, seeds=3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..sdk.pipeline import Pipeline
from ..sdk.runner import create_runner


def simulate_pipeline(pipeline: Pipeline, seeds: int | Iterable[int] = 20, **settings: Any) -> None:
    """Simulate a pipeline, which isn't run, under these seeds; raises for the first one that fails, and names it.

    What comes of it has to be what a plain run gives: rows with timestamps and windows, less what was
    retracted.  Sources must have an end (`ScriptedSource` has); nothing is written into sinks.

    Args:
      seeds: which ones, or how many.
      settings: of the local runner's `SimulationSettings`, such as `mode` and `parallelism`.
    """
    simulation = create_runner("local").simulation(pipeline.graph(), **settings)
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        simulation.run(seed)
