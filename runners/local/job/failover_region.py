"""Failover regions: the subtasks that restart when some have failed (ABS, section 5).

The failed subtasks restart from the last checkpoint, and so do all subtasks upstream of them, up to the sources, to
send again the records since then.  A receiver that keeps its state drops, by their numbers, the records that it has
processed.  That requires a sender which sends the same records again, in the same order for each partition of a
source: a *repeatable* task, which only reads, from a source that is repeatable.  The output of a task behind a shuffle
depends on the order in which its inputs arrived, so the receivers of a task that isn't repeatable restart with it.

A restart of a region fails the checkpoint in progress, and none begins before the restarted subtasks have caught up
with those that kept their state.

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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ....sdk import graph
from ....sdk.dofn.async_dofn import is_async
from ....sdk.dofn.dofn import DoFn
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
    """Yield all channels between subtasks."""
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
    """Return the subtasks that restart when `failed` fail.

    Args:
      repeatable: the tasks that send the same records again.
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
    """Return the channels that begin or end at a subtask of a region: their contents are obsolete."""
    return tuple(id for id, source, target in links_of(execution_graph) if source in region or target in region)


def continuing_receivers(execution_graph: ExecutionGraph, region: Collection[SubtaskId]) -> frozenset[SubtaskId]:
    """Return the receivers that keep their state while a sender of theirs restarts."""
    links = links_of(execution_graph)
    return frozenset(target for _, source, target in links if source in region and target not in region)


def why_not_repeatable(execution_graph: ExecutionGraph) -> dict[int, str | None]:
    """Return, by each task with sources, why it isn't repeatable, or None if it is."""
    return {task.id: _why_not(task) for task in execution_graph.tasks if task.sources}


def _why_not(task: Task) -> str | None:
    checks: dict[type, Callable[[Task, Step], str | None]] = {
        Source: _of_source,
        Stage: _of_stage,
        Union: _of_union,
        Output: lambda task, step: None,
    }
    if any(edge.kind is not EdgeKind.BACK for edge in task.inputs):
        return f"{task.label} also receives from other tasks"
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
    # The offset of a bounded source is a number of elements, so the source has to be repeatable anyway.
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
        if is_async(fn):
            return f"the calls of {operation.label} may end in another order when they are repeated"
        if not fn.deterministic:
            return f"the DoFn of {operation.label} is declared not to be deterministic"
        for method in ("start_bundle", "finish_bundle"):
            if getattr(type(fn), method) is not getattr(DoFn, method):
                return f"{operation.label} has a {method}, and bundles may be cut otherwise when they are read again"
    return None


def _of_union(task: Task, step: Step) -> str | None:
    """The order of elements that arrive from one source on two ways depends on bundles."""
    origins = _origins(task)
    seen: set[str] = set()
    for pcollection in inputs_of(step):
        own = origins.get(pcollection, frozenset())
        if seen & own:
            assert isinstance(step, Union)
            return f"{step.transform.label} unites several outputs of {min(seen & own)}"
        seen |= own
    return None


def _origins(task: Task) -> Mapping[int, frozenset[str]]:
    """Return, by PCollection, the sources of this task that it derives from."""
    found: dict[int, frozenset[str]] = {}
    for step in task.steps:
        if isinstance(step, Source):
            own = frozenset([step.transform.label])
        else:
            own = frozenset().union(*(found.get(pcollection, frozenset()) for pcollection in inputs_of(step)))
        found.update(dict.fromkeys(outputs_of(step), own))
    return found


class FailoverRegions:
    """The failover regions that are restarting.

    Attributes:
      repeatable: the tasks that number their output, because they send the same records again.
      reasons: why the other tasks with sources aren't repeatable.
      generation: the number of restarts.
    """

    def __init__(self, execution_graph: ExecutionGraph) -> None:
        self._graph = execution_graph
        found = why_not_repeatable(execution_graph)
        self.repeatable = frozenset(task for task, why in found.items() if why is None)
        self.reasons = tuple(why for why in found.values() if why is not None)
        self.generation = 0
        # By subtask that has yet to execute the restart, its generation: reports until then are obsolete.
        self._restarting: dict[SubtaskId, int] = {}
        # By subtask that kept its state while a sender restarted, the generation of the last restart.
        self._ahead: dict[SubtaskId, int] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether a restarted subtask has yet to catch up."""
        return bool(self._restarting or self._ahead)

    def region_of(self, failed: Iterable[SubtaskId]) -> frozenset[SubtaskId]:
        """Return the subtasks that restart when `failed` fail."""
        return region_of(self._graph, failed, self.repeatable)

    def restart(self, region: Collection[SubtaskId], lost: Collection[SubtaskId]) -> None:
        """Begin the restart of a region; the subtasks in `lost` are new, so they have no restart to execute."""
        self.generation += 1
        for id in region:
            if id in lost:
                self._restarting.pop(id, None)
            else:
                self._restarting[id] = self.generation
        self._ahead.update(dict.fromkeys(continuing_receivers(self._graph, region), self.generation))
        for id in region:
            self._ahead.pop(id, None)

    def is_old(self, subtask: SubtaskId) -> bool:
        """Return whether a report of a subtask was sent before it restarted."""
        return subtask in self._restarting

    def have_restarted(self, generation: int, subtasks: Iterable[SubtaskId]) -> None:
        """Record that subtasks have executed a restart."""
        for id in subtasks:
            if self._restarting.get(id) == generation:
                del self._restarting[id]

    def has_caught_up(self, subtask: SubtaskId, report: CaughtUp) -> None:
        """Record that all senders have caught up with a subtask that kept its state."""
        if report.generation >= self._ahead.get(subtask, self.generation):
            self._ahead.pop(subtask, None)
