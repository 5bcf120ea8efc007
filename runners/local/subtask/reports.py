"""Reports of a subtask to the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...execution.streaming.snapshot_chunks import Chunk
from ..channels.channel import ChannelId
from .tally import Tally


class Snapshot(NamedTuple):
    """Snapshot of a subtask, taken at a barrier.

    Attributes:
      records: its chunks, serialized during iteration, which has to come before the next step.
      labels: the steps whose state it contains.
      staged: by sink label, pairs of transaction and token that aren't committed yet.
      tally: what was counted before the barrier.
      now: processing time at the barrier.
      uncopied: returns the chunks, in the place of records and labels: to be called by a forked child.
      offsets: by source label, its partitions and their positions, as text.
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


class InputState(NamedTuple):
    """State of a subtask's inputs.

    Attributes:
      watermarks, percentiles: by channel, and by percentile and channel, in microseconds.
      signals: the number of the last signal.
      clock: processing time, in microseconds.
    """

    watermarks: dict[ChannelId, int | None]
    percentiles: dict[float, dict[Any, int]]
    signals: int
    clock: int


class Settled(NamedTuple):
    """Everything before a barrier has been processed.

    Attributes:
      earliest: timestamp of the earliest feedback since the last such barrier; None if there was none.
      watermark: of the input of loops that begin here, at the barrier; None if none does.
      is_behind: whether the watermark in a loop has not reached that of the loop's input.
    """

    number: int
    earliest: int | None = None
    watermark: int | None = None
    is_behind: bool = False


class Played(NamedTuple):
    """An event of a script has been played; `position` is the script's after it."""

    position: int


class Completed(NamedTuple):
    """There will be no more output."""


class CaughtUp(NamedTuple):
    """All restarted senders have caught up with this subtask.

    Attributes:
      generation: the number of the restart.
    """

    generation: int


Report = Snapshot | Settled | Played | Completed | CaughtUp
