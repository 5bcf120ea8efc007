"""Commands of a job to its slots, and their reports, each of which is taken once and by its addressee only.

Both ends number their messages, and name the attempt.  So a message that arrives twice changes nothing, and neither
does one of a worker that was given up, or that an earlier job has left behind: its acknowledgements may come late, and
name epochs that exist again.

>>> job, worker, zombie = FencedEndpoint("b"), FencedEndpoint("b"), FencedEndpoint("a")
>>> message = worker.message("acknowledged")
>>> job.accepts(message), job.accepts(message), job.accepts(zombie.message("acknowledged"))
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ...execution.checkpoints.manifest import Checkpoint, PartReference
from ...execution.error_transport import RemoteError
from ...execution.plan.execution_graph import SubtaskId
from ...execution.streaming.observation import Observe, Observed
from ...execution.stuck_calls import Returned, Stuck
from ..channels.channel import ChannelId
from ..channels.messages import Barrier
from ..subtask.reports import CaughtUp, Completed, Played, Quiesced, TaskMetrics


class Inject(NamedTuple):
    """Inject a barrier at every task that has no inputs."""

    barrier: Barrier


class ChangeOver(NamedTuple):
    """Have an aligned barrier overtake the records before it where it hasn't passed; here it is an unaligned one."""

    barrier: Barrier


class Play(NamedTuple):
    """Play the next event of the script."""


class AdvanceLoops(NamedTuple):
    """Advance the watermarks of loops.

    Attributes:
      number: the elements in loops at this barrier have returned before the next barrier, or have left the loops.
      earliest: the earliest timestamp of the elements that returned in between; None if there were none.
      floor: the watermark of all loops then.
    """

    number: int
    earliest: int | None
    floor: int


class Pause(NamedTuple):
    """Have the sources wait, or go on."""

    is_paused: bool


class Drain(NamedTuple):
    """Have the sources read nothing more, as if the inputs had ended."""


class Commit(NamedTuple):
    """Acknowledge a checkpoint that is durable, and transactions of the sinks that are committed."""

    epoch: int
    transactions: tuple[str, ...]


class Stop(NamedTuple):
    """Tear down user code, and report the counts.

    Attributes:
      awaits_commit: whether the slot ends with the last `Commit`, until which its sources stay open.
    """

    awaits_commit: bool = False


class Rewind(NamedTuple):
    """Restart the subtasks of a failover region from a checkpoint, while the others keep their state.

    Attributes:
      generation: the number of the restart in this attempt.
      region: the subtasks that restart.
      channels: the channels that begin or end at one of them, which are replaced.
      checkpoint: the checkpoint to restart from; None for the beginning.
      transaction, attempt: the first transaction of their sinks, and the name of their writers.
      number: that of the last barrier before the restart.
      metrics: their counts at the checkpoint.
      ends: the channels of the sockets that follow, and whether each is the sending end.
    """

    generation: int
    region: frozenset[SubtaskId]
    channels: tuple[ChannelId, ...]
    checkpoint: Checkpoint | None
    transaction: str
    attempt: str
    number: int
    metrics: Mapping[SubtaskId, TaskMetrics]
    ends: tuple[tuple[ChannelId, bool], ...] = ()


Command: TypeAlias = Inject | ChangeOver | Play | AdvanceLoops | Pause | Drain | Commit | Stop | Observe


class Acknowledged(NamedTuple):
    """A subtask's part of a snapshot is durable.

    Attributes:
      part: a reference to it; None if the run keeps no snapshots.
      staged: by sink label, pairs of transaction and token that aren't committed yet.
      labels: the steps whose state it contains.
      metrics: what was counted before the snapshot.
      now: processing time at the snapshot.
      offsets: by source label, its partitions and their positions, as text.
      waited: microseconds from the command to the snapshot, in which barriers travelled and aligned.
      wrote: microseconds from the snapshot until it was durable.
      kept: by the label of a step with windows or keyed state, how many windows or cells there are.
    """

    epoch: int
    part: PartReference | None
    staged: dict[str, list[tuple[str, Any]]]
    labels: tuple[str, ...] = ()
    metrics: TaskMetrics | None = None
    now: int = 0
    offsets: Mapping[str, list[tuple[str, str]]] = {}
    waited: int = 0
    wrote: int = 0
    kept: Mapping[str, int] = {}


class Declined(NamedTuple):
    """A subtask could not write its part of a snapshot, and goes on."""

    epoch: int
    why: str


class Rewound(NamedTuple):
    """A slot has replaced its subtasks of a failover region: their reports from now on count."""

    generation: int
    subtasks: tuple[SubtaskId, ...]


class SubtaskTime(NamedTuple):
    """The time of a subtask since its slot began, in microseconds.

    Attributes:
      passed: all of it.
      busy: the time in which it was processing.
      backpressured: the time in which a receiver of its output was behind, and it wasn't processing.
      read: the elements that its steps have read.
    """

    passed: int
    busy: int
    backpressured: int
    read: int


class Stopped(NamedTuple):
    """A slot has torn down its subtasks."""

    metrics: TaskMetrics
    times: Mapping[SubtaskId, SubtaskTime] = {}


class Failed(NamedTuple):
    """A slot has failed; or a subtask, while the slot's others go on."""

    error: RemoteError


class Counted(NamedTuple):
    """Counts and status of a slot, for display."""

    metrics: TaskMetrics
    held_up: tuple[str, ...]
    backlog: int | None
    watermarks: dict[str, int]
    times: Mapping[SubtaskId, SubtaskTime] = {}
    observed: Observed | None = None


# Reports of a whole slot.
SlotReport: TypeAlias = Stopped | Failed | Counted | Rewound | Stuck | Returned

# Reports of one of its subtasks.
SubtaskReport: TypeAlias = Acknowledged | Declined | Quiesced | Played | Completed | CaughtUp | Failed

Report: TypeAlias = tuple[SubtaskId | None, SubtaskReport | SlotReport]


class Envelope(NamedTuple):
    """A command or a report with its number."""

    attempt: str
    number: int
    content: Any


class FencedEndpoint:
    """One end of the exchange of messages between a job and a slot in one attempt.

    Args:
      attempt: unique to the attempt.
    """

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt
        self._sent = 0
        self._received = 0

    def message(self, content: Any) -> Envelope:
        """Return the next message to send."""
        self._sent += 1
        return Envelope(self._attempt, self._sent, content)

    def accepts(self, message: Envelope) -> bool:
        """Return True for a message of this attempt that arrives for the first time.

        No earlier message is accepted after it.
        """
        if message.attempt != self._attempt or message.number <= self._received:
            return False
        self._received = message.number
        return True
