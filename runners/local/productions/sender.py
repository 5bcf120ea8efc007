"""The sending end of a channel: it holds messages until they are durable, and keeps them until they are acknowledged.

>>> from ..channels.messages import ClockMoved
>>> wire = Channel(ChannelId(0, 0, 1))
>>> sender = Sender(wire.id, wire, first=1)
>>> sender.put(ClockMoved(5))
>>> len(wire.queue), [sent.number for sent in sender.held()]
(0, [1])
>>> sender.release(); sender.send_again()
>>> [sent.number for delivery in wire.queue for sent in delivery.sent]
[1, 1]
>>> sender.acknowledge(1), sender.kept()
(True, ())
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..channels.channel import Channel, ChannelId, payloads_of
from ..channels.messages import Barrier, Message, WatermarkMoved
from .production import Delivery, Sent, Wire

# The number of messages, and of bytes, that are not acknowledged when the channel is full.
WINDOW = 128
BYTES = 16 << 20

# The bytes of messages that are sent together.
_FRAME = 1 << 15


class Sender(Channel):
    """The channel of the sending subtask.

    Args:
      wire: the channel to the receiver.
      first: the number of the first message.
      is_bounded: False on a back-edge, whose senders must not wait for its receivers.

    Attributes:
      holds: hold messages until they are released, instead of sending them at once.
      acknowledged: the number up to which the receiver has durably processed all messages.
      has_news: messages were put since the last production.
      has_more: messages other than watermarks were put since the last production.
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
            # The watermark before this one was not sent.
            self._bytes -= len(self._held.pop().payload)
        self._watermark_is_last = is_watermark
        for kind, payload in payloads_of(message, is_stored=True):
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
        """Return the messages that belong to the next production."""
        return tuple(sent for sent in self._held if sent.number)

    def kept(self) -> tuple[Sent, ...]:
        """Return the messages that were sent and are not acknowledged."""
        return tuple(self._kept)

    def cut(self) -> None:
        """Begin the next production."""
        self.has_news = self.has_more = False
        self._watermark_is_last = False

    def release(self) -> None:
        """Send the messages that are held: they are durable."""
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

    def _send(self, messages: Iterable[Sent]) -> None:
        """Send messages; small ones are sent together."""
        together: list[Sent] = []
        size = 0
        for sent in messages:
            # A barrier is never sent again, so it is sent alone.
            if together and (not sent.number or not together[-1].number or size + len(sent.payload) > _FRAME):
                self._wire.put(Delivery(tuple(together), self.acknowledged + 1))
                together, size = [], 0
            together.append(sent)
            size += len(sent.payload)
        if together:
            self._wire.put(Delivery(tuple(together), self.acknowledged + 1))

    def acknowledge(self, number: int) -> bool:
        """Drop messages that the receiver has durably processed, up to this number.  Returns whether there are any."""
        if number <= self.acknowledged:
            return False
        self.acknowledged = number
        while self._kept and self._kept[0].number <= number:
            self._bytes -= len(self._kept.popleft().payload)
        return True

    def send_again(self) -> None:
        """Send again the messages that are not acknowledged; the receiver drops duplicates."""
        self._send(self._kept)

    def send_on(self, wire: Wire) -> None:
        """Send on another channel: the receiver was replaced, and drops the messages that its log has."""
        self._wire = wire
        self.send_again()

    def restore(self, kept: Iterable[Sent], acknowledged: int) -> None:
        """Keep the messages that a log has; they are not sent yet."""
        self.acknowledged = acknowledged
        for sent in kept:
            self._kept.append(sent)
            self._bytes += len(sent.payload)
            self._next = max(self._next, sent.number + 1)
