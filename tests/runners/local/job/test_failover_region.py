"""Failover regions of pipelines of several shapes, and repeatable tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.plan.execution_graph import ExecutionGraph, SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.job.failover_region import continuing_receivers, region_of, touching, why_not_repeatable
from penstock.sdk.errors import OptionsError
from penstock.testing import ScriptedSource, TestStream


def graph_of(build: Callable[[beam.Pipeline], Any], parallelism: int = 3) -> ExecutionGraph:
    """Return the execution graph of a pipeline."""
    p = beam.Pipeline()
    build(p)
    return cut(fuse(p.graph(), lambda *_: False), parallelism)


def region(graph: ExecutionGraph, *failed: tuple[int, int]) -> dict[int, list[int]]:
    """Return, by task, the indices of the subtasks that restart."""
    repeatable = [task for task, why in why_not_repeatable(graph).items() if why is None]
    found: dict[int, list[int]] = {}
    for id in sorted(region_of(graph, [SubtaskId(*each) for each in failed], repeatable)):
        found.setdefault(id.task, []).append(id.index)
    return found


def count(pcollection: Any, label: str) -> Any:
    """One shuffle."""
    return pcollection | f"Count {label}" >> beam.combiners.Count.PerElement()


def one_shuffle(p: beam.Pipeline) -> None:
    count(p | beam.Create(range(9)), "them")


def test_behind_one_shuffle_all_sources_and_one_keyed_subtask_restart() -> None:
    """The other keyed subtasks keep their state."""
    assert {0: [0, 1, 2], 1: [1]} == region(graph_of(one_shuffle), (1, 1))


def test_a_source_restarts_alone() -> None:
    """Its receivers drop the records that it sends again."""
    assert {0: [2]} == region(graph_of(one_shuffle), (0, 2))


def test_all_subtasks_of_a_dead_process_have_failed() -> None:
    """One subtask of each task."""
    assert {0: [0, 1, 2], 1: [1]} == region(graph_of(one_shuffle), (0, 1), (1, 1))


def test_with_two_shuffles_in_a_chain_all_subtasks_restart() -> None:
    """The output of a task behind a shuffle depends on the order of its inputs, which is another one."""

    def build(p: beam.Pipeline) -> None:
        count(count(p | beam.Create(range(9)), "once"), "twice")

    assert {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]} == region(graph_of(build), (1, 1))
    assert {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]} == region(graph_of(build), (2, 0))
    assert {0: [0]} == region(graph_of(build), (0, 0))


def test_a_failure_restarts_subtasks_of_its_component_only() -> None:
    """No channel connects the components."""

    def build(p: beam.Pipeline) -> None:
        count(p | "One" >> beam.Create(range(9)), "one")
        count(p | "Other" >> beam.Create(range(9)), "other")

    graph = graph_of(build)
    (failed,) = [task.id for task in graph.tasks if "Count one" in task.label and task.inputs]
    own = {task.id for task in graph.tasks if "one" in task.label.lower()}
    assert own == set(region(graph, (failed, 0)))


def test_with_two_shuffles_side_by_side_one_keyed_subtask_restarts() -> None:
    """The sources send the same records again on both."""

    def build(p: beam.Pipeline) -> None:
        numbers = p | beam.Create(range(9))
        count(numbers, "one")
        count(numbers, "other")

    assert {0: [0, 1, 2], 2: [0]} == region(graph_of(build), (2, 0))


def test_the_channels_of_a_region_and_the_receivers_ahead_of_it() -> None:
    """Channels that touch the region are replaced; receivers that keep their state wait until it has caught up."""
    graph = graph_of(one_shuffle, 2)
    found = region_of(graph, [SubtaskId(1, 0)], [0])
    assert 4 == len(touching(graph, found))
    assert {SubtaskId(1, 1)} == continuing_receivers(graph, found)


class Batches(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element

    def finish_bundle(self) -> None:
        pass


class Guess(beam.DoFn):
    deterministic = False

    def process(self, element: Any) -> Any:
        yield element


class Unsteady(ScriptedSource[int]):
    repeatable = False


def two_ways(p: beam.Pipeline) -> Any:
    numbers = p | beam.Create(range(9))
    return (numbers | "Up" >> beam.Map(abs), numbers | "Down" >> beam.Map(abs)) | beam.Flatten()


def two_sources(p: beam.Pipeline) -> Any:
    return (p | "Left" >> beam.Create([1]), p | "Right" >> beam.Create([2])) | beam.Flatten()


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda p: p | beam.Create(range(9)) | beam.Filter(bool) | beam.Map(str), None),
        (two_sources, None),
        (lambda p: p | "Read" >> beam.io.Read(Unsteady([[]])), "Read reads from a source that isn't declared"),
        (lambda p: p | beam.Create([1]) | "Guess" >> beam.ParDo(Guess()), "the DoFn of Guess is declared not to be"),
        (lambda p: p | beam.Create([1]) | "Batch" >> beam.ParDo(Batches()), "Batch has a finish_bundle"),
        (two_ways, "Flatten unites several outputs of Create"),
        (lambda p: p | TestStream().add_elements(["a"]).advance_watermark_to_infinity(), "TestStream is a script"),
    ],
)
def test_a_task_is_repeatable_unless_there_is_a_reason(build: Callable[[beam.Pipeline], Any], why: str | None) -> None:
    """The reason is logged; then all subtasks behind the task restart with it."""
    graph = graph_of(lambda p: count(build(p) | beam.WindowInto(beam.window.FixedWindows(10)), "them"))
    found = why_not_repeatable(graph)[0]
    assert (why is None) is (found is None)
    assert (why or "") in (found or "")
    assert ({0: [0]} if why is None else {0: [0, 1, 2], 1: [0, 1, 2]}) == region(graph, (0, 0))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--parallelism=1"], "only one subtask of each task"),
        (["--parallelism=2", "--delivery=strong"], "a failed worker is replaced"),
        (["--parallelism=2", "--checkpoint_mode=unaligned"], "in-flight records"),
        (["--parallelism=2"], "no --checkpoint_dir"),
    ],
)
def test_where_only_the_whole_graph_could_restart_regions_are_refused(flags: list[str], why: str) -> None:
    """When the pipeline is run; the error says what to do."""
    p = beam.Pipeline(options=PipelineOptions(["--recovery=region", *flags]))
    one_shuffle(p)
    with pytest.raises(OptionsError, match=f"option --recovery=region: .*{why}.*--recovery=graph"):
        p.run()


def test_a_loop_is_refused_by_its_label() -> None:
    """Barriers circulate in a loop, so it restarts as a whole."""
    p = beam.Pipeline(options=PipelineOptions(["--recovery=region", "--parallelism=2", "--checkpoint_dir=kept"]))
    _ = p | beam.Create([40]) | "Halve" >> beam.Feedback(beam.Map(lambda n: n // 2), until=lambda n: n < 20)
    with pytest.raises(OptionsError, match=r"option --recovery=region: .*Halve.*--recovery=graph"):
        p.run()
