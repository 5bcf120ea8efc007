"""The subtasks of a pipeline, in this process, each doing the next thing only when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.plan.execution_graph import ExecutionGraph, SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.streaming.snapshot import Restored
from penstock.runners.execution.streaming.snapshot_chunks import Chunk, chunks_of
from penstock.runners.local.channels.channel import Channel, ChannelId
from penstock.runners.local.channels.messages import Barrier
from penstock.runners.local.subtask.reports import Snapshot, TaskMetrics
from penstock.runners.local.subtask.subtask import Subtask


def graph_of(build: Callable[[Any], Any], parallelism: int = 2) -> ExecutionGraph:
    """The execution graph of the pipeline that a function builds."""
    p = beam.Pipeline()
    build(p)
    return cut(fuse(p.graph(), lambda *_: False), parallelism)


class ByHand:
    """All subtasks of an execution graph, and the channels between them.

    Attributes:
      reports: what they have reported; of a snapshot its chunks are read at once, as they have to be.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        snapshots: Iterable[tuple[SubtaskId, int, list[Chunk]]] = (),
        subtask_type: type[Subtask] = Subtask,
        **more: Any,
    ):
        self.channels: dict[ChannelId, Channel] = {}
        self.reports: list[tuple[SubtaskId, Any]] = []
        self.subtasks: dict[SubtaskId, Subtask] = {}
        self.chunks: dict[SubtaskId, list[Chunk]] = {}
        self.graph = graph
        snapshots = list(snapshots)
        ids = [SubtaskId(task.id, index) for task in graph.tasks for index in range(graph.parallelism)]
        for id in ids:
            self.subtasks[id] = subtask_type(
                graph, id, Clock(), self.channel, self.reporter(id), TaskMetrics(), "t", f"{id}", **more
            )
        for id, subtask in self.subtasks.items():
            restored = Restored(id.index, graph.parallelism) if snapshots else None
            for own, of, chunks in snapshots:
                assert restored is not None
                restored.add([chunks], own.index, of)
            subtask.start(restored)

    def channel(self, id: ChannelId) -> Channel:
        """A channel, made when it is first asked for."""
        return self.channels.setdefault(id, Channel(id))

    def reporter(self, id: SubtaskId) -> Callable[[Any], None]:
        def report(news: Any) -> None:
            if isinstance(news, Snapshot):
                self.chunks[id] = list(chunks_of(chain(news.records, news.later)))
            self.reports.append((id, news))

        return report

    def __getitem__(self, place: tuple[int, int]) -> Subtask:
        return self.subtasks[SubtaskId(*place)]

    def run(self, *tasks: int) -> None:
        """Let the subtasks of these tasks, or of all, do whatever there is to do."""
        own = [subtask for id, subtask in self.subtasks.items() if not tasks or id.task in tasks]
        for _ in range(2):
            while any(subtask.step() or subtask.flush_tables() for subtask in own):
                pass
            # That there is nothing to read any more is news, too.
            for subtask in own:
                subtask.tick()

    def inject(self, barrier: Barrier) -> None:
        """Put a barrier into the stream wherever there are no inputs."""
        for subtask in self.subtasks.values():
            if not subtask.inputs:
                subtask.inject(barrier)

    def snapshots(self) -> list[tuple[SubtaskId, int, list[Chunk]]]:
        """What all of them wrote last, to start others from."""
        return [(id, self.graph.parallelism, chunks) for id, chunks in self.chunks.items()]

    def written(self) -> list[Any]:
        """The values that were staged at `Recording` sinks with the last snapshot."""
        subtasks = self.subtasks.values()
        staged = [tokens for subtask in subtasks for tokens in subtask.snapshots.staged.values()]
        return [change.value for tokens in staged for _, token in tokens for change in token.values()]
