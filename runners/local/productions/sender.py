"""A sender's end of a channel: what was produced is held until it is durable, and kept until it is acknowledged.

>>> from ..channels.messages import ClockMoved
>>> wire = Channel(ChannelId(0, 0, 1))
>>> outbox = Outbox(wire.id, wire, first=1)
>>> outbox.put(ClockMoved(5))
>>> len(wire.queue), [sent.number for sent in outbox.held()]
(0, [1])
>>> outbox.release(); outbox.send_again()
>>> [sent.number for delivery in wire.queue for sent in delivery.sent]
[1, 1]
>>> outbox.acknowledge(1), outbox.kept()
(True, ())
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..channels.channel import Channel, ChannelId, payloads_of
from ..channels.messages import Barrier, Message, WatermarkMoved
from .production import Delivery, Sent, Wire

# So many messages, or bytes, may wait to be acknowledged before whoever makes them has to wait.
WINDOW = 128
BYTES = 16 << 20

# So many bytes travel together, of messages that are smaller.
_FRAME = 1 << 15


class Outbox(Channel):
    """Takes the place of the channel in the subtask that sends.

    Args:
      wire: what leads to the receiver.
      first: the number of the first message.
      is_bounded: False on a back-edge, whose senders must never wait for its receivers.

    Attributes:
      holds: whether messages are sent only when they are released; else at once.
      acknowledged: the number up to which the receiver has everything, durably.
      has_news: whether something is held, or was sent, since the last production.
      has_more: the same of messages that aren't watermarks.
    """

    __slots__ = (
        "_bytes",
        "_held",
        "_is_bounded",
        "_kept",
        "_next",
        "_watermark_is_last",
        "_wire",
        "acknowledged",
        "has_more",
        "has_news",
        "holds",
    )

    def __init__(self, id: ChannelId, wire: Wire, first: int, is_bounded: bool = True) -> None:
        super().__init__(id)
        self._wire = wire
        self._next = first
        self._is_bounded = is_bounded
        self.holds = True
        self._held: list[Sent] = []
        self._kept: deque[Sent] = deque()
        self._bytes = 0
        self._watermark_is_last = False
        self.acknowledged = 0
        self.has_news = self.has_more = False

    def put(self, message: Message) -> None:
        self.has_news = True
        is_watermark = isinstance(message, WatermarkMoved)
        self.has_more |= not is_watermark
        if is_watermark and self._watermark_is_last and self._held:
            # The one before it was never sent.
            self._bytes -= len(self._held.pop().payload)
        self._watermark_is_last = is_watermark
        for kind, payload in payloads_of(message):
            number = 0
            if not isinstance(message, Barrier):
                number = self._next
                self._next += 1
            self._held.append(Sent(number, kind, payload))
            self._bytes += len(payload)
        if not self.holds:
            self._send_held()

    @property
    def is_full(self) -> bool:
        if not self._is_bounded:
            return False
        return len(self._held) + len(self._kept) >= WINDOW or self._bytes >= BYTES

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self._next - 1

    def held(self) -> tuple[Sent, ...]:
        """What a production has to have in it."""
        return tuple(sent for sent in self._held if sent.number)

    def kept(self) -> tuple[Sent, ...]:
        """What was sent and isn't acknowledged."""
        return tuple(self._kept)

    def cut(self) -> None:
        """A production has been made of all that there is."""
        self.has_news = self.has_more = False
        self._watermark_is_last = False

    def release(self) -> None:
        """What is held is durable: send it."""
        self._send_held()
        self.cut()

    def _send_held(self) -> None:
        held, self._held = self._held, []
        for sent in held:
            if sent.number:
                self._kept.append(sent)
            else:
                self._bytes -= len(sent.payload)
        self._send(held)

    def _send(self, all_sent: Iterable[Sent]) -> None:
        """Send messages, small ones together."""
        together: list[Sent] = []
        size = 0
        for sent in all_sent:
            # A barrier isn't sent again, so it is alone.
            if together and (not sent.number or not together[-1].number or size + len(sent.payload) > _FRAME):
                self._wire.put(Delivery(tuple(together), self.acknowledged + 1))
                together, size = [], 0
            together.append(sent)
            size += len(sent.payload)
        if together:
            self._wire.put(Delivery(tuple(together), self.acknowledged + 1))

    def acknowledge(self, number: int) -> bool:
        """The receiver has everything up to this number, durably; whether that is news."""
        if number <= self.acknowledged:
            return False
        self.acknowledged = number
        while self._kept and self._kept[0].number <= number:
            self._bytes -= len(self._kept.popleft().payload)
        return True

    def send_again(self) -> None:
        """Send all that isn't acknowledged; the receiver drops what it has."""
        self._send(self._kept)

    def send_on(self, wire: Wire) -> None:
        """Somebody else is the receiver, who drops what the one before has durably taken."""
        self._wire = wire
        self.send_again()

    def restore(self, kept: Iterable[Sent], acknowledged: int) -> None:
        """Keep what a log says; it is yet to be sent again."""
        self.acknowledged = acknowledged
        for sent in kept:
            self._kept.append(sent)
            self._bytes += len(sent.payload)
            self._next = max(self._next, sent.number + 1)
