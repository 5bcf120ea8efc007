"""Channels: first-in, first-out queues of messages from one subtask to another.

Between two processes a channel is a pipe of frames: the payload's length and the message's kind, then the payload,
which is a bundle as columns, or a pickle.  Neither end blocks.  The sender keeps what the pipe doesn't take, and is
full then; the receiver reads only while it isn't full.  So the pipe's own buffer is the backpressure.

A slow receiver limits the elements that may wait in a channel.  Of a pipe it tells the sender on the same pipe: the
limit, and how many frames of elements it has taken.
"""

from __future__ import annotations

import fcntl
import pickle
import socket
import struct
import termios
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from ...execution.serialization.records import RecordType, decode_record
from ...execution.shuffle.blocks import decode_bundle, encode_bundle
from ...execution.streaming.snapshot_chunks import NEWS, Body, register_body
from ...execution.windows.combining import FoldedBundle
from .messages import (
    Barrier,
    BarrierKind,
    ClockMoved,
    ControlMessage,
    Elements,
    Encoded,
    Message,
    PercentileMoved,
    SignalCame,
    WatermarkMoved,
)

# Capacity of a channel in messages and in elements: enough to work on during the turns of other subtasks.  All of it
# comes before the next barrier, so more would make aligned checkpoints slow, and unaligned ones large.
CAPACITY, MANY_ELEMENTS = 32, 4_096

# Bytes of an encoded element, about.
_BYTES = 16

_HEADER = struct.Struct(">IB")
# Kinds of frames.  Logs of productions contain the first and the last.
_ELEMENTS, _OTHER, _NUMBERED, _CONTROL = 1, 2, 3, 4

# Before numbered elements: the number of the first, and the length of their origin, which follows.
_NUMBER = struct.Struct(">QH")

# Bytes that a sender may keep before it is full, and about how many the pipe itself takes.
_PENDING = _PIPE = 1 << 16
# What a receiver sends: whether the sender is to wait, the limit of elements, and how many frames of elements were
# taken in all.
_DEMAND = struct.Struct(">?IQ")
_NO_LIMIT = (1 << 32) - 1

# Twice the elements behind which a receiver without a limit tells the sender what it has taken.
_RARELY = 1 << 16

# Bytes to read at a time.
_READ = 1 << 16


class ChannelId(NamedTuple):
    """The channel of an edge between two of its subtasks."""

    edge: int
    source: int
    target: int


