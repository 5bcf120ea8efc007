"""The plan cut at its shuffles: tasks and the edges between them."""

from __future__ import annotations

from typing import Any

from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.plan.execution_graph import EdgeKind, ExecutionGraph, whole
from penstock.runners.execution.plan.fusion import Grouping

SHUFFLE, FORWARD, BROADCAST = EdgeKind.SHUFFLE, EdgeKind.FORWARD, EdgeKind.BROADCAST


def edges(graph: ExecutionGraph) -> list[tuple[int, EdgeKind, int]]:
    """Producer, kind and consumer of each edge."""
    return [(edge.producer, edge.kind, edge.consumer) for task in graph.tasks for edge in task.inputs]


def pairs(p: Any, label: str = "read") -> Any:
    return p | label >> beam.Create([("a", 1)])


def test_what_has_no_shuffle_is_one_task() -> None:
    """With any steps."""
    graph = graph_of(lambda p: pairs(p) | beam.MapTuple(lambda k, v: k) | beam.Filter(bool))
    assert (1, []) == (len(graph.tasks), edges(graph))


def test_nothing_is_one_task_as_well() -> None:
    """One subtask has to report that the job is complete."""
    assert [()] == [task.steps for task in graph_of(lambda p: None).tasks]


def test_each_grouping_begins_a_task() -> None:
    """And so does a ParDo with state."""
    graph = graph_of(lambda p: pairs(p) | beam.GroupByKey() | beam.GroupIntoBatches(2) | beam.Map(len))
    assert [(0, SHUFFLE, 1), (1, SHUFFLE, 2)] == edges(graph)


def test_both_ways_of_a_diamond_meet_in_one_task() -> None:
    """The shorter one is forwarded there."""

    def build(p: Any) -> None:
        own = pairs(p)
        sums = own | beam.CombinePerKey(sum)
        (own, sums) | beam.Flatten() | beam.Map(len)

    assert [(0, SHUFFLE, 1), (0, FORWARD, 1)] == sorted(edges(graph_of(build)), key=lambda e: e[1].value, reverse=True)


def test_flattened_groupings_of_different_depths_meet_at_the_deepest() -> None:
    """A shorter path is forwarded through several tasks."""

    def build(p: Any) -> None:
        first = pairs(p) | "1" >> beam.CombinePerKey(sum)
        second = first | "2" >> beam.CombinePerKey(sum)
        third = (first, second, pairs(p, "more")) | beam.Flatten() | "3" >> beam.CombinePerKey(sum)
        third | beam.Map(len)

    graph = graph_of(build)
    for producer, _, consumer in edges(graph):
        assert producer < consumer
    groupings = [[type(step) is Grouping for step in task.steps].count(True) for task in graph.tasks]
    assert 3 == sum(groupings)
    assert max(groupings) == 1


def test_groupings_side_by_side_are_tasks_of_their_own_until_they_meet() -> None:
    """Two groupings of the same depth that share no path."""

    def apart(p: Any) -> None:
        own = pairs(p)
        own | "left" >> beam.CombinePerKey(sum)
        own | "right" >> beam.CombinePerKey(max)

    def together(p: Any) -> None:
        own = pairs(p)
        (own | "left" >> beam.CombinePerKey(sum), own | "right" >> beam.CombinePerKey(max)) | beam.Flatten()

    assert (3, 2) == (len(graph_of(apart).tasks), len(graph_of(together).tasks))


def test_a_side_input_is_broadcast_to_the_task_after_its_own() -> None:
    """Also where the main input was read beside it."""

    def build(p: Any) -> None:
        sides = p | "sides" >> beam.Create([1])
        pairs(p) | beam.Map(lambda pair, sides: pair, beam.pvalue.AsList(sides))

    graph = graph_of(build)
    assert {FORWARD, BROADCAST} == {kind for _, kind, _ in edges(graph)}
    assert [None] == [e.step for task in graph.tasks for e in task.inputs if e.kind is BROADCAST]


def test_a_whole_plan_is_one_task_without_edges() -> None:
    """Side inputs and shuffles included."""
    graph = whole(graph_of(lambda p: pairs(p) | beam.GroupByKey() | beam.GroupIntoBatches(2)).plan)
    assert (1, []) == (len(graph.tasks), edges(graph))
