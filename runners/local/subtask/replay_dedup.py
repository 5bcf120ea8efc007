"""Numbers for what a source task sends, so that whoever has it already can tell when it comes again (ABS, section 5).

For each channel and each partition of a source elements are counted.  What comes of a partition is the same whenever
it is read again, so after a restart the same elements have the same numbers.

Repetitions: what a source task sends again after it has gone back, dropped by who knows it (ABS, section 5).

>>> repetitions = Repetitions()
>>> channel, origin = ChannelId(0, 0, 1), ("Read", 0)
>>> repetitions.resumed(channel, {})
>>> repetitions.fresh(channel, Elements(Bundle(["a", "b"], [0, 0]), origin, 1)).values
['a', 'b']
>>> repetitions.come_again([channel])
>>> repetitions.resumed(channel, {})
>>> repetitions.fresh(channel, Elements(Bundle(["a"], [0]), origin, 1)) is None, repetitions.are_coming
(True, True)
>>> repetitions.fresh(channel, Elements(Bundle(["b", "c"], [0, 0]), origin, 2)).values, repetitions.are_coming
(['c'], False)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ....sdk.bundle import Bundle
from ....sdk.errors import PenstockError
from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.streaming.snapshot_chunks import PLAIN, register_body
from ...execution.time_slice import TimeSlice
from ...execution.windows.combining import FoldedBundle
from ..channels.channel import Channel, ChannelId
from ..channels.exchange import FRAME, Exchange
from ..channels.messages import Barrier, BarrierKind, Elements, Message, Origin, Resumed

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
        if not self.is_buffering or self._count >= FRAME * len(self.channels):
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

    def broadcast(self, message: Message) -> None:
        super().broadcast(message)
        if isinstance(message, Barrier) and message.kind is BarrierKind.CHECKPOINT:
            self._folds = True


class NotRepeatedError(PenstockError):
    """What a source gave again isn't what it had given, or not where it belongs."""


class Repetitions:
    """What one subtask has processed of what is numbered.

    That isn't part of its snapshots: none is taken before everybody who went back has caught up, and then both ends of
    a channel are as far.
    """

    def __init__(self) -> None:
        self._processed: dict[ChannelId, dict[Origin, int]] = {}
        # Of the channels whose senders have gone back: what they are yet to send again; None until that is known.
        self._awaited: dict[ChannelId, dict[Origin, int] | None] = {}

    @property
    def are_coming(self) -> bool:
        """Whether somebody who sends to this subtask has yet to catch up with it."""
        return bool(self._awaited)

    def come_again(self, channels: Iterable[ChannelId]) -> None:
        """The senders on these channels have gone back."""
        self._awaited.update(dict.fromkeys(channels))

    def resumed(self, channel: ChannelId, sent: Mapping[Origin, int]) -> None:
        """A sender says from where its numbers go on."""
        processed = self._processed.setdefault(channel, {})
        if channel not in self._awaited:
            processed.update(sent)
            return
        for origin, number in sent.items():
            if number > processed.get(origin, 0):
                raise self._misplaced(origin, processed.get(origin, 0), number)
        awaited = {origin: number for origin, number in processed.items() if number > sent.get(origin, 0)}
        self._awaited[channel] = awaited
        self._look(channel)

    def fresh(self, channel: ChannelId, message: Elements) -> Bundle | None:
        """What is new of a message's elements; None if nothing is."""
        origin, first, bundle = message.origin, message.first, message.bundle
        assert origin is not None
        processed = self._processed.setdefault(channel, {})
        before, last = processed.get(origin, 0), first + message.elements - 1
        if first > before + 1:
            raise self._misplaced(origin, before, first)
        awaited = self._awaited.get(channel)
        if awaited and last >= awaited.get(origin, last + 1):
            del awaited[origin]
            self._look(channel)
        if last <= before:
            return None
        processed[origin] = last
        if first == before + 1:
            return bundle
        if isinstance(bundle, FoldedBundle):
            raise NotRepeatedError(
                f"{origin[0]}: of partition {origin[1]!r} elements number {first} to {last} came folded after number "
                f"{before}, where they can't be cut; what may have been sent before has to be sent as elements"
            )
        return bundle.part(before + 1 - first, len(bundle))

    def ended(self, channel: ChannelId) -> None:
        """A sender has nothing more to send.  Raises `NotRepeatedError` if that is less than it had sent."""
        awaited = self._awaited.get(channel)
        if awaited:
            origin, number = next(iter(awaited.items()))
            raise NotRepeatedError(
                f"{origin[0]}: partition {origin[1]!r} has ended before its element number {number} came again; "
                "a source that is declared to be repeatable has to give the same elements whenever it is opened"
            )

    def _look(self, channel: ChannelId) -> None:
        if not self._awaited[channel]:
            del self._awaited[channel]

    def _misplaced(self, origin: Origin, before: int, first: int) -> NotRepeatedError:
        return NotRepeatedError(
            f"{origin[0]}: of partition {origin[1]!r} element number {first} came after number {before}; "
            "expected the one after that, or one that came before"
        )
