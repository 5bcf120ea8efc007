"""What a subtask is called, and what it has to say to whoever runs the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...execution.streaming.snapshot_chunks import Chunk
from ..channels.channel import ChannelId
from .tally import Tally


class Snapshot(NamedTuple):
    """What a subtask has to say at a barrier that asks for a snapshot.

    Attributes:
      records: the chunks of it, serialised as they are asked for: at once, before anything else is done.
      labels: the steps that something is kept of.
      staged: by sink label, pairs of a transaction and a token, of all that isn't committed yet.
      tally: what was counted before the barrier.
      now: its processing time there.
      offsets: by source label, its partitions and where they stood, as text.
      uncopied: None, or what makes the chunks, instead of records and labels: to be called by a forked child.
    """

    epoch: int
    records: Iterable[bytes]
    labels: tuple[str, ...]
    staged: dict[str, list[tuple[str, Any]]]
    is_whole: bool
    tally: Tally
    now: int
    uncopied: Callable[[], list[Chunk]] | None = None
    offsets: Mapping[str, list[tuple[str, str]]] = {}


class Heard(NamedTuple):
    """What inputs have said, in microseconds: watermarks by channel, percentile watermarks; the number of the last
    signal, and processing time."""

    watermarks: dict[ChannelId, int | None]
    percentiles: dict[float, dict[Any, int]]
    signals: int
    clock: int


class Settled(NamedTuple):
    """Everything before a barrier has been done.

    Attributes:
      earliest: of the elements that have come back in loops since the last such barrier; None if none have.
      watermark: of what comes into loops here, at the barrier; None if none begins here.
      is_behind: whether the watermark in a loop is yet to follow the one before it.
    """

    number: int
    earliest: int | None = None
    watermark: int | None = None
    is_behind: bool = False


class Played(NamedTuple):
    """An event of a script has been played, up to here."""

    position: int


class Completed(NamedTuple):
    """Nothing more will come out."""


class CaughtUp(NamedTuple):
    """Everybody who sends to this subtask, and has gone back, has sent again all that it knew.

    Attributes:
      generation: the number of the restart.
    """

    generation: int


Report = Snapshot | Settled | Played | Completed | CaughtUp
