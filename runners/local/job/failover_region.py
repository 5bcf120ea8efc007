"""A region: which subtasks have to go back when some of them have failed (ABS, section 5).

Whoever has failed goes back to the last checkpoint, and so does everybody upstream of it, up to the sources, for what
it was sent since then must be sent again.  Who takes what is sent again drops what it knows, by its numbers, and keeps
its state.  But that needs a sender which says the same again: a task that only reads, from a source that repeats
itself.  What a task behind a shuffle says depends on the order in which its inputs came, so whoever listens to one
that goes back, goes back too.

>>> import penstock as beam
>>> from penstock.runners.execution.plan.execution_graph import cut
>>> from penstock.runners.execution.plan.fusion import fuse
>>> p = beam.Pipeline()
>>> _ = p | beam.Create(["a", "b"]) | beam.combiners.Count.PerElement() | beam.Map(print)
>>> graph = cut(fuse(p.graph()), parallelism=2)
>>> sorted(map(str, region_of(graph, [SubtaskId(1, 0)], repeatable=[0])))
['subtask 0 of task 0', 'subtask 0 of task 1', 'subtask 1 of task 0']
>>> sorted(map(str, region_of(graph, [SubtaskId(0, 1)], repeatable=[0])))
['subtask 1 of task 0']

Recovery of a region: after a failure only those go back to the last checkpoint that have to (ABS, section 5).

A checkpoint that was under way is given up, and none begins before everybody who went back has caught up with those
that kept their state: until then the two are not at one point of the stream.  Where anything stands in the way, the
job starts again as a whole, which is the stronger measure.

Which tasks say the same again, when they start again from a checkpoint, and why others don't.

It has to be the same elements, in the same order for each partition of a source, however they are cut into bundles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ....sdk import graph
from ....sdk.dofn import DoFn
from ....sdk.sources.scripted_source import Script
from ....sdk.sources.unbounded import UnboundedSource
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph, SubtaskId, Task, inputs_of, outputs_of
from ...execution.plan.fusion import Output, Source, Stage, Step, Union
from ..channels.channel import ChannelId
from ..subtask.reports import CaughtUp

# Edges from each subtask to the one with the same number.
_ONE_TO_ONE = (EdgeKind.FORWARD, EdgeKind.BACK)


class Link(NamedTuple):
    """A channel, and the subtasks at its ends."""

    id: ChannelId
    source: SubtaskId
    target: SubtaskId


def links_of(execution_graph: ExecutionGraph) -> Iterator[Link]:
    """All channels between subtasks."""
    n = execution_graph.parallelism
    for task in execution_graph.tasks:
        for edge in task.outputs:
            for source in range(n):
                for target in [source] if edge.kind in _ONE_TO_ONE else range(n):
                    yield Link(
                        ChannelId(edge.id, source, target),
                        SubtaskId(edge.producer, source),
                        SubtaskId(edge.consumer, target),
                    )


def region_of(
    execution_graph: ExecutionGraph, failed: Iterable[SubtaskId], repeatable: Collection[int]
) -> frozenset[SubtaskId]:
    """Who has to go back.

    Args:
      failed: whose state is lost.
      repeatable: the tasks that say the same again.
    """
    upstream: dict[SubtaskId, list[SubtaskId]] = defaultdict(list)
    downstream: dict[SubtaskId, list[SubtaskId]] = defaultdict(list)
    for _, source, target in links_of(execution_graph):
        upstream[target].append(source)
        downstream[source].append(target)
    found: set[SubtaskId] = set()
    waiting = list(failed)
    while waiting:
        subtask = waiting.pop()
        if subtask in found:
            continue
        found.add(subtask)
        waiting += upstream[subtask]
        if subtask.task not in repeatable:
            waiting += downstream[subtask]
    return frozenset(found)


def touching(execution_graph: ExecutionGraph, region: Collection[SubtaskId]) -> tuple[ChannelId, ...]:
    """The channels that begin or end at somebody in a region: what is in them is old."""
    return tuple(id for id, source, target in links_of(execution_graph) if source in region or target in region)


def left_ahead(execution_graph: ExecutionGraph, region: Collection[SubtaskId]) -> frozenset[SubtaskId]:
    """Those that keep their state, while somebody they listen to goes back."""
    links = links_of(execution_graph)
    return frozenset(target for _, source, target in links if source in region and target not in region)


def why_not_repeatable(execution_graph: ExecutionGraph) -> dict[int, str | None]:
    """By the number of each task that has sources why it wouldn't say the same again; None if it would."""
    return {task.id: _why_not(task) for task in execution_graph.tasks if task.sources}


