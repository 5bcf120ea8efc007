"""Pipelines of thousands of transforms: built, fused and run, at a cost that grows with their number and no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from checks import check

import penstock as beam
from penstock.runners.execution.execution_graph import cut
from penstock.runners.execution.fusion import fuse
from penstock.runners.spark import segments
from penstock.sdk.drawing import to_dot, to_html, to_mermaid
from penstock.sdk.side_inputs import AsList, AsSingleton
from penstock.sdk.userstate import CombiningValueStateSpec
from penstock.testing import TestPipeline

# A call for each step of so long a pipeline is more than Python's stack takes.
LONG = 1_200


class Counting(beam.DoFn):
    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(1)
        yield element


class Tens(beam.PTransform):
    """Composites of ten Maps each, side by side in this one."""

    def __init__(self, n: int) -> None:
        super().__init__("tens")
        self.n = n

    def expand(self, pcoll: Any) -> Any:
        for i in range(self.n):
            pcoll = pcoll | f"ten {i}" >> beam.ptransform_fn(chained)()
        return pcoll


def chained(pcoll: Any, n: int = 10) -> Any:
    for i in range(n):
        pcoll = pcoll | f"step {i}" >> beam.Map(lambda x: x)
    return pcoll


def chain(p: Any, n: int) -> Any:
    return chained(p | beam.Create([1]), n)


def fan_out(p: Any, n: int) -> Any:
    one = p | beam.Create([1])
    return [one | f"step {i}" >> beam.Map(lambda x, i=i: i) for i in range(n)] | beam.Flatten() | beam.Filter(bool)


def flattens(p: Any, n: int) -> Any:
    numbers = p | beam.Create([1])
    for i in range(n):
        numbers = (numbers,) | f"step {i}" >> beam.Flatten()
    return numbers


def nested(p: Any, n: int) -> Any:
    return p | beam.Create([1]) | Tens(n // 10)


def groupings(p: Any, n: int) -> Any:
    numbers = p | beam.Create([("k", 1)])
    for i in range(n):
        numbers = numbers | f"step {i}" >> beam.CombinePerKey(sum)
    return numbers


def stateful(p: Any, n: int) -> Any:
    numbers = p | beam.Create([("k", 1)])
    for i in range(n):
        numbers = numbers | f"step {i}" >> beam.ParDo(Counting())
    return numbers


def side_inputs(p: Any, n: int) -> Any:
    numbers, side = p | beam.Create([1]), p | "side" >> beam.Create([1])
    for i in range(n):
        numbers = numbers | f"step {i}" >> beam.Map(lambda x, y: x * y, AsSingleton(side))
    return numbers


def diamonds(p: Any, n: int) -> Any:
    numbers = p | beam.Create([1])
    for i in range(n // 2):
        side = numbers | f"side {i}" >> beam.Map(lambda x: x)
        numbers = numbers | f"step {i}" >> beam.Map(lambda x, y: x, AsList(side))
    return numbers


def joined_diamonds(p: Any, n: int) -> Any:
    numbers = p | beam.Create([1])
    for i in range(n // 3):
        parts = [numbers | f"{side} {i}" >> beam.Filter(lambda x, s=side: s) for side in (True, False)]
        numbers = parts | f"step {i}" >> beam.Flatten()
    return numbers


def sources(p: Any, n: int) -> Any:
    return [p | f"step {i}" >> beam.Create([i]) for i in range(n)] | beam.Flatten() | beam.Filter(lambda x: x == 1)


SHAPES: list[Callable[[Any, int], Any]] = [
    chain,
    fan_out,
    flattens,
    nested,
    groupings,
    stateful,
    side_inputs,
    diamonds,
    joined_diamonds,
    sources,
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_pipeline_may_be_longer_than_the_stack_is_deep(shape: Callable[[Any, int], Any]) -> None:
    """Whatever it consists of, and when it is run again."""
    with TestPipeline() as p:
        shape(p, LONG) | "count" >> beam.combiners.Count.Globally() | beam.Map(check_count, shape.__name__)


def check_count(count: int, name: str) -> None:
    assert count == (LONG - 1 if name == "fan_out" else 1)


def calls(work: Callable[[], Any]) -> int:
    """How many calls of Python functions some work takes."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def run(shape: Callable[[Any, int], Any], n: int) -> None:
    with beam.Pipeline("local") as p:
        shape(p, n)


def planned(shape: Callable[[Any, int], Any], n: int) -> None:
    p = beam.Pipeline("local")
    shape(p, n)
    plan = fuse(p.outline(), lambda grouping: False)
    cut(plan)
    segments.cut(plan)
    for draw in (to_mermaid, to_dot, to_html):
        draw(p.outline())


@pytest.mark.parametrize("work", [run, planned])
@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_the_number_of_transforms_and_no_faster(
    shape: Callable[[Any, int], Any], work: Callable[[Callable[[Any, int], Any], int], None]
) -> None:
    """Ten times as many transforms take ten times as many calls, in building and running, planning and drawing."""
    work(shape, 10)
    few, many = (calls(lambda n=n: work(shape, n)) for n in (50, 500))

    assert many < 11 * few


@pytest.mark.parametrize(("shape", "n"), [(chain, 60), (flattens, 60), (groupings, 12), (diamonds, 12)])
def test_steps_one_after_the_other_run_on_every_runner(pipeline: Any, shape: Callable[[Any, int], Any], n: int) -> None:
    """More of them than are called from within each other."""
    with pipeline as p:
        check([("k", 1)] if shape is groupings else [1], shape(p, n))
