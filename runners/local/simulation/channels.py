"""Channels of a simulation: as short as it likes; and between slots the same bytes as between processes.

What is delivered by id may be delivered again, later than what came behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..channels.channel import Channel, ChannelId, arrived, payloads_of
from ..channels.messages import Barrier, Message
from ..productions.production import Delivery, Taken


class ShortChannel(Channel):
    """A channel within a slot, which is full as soon as the simulation likes."""

    __slots__ = ("capacity",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id)
        self.capacity = capacity

    @property
    def is_full(self) -> bool:
        return self.is_paused or len(self.queue) >= self.capacity


class _SendingSide(ShortChannel):
    """A channel to another slot: what is put becomes bytes at once.

    Attributes:
      frames: what is in the pipe.
    """

    __slots__ = ("frames",)

    def __init__(self, id: ChannelId, capacity: int) -> None:
        super().__init__(id, capacity)
        self.frames: deque[tuple[int, bytes]] = deque()

    def put(self, message: Message) -> None:
        self.frames.extend(payloads_of(message))

    @property
    def is_full(self) -> bool:
        return len(self.frames) >= self.capacity


class Pipe:
    """Between two slots.

    Args:
      comes_again: whether what is being delivered comes a second time, some time.

    Attributes:
      sending, receiving: its two ends.
    """

    def __init__(self, id: ChannelId, capacity: int, comes_again: Callable[[str], bool]) -> None:
        self.sending = _SendingSide(id, capacity)
        self.receiving = ShortChannel(id, capacity)
        self._seen = -1
        self._comes_again = comes_again
        self._echoes: deque[Any] = deque()

    def deliver(self, expected: int) -> bool:
        """Move one message on, if there is room for it, or an unaligned barrier is yet to come."""
        if not self.sending.frames or (self.receiving.is_full and self._seen >= expected):
            return False
        message: Any = arrived(*self.sending.frames.popleft())
        if isinstance(message, Barrier):
            self._seen = message.number
        self.receiving.arrive(message)
        if _has_id(message) and self._comes_again(f"{type(message).__name__} on {self.sending.id}"):
            self._echoes.append(message)
        return True

    def deliver_again(self) -> bool:
        """Deliver what has been delivered before."""
        if not self._echoes:
            return False
        self.receiving.arrive(self._echoes.popleft())
        return True


def _has_id(message: Any) -> bool:
    """Whether it is known again when it comes twice; barriers are between processes that never send twice."""
    return isinstance(message, Taken) or (isinstance(message, Delivery) and message.sent[0].number > 0)
