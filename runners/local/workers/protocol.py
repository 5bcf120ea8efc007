"""What the process that runs a pipeline tells its slots, and what they tell it.

What a job and a slot say to each other: each thing is heard once, and only by whom it is meant for.

Both number what they say, and name the attempt that it belongs to.  So what comes twice changes nothing, and
nothing is heard of a worker that was given up, or of one that an earlier job has left behind: its
acknowledgements, and what it has produced, may come late and name epochs that exist again.

>>> job, worker, zombie = Conversation("bb"), Conversation("bb"), Conversation("aa")
>>> said = worker.say("acknowledged")
>>> job.is_news(said), job.is_news(said), job.is_news(zombie.say("acknowledged"))
(True, False, False)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ...execution.checkpoints.manifest import Checkpoint, PartReference
from ...execution.error_transport import RemoteError
from ...execution.plan.execution_graph import SubtaskId
from ...execution.stuck_calls import Returned, Stuck
from ..channels.channel import ChannelId
from ..channels.messages import Barrier
from ..subtask.reports import CaughtUp, Completed, Played, Settled
from ..subtask.tally import Tally


class Inject(NamedTuple):
    """Put a barrier into the stream at every task that has no inputs."""

    barrier: Barrier


class Play(NamedTuple):
    """Play the next event of the script."""


class GoneRound(NamedTuple):
    """What was in loops at that barrier has come back before the one after it, or has left them.

    Attributes:
      earliest: of all that came back in between; None if nothing did.
      floor: so far are all loops then.
    """

    number: int
    earliest: int | None
    floor: int


class Pause(NamedTuple):
    """Have the sources wait, or go on."""

    is_paused: bool


class Drain(NamedTuple):
    """Read nothing more, as if the inputs had ended."""


class Commit(NamedTuple):
    """A checkpoint is durable, and the sinks' transactions are committed."""

    epoch: int
    transactions: tuple[str, ...]


class Stop(NamedTuple):
    """It is over: tear down user code, and report what has been counted."""


class Rewind(NamedTuple):
    """Some subtasks go back to a checkpoint; the others keep what they have.

    Attributes:
      generation: how many times that has been, in this attempt.
      region: who goes back.
      channels: those that begin or end at one of them: new ones take their places.
      checkpoint: where they go back to; None for the beginning.
      transaction, attempt: what their sinks write to at first, and in whose name.
      number: that of the last barrier before.
      tallies: what they had counted at the checkpoint.
      ends: the pipes that are handed to a process with this: of which channel, and whether it is the one to send on.
    """

    generation: int
    region: frozenset[SubtaskId]
    channels: tuple[ChannelId, ...]
    checkpoint: Checkpoint | None
    transaction: str
    attempt: str
    number: int
    tallies: Mapping[SubtaskId, Tally]
    ends: tuple[tuple[ChannelId, bool], ...] = ()


Command: TypeAlias = Inject | Play | GoneRound | Pause | Drain | Commit | Stop


class Acknowledged(NamedTuple):
    """A subtask's part of a snapshot is durable.

    Attributes:
      part: where it is; None if the run keeps no snapshots.
      staged: by sink label, pairs of a transaction and a token, of all that isn't committed yet.
      labels: the steps that something is kept of.
      tally: what was counted before the snapshot.
      now: its processing time then.
      offsets: by source label, its partitions and where they stood, as text.
    """

    epoch: int
    part: PartReference | None
    staged: dict[str, list[tuple[str, Any]]]
    labels: tuple[str, ...] = ()
    tally: Tally | None = None
    now: int = 0
    offsets: Mapping[str, list[tuple[str, str]]] = {}


class Declined(NamedTuple):
    """A subtask couldn't write its part of a snapshot, and goes on."""

    epoch: int
    why: str


class Rewound(NamedTuple):
    """A slot's subtasks of a region are those from before no more: whatever they say from now on counts."""

    generation: int
    subtasks: tuple[SubtaskId, ...]


class Stopped(NamedTuple):
    """A slot has torn down all that it had."""

    tally: Tally


class Failed(NamedTuple):
    """Something in a slot has failed; or a subtask, of which the others take no notice."""

    error: RemoteError


class Counted(NamedTuple):
    """What a slot has counted so far, and how it is getting on: for people to look at."""

    tally: Tally
    held_up: tuple[str, ...]
    backlog: int | None
    watermarks: dict[str, int]


# What the whole slot says.
SlotReport: TypeAlias = Stopped | Failed | Counted | Rewound | Stuck | Returned

# What one of its subtasks does.
SubtaskReport: TypeAlias = Acknowledged | Declined | Settled | Played | Completed | CaughtUp | Failed

Report: TypeAlias = tuple[SubtaskId | None, SubtaskReport | SlotReport]


class Said(NamedTuple):
    """A command or a report, as it travels."""

    attempt: str
    number: int
    what: Any


class Conversation:
    """One end of it.

    Args:
      attempt: unique to it.
    """

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt
        self._said = 0
        self._heard = 0

    def say(self, what: Any) -> Said:
        """Number what is said."""
        self._said += 1
        return Said(self._attempt, self._said, what)

    def is_news(self, said: Said) -> bool:
        """Whether it comes from the other end, and for the first time; what is behind it then comes later."""
        if said.attempt != self._attempt or said.number <= self._heard:
            return False
        self._heard = said.number
        return True
