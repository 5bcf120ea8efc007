"""fusion: where stages begin and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.execution.stages import only, plan_of

import penstock as beam
from penstock.runners.execution.plan.fusion import (
    MAX_OPERATIONS,
    Grouping,
    Output,
    Plan,
    Source,
    Stage,
    Union,
    fuse,
    is_final,
    shrinks,
)
from penstock.sdk.runs.run_on_values import CollectingSink
from penstock.sdk.side_inputs import AsList
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, WindowFn


def steps(build: Callable[[beam.Pipeline], Any]) -> list[str]:
    """Each step of a pipeline: its kind and the labels that it is made of."""
    return [described(step) for step in plan_of(build).steps]


def described(step: Any) -> str:
    label = step.label if isinstance(step, Stage) else step.transform.label
    return f"{type(step).__name__} {label}"


def numbers(p: beam.Pipeline, label: str = "numbers") -> Any:
    return p | label >> beam.Create([1, 2, 3])


def plus(label: str) -> Any:
    return label >> beam.Map(lambda x: x + 1)


def paired(label: str) -> Any:
    return label >> beam.Map(lambda x: (x % 2, x))


def grouping_of(windowing: Any, combined: bool = True) -> Any:
    """The primitive of a grouping after this WindowInto."""
    grouping = beam.CombinePerKey(sum) if combined else beam.GroupByKey()
    return only(plan_of(lambda p: numbers(p) | paired("pair") | windowing | grouping).steps, Grouping).primitive


def test_a_chain_is_one_stage() -> None:
    """Without a shuffle there is nothing between its operations."""

    def build(p: beam.Pipeline) -> None:
        (
            numbers(p)
            | plus("a")
            | beam.Filter(bool).with_output_types(int)
            | "window" >> beam.WindowInto(FixedWindows(60))
        )

    assert ["Source numbers/Values", "Stage a + Filter(bool) + window"] == steps(build)


def test_a_fold_belongs_to_the_stage_before_it() -> None:
    """With a combiner and without."""
    for grouping in ("sum" >> beam.CombinePerKey(sum), "group" >> beam.GroupByKey()):
        plan = plan_of(lambda p, g=grouping: numbers(p) | paired("pair") | g | "values" >> beam.Values())
        stage = plan.steps[1]
        assert isinstance(stage, Stage)
        assert [("pair + " + grouping.label), "values"] == [s.label for s in plan.steps if isinstance(s, Stage)]
        assert stage.fold is not None
        assert {} == stage.outputs
        assert only(plan.steps, Grouping).fused


def test_a_runner_says_which_folds_a_stage_may_end_in() -> None:
    """Where it may not, the grouping takes elements by itself."""
    pipeline = beam.Pipeline("local")
    numbers(pipeline) | paired("pair") | "sum" >> beam.CombinePerKey(sum)
    plan = fuse(pipeline.graph(), lambda *_: False)
    assert ["Source numbers/Values", "Stage pair", "Grouping sum"] == [described(step) for step in plan.steps]
    assert not only(plan.steps, Grouping).fused


def test_a_grouping_right_behind_a_source_or_a_flatten_takes_elements_by_itself() -> None:
    """There is no stage to fold in."""
    plan = plan_of(lambda p: p | beam.Create([("a", 1)]) | beam.GroupByKey())
    assert ["Source", "Grouping"] == [type(step).__name__ for step in plan.steps]
    assert not only(plan.steps, Grouping).fused


def test_a_stage_ends_where_its_output_has_two_consumers() -> None:
    """Both are given its bundles."""

    def build(p: beam.Pipeline) -> None:
        shared = numbers(p) | plus("a") | plus("b")
        shared | plus("c")
        shared | paired("d") | "sum" >> beam.CombinePerKey(sum)

    assert ["Source numbers/Values", "Stage a + b", "Stage c", "Stage d + sum", "Grouping sum"] == steps(build)


def test_a_stage_ends_where_its_output_is_a_side_input() -> None:
    """And one that has a side input begins anew: what comes for it may have to wait."""

    def build(p: beam.Pipeline) -> None:
        side = numbers(p, "side") | plus("a")
        numbers(p) | plus("b") | "c" >> beam.Map(lambda x, xs: x, AsList(side)) | plus("d")

    assert [
        "Source side/Values",
        "Stage a",
        "Source numbers/Values",
        "Stage b",
        "Stage c + d",
    ] == steps(build)


def test_a_pcollection_that_is_both_input_and_side_input_of_a_transform_ends_a_stage() -> None:
    """It has to be complete before it is read."""

    def build(p: beam.Pipeline) -> None:
        both = numbers(p) | plus("a")
        both | "b" >> beam.Map(lambda x, xs: x, AsList(both))

    assert ["Source numbers/Values", "Stage a", "Stage b"] == steps(build)


def test_a_stage_ends_in_a_pardo_with_several_outputs() -> None:
    """Each of them is a PCollection of its own."""

    def build(p: beam.Pipeline) -> None:
        outputs = numbers(p) | plus("a") | "b" >> beam.ParDo(lambda x: [x]).with_outputs("odd", main="even")
        outputs.even | plus("c")
        outputs.odd | plus("d")

    plan = plan_of(build)
    assert ["Source numbers/Values", "Stage a + b", "Stage c", "Stage d"] == [described(step) for step in plan.steps]
    assert {None, "odd"} == set(plan.steps[1].outputs)  # type: ignore[union-attr]


def test_flattens_and_sinks_are_steps_of_their_own() -> None:
    """Stages end before them and begin after them."""

    def build(p: beam.Pipeline) -> None:
        parts = (numbers(p, "m") | plus("a"), numbers(p, "n"))
        parts | "both" >> beam.Flatten() | plus("b") | "out" >> beam.io.Write(CollectingSink())

    assert ["Source m/Values", "Stage a", "Source n/Values", "Union both", "Stage b"] == steps(build)[:5]
    assert "Output out" in steps(build)[5]


def test_a_long_chain_is_cut() -> None:
    """Python nests only so many loops in a function."""

    def build(p: beam.Pipeline) -> None:
        pcoll = numbers(p)
        for i in range(MAX_OPERATIONS + 1):
            pcoll = pcoll | f"{i}" >> beam.FlatMap(lambda x: [x])

    plan = plan_of(build)
    assert [MAX_OPERATIONS, 1] == [len(step.operations) for step in plan.steps if isinstance(step, Stage)]


def test_a_plan_knows_the_consumers_of_a_pcollection() -> None:
    """As often as it does; a fold that is part of a stage doesn't."""

    def build(p: beam.Pipeline) -> None:
        twice = numbers(p) | plus("a")
        (twice, twice) | "both" >> beam.Flatten() | paired("pair") | "sum" >> beam.CombinePerKey(sum)

    plan = plan_of(build)
    consumed = {
        described(producer): [described(step) for step in plan.consumers(output)]
        for producer in plan.steps
        for output in outputs_of(producer)
    }
    assert {
        "Source numbers/Values": ["Stage a"],
        "Stage a": ["Union both", "Union both"],
        "Union both": ["Stage pair + sum"],
        "Grouping sum": [],
    } == consumed