class Channel:
    """A channel within a process; also each end of one between two.

    Attributes:
      queue: the messages that can be taken.
      elements: about how many elements are in it.
      unaligned_barriers: how many unaligned barriers are in it, which don't wait for their turn.
      is_paused: true while the receiver has asked the sender to wait.
      limit: how many elements may be in it; None while only its capacity limits them.

    >>> channel = Channel(ChannelId(0, 0, 1))
    >>> channel.put("a"), channel.put("b"), channel.take(), channel.is_full
    (None, None, 'a', False)
    """

    __slots__ = ("_changed_over", "elements", "id", "is_paused", "limit", "queue", "unaligned_barriers")

    def __init__(self, id: ChannelId) -> None:
        self.id = id
        self.limit: int | None = None
        self._changed_over = -1
        self.queue: deque[Message] = deque()
        self.elements = 0
        self.unaligned_barriers = 0
        self.is_paused = False

    def pause(self, is_paused: bool) -> None:
        """Ask the sender to wait, or to go on."""
        self.is_paused = is_paused

    def limit_to(self, elements: int | None) -> None:
        """Limit the elements that may be in it; the receiver does this."""
        self.limit = elements

    @property
    def room(self) -> int | None:
        """How many elements the sender may send before it has to wait; None if it needn't count them."""
        return None if self.limit is None else max(0, self.limit - self.elements)

    @property
    def unread(self) -> int:
        """The bytes that have arrived at the receiving end, and are no message yet."""
        return 0

    def put(self, message: Message) -> None:
        """Send a message, which is accepted even if the channel is full."""
        self.arrive(message)

    def arrive(self, message: Message) -> None:
        """Add a message at the receiving end."""
        if type(message) is Barrier and message.number == self._changed_over:
            message = message._replace(kind=BarrierKind.UNALIGNED)
        self.queue.append(message)
        if type(message) is Elements:
            self.elements += len(message.bundle)
        elif type(message) is Encoded:
            self.elements += len(message.block) // _BYTES
        elif type(message) is Barrier and message.kind is BarrierKind.UNALIGNED:
            self.unaligned_barriers += 1

    def change_over(self, number: int) -> None:
        """Make an aligned barrier an unaligned one, whether it is in the channel or arrives later."""
        self._changed_over = number
        for index, message in enumerate(self.queue):
            if type(message) is Barrier and message.number == number and message.kind is BarrierKind.CHECKPOINT:
                self.queue[index] = message._replace(kind=BarrierKind.UNALIGNED)
                self.unaligned_barriers += 1

    def take_unaligned_barrier(self) -> tuple[Barrier, list[Message]]:
        """Take the first unaligned barrier; return it, and the messages before it, which stay in the channel."""
        for index, message in enumerate(self.queue):
            if type(message) is Barrier and message.kind is BarrierKind.UNALIGNED:
                del self.queue[index]
                self.unaligned_barriers -= 1
                return message, list(islice(self.queue, index))
        raise IndexError("there is no unaligned barrier in the channel")

    def take(self) -> Message:
        """Take the oldest message, and decode it."""
        message = self.queue.popleft()
        if type(message) is Elements:
            self.elements -= len(message.bundle)
        elif type(message) is Encoded:
            self.elements -= len(message.block) // _BYTES
            return Elements(decode_bundle(message.block))
        return message

    def split_first(self, elements: int) -> None:
        """Split the oldest message in two, if it has more elements than so many."""
        message = self.queue[0]
        if type(message) is Encoded:
            self.elements -= len(message.block) // _BYTES
            message = self.queue[0] = Elements(decode_bundle(message.block))
            self.elements += len(message.bundle)
        if type(message) is not Elements:
            return
        bundle, n = message.bundle, len(message.bundle)
        # Of accumulators the numbers of the elements in a part aren't known.
        if n <= elements or (isinstance(bundle, FoldedBundle) and message.origin is not None):
            return
        self.queue[0] = message._replace(bundle=bundle.part(0, elements))
        self.queue.insert(1, message._replace(bundle=bundle.part(elements, n), first=message.first + elements))
        self._was_split()

    def _was_split(self) -> None:
        """Note that there is one message more."""

    @property
    def is_full(self) -> bool:
        """True if the sender has to wait (backpressure)."""
        if self.limit is not None and self.elements >= self.limit:
            return True
        return self.is_paused or self.elements >= MANY_ELEMENTS or len(self.queue) >= CAPACITY


