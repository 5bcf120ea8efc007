"""The logs of all subtasks as one snapshot: the state of each subtask, and the in-flight records.

At any moment the logs together are a consistent cut: a message that was sent and not taken is in the sender's log, and
one that was taken is in the receiver's log, with its effects.  So neither a savepoint nor a change of the parallelism
needs barriers: an owner of all logs reads the same chunks as in an unaligned checkpoint.  (The logs of weak tasks are
no consistent cut: records that were sent and not logged are produced again, behind watermarks that are not known.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ....frozen import frozen
from ....sdk.elements.bundle import Bundle
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


@frozen
class MergedLogs:
    """A consistent cut.

    Attributes:
      parallelism: the parallelism of the logs.
      parts: by subtask, its chunks, with those in flight to it.
      staged: the staged tokens that are not known to be committed.
      metrics: the sum of the subtasks' metrics.
    """

    parallelism: int
    parts: dict[SubtaskId, list[Chunk]]
    staged: tuple[StagedToken, ...]
    metrics: TaskMetrics

    def inherited(self, id: SubtaskId, parallelism: int) -> Inherited:
        """Return the state that a subtask inherits; each inherits the chunks without a key group."""
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
    """Take all logs over, and merge them.  Appends of earlier owners are refused.

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
    """Yield, by receiver, the elements and signals that it has not taken."""
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
            # All channels carry the same signals; the longest list is the most recent.
            if len(told) > len(news.get(target, ())):
                news[target] = told
    for (target, edge), own in bundles.items():
        yield target, by_key_group(execution_graph.plan, ends[edge][1], own)
    for target, told in news.items():
        yield target, [Chunk("", NEWS, None, told)]


def _untaken(sender: Replay, receiver: Replay, channel: ChannelId) -> Iterable[Message]:
    seen = SeenIds(receiver.seen(channel))
    return (message_of(sent.kind, sent.payload) for sent in sender.kept(channel) if sent.number not in seen)
