"""Sequence numbers of a source task's output, by which receivers drop what is sent again (ABS, section 5).

Elements are counted for each channel and each partition of a source.  A repeatable source gives the same elements
whenever a partition is read again, so after a restart the same elements have the same numbers.

>>> repetitions = Repetitions()
>>> channel, origin = ChannelId(0, 0, 1), ("Read", 0)
>>> repetitions.resumed(channel, {})
>>> repetitions.new_elements(channel, Elements(Bundle(["a", "b"], [0, 0]), origin, 1)).values
['a', 'b']
>>> repetitions.expect_replay({channel: None})
>>> repetitions.resumed(channel, {})
>>> repetitions.new_elements(channel, Elements(Bundle(["a"], [0]), origin, 1)) is None, repetitions.is_replaying
(True, True)
>>> repetitions.new_elements(channel, Elements(Bundle(["b", "c"], [0, 0]), origin, 2)).values, repetitions.is_replaying
(['c'], False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ....sdk.elements.bundle import Bundle
from ....sdk.errors import PenstockError
from ....windowing.timestamp import MIN_MICROS
from ...execution.clock import StepClock
from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import PLAIN, register_body
from ...execution.windows.combining import FoldedBundle
from ..channels.channel import Channel, ChannelId
from ..channels.exchange import FRAME, Exchange
from ..channels.messages import Barrier, BarrierKind, Elements, Message, Origin, Resumed

# Kinds of a snapshot's chunks: numbers, and the partition that work which was left derives from.
NUMBERS, ORIGIN = "numbers", "origin"
register_body(NUMBERS, PLAIN)
register_body(ORIGIN, PLAIN)

# For one source, how many elements were sent, by edge and receiving subtask, by partition.
Numbers: TypeAlias = dict[tuple[int, int], dict[Any, int]]


class Numbering:
    """Numbers of the elements that one subtask of a source task has sent.

    Attributes:
      origin: the source, by its label, and the partition that the current output derives from.

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
        """Number some elements.  Return the number of the first."""
        sent = self._sent.setdefault(channel, {})
        before = sent.get(origin, 0)
        sent[origin] = before + count
        return before + 1

    def sent(self, channel: ChannelId) -> dict[Origin, int]:
        """Return how many elements of each origin were sent on a channel."""
        return dict(self._sent.get(channel, {}))

    def kept(self, label: str) -> Numbers:
        """Return the numbers of one source, as data."""
        numbers: Numbers = {}
        for channel, sent in self._sent.items():
            own = {partition: number for (source, partition), number in sent.items() if source == label}
            if own:
                numbers[channel.edge, channel.target] = own
        return numbers

    def resume(self, restored: Restored | None, labels: Sequence[str], index: int, parallelism: int) -> None:
        """Continue with the numbers of a snapshot, and the origin of its pending work.

        Args:
          labels: of the subtask's sources.
          index, parallelism: of the subtask.
        """
        here = index, parallelism
        for label in labels:
            for *of, numbers in () if restored is None else restored.newest(label, NUMBERS):
                # After a change of parallelism each channel's numbers begin anew, at both ends.
                if tuple(of) == here:
                    self.restore(label, index, numbers)
            for *of, partition in () if restored is None else restored.newest(label, ORIGIN):
                # After a change of parallelism any origin will do.
                if tuple(of) == here or self.origin is None:
                    self.origin = label, partition
        if self.origin is None and labels:
            # Pending work of subtasks that didn't number it is like a partition of its own.
            self.origin = labels[0], None

    def restore(self, label: str, index: int, numbers: Numbers) -> None:
        """Restore what `kept` returned, in the subtask of this index."""
        for (edge, target), own in numbers.items():
            sent = self._sent.setdefault(ChannelId(edge, index, target), {})
            sent.update({(label, partition): number for partition, number in own.items()})


