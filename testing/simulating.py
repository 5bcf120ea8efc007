"""The fixture `simulate`: a pipeline under many seeds, with simulated failures, in a test.

>>> import penstock as beam
>>> p = beam.Pipeline()
>>> _ = p | beam.Create([1, 2, 2]) | beam.combiners.Count.PerElement()
>>> simulate_pipeline(p, seeds=3)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..sdk.pipeline import Pipeline
from ..sdk.runner import DEFAULT_RUNNER, create_runner


def simulate_pipeline(pipeline: Pipeline, seeds: int | Iterable[int] = 20, **settings: Any) -> None:
    """Simulate a pipeline under seeds.  Raise an error that names the first seed that fails.

    The results must equal those of a plain run: rows with timestamps and windows, less retracted ones.  Sources must
    end, as `ScriptedSource` does.  Sinks are replaced.

    Args:
      seeds: the seeds, or their number.
      settings: fields of the local runner's `SimulationSettings`, such as `mode` and `parallelism`.

    >>> import penstock as beam
    >>> from penstock.testing import ScriptedSource, simulate_pipeline
    >>> at = beam.window.TimestampedValue
    >>> p = beam.Pipeline()
    >>> events = p | beam.io.Read(ScriptedSource([[at("a", 5), at("b", 7)], [at("a", 70)]]))
    >>> _ = events | beam.WindowInto(beam.window.FixedWindows(60)) | beam.combiners.Count.PerElement()
    >>> simulate_pipeline(p, seeds=2)
    """
    simulation = create_runner(DEFAULT_RUNNER).simulation(pipeline.graph(), **settings)
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        simulation.run(seed)
