"""The logs of all subtasks as one snapshot: what each has, and what is in flight between them.

At any moment the logs together are a consistent cut: what a sender has put out and its receiver has not taken is in the
sender's log, and what was taken is in the receiver's, with all that came of it.  So there is no need for
barriers to take a savepoint, nor to go on with another number of subtasks: whoever has taken all logs
over reads them, and finds the same chunks as in an unaligned checkpoint.  (Of weak productions
they are none: what those have sent and not written down comes again, behind watermarks that nobody knows any more.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import attrs

from ....sdk.bundle import Bundle
from ...execution.checkpoints.storage import Disk
from ...execution.plan.execution_graph import ExecutionGraph, SubtaskId
from ...execution.shuffle.partitioner import owner
from ...execution.streaming.in_flight import by_key_group
from ...execution.streaming.snapshot_chunks import NEWS, Chunk, records_of
from ..channels.channel import ChannelId, message_of
from ..channels.messages import ClockMoved, Elements, Message, SignalCame
from ..subtask.reports import TaskMetrics, sum_of
from ..workers.pool import ids_of
from .dedup import SeenIds
from .log import ProductionLog
from .production import Inherited, StagedToken
from .replay import Replay
from .slot import listed_log, log_directory


@attrs.frozen
class MergedLogs:
    """A consistent cut.

    Attributes:
      parallelism: how many subtasks each task had.
      parts: of each subtask its chunks, with what is in flight to it.
      staged: what sinks have staged and isn't known to be committed.
      metrics: what was counted.
    """

    parallelism: int
    parts: dict[SubtaskId, list[Chunk]]
    staged: tuple[StagedToken, ...]
    metrics: TaskMetrics

    def inherited(self, id: SubtaskId, parallelism: int) -> Inherited:
        """What one of so many subtasks goes on from; what isn't of a key is everybody's to look at."""
        parts = []
        for old, chunks in self.parts.items():
            mine = [chunk for chunk in chunks if chunk.group is None or owner(chunk.group, parallelism) == id.index]
            if mine:
                parts.append((b"".join(records_of(mine)), old.index, self.parallelism))
        is_first = id == SubtaskId(0, 0)
        return Inherited(tuple(parts), self.staged if is_first else (), self.metrics if is_first else TaskMetrics())


def merge_logs(
    execution_graph: ExecutionGraph, disk: Disk, directory: str, token: str, listing: str = ""
) -> MergedLogs:
    """Take all logs over, and read them.  Nobody may be writing any more: whoever does is refused.

    Args:
      listing: the path of the list of the logs; "" for none.

    Raises what `ProductionLog.take_over` does.
    """
    replays: dict[SubtaskId, Replay] = {}
    for id in ids_of(execution_graph):
        listed = listed_log(disk, listing, execution_graph, id)
        replays[id] = Replay(ProductionLog(disk, log_directory(directory, id), listed=listed).take_over(token))
    parts = {id: replay.chunks() for id, replay in replays.items()}
    for id, chunks in _in_flight(execution_graph, replays):
        parts[id] += chunks
    staged = [token for replay in replays.values() for token in replay.staged]
    metrics = sum_of([replay.metrics for replay in replays.values()])
    return MergedLogs(execution_graph.parallelism, parts, tuple(staged), metrics)


def _in_flight(
    execution_graph: ExecutionGraph, replays: dict[SubtaskId, Replay]
) -> Iterator[tuple[SubtaskId, list[Chunk]]]:
    """By receiver, the elements, and the news, that it has not taken."""
    ends = {edge.id: (task.id, edge) for task in execution_graph.tasks for edge in task.inputs}
    bundles: defaultdict[tuple[SubtaskId, int], list[Bundle]] = defaultdict(list)
    news: dict[SubtaskId, list[Message]] = {}
    for replay in replays.values():
        for channel in replay.outputs:
            target = SubtaskId(ends[channel.edge][0], channel.target)
            told: list[Message] = []
            for message in _untaken(replay, replays[target], channel):
                if isinstance(message, Elements):
                    bundles[target, channel.edge].append(message.bundle)
                elif isinstance(message, (ClockMoved, SignalCame)):
                    told.append(message)
            # On every channel comes the same; one may be behind another.
            if len(told) > len(news.get(target, ())):
                news[target] = told
    for (target, edge), own in bundles.items():
        yield target, by_key_group(execution_graph.plan, ends[edge][1], own)
    for target, told in news.items():
        yield target, [Chunk("", NEWS, None, told)]


def _untaken(sender: Replay, receiver: Replay, channel: ChannelId) -> Iterable[Message]:
    seen = SeenIds(receiver.seen(channel))
    return (message_of(sent.kind, sent.payload) for sent in sender.kept(channel) if sent.number not in seen)
