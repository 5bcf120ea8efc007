"""NatsMessage: a message of a stream."""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ...persistence import stored_as


@stored_as("nats-message", 1)
@frozen
class NatsMessage:
    """A message of a stream.

    Attributes:
      stream: the stream's name.
      sequence: the message's number in the stream, which no other message of it ever has.
      subject: where it was published.
      data: its bytes.
      headers: by name, the text of a header; of several with one name the last.
      micros: when the server stored it, in microseconds since 1970.

    >>> NatsMessage("orders", 7, "orders.new", b"tea", {}, 1_000_000)
    NatsMessage(stream='orders', sequence=7, subject='orders.new', data=b'tea', headers={}, micros=1000000)
    """

    stream: str
    sequence: int
    subject: str
    data: bytes
    headers: dict[str, str]
    micros: int

    def __hash__(self) -> int:
        return hash((self.stream, self.sequence))


# In the reply subject of a delivered message, where its numbers are: by the number of parts (ADR-15 of NATS).
_OLD_PARTS, _OLD_FIRST, _FIRST = 9, 5, 7


def delivered(message: Any, stream: str) -> tuple[NatsMessage, int, int]:
    """Return a client's message, its number among those delivered to its consumer, and the number that are pending."""
    parts = message.reply.split(".")
    first = _OLD_FIRST if len(parts) == _OLD_PARTS else _FIRST
    sequence, of_consumer, nanos, pending = map(int, parts[first : first + 4])
    found = NatsMessage(stream, sequence, message.subject, message.data, dict(message.headers or {}), nanos // 1000)
    return found, of_consumer, pending
