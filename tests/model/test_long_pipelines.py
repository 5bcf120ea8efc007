"""Pipelines of thousands of transforms: built, fused and run, at a cost that grows with their number and no faster."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle
import pytest
from support.execution.subtasks import graph_of
from support.pipelines.checks import check

import penstock as beam
from penstock.runners.execution.plan import segments
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.channels.channel import Channel, ChannelId
from penstock.runners.local.subtask.reports import Completed
from penstock.runners.local.subtask.subtask import Subtask
from penstock.runners.local.workers.pool import ids_of
from penstock.runners.local.workers.slot import Slot, Start
from penstock.sdk.drawing.drawing import to_dot, to_html, to_mermaid, to_text
from penstock.sdk.errors import PipelineError
from penstock.sdk.side_inputs import AsList, AsSingleton
from penstock.sdk.userstate import CombiningValueStateSpec
from penstock.testing import TestPipeline, assert_that, equal_to

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
    """With any transforms, and also in a second run."""
    with TestPipeline() as p:
        shape(p, LONG) | "count" >> beam.combiners.Count.Globally() | beam.Map(check_count, shape.__name__)


def check_count(count: int, name: str) -> None:
    assert count == (LONG - 1 if name == "fan_out" else 1)


def calls(work: Callable[[], Any], of: CodeType | None = None) -> int:
    """How many calls of Python functions some work takes, or of the one with this code."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call" and (of is None or frame.f_code is of)

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
    plan = fuse(p.outline(), lambda *_: False)
    cut(plan)
    segments.cut(plan)
    for draw in (to_text, to_mermaid, to_dot, to_html):
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


@pytest.mark.parametrize("work", [inspect.signature, cloudpickle.dumps])
def test_functions_of_one_loop_are_neither_examined_nor_pickled_one_by_one(work: Any) -> None:
    """Their code is equal, and says all that there is to say of them."""
    run(side_inputs, 10)
    few, many = (calls(lambda n=n: run(side_inputs, n), of=work.__code__) for n in (50, 500))

    assert few == many


@pytest.mark.parametrize("shape", [groupings, stateful, diamonds])
def test_a_worker_passes_over_tasks_that_wait_for_messages(shape: Callable[[Any, int], Any]) -> None:
    """A long pipeline is many tasks in a stream, and at any time few of them have anything to do."""

    def stream(n: int) -> None:
        graph = graph_of(lambda p: shape(p, n), 1)
        channels: dict[ChannelId, Channel] = {}
        start = Start(None, None, "", "attempt")
        slot = Slot(graph, ids_of(graph), start, lambda id: channels.setdefault(id, Channel(id)), reports.append, int)
        slot.start()
        while slot.work():
            pass

    reports: list[Any] = []
    few, many = (calls(lambda n=n: stream(n), of=Subtask.step.__code__) for n in (10, 100))

    assert any(isinstance(news, Completed) for _, news in reports)
    assert many < 11 * few


class Inside(beam.PTransform):
    """A composite in a composite in a composite, and a Map in the innermost."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "inner" >> Inside(self.levels - 1) if self.levels else pcoll | beam.Map(lambda x: x + 1)


class Endless(beam.PTransform):
    """A composite that is made of itself."""

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "again" >> Endless()


@pytest.mark.parametrize(("transform", "innermost"), [(Inside(2_000), "inner"), (Endless(), "again")])
def test_composites_nested_deeper_than_the_stack_are_refused_by_name(transform: Any, innermost: str) -> None:
    """The pipeline is afterwards what it was before, and can be gone on with."""
    p = TestPipeline()
    numbers = p | beam.Create([1])
    with pytest.raises(PipelineError) as refused:
        numbers | "outermost" >> transform

    assert re.fullmatch(
        rf"outermost: it has \d+ composites nested in each other, down to '{innermost}', and Python's stack holds no "
        r"more \(sys.getrecursionlimit\(\) is \d+\)\. An expand that applies its own transform has to end; .*",
        str(refused.value),
    )
    with p:
        assert_that(numbers | "outermost" >> beam.Map(lambda x: 2 * x), equal_to([2]))


def test_an_expand_that_recurses_by_itself_keeps_its_own_error() -> None:
    """Few composites haven't used up the stack."""

    def recurse(pcoll: Any) -> Any:
        return recurse(pcoll)

    p = TestPipeline()
    with pytest.raises(RecursionError):
        p | beam.Create([1]) | beam.ptransform_fn(lambda p: p | beam.ptransform_fn(recurse)())()


def test_composites_may_be_nested_as_deeply_as_the_stack_was_made() -> None:
    """They are drawn and run, too."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * limit)
    try:
        with TestPipeline() as p:
            assert_that(p | beam.Create([1]) | "outermost" >> Inside(500), equal_to([2]))
            for draw in (to_text, to_mermaid, to_dot, to_html):
                assert draw(p.outline())
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(("shape", "n"), [(chain, 60), (flattens, 60), (groupings, 12), (diamonds, 12)])
def test_steps_one_after_the_other_run_on_every_runner(pipeline: Any, shape: Callable[[Any, int], Any], n: int) -> None:
    """More of them than are called from within each other."""
    with pipeline as p:
        check([("k", 1)] if shape is groupings else [1], shape(p, n))
