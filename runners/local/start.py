"""What the subtasks of an attempt start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from ..execution.checkpoints.manifest import Checkpoint
from ..execution.checkpoints.store import SnapshotStore
from ..execution.plan.execution_graph import ExecutionGraph
from ..execution.time_slice import TimeSlice
from .channel import Channel, ChannelId
from .commands import Report, Rewind
from .slot import Slot
from .subtask_reports import SubtaskId
from .tally import Tally


@attrs.frozen
class Start:
    """What the subtasks of an attempt start from.

    Attributes:
      store: where snapshots go; None if the run keeps none.
      checkpoint: what they are restored from.
      parallelism: how many subtasks each task had, that wrote it.
      transaction: what sinks write to at first.
      attempt: unique to this attempt.
      has_script: whether a script has the clock; or nobody, since in a bounded input no time goes by.
      fail_alone: whether a subtask's failure is reported, and the others go on.
      repeatable: the tasks that number what they send.
      aligns, logs, drops_repetitions: False to show that the results are wrong then.
      sources_begun_anew: the labels of sources whose positions in the checkpoint are dropped.
      tallies: what subtasks had counted before, in this attempt.
      time_slice: in the place of the worker's own.
    """

    store: SnapshotStore | None
    checkpoint: Checkpoint | None
    transaction: str
    attempt: str
    has_script: bool = False
    aligns: bool = True
    logs: bool = True
    fail_alone: bool = False
    repeatable: frozenset[int] = frozenset()
    drops_repetitions: bool = True
    sources_begun_anew: frozenset[str] = frozenset()
    tallies: Mapping[SubtaskId, Tally] = attrs.field(factory=dict)
    time_slice: TimeSlice | None = None

    def gone_back(self, rewind: Rewind) -> Start:
        """What those start from that go back."""
        return attrs.evolve(
            self,
            checkpoint=rewind.checkpoint,
            transaction=rewind.transaction,
            attempt=rewind.attempt,
            tallies=rewind.tallies,
        )

    def slot(
        self,
        execution_graph: ExecutionGraph,
        ids: Sequence[SubtaskId],
        channels: Callable[[ChannelId], Channel],
        report: Callable[[Report], None],
        clock: Callable[[], int],
    ) -> Slot:
        """A slot that starts so."""
        return Slot(execution_graph, ids, self, channels, report, clock)

    def transaction_of(self, id: SubtaskId) -> str:
        """What a subtask's sinks write to at first."""
        return self.transaction

    def channels_back(self, id: ChannelId) -> Sequence[ChannelId]:
        """The channels that lead back from where this one leads to: none."""
        return ()
