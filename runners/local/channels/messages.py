"""Messages between subtasks, in order on each channel."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ....sdk.elements.bundle import Bundle
from ...execution.windows.combining import FoldedBundle

# The label of a source, and one of its partitions.
Origin: TypeAlias = tuple[str, Any]


class Elements(NamedTuple):
    """Some elements.

    Attributes:
      origin: the source and partition that they derive from, if they are numbered.
      first: the number of the first of them, among the elements of that origin on the channel.
    """

    bundle: Bundle
    origin: Origin | None = None
    first: int = 0

    @property
    def elements(self) -> int:
        """How many elements they are; of accumulators, how many were folded into them."""
        return self.bundle.elements if isinstance(self.bundle, FoldedBundle) else len(self.bundle)


class Encoded(NamedTuple):
    """Elements in the encoding of a pipe, not decoded yet."""

    block: bytes


class Resumed(NamedTuple):
    """Number of elements of each origin that were sent on this channel before the next message."""

    sent: dict[Origin, int]


class WatermarkMoved(NamedTuple):
    """The watermark of a channel, in microseconds; None while its sender is idle."""

    micros: int | None


class PercentileMoved(NamedTuple):
    """A percentile watermark: this share of the sources' elements is past this time, in microseconds."""

    percentile: float
    micros: int


class ClockMoved(NamedTuple):
    """Processing time that a script has set, in microseconds."""

    now: int


class SignalCame(NamedTuple):
    """A signal of a script; `number` is its place in the script."""

    number: int
    name: str


class BarrierKind(Enum):
    """What a barrier asks for."""

    # A snapshot, and that sinks stage what they have.
    CHECKPOINT = "checkpoint"
    # The same without waiting for other inputs' barriers.
    UNALIGNED = "unaligned"
    # A report as soon as everything before it has been processed.
    QUIESCE = "quiesce"


class Barrier(NamedTuple):
    """Divides what is before a snapshot from what is after it (ABS, section 4.1).

    Attributes:
      number: increases from one barrier to the next.
      transaction: the transaction that sinks write to after it; "" behind the last one, when nothing is written.
      is_whole: true for a full snapshot, false for an incremental one.
      epoch: the snapshot's number.
      base: the epoch of the newest committed checkpoint; -1 if there is none.
      is_portable: true for a full snapshot in which the state is as chunks, whatever the state backend.
    """

    number: int
    kind: BarrierKind = BarrierKind.CHECKPOINT
    transaction: str = ""
    is_whole: bool = True
    epoch: int = 0
    base: int = -1
    is_portable: bool = False


# Messages that are stored: in snapshots, and in logs of productions.
ControlMessage: TypeAlias = WatermarkMoved | PercentileMoved | ClockMoved | SignalCame

Message: TypeAlias = Elements | Encoded | Resumed | WatermarkMoved | PercentileMoved | ClockMoved | SignalCame | Barrier
