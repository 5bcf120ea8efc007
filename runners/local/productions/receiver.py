"""A receiver's end of a channel: duplicates are dropped, and what is durably taken is acknowledged.

>>> from ..channels.messages import ClockMoved
>>> from .production import Sent
>>> from ..channels.channel import payloads_of
>>> back = Channel(ChannelId(-1, 1, 0))
>>> inbox = Inbox(ChannelId(0, 0, 1), back)
>>> ((kind, payload),) = payloads_of(ClockMoved(5))
>>> for _ in range(2):
...     inbox.deliver(Delivery((Sent(1, kind, payload),), least=1))
>>> inbox.take(), len(inbox.queue), inbox.duplicates
(ClockMoved(now=5), 0, 1)
>>> inbox.commit(inbox.taken()); back.take()
Taken(number=1)
"""

from __future__ import annotations

from collections import deque

from ..channels.channel import Channel, ChannelId, message_of
from ..channels.messages import Message
from .dedup import MEMORY_IDS, KeptIds, SeenIds
from .production import Delivery, Sent, Taken, Wire


class Inbox(Channel):
    """Takes the place of the channel in the subtask that receives.

    Args:
      back: what leads to the sender.

    Attributes:
      duplicates: how many were dropped.
      has_taken: how many messages were taken since the last production.
    """

    __slots__ = ("_back", "_durable", "_is_asked", "_numbers", "_seen", "_taken", "duplicates", "has_taken")

    def __init__(self, id: ChannelId, back: Wire) -> None:
        super().__init__(id)
        self._back = back
        self._seen = SeenIds(limit=MEMORY_IDS)
        self._numbers: deque[int] = deque()
        self._taken: list[int] = []
        self._durable = 0
        self._is_asked = False
        self.duplicates = 0
        self.has_taken = 0

    def deliver(self, delivery: Delivery) -> None:
        """Messages have come, or have come again."""
        self._seen.collect(delivery.least)
        for sent in delivery.sent:
            self._deliver(sent)

    def _deliver(self, sent: Sent) -> None:
        number, kind, payload = sent
        if number and not self._seen.add(number):
            self.duplicates += 1
            # Its sender hasn't heard that it was taken, if it was.
            self._is_asked = True
            return
        self.arrive(message_of(kind, payload))
        self._numbers.append(number)

    def take(self) -> Message:
        number = self._numbers.popleft()
        if number:
            self._taken.append(number)
            self.has_taken += 1
        return super().take()

    def taken(self) -> KeptIds:
        """The ids that were taken since the last production."""
        taken, self._taken, self.has_taken = self._taken, [], 0
        return KeptIds(self._seen.collected, tuple(taken))

    def commit(self, taken: KeptIds) -> None:
        """What was taken is durable: say so."""
        if taken.ids:
            self._durable = max(self._durable, taken.ids[-1])
            self._is_asked = False
            self._back.put(Taken(self._durable))

    def answer(self) -> None:
        """Say it once more, if somebody has sent again what was taken."""
        if self._is_asked:
            self._is_asked = False
            if self._durable:
                self._back.put(Taken(self._durable))

    def answer_on(self, back: Wire) -> None:
        """Somebody else is the sender, who knows what the one before had written of what was acknowledged."""
        self._back = back

    def kept(self) -> KeptIds:
        """The ids of all that was taken, as far as their sender may send them again."""
        collected, ids = self._seen.kept()
        waiting = set(self._numbers)
        return KeptIds(collected, tuple(id for id in ids if id not in waiting))

    def restore(self, kept: KeptIds) -> None:
        """Know again what was taken; all of it is durable."""
        self._seen = SeenIds(kept, MEMORY_IDS)
        self._durable = max((0, *kept.ids, kept.collected - 1))
