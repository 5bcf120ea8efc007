"""A channel: what one subtask sends to another, first in, first out."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from ...execution.shuffle.blocks import decode_bundle
from .messages import Barrier, BarrierKind, Elements, Encoded, Message

# How many messages may wait in a channel before whoever sends them has to wait, and how many elements: enough to
# work on while others have their turns.  Whatever waits is before the next barrier, so more would make checkpoints
# slow when they are aligned, and large when they aren't.
CAPACITY, MANY_ELEMENTS = 32, 4_096

# Of elements that are encoded it isn't known how many they are: about so many bytes are one.
_BYTES = 16


class ChannelId(NamedTuple):
    """Which edge, from which of its subtasks, to which."""

    edge: int
    source: int
    target: int


class Channel:
    """A channel within a process; also each end of one between two.

    Attributes:
      queue: what waits to be taken.
      elements: about how many elements there are in it.
      overtaking: how many barriers among that are unaligned, and needn't wait.
      is_held: whether the receiver has asked the sender to wait.

    >>> channel = Channel(ChannelId(0, 0, 1))
    >>> channel.put("a"), channel.put("b"), channel.take(), channel.is_full
    (None, None, 'a', False)
    """

    __slots__ = ("elements", "id", "is_held", "overtaking", "queue")

    def __init__(self, id: ChannelId) -> None:
        self.id = id
        self.queue: deque[Message] = deque()
        self.elements = 0
        self.overtaking = 0
        self.is_held = False

    def hold(self, is_held: bool) -> None:
        """Ask the sender to wait, or to go on: the receiver is behind with what it has taken."""
        self.is_held = is_held

    def put(self, message: Message) -> None:
        """Send a message; it is taken even if the channel is full."""
        self.arrive(message)

    def arrive(self, message: Message) -> None:
        """A message has come to where it will be taken."""
        self.queue.append(message)
        if type(message) is Elements:
            self.elements += len(message.bundle)
        elif type(message) is Encoded:
            self.elements += len(message.block) // _BYTES
        elif type(message) is Barrier and message.kind is BarrierKind.UNALIGNED:
            self.overtaking += 1

    def take_overtaking(self) -> tuple[Barrier, list[Message]]:
        """Take the first barrier that overtakes, and say what it has overtaken."""
        for place, message in enumerate(self.queue):
            if type(message) is Barrier and message.kind is BarrierKind.UNALIGNED:
                del self.queue[place]
                self.overtaking -= 1
                return message, list(islice(self.queue, place))
        raise IndexError("no such barrier is there")

    def take(self) -> Message:
        """The oldest message that waits, decoded."""
        message = self.queue.popleft()
        if type(message) is Elements:
            self.elements -= len(message.bundle)
        elif type(message) is Encoded:
            self.elements -= len(message.block) // _BYTES
            return Elements(decode_bundle(message.block))
        return message

    @property
    def is_full(self) -> bool:
        """Whether the sender has to wait (backpressure)."""
        return self.is_held or self.elements >= MANY_ELEMENTS or len(self.queue) >= CAPACITY
