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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..execution.plan.execution_graph import EdgeKind, ExecutionGraph
from .channel import ChannelId
from .subtask_reports import SubtaskId

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
