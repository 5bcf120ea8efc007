"""What travels between subtasks, in order, on each channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from ....sdk.bundle import Bundle
from ...execution.serialization.records import RecordType, decode_record
from ...execution.streaming.snapshot_chunks import NEWS, Body, register_body
from ...execution.windows.combining import FoldedBundle

# The label of a source, and one of its partitions.
Origin: TypeAlias = tuple[str, Any]


class Elements(NamedTuple):
    """Some elements.

    Attributes:
      origin: where they come from, if they are numbered.
      first: the number of the first of them, among what was sent of that origin on the channel.
    """

    bundle: Bundle
    origin: Origin | None = None
    first: int = 0

    @property
    def elements(self) -> int:
        """How many elements they are; of accumulators, how many were folded into them."""
        return self.bundle.elements if isinstance(self.bundle, FoldedBundle) else len(self.bundle)


class Encoded(NamedTuple):
    """Elements as they came through a pipe, or would: nobody has looked at them yet."""

    block: bytes


class Resumed(NamedTuple):
    """So many elements of each origin were sent on this channel before what comes now."""

    sent: dict[Origin, int]


class WatermarkMoved(NamedTuple):
    """No element that comes from now on is before this time, in microseconds; None: hold nothing back for me."""

    micros: int | None


class PercentileMoved(NamedTuple):
    """This share of the sources' elements is past this time, in microseconds."""

    percentile: float
    micros: int


class ClockMoved(NamedTuple):
    """A script has moved processing time, in microseconds."""

    now: int


class SignalCame(NamedTuple):
    """A script has given a signal, its `number`th."""

    number: int
    name: str


class BarrierKind(Enum):
    """What a barrier asks for."""

    # A snapshot, and that sinks stage what they have.
    CHECKPOINT = "checkpoint"
    # The same without waiting for other inputs' barriers.
    UNALIGNED = "unaligned"
    # To be told that everything before it has been done.
    SETTLE = "settle"


class Barrier(NamedTuple):
    """Divides what is before a snapshot from what is after it (ABS, section 4.1).

    Attributes:
      number: goes up from one barrier to the next.
      transaction: what sinks write to after it; "" behind the last one, when nothing is written.
      is_whole: whether everything is to be in the snapshot, not only what has changed.
      epoch: the snapshot's number.
    """

    number: int
    kind: BarrierKind = BarrierKind.CHECKPOINT
    transaction: str = ""
    is_whole: bool = True
    epoch: int = 0


# Messages that are stored: in snapshots, and in logs of productions.
News: TypeAlias = WatermarkMoved | PercentileMoved | ClockMoved | SignalCame

_NEWS: Mapping[type[News], RecordType[News]] = {
    WatermarkMoved: RecordType("watermark", 1, {1: WatermarkMoved}),
    PercentileMoved: RecordType("percentile watermark", 1, {1: PercentileMoved}),
    ClockMoved: RecordType("clock", 1, {1: ClockMoved}),
    SignalCame: RecordType("signal", 1, {1: SignalCame}),
}


def encode_news(message: News) -> bytes:
    """Return a message as bytes."""
    return _NEWS[type(message)].encode(*message)


def decode_news(data: bytes, where: str = "a channel") -> News:
    """Return the message that `encode_news` was given."""
    return decode_record(data, where, *_NEWS.values())


def _plain_news(messages: Iterable[News]) -> list[bytes]:
    return list(map(encode_news, messages))


def _news_of(records: Iterable[bytes]) -> list[News]:
    return [decode_news(record, "the snapshot") for record in records]


register_body(NEWS, Body(1, _plain_news, {1: _news_of}))

Message: TypeAlias = Elements | Encoded | Resumed | WatermarkMoved | PercentileMoved | ClockMoved | SignalCame | Barrier
