"""The two ends of a channel between two processes: frames through a pipe.

A frame is its payload's length and the kind of the message, then the payload: a bundle as
columns, or a pickle.  Neither end waits: what the pipe doesn't take is kept by the sender, which is then
full; what comes is read only while the receiver isn't.  So the pipe's own buffer is the backpressure.
A receiver that has taken in more than it has processed says so on the same pipe, the other way.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...execution.shuffle.blocks import decode_bundle, encode_bundle
from .channel import Channel, ChannelId
from .messages import Barrier, Elements, Encoded, Message, News, decode_news, encode_news

_HEADER = struct.Struct(">IB")
# Logs of productions have the first and the last.
_ELEMENTS, _OTHER, _NUMBERED, _NEWS = 1, 2, 3, 4

# Before numbered elements: the number of the first, and the length of their origin, which comes then.
_NUMBER = struct.Struct(">QH")

# So many bytes may wait for the pipe before the sender is full, and so many are about what the pipe itself takes.
_WAITING = _PIPE = 1 << 16
# What a receiver says.
_HOLD, _GO_ON = b"h", b"g"

# So many are read at a time.
_READ = 1 << 16


class SendingEnd(Channel):
    """Where messages are put.

    Attributes:
      socket: the pipe.
    """

    __slots__ = ("_frames", "_waiting", "socket")

    def __init__(self, id: ChannelId, pipe: socket.socket) -> None:
        super().__init__(id)
        pipe.setblocking(False)
        pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PIPE)
        self.socket = pipe
        self._frames: deque[memoryview] = deque()
        self._waiting = 0

    def put(self, message: Message) -> None:
        for kind, payload in payloads_of(message):
            self._add(kind, payload)
        self.flush()

    def _add(self, kind: int, payload: bytes) -> None:
        header = _HEADER.pack(len(payload), kind)
        # Small frames go together; a large one isn't copied.
        pieces = [header + payload] if len(payload) < _READ else [header, payload]
        for piece in pieces:
            self._frames.append(memoryview(piece))
            self._waiting += len(piece)

    def flush(self) -> None:
        """Hand the pipe as much as it takes."""
        while self._frames:
            frame = self._frames[0]
            try:
                sent = self.socket.send(frame)
            except BlockingIOError:
                return
            except OSError:
                # Nobody is there any more; the process that runs the pipeline will notice.
                self._frames.clear()
                self._waiting = 0
                return
            self._waiting -= sent
            if sent < len(frame):
                self._frames[0] = frame[sent:]
                return
            self._frames.popleft()

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for the pipe."""
        return bool(self._frames)

    def look(self) -> None:
        """Hear whether the receiver has asked for a pause, or for more."""
        try:
            said = self.socket.recv(64)
        except OSError:
            return
        if said:
            self.is_held = said[-1:] == _HOLD

    @property
    def is_full(self) -> bool:
        return self.is_held or self._waiting >= _WAITING


class ReceivingEnd(Channel):
    """Where messages come out.

    Attributes:
      socket: the pipe.
      seen: the number of the last barrier that has come.
    """

    __slots__ = ("_data", "_has_asked", "seen", "socket")

    def __init__(self, id: ChannelId, pipe: socket.socket) -> None:
        super().__init__(id)
        pipe.setblocking(False)
        self.socket = pipe
        self._data = bytearray()
        self._has_asked = False
        self.seen = -1

    def hold(self, is_held: bool) -> None:
        if is_held != self._has_asked:
            self._has_asked = is_held
            # If the sender has ended, nothing has to wait.
            with suppress(OSError):
                self.socket.send(_HOLD if is_held else _GO_ON)

    def read(self) -> bool:
        """Take what is in the pipe; False if nobody will put anything there any more."""
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


def payloads_of(message: Message) -> Iterator[tuple[int, bytes]]:
    """A message as what goes through a pipe: kinds and payloads, from each of which comes a message."""
    if not isinstance(message, Elements):
        if isinstance(message, News):
            yield _NEWS, encode_news(message)
        else:
            yield _OTHER, pickle.dumps(message, protocol=5)
    elif message.origin is None:
        for block in encode_bundle(message.bundle):
            yield _ELEMENTS, block
    else:
        origin, first = pickle.dumps(message.origin, protocol=5), message.first
        blocks = list(encode_bundle(message.bundle))
        for block in blocks:
            yield _NUMBERED, _NUMBER.pack(first, len(origin)) + origin + block
            if len(blocks) > 1:
                first += Elements(decode_bundle(block)).elements


def arrived(kind: int, payload: bytes) -> Any:
    """A payload as it waits for its turn: elements aren't decoded before that."""
    return Encoded(payload) if kind == _ELEMENTS else message_of(kind, payload)


def message_of(kind: int, payload: bytes) -> Any:
    """The message of a payload."""
    if kind == _OTHER:
        return pickle.loads(payload)
    if kind == _ELEMENTS:
        return Elements(decode_bundle(payload))
    if kind == _NEWS:
        return decode_news(payload)
    first, length = _NUMBER.unpack_from(payload)
    start = _NUMBER.size + length
    return Elements(decode_bundle(payload[start:]), pickle.loads(payload[_NUMBER.size : start]), first)