class SendingEnd(Channel):
    """Sending end of a pipe between two processes.

    Attributes:
      socket: the pipe.
      is_over: true after the receiver has closed it.
    """

    __slots__ = ("_frames", "_news", "_pending", "_sent", "_taken", "is_over", "socket")

    def __init__(self, id: ChannelId, pipe: socket.socket) -> None:
        super().__init__(id)
        pipe.setblocking(False)
        pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PIPE)
        self.socket = pipe
        self._frames: deque[memoryview] = deque()
        self._pending = 0
        self.is_over = False
        # The elements of each message that the receiver hasn't taken, as far as that is known, and how many were taken.
        self._sent: deque[tuple[int, int]] = deque()
        self._taken = 0
        self._news = b""

    def put(self, message: Message) -> None:
        frames = 0
        for kind, payload in payloads_of(message):
            self._add(kind, payload)
            frames += 1
        if type(message) is Elements:
            n = len(message.bundle)
            self.elements += n
            self._sent.append((frames, n))
        self.flush()

    def _add(self, kind: int, payload: bytes) -> None:
        header = _HEADER.pack(len(payload), kind)
        # Small frames are joined with their headers; a large one isn't copied.
        pieces = [header + payload] if len(payload) < _READ else [header, payload]
        for piece in pieces:
            self._frames.append(memoryview(piece))
            self._pending += len(piece)

    def flush(self) -> None:
        """Write as much as the pipe takes."""
        while self._frames:
            frame = self._frames[0]
            try:
                sent = self.socket.send(frame)
            except BlockingIOError:
                return
            except OSError:
                # The receiver is gone; the job's process will notice.
                self._frames.clear()
                self._pending = 0
                return
            self._pending -= sent
            if sent < len(frame):
                self._frames[0] = frame[sent:]
                return
            self._frames.popleft()

    @property
    def unsent(self) -> int:
        """The bytes that wait for room in the pipe."""
        return self._pending

    @property
    def has_pending(self) -> bool:
        """True if frames wait for room in the pipe."""
        return bool(self._frames)

    def look(self) -> None:
        """Read what the receiver has asked for."""
        try:
            news = self.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            news = b""
        if not news:
            self.is_over = True
            return
        self._news += news
        whole = len(self._news) - len(self._news) % _DEMAND.size
        for is_paused, limit, taken in _DEMAND.iter_unpack(self._news[:whole]):
            self.is_paused = is_paused
            self.limit = None if limit == _NO_LIMIT else limit
            self._take_off(taken)
        self._news = self._news[whole:]

    def _take_off(self, taken: int) -> None:
        """Take off the messages all of whose frames the receiver has taken."""
        while self._sent and self._taken + self._sent[0][0] <= taken:
            frames, n = self._sent.popleft()
            self._taken += frames
            self.elements -= n

    @property
    def is_full(self) -> bool:
        if self.limit is not None and self.elements >= self.limit:
            return True
        return self.is_paused or self._pending >= _PENDING


class ReceivingEnd(Channel):
    """Receiving end of a pipe between two processes.

    Attributes:
      socket: the pipe.
      seen: the number of the last barrier that has arrived.
    """

    __slots__ = ("_data", "_has_paused", "_parts", "_taken", "_untold", "_was_cut", "seen", "socket")

    def __init__(self, id: ChannelId, pipe: socket.socket) -> None:
        super().__init__(id)
        pipe.setblocking(False)
        self.socket = pipe
        self._data = bytearray()
        self._has_paused = False
        # The frames of elements that were taken as a whole, and the elements of those that the sender doesn't know of.
        self._taken = self._untold = 0
        # The elements that were taken of a frame, and whether more of it follows behind the next part.
        self._parts = 0
        self._was_cut = False
        self.seen = -1

    def pause(self, is_paused: bool) -> None:
        if is_paused != self._has_paused:
            self._has_paused = is_paused
            self._tell()

    def limit_to(self, elements: int | None) -> None:
        if elements != self.limit:
            self.limit = elements
            self._tell()

    def _tell(self) -> None:
        """Tell the sender whether to wait, the limit, and what was taken."""
        self._untold = 0
        limit = _NO_LIMIT if self.limit is None else self.limit
        # The sender may have ended; one that reads nothing for so long knows of a newer limit later.
        with suppress(OSError):
            self.socket.send(_DEMAND.pack(self._has_paused, limit, self._taken))

    def take(self) -> Message:
        message = super().take()
        if type(message) is Elements:
            self._parts += len(message.bundle)
            if self._was_cut:
                self._was_cut = False
                return message
            self._taken += 1
            self._untold += self._parts
            self._parts = 0
            # The sender goes on before the channel is empty, and has few numbers to keep without a limit.
            limit = self.limit
            if 2 * self._untold >= (_RARELY if limit is None else limit) or (limit is not None and not self.queue):
                self._tell()
        return message

    def _was_split(self) -> None:
        self._was_cut = True

    @property
    def is_full(self) -> bool:
        # Whatever the limit, the sender has sent it: the pipe is read.
        return self.is_paused or self.elements >= MANY_ELEMENTS or len(self.queue) >= CAPACITY

    @property
    def unread(self) -> int:
        # The pipe is read at once, unless the channel is full.
        return len(self._data) + (_readable(self.socket) if self.is_full else 0)

    def read(self) -> bool:
        """Read what is in the pipe.  Return False if the sender has closed it."""
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        self._data += data
        start, end = 0, len(self._data)
        view = memoryview(self._data)
        while end - start >= _HEADER.size:
            length, kind = _HEADER.unpack_from(view, start)
            stop = start + _HEADER.size + length
            if stop > end:
                break
            message = arrived(kind, bytes(view[start + _HEADER.size : stop]))
            if isinstance(message, Barrier):
                self.seen = message.number
            self.arrive(message)
            start = stop
        view.release()
        del self._data[:start]
        return True


