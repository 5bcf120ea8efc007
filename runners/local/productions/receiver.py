"""The receiving end of a channel: it drops duplicates, and acknowledges messages that are durably processed.

>>> from ..channels.messages import ClockMoved
>>> from .production import Sent
>>> from ..channels.channel import payloads_of
>>> back = Channel(ChannelId(-1, 1, 0))
>>> receiver = Receiver(ChannelId(0, 0, 1), back)
>>> ((kind, payload),) = payloads_of(ClockMoved(5))
>>> for _ in range(2):
...     receiver.deliver(Delivery((Sent(1, kind, payload),), least=1))
>>> receiver.take(), len(receiver.queue), receiver.duplicates
(ClockMoved(now=5), 0, 1)
>>> receiver.commit(receiver.taken()); back.take()
Taken(number=1)
"""

from __future__ import annotations

from collections import deque

from ....sdk.elements.bundle import Bundle
from ..channels.channel import Channel, ChannelId, message_of
from ..channels.messages import Elements, Message
from .dedup import MEMORY_IDS, KeptIds, SeenIds
from .production import Delivery, Sent, Taken, Wire


class Receiver(Channel):
    """The channel of the receiving subtask.

    Args:
      back: the channel of the acknowledgements.

    Attributes:
      duplicates: the number of duplicates that were dropped.
      has_taken: the number of messages that were taken since the last production.
    """

    __slots__ = ("_back", "_durable", "_has_duplicate", "_numbers", "_seen", "_taken", "duplicates", "has_taken")

    def __init__(self, id: ChannelId, back: Wire) -> None:
        super().__init__(id)
        self._back = back
        self._seen = SeenIds(limit=MEMORY_IDS)
        self._numbers: deque[int] = deque()
        self._taken: list[int] = []
        self._durable = 0
        self._has_duplicate = False
        self.duplicates = 0
        self.has_taken = 0

    def deliver(self, delivery: Delivery) -> None:
        """Receive messages, some of them perhaps again."""
        self._seen.collect(delivery.least)
        for sent in delivery.sent:
            self._deliver(sent)

    def _deliver(self, sent: Sent) -> None:
        number, kind, payload = sent
        if number and not self._seen.add(number):
            self.duplicates += 1
            # The sender has not received an acknowledgement.
            self._has_duplicate = True
            return
        self.arrive(message_of(kind, payload))
        self._numbers.append(number)

    def take(self) -> Message:
        number = self._numbers.popleft()
        if number:
            self._taken.append(number)
            self.has_taken += 1
        return super().take()

    def _was_split(self) -> None:
        # The id is that of the first part.  The rest has none: a production has it itself.
        self._numbers.insert(1, 0)

    def rest(self) -> Bundle | None:
        """Return the rest of a message of which a part was taken; None if there is none."""
        if not self.queue or self._numbers[0]:
            return None
        message = self.queue[0]
        return message.bundle if isinstance(message, Elements) else None

    def taken(self) -> KeptIds:
        """Return the ids that were taken since the last production."""
        taken, self._taken, self.has_taken = self._taken, [], 0
        return KeptIds(self._seen.collected, tuple(taken))

    def commit(self, taken: KeptIds) -> None:
        """Acknowledge ids whose production is durable."""
        if taken.ids:
            self._durable = max(self._durable, taken.ids[-1])
            self._has_duplicate = False
            self._back.put(Taken(self._durable))

    def answer(self) -> None:
        """Acknowledge again if the sender has sent a duplicate."""
        if self._has_duplicate:
            self._has_duplicate = False
            if self._durable:
                self._back.put(Taken(self._durable))

    def answer_on(self, back: Wire) -> None:
        """Acknowledge on another channel: the sender was replaced, and knows the acknowledgements in its log."""
        self._back = back

    def kept(self) -> KeptIds:
        """Return the ids that were taken and that their sender may send again."""
        collected, ids = self._seen.kept()
        waiting = set(self._numbers)
        return KeptIds(collected, tuple(id for id in ids if id not in waiting))

    def restore(self, kept: KeptIds) -> None:
        """Restore the ids that were taken, which are all durable."""
        self._seen = SeenIds(kept, MEMORY_IDS)
        self._durable = max((0, *kept.ids, kept.collected - 1))