def outputs_of(step: Any) -> list[int]:
    return list(step.outputs.values() if isinstance(step, Stage) else step.transform.outputs.values())


def test_a_plan_knows_what_is_a_side_input() -> None:
    """By the number of the PCollection."""

    def build(p: beam.Pipeline) -> None:
        numbers(p) | "b" >> beam.Map(lambda x, xs: x, AsList(numbers(p, "side")))

    plan = plan_of(build)
    (stage,) = [step for step in plan.steps if isinstance(step, Stage)]
    assert plan.side_input_ids() == {s.pcollection for s in stage.side_inputs}
    assert ["side/Values"] == [plan.graph.pcollections[i].producer for i in plan.side_input_ids()]


class MergesAll(WindowFn):
    """Merges by a function of its own."""

    def assign_windows(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        return [IntervalWindow(0, 1)]

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        pass


COUNTING = {"trigger": Repeatedly(AfterCount(2)), "accumulation_mode": AccumulationMode.DISCARDING}


@pytest.mark.parametrize(
    ("windowing", "combined", "expected"),
    [
        (beam.WindowInto(FixedWindows(60)), True, (True, True)),
        (beam.WindowInto(FixedWindows(60)), False, (True, False)),
        (beam.WindowInto(Sessions(60)), True, (True, True)),
        (beam.WindowInto(MergesAll()), True, (True, False)),
        (beam.WindowInto(FixedWindows(60), **COUNTING), True, (False, False)),
    ],
)
def test_what_is_folded_before_a_shuffle(windowing: Any, combined: bool, expected: tuple[bool, bool]) -> None:
    """A grouping with one result for each window; and, to make less of the data, a combiner."""
    grouping = grouping_of(windowing, combined)
    assert expected == (is_final(grouping), shrinks(grouping))


@pytest.mark.parametrize(("grouping", "is_fused"), [(beam.CombinePerKey(sum), True), (beam.GroupByKey(), False)])
def test_a_stage_folds_before_a_shuffle_what_that_shrinks(grouping: Any, is_fused: bool) -> None:
    """Elements of a plain grouping go there in bundles."""
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | beam.Map(lambda n: (n, n)) | grouping
    (step,) = (step for step in fuse(p.graph(), shrinks).steps if isinstance(step, Grouping))
    assert is_fused == step.fused


def test_every_step_of_a_plan_stands_behind_those_that_it_reads() -> None:
    """A runner can process them in order."""

    def build(p: beam.Pipeline) -> None:
        side = numbers(p, "side") | plus("a")
        main = numbers(p) | paired("pair") | "sum" >> beam.CombinePerKey(sum)
        mapped = main | "b" >> beam.Map(lambda x, xs: x, AsList(side))
        (mapped, main) | "both" >> beam.Flatten() | "out" >> beam.io.Write(CollectingSink())

    assert_in_order(plan_of(build))


def assert_in_order(plan: Plan) -> None:
    made: set[int] = set()
    for step in plan.steps:
        if isinstance(step, Stage):
            assert step.input in made
            assert made >= {s.pcollection for s in step.side_inputs}
            made.update(i for t in step.operations for i in t.outputs.values())
        else:
            assert isinstance(step, (Source, Grouping, Union, Output))
            assert made >= set(step.transform.inputs)
            made.update(step.transform.outputs.values())
