"""Numbers for what a source task sends, so that whoever has it already can tell when it comes again (ABS, section 5).

For each channel and each partition of a source elements are counted.  What comes of a partition is the same whenever
it is read again, so after a restart the same elements have the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...sdk.bundle import Bundle
from ..execution.execution_graph import Edge, EdgeKind
from ..execution.partitioning import Partitioner
from .channel import Channel, ChannelId
from .exchange import Exchange
from .messages import Elements, Message, Origin, Resumed

# The kind of a snapshot's chunks that numbers are kept in.
NUMBERS = "numbers"

# Of one source: by edge and subtask at its end, by partition, how many elements were sent.
Numbers: TypeAlias = dict[tuple[int, int], dict[Any, int]]


class Numbering:
    """What one subtask of a source task has sent.

    Attributes:
      origin: the source, by its label, and its partition, that what is sent now comes of.

    >>> numbering = Numbering()
    >>> numbering.origin = "Read", 0
    >>> to = ChannelId(0, 0, 1)
    >>> numbering.next(to, 10), numbering.next(to, 5)
    (1, 11)
    >>> numbering.kept("Read")
    {(0, 1): {0: 15}}
    """

    def __init__(self) -> None:
        self.origin: Origin | None = None
        self._sent: dict[ChannelId, dict[Origin, int]] = {}

    def next(self, channel: ChannelId, count: int) -> int:
        """The number of the first of so many elements."""
        assert self.origin is not None
        sent = self._sent.setdefault(channel, {})
        before = sent.get(self.origin, 0)
        sent[self.origin] = before + count
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

    Each bundle goes by itself: what waited for others, or was put together with them, would depend on when they came.
    """

    def __init__(self, edge: Edge, channels: Sequence[Channel], label: str, numbering: Numbering) -> None:
        super().__init__(edge, channels, label)
        assert edge.kind is not EdgeKind.BACK
        self._numbering = numbering
        self._parts_of = Partitioner(len(channels), label).parts

    def resume(self) -> None:
        """Say to all from where the numbers go on."""
        for channel in self.channels:
            channel.put(Resumed(self._numbering.sent(channel.id)))

    def send(self, bundle: Bundle) -> None:
        if self.edge.kind is not EdgeKind.SHUFFLE or len(self.channels) == 1:
            for channel in self.channels:
                channel.put(self._numbered(channel.id, bundle))
            return
        for channel, part in zip(self.channels, self._parts_of(bundle), strict=True):
            if len(part):
                channel.put(self._numbered(channel.id, part))

    def _numbered(self, channel: ChannelId, bundle: Bundle) -> Message:
        return Elements(bundle, self._numbering.origin, self._numbering.next(channel, len(bundle)))
