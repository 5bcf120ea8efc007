"""A step that isn't deterministic is told from a failure of the runner."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as beam
from penstock.runners.local.simulation.differing_steps import differing_step
from penstock.runners.local.simulation.run import Simulation
from penstock.sdk.errors import SimulationError


@pytest.fixture(autouse=True)
def counts() -> Iterator[None]:
    """A count that isn't pickled with the functions: each call goes on where the one before ended."""
    beam.counted = itertools.count()  # type: ignore[attr-defined]
    yield
    del beam.counted  # type: ignore[attr-defined]


def counted(element: Any) -> tuple[Any, int]:
    """Something else at each call."""
    return element, next(beam.counted)  # type: ignore[attr-defined]


def test_the_first_step_that_differs_is_named_and_none_behind_it() -> None:
    """With what it gave once and then."""
    p = beam.Pipeline()
    drawn = p | beam.Create([5]) | beam.Map(abs) | "Draw" >> beam.Map(counted)
    _ = drawn | beam.GroupByKey() | "Behind" >> beam.Map(str)
    assert (
        "'Draw' gave different outputs for equal inputs in two plain runs: (5, 0) in one, and (5, 1) in the other"
    ) == differing_step(p.graph())


def test_a_step_whose_side_input_differs_is_not_to_blame() -> None:
    """But the one that made the side input."""
    p = beam.Pipeline()
    side = p | "One" >> beam.Create([5]) | "Draw" >> beam.Map(counted)
    _ = p | "Two" >> beam.Create([1]) | "Use" >> beam.Map(lambda n, drawn: (n, drawn), beam.pvalue.AsSingleton(side))
    found = differing_step(p.graph())
    assert found is not None
    assert found.startswith("'Draw' gave")


def test_the_order_of_a_groups_values_is_no_difference() -> None:
    """Windows, tags and sinks of a deterministic pipeline are none either."""
    p = beam.Pipeline()
    numbers = p | beam.Create([(n % 3, n) for n in range(10)]) | beam.WindowInto(beam.window.FixedWindows(1))
    tagged = numbers | beam.ParDo(lambda pair: [beam.pvalue.TaggedOutput("odd", pair)]).with_outputs("odd", main="even")
    _ = tagged.odd | beam.GroupByKey()
    _ = numbers | beam.CombinePerKey(sum) | beam.Map(str) | beam.io.WriteToText("nothing is written here")
    assert differing_step(p.graph()) is None


def test_a_seed_that_fails_for_it_names_the_step() -> None:
    """After what was found to be missing."""
    p = beam.Pipeline()
    _ = p | beam.Create([1, 2, 3]) | "Draw" >> beam.Map(counted)
    with pytest.raises(
        SimulationError, match=r"(?s)output of Draw: .*\n'Draw' gave different outputs for equal inputs"
    ) as error:
        Simulation(p.graph()).run(0)
    assert "not to the runner" in str(error.value)
    assert (0, True) == (error.value.seed, bool(error.value.trace))


def test_a_clock_is_found_too() -> None:
    """By any cause of different outputs."""
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | "Stamp" >> beam.Map(lambda n: time.monotonic_ns())
    found = differing_step(p.graph())
    assert found is not None
    assert found.startswith("'Stamp' gave")
