"""Session: the messages of a broker's session, kept by it until a checkpoint covers them.

The broker sends each message again until it is acknowledged, also to another process with the same client id.  So a
message is acknowledged once a checkpoint that covers it is durable.

- A message that comes again within a connection's life, or after a reconnect, has the number of its delivery (its
  packet identifier), which the broker can't use for another before it is acknowledged.
- After a restart, only the message's own id tells whether a checkpoint covers it already: its acknowledgement may have
  been lost.  So the last ids are part of the position.  The broker sends at most `max_in_flight` messages before the
  first is acknowledged, and acknowledgements are sent in order, so as many ids are enough.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ...frozen import frozen
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ...sdk.user_code.error_text import text_or_class
from ..connections.recent_ids import RecentIds
from .client import Client, Connection, forget
from .messages import MqttMessage, message_of

_logger = logger_of(__name__)

# A position: the number of messages, and the digests of the last ids, one after the other.
Position = tuple[int, bytes]


@frozen
class Reading:
    """What is read.

    Attributes:
      topics: filters of topics.
      client_id: names the session.
      session_seconds: how long the broker keeps it without a connection.
      max_in_flight: the greatest number of messages that are not acknowledged, and the number of ids in a position.
      id_fn: returns a message's id; None for one without.
      on_lost_session: 'fail', or 'continue' with an error in the log.
    """

    connection: Connection
    topics: tuple[str, ...]
    client_id: str
    session_seconds: int
    max_in_flight: int
    id_fn: Callable[[MqttMessage], Any]
    on_lost_session: str

    @property
    def label(self) -> str:
        return self.connection.transform

    @property
    def what(self) -> str:
        """The topics, for messages."""
        shown = ", ".join(map(repr, self.topics))
        return f"topic{'s' if len(self.topics) > 1 else ''} {shown} can't be read"


class _Delivery:
    """A delivery that isn't acknowledged.

    Attributes:
      number: the position after the message; None before it has been taken.
    """

    __slots__ = ("content", "mid", "number")

    def __init__(self, mid: int, content: bytes, number: int | None) -> None:
        self.mid = mid
        self.content = content
        self.number = number


class Session:
    """The messages of a session, from a position on.

    Args:
      position: of a checkpoint; None without one.
    """

    def __init__(self, reading: Reading, position: Position | None) -> None:
        self.reading = reading
        self._count, ids = position or (0, b"")
        self._ids = RecentIds(reading.max_in_flight, ids)
        self._is_resumed = position is not None
        self._received: deque[tuple[Any, _Delivery | None]] = deque()
        # In the order of their arrival, which is that of their acknowledgement.
        self._unacknowledged: deque[_Delivery] = deque()
        # By packet identifier, deliveries of a lost connection, which the broker repeats.
        self._repeated: dict[int, _Delivery] = {}
        self._is_connected = False
        self._failure: str | None = None
        self._has_lost_session = False
        self._news = threading.Condition()
        self._subscribed = threading.Event()
        self.client = Client(
            reading.connection,
            reading.client_id,
            reading.session_seconds,
            reading.max_in_flight,
            on_connected=self._connected,
            on_lost=self._lost,
        )
        self.client.client.on_message = self._on_message
        self.client.client.on_subscribe = self._on_subscribe
        self.client.start()
        try:
            self.client.wait(reading.what)
            while not self._subscribed.wait(0.05):
                self._raise_failure()
            self._raise_failure()
        except BaseException:
            self.close()
            raise

    # In the reader's thread

    def take(self, number: int) -> list[MqttMessage]:
        """Return messages that have arrived, without those that a position covers."""
        taken: list[MqttMessage] = []
        self._raise_failure()
        with self._news:
            while self._received and len(taken) < number:
                received, delivery = self._received.popleft()
                message = message_of(received)
                if self._is_new(message):
                    taken.append(message)
                    self._count += 1
                if delivery is not None:
                    # A repeated message is covered by the same checkpoint as the next new one.
                    delivery.number = self._count
            self._news.notify_all()
        return taken

    def position(self) -> Position:
        """Return the position after all messages that were taken."""
        return self._count, self._ids.encoded()

    def waiting(self) -> int:
        """Return the number of messages that have arrived and weren't taken."""
        return len(self._received)

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the messages that a position covers."""
        with self._news:
            # Without a connection they come again, and are acknowledged then.  An acknowledgement that waited for a
            # connection could acknowledge another message, to which the broker has given the number meanwhile.
            while self._is_connected and self._unacknowledged:
                number = self._unacknowledged[0].number
                if number is None or number > position[0]:
                    break
                self.client.client.ack(self._unacknowledged.popleft().mid, 1)

    def wait(self, seconds: float) -> None:
        """Wait for messages."""
        with self._news:
            if not self._received:
                self._news.wait(seconds)

    def close(self) -> None:
        """Disconnect.  The broker keeps the session, and the messages that were not acknowledged."""
        self.client.close()
        if self._has_lost_session:
            # The new session that it has begun would hide the loss from the next reader.
            forget(self.reading.connection, self.reading.client_id)
        with self._news:
            self._news.notify_all()

    def forget(self) -> None:
        """Disconnect, and end the session."""
        self.client.close()
        forget(self.reading.connection, self.reading.client_id)

    def _is_new(self, message: MqttMessage) -> bool:
        id = self.reading.id_fn(message)
        return id is None or self._ids.is_new(_bytes_of(id, self.reading.label))

    def _raise_failure(self) -> None:
        self.client.raise_refusal(self.reading.what)
        if self._failure is not None:
            raise SourceError(self._failure)

    # In the client's thread

    def _lost(self) -> None:
        with self._news:
            self._is_connected = False

    def _connected(self, had_session: bool) -> None:
        with self._news:
            if not had_session and self._is_resumed:
                said = (
                    f"{self.reading.label}: {self.reading.connection.server} has no session of "
                    f"{self.reading.client_id!r} any more, so messages may be lost"
                )
                if self.reading.on_lost_session == "fail":
                    self._has_lost_session = True
                    self._failure = (
                        f"{said}; to go on without them, use on_lost_session='continue'. Does the broker store "
                        "sessions (mosquitto: persistence true), and for long enough (session_expiry)?"
                    )
                    self._news.notify_all()
                    return
                _logger.error("%s; reading goes on (on_lost_session='continue')", said)
            self._is_resumed = True
            # The broker sends again what isn't acknowledged; a lost session's acknowledgements mean nothing any more.
            # It may not have sent all since the last loss.
            lost = {each.mid: each for each in self._unacknowledged}
            self._repeated = self._repeated | lost if had_session else {}
            self._unacknowledged.clear()
            if not had_session:
                self._received = deque((received, None) for received, _ in self._received)
            self._is_connected = True
        self.client.client.subscribe(self._subscriptions())

    def _subscriptions(self) -> Any:
        if not self.reading.connection.is_version_5:
            return [(topic, 1) for topic in self.reading.topics]
        from paho.mqtt.subscribeoptions import SubscribeOptions

        # Retained messages are sent for a new subscription only.
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        return [(topic, options) for topic in self.reading.topics]

    def _on_subscribe(self, client: Any, userdata: Any, mid: int, reasons: Sequence[Any], properties: Any) -> None:
        for topic, reason in zip(self.reading.topics, reasons):
            if reason.is_failure:
                error = self.reading.connection.error(f"topic {topic!r} can't be read", str(reason))
                self._failure = self._failure or text_or_class(error)
        self._subscribed.set()

    def _on_message(self, client: Any, userdata: Any, received: Any) -> None:
        with self._news:
            delivery = None
            if received.qos:
                content = hashlib.blake2b(received.topic.encode() + b"\0" + bytes(received.payload)).digest()
                before = self._repeated.pop(received.mid, None) if received.dup else None
                if before is not None and before.content == content:
                    # It has been taken, or waits to be.
                    self._unacknowledged.append(before)
                    return
                delivery = _Delivery(received.mid, content, None)
                self._unacknowledged.append(delivery)
            else:
                # The broker keeps none of these, so nothing but the connection limits their number.
                while len(self._received) >= self.reading.max_in_flight and not self.client.is_closed:
                    self._news.wait(1.0)
            self._received.append((received, delivery))
            self._news.notify_all()


def _bytes_of(id: Any, label: str) -> bytes:
    if isinstance(id, bytes):
        return b"b" + id
    if isinstance(id, (str, int)):
        return f"{type(id).__name__[0]}{id}".encode()
    raise SourceError(f"{label}: id_fn must return text, bytes, a whole number or None, got {type(id).__name__}")