class NumberedExchange(Exchange):
    """Exchange of a source task, which numbers its elements.

    Bundles wait for others of their partition, and are numbered when they are sent: however they are cut, each element
    has the same number again.  Accumulators can't be cut where a receiver's numbers end, so elements that may be sent
    for the second time aren't folded: none before the first barrier of a checkpoint, which isn't injected before all
    receivers have caught up.  For the same reason the elements of each partition have a table of their own.
    """

    def __init__(
        self,
        edge: Edge,
        channels: Sequence[Channel],
        label: str,
        numbering: Numbering,
        step_clock: StepClock | None = None,
        is_timed: bool = False,
    ) -> None:
        super().__init__(edge, channels, label, step_clock, is_timed)
        assert edge.kind is not EdgeKind.BACK
        self._numbering = numbering
        self._folds = False
        self._buffers: dict[Origin, list[Bundle]] = {}

    def resume(self) -> None:
        """Tell all receivers where the numbers continue."""
        for channel in self.channels:
            channel.put(Resumed(self._numbering.sent(channel.id)))

    def send(self, bundle: Bundle) -> None:
        origin = self._numbering.origin
        assert origin is not None
        if self.edge.kind is not EdgeKind.SHUFFLE:
            self._sent += len(bundle)
            for channel in self.channels:
                self._put(channel, bundle, origin)
            return
        self._buffers.setdefault(origin, []).append(bundle)
        self._count += len(bundle)
        if not self.is_buffering or self._count >= FRAME * len(self.channels):
            self.flush()

    def flush(self) -> None:
        buffers, self._buffers, self._count = self._buffers, {}, 0
        for origin, bundles in buffers.items():
            self._add(bundles, origin)

    def _put(self, channel: Channel, bundle: Bundle, origin: Origin | None) -> None:
        assert origin is not None
        message = Elements(bundle, origin)
        channel.put(message._replace(first=self._numbering.next(channel.id, origin, message.elements)))

    def broadcast(self, message: Message) -> None:
        super().broadcast(message)
        if isinstance(message, Barrier) and message.kind is BarrierKind.CHECKPOINT:
            self._folds = True


class NotRepeatedError(PenstockError):
    """A source that was read again gave other elements than before, or in another order."""


class Repetitions:
    """Numbers of the elements that one subtask has processed, by which it drops repetitions.

    They aren't part of its snapshots: none is taken before all restarted subtasks have caught up, and then both ends of
    a channel have the same numbers.
    """

    def __init__(self) -> None:
        self._processed: dict[ChannelId, dict[Origin, int]] = {}
        # For channels whose senders have restarted, the numbers up to which they replay; None until those are known.
        self._awaited: dict[ChannelId, dict[Origin, int] | None] = {}
        # For the same channels, the watermarks that the senders had sent.
        self._watermarks: dict[ChannelId, int] = {}

    @property
    def is_replaying(self) -> bool:
        """True if a sender has not caught up with this subtask yet."""
        return bool(self._awaited or self._watermarks)

    def expect_replay(self, channels: Mapping[ChannelId, int | None]) -> None:
        """Expect repetitions on these channels, whose senders have restarted.

        The windows that a watermark has closed here are to be closed by it in the restarted subtasks, too, before the
        next barrier: a checkpoint has the results of one prefix of the input.

        Args:
          channels: with the watermark of each, which is to come again; None for that of an idle sender.
        """
        self._awaited.update(dict.fromkeys(channels))
        self._watermarks.update({id: micros for id, micros in channels.items() if micros not in (None, MIN_MICROS)})

    def moved(self, channel: ChannelId, watermark: int | None) -> None:
        """Take in the watermark of a channel; None if its sender is idle."""
        if watermark is None or watermark >= self._watermarks.get(channel, watermark):
            self._watermarks.pop(channel, None)

    def resumed(self, channel: ChannelId, sent: Mapping[Origin, int]) -> None:
        """Take in where a sender's numbers continue."""
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

    def new_elements(self, channel: ChannelId, message: Elements) -> Bundle | None:
        """Return the elements of a message that have not been processed before, or None."""
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
                f"{before}, where they can't be cut; output that may have been sent before has to be sent as elements"
            )
        return bundle.part(before + 1 - first, len(bundle))

    def ended(self, channel: ChannelId) -> None:
        """Check the end of a channel.  Raises `NotRepeatedError` if the sender had sent more before."""
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