def _why_not(task: Task) -> str | None:
    checks: dict[type, Callable[[Task, Step], str | None]] = {
        Source: _of_source,
        Stage: _of_stage,
        Union: _of_union,
        Output: lambda task, step: None,
    }
    if any(edge.kind is not EdgeKind.BACK for edge in task.inputs):
        return f"{task.label} takes what others send, too"
    for step in task.steps:
        check = checks.get(type(step))
        why = f"{task.label} does more than read" if check is None else check(task, step)
        if why is not None:
            return why
    return None


def _of_source(task: Task, step: Step) -> str | None:
    assert isinstance(step, Source)
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.Read)
    source = primitive.source
    if isinstance(source, Script):
        return f"{step.transform.label} is a script"
    # Of a bounded source an offset is a number of elements, which rests on their order anyway.
    if isinstance(source, UnboundedSource) and not source.repeatable:
        return f"{step.transform.label} reads from a source that isn't declared to be repeatable"
    return None


def _of_stage(task: Task, step: Step) -> str | None:
    assert isinstance(step, Stage)
    for operation in step.operations:
        primitive = operation.primitive
        if not isinstance(primitive, graph.ParDo) or primitive.fn is None:
            continue
        fn = primitive.fn.object[0]
        if not fn.deterministic:
            return f"the DoFn of {operation.label} is declared not to be deterministic"
        for method in ("start_bundle", "finish_bundle"):
            if getattr(type(fn), method) is not getattr(DoFn, method):
                return f"{operation.label} has a {method}, and bundles may be others when they are read again"
    return None


def _of_union(task: Task, step: Step) -> str | None:
    """Elements of one source that come on two ways are in an order that depends on bundles."""
    origins = _origins(task)
    seen: set[str] = set()
    for pcollection in inputs_of(step):
        own = origins.get(pcollection, frozenset())
        if seen & own:
            assert isinstance(step, Union)
            return f"{step.transform.label} puts together what comes of {min(seen & own)} in several ways"
        seen |= own
    return None


def _origins(task: Task) -> Mapping[int, frozenset[str]]:
    """By PCollection, the sources in this task that it comes of."""
    found: dict[int, frozenset[str]] = {}
    for step in task.steps:
        if isinstance(step, Source):
            own = frozenset([step.transform.label])
        else:
            own = frozenset().union(*(found.get(pcollection, frozenset()) for pcollection in inputs_of(step)))
        found.update(dict.fromkeys(outputs_of(step), own))
    return found


class RegionRecovery:
    """Who goes back, and who is yet to be heard of.

    Attributes:
      repeatable: the tasks that number what they send, since they say the same again.
      reasons: why the other tasks that read don't.
      generation: how many times some have gone back.
    """

    def __init__(self, execution_graph: ExecutionGraph) -> None:
        self._graph = execution_graph
        found = why_not_repeatable(execution_graph)
        self.repeatable = frozenset(task for task, why in found.items() if why is None)
        self.reasons = tuple(why for why in found.values() if why is not None)
        self.generation = 0
        # Of the subtasks that go back those which have yet to hear of it: whatever they say is old.
        self._to_hear: dict[SubtaskId, int] = {}
        # Of those that kept their state while somebody they listen to went back: when that was, the last time.
        self._ahead: dict[SubtaskId, int] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether somebody who has gone back hasn't caught up."""
        return bool(self._to_hear or self._ahead)

    def region_of(self, failed: Iterable[SubtaskId]) -> frozenset[SubtaskId]:
        """Who goes back when these have failed;"""
        return region_of(self._graph, failed, self.repeatable)

    def go_back(self, region: Collection[SubtaskId], lost: Collection[SubtaskId]) -> None:
        """A region goes back; these of it are made anew, and so have nothing to hear."""
        self.generation += 1
        for id in region:
            if id in lost:
                self._to_hear.pop(id, None)
            else:
                self._to_hear[id] = self.generation
        self._ahead.update(dict.fromkeys(left_ahead(self._graph, region), self.generation))
        for id in region:
            self._ahead.pop(id, None)

    def is_old(self, subtask: SubtaskId) -> bool:
        """Whether what a subtask says is of before it went back."""
        return subtask in self._to_hear

    def have_heard(self, generation: int, subtasks: Iterable[SubtaskId]) -> None:
        """Subtasks have gone back."""
        for id in subtasks:
            if self._to_hear.get(id) == generation:
                del self._to_hear[id]

    def has_caught_up(self, subtask: SubtaskId, report: CaughtUp) -> None:
        """All that a subtask listens to are as far as it is."""
        if report.generation >= self._ahead.get(subtask, self.generation):
            self._ahead.pop(subtask, None)