def _readable(pipe: socket.socket) -> int:
    """Return the number of bytes in a pipe that can be read."""
    found = array("i", [0])
    # The pipe may be closed.
    with suppress(OSError, ValueError):
        fcntl.ioctl(pipe.fileno(), termios.FIONREAD, found)
    return found[0]


def payloads_of(message: Message, is_stored: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield kinds and payloads of a message's frames, each of which is a message again at the receiver.

    Args:
      is_stored: whether a later version may read them.
    """
    if not isinstance(message, Elements):
        if is_stored and isinstance(message, ControlMessage):
            yield _CONTROL, encode_control_message(message)
        else:
            yield _OTHER, pickle.dumps(message, protocol=5)
    elif message.origin is None:
        for block in encode_bundle(message.bundle):
            yield _ELEMENTS, block
    else:
        origin, first = pickle.dumps(message.origin, protocol=5), message.first
        # A sender that died between two blocks of accumulators would replay the elements of both.
        is_whole = isinstance(message.bundle, FoldedBundle)
        blocks = list(encode_bundle(message.bundle, inf) if is_whole else encode_bundle(message.bundle))
        for block in blocks:
            yield _NUMBERED, _NUMBER.pack(first, len(origin)) + origin + block
            if len(blocks) > 1:
                first += Elements(decode_bundle(block)).elements


def arrived(kind: int, payload: bytes) -> Any:
    """Return the message of a payload; elements stay encoded until they are taken."""
    return Encoded(payload) if kind == _ELEMENTS else message_of(kind, payload)


def message_of(kind: int, payload: bytes) -> Any:
    """Return the message of a payload."""
    if kind == _OTHER:
        return pickle.loads(payload)
    if kind == _ELEMENTS:
        return Elements(decode_bundle(payload))
    if kind == _CONTROL:
        return decode_control_message(payload)
    first, length = _NUMBER.unpack_from(payload)
    start = _NUMBER.size + length
    return Elements(decode_bundle(payload[start:]), pickle.loads(payload[_NUMBER.size : start]), first)


_CONTROL_MESSAGES: Mapping[type[ControlMessage], RecordType[ControlMessage]] = {
    WatermarkMoved: RecordType("watermark", 1, {1: WatermarkMoved}),
    PercentileMoved: RecordType("percentile watermark", 1, {1: PercentileMoved}),
    ClockMoved: RecordType("clock", 1, {1: ClockMoved}),
    SignalCame: RecordType("signal", 1, {1: SignalCame}),
}


def encode_control_message(message: ControlMessage) -> bytes:
    """Return a message as bytes."""
    return _CONTROL_MESSAGES[type(message)].encode(*message)


def decode_control_message(data: bytes, where: str = "a channel") -> ControlMessage:
    """Return the message that `encode_control_message` was given."""
    return decode_record(data, where, *_CONTROL_MESSAGES.values())


def _encoded(messages: Iterable[ControlMessage]) -> list[bytes]:
    return list(map(encode_control_message, messages))


def _decoded(records: Iterable[bytes]) -> list[ControlMessage]:
    return [decode_control_message(record, "the snapshot") for record in records]


register_body(NEWS, Body(1, _encoded, {1: _decoded}))
