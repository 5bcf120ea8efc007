"""Numbers for what a source task sends, so that whoever has it already can tell when it comes again (ABS, section 5).

For each channel and each partition of a source elements are counted.  What comes of a partition is the same whenever
it is read again, so after a restart the same elements have the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...sdk.bundle import Bundle
from ..execution.plan.execution_graph import Edge, EdgeKind
from ..execution.streaming.snapshot_chunks import PLAIN, register_body
from ..execution.time_slice import TimeSlice
from .channel import Channel, ChannelId
from .exchange import FRAME, Exchange
from .messages import Barrier, BarrierKind, Elements, Message, Origin, Resumed

# The kinds of a snapshot's chunks that numbers are kept in, and the partition of what a step has left.
NUMBERS, ORIGIN = "numbers", "origin"
register_body(NUMBERS, PLAIN)
register_body(ORIGIN, PLAIN)

# Of one source: by edge and subtask at its end, by partition, how many elements were sent.
Numbers: TypeAlias = dict[tuple[int, int], dict[Any, int]]


class Numbering:
    """What one subtask of a source task has sent.

    Attributes:
      origin: the source, by its label, and its partition, that what is sent now comes of.

    >>> numbering = Numbering()
    >>> to = ChannelId(0, 0, 1)
    >>> numbering.next(to, ("Read", 0), 10), numbering.next(to, ("Read", 0), 5)
    (1, 11)
    >>> numbering.kept("Read")
    {(0, 1): {0: 15}}
    """

    def __init__(self) -> None:
        self.origin: Origin | None = None
        self._sent: dict[ChannelId, dict[Origin, int]] = {}

    def next(self, channel: ChannelId, origin: Origin, count: int) -> int:
        """The number of the first of so many elements."""
        sent = self._sent.setdefault(channel, {})
        before = sent.get(origin, 0)
        sent[origin] = before + count
        return before + 1

    def sent(self, channel: ChannelId) -> dict[Origin, int]:
        """How many elements of each origin were sent on a channel."""
        return dict(self._sent.get(channel, {}))

    def kept(self, label: str) -> Numbers:
        """The numbers of one source, as data."""
        numbers: Numbers = {}
        for channel, sent in self._sent.items():
            own = {partition: number for (source, partition), number in sent.items() if source == label}
            if own:
                numbers[channel.edge, channel.target] = own
        return numbers

    def restore(self, label: str, index: int, numbers: Numbers) -> None:
        """Go on from there; `index` is the subtask's."""
        for (edge, target), own in numbers.items():
            sent = self._sent.setdefault(ChannelId(edge, index, target), {})
            sent.update({(label, partition): number for partition, number in own.items()})


class NumberedExchange(Exchange):
    """An edge that begins at a source task.

    What waits for more waits for more of its partition, and is numbered when it goes: however it is cut, each
    element has the number that it had before.  But accumulators can't be cut where a receiver's knowledge ends.  So
    nothing that might be sent for the second time is folded: not before the first barrier of a checkpoint, which
    doesn't come before all receivers that have stayed know again what they knew.
    """

    def __init__(
        self,
        edge: Edge,
        channels: Sequence[Channel],
        label: str,
        numbering: Numbering,
        time_slice: TimeSlice | None = None,
    ) -> None:
        super().__init__(edge, channels, label, time_slice)
        assert edge.kind is not EdgeKind.BACK
        self._numbering = numbering
        self._folds = False
        self._by_origin: dict[Origin, list[Bundle]] = {}

    def resume(self) -> None:
        """Say to all from where the numbers go on."""
        for channel in self.channels:
            channel.put(Resumed(self._numbering.sent(channel.id)))

    def send(self, bundle: Bundle) -> None:
        origin = self._numbering.origin
        assert origin is not None
        if self.edge.kind is not EdgeKind.SHUFFLE:
            for channel in self.channels:
                self._put(channel, bundle, origin)
            return
        self._by_origin.setdefault(origin, []).append(bundle)
        self._count += len(bundle)
        if not self.gathers or self._count >= FRAME * len(self.channels):
            self.flush()

    def flush(self) -> None:
        if not self._by_origin:
            return
        waiting, self._by_origin, self._count = self._by_origin, {}, 0
        for origin, bundles in waiting.items():
            for channel, part in self._parts(bundles):
                self._put(channel, part, origin)

    def _put(self, channel: Channel, bundle: Bundle, origin: Origin) -> None:
        message = Elements(bundle, origin)
        channel.put(message._replace(first=self._numbering.next(channel.id, origin, message.elements)))

    def tell(self, message: Message) -> None:
        super().tell(message)
        if isinstance(message, Barrier) and message.kind is BarrierKind.CHECKPOINT:
            self._folds = True
