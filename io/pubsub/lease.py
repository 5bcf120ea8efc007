"""Lease: the messages of a subscription, kept by Pub/Sub until a checkpoint covers them.

The client holds a lease on each message that it has received, and extends it until the message is acknowledged, which
is done once a checkpoint that covers it is durable.  When the lease ends otherwise, such as with the process, Pub/Sub
delivers the message again.  So the ids of the last messages are part of a position: a message that a checkpoint covers,
and whose acknowledgement was lost, is dropped when it comes again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from importlib import import_module
from typing import Any

from ...frozen import frozen
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ..lost_connections import is_lost
from ..recent_ids import RecentIds
from ..waiting import RETRIED_AFTER
from .client import ONCE, Resource, open_subscriber, package
from .messages import PubsubMessage, message_of

_logger = logger_of(__name__)

# How long the client extends the lease of a message, in seconds.
_LEASED = 6 * 3600

# By how long at a time, in seconds: as long after a crash, messages come again.
_AT_A_TIME = 20

# The size of messages that are leased at a time, in bytes.
_LEASED_BYTES = 1 << 30

# The client connects again by itself, and doesn't tell.  So the server is asked for the subscription when no message
# has come for so many seconds.
_QUIET = 5.0

# The acknowledgements of a request.
_TOGETHER = 2_000

# A position: the number of messages, and the digests of the last ids, one after the other.
Position = tuple[int, bytes]


@frozen
class Reading:
    """What is read.

    Attributes:
      id_label: the attribute that has a message's id; None for Pub/Sub's own id.
      max_in_flight: the greatest number of messages that are not acknowledged.
      max_ids: the number of ids in a position.
    """

    subscription: Resource
    id_label: str | None
    max_in_flight: int
    max_ids: int

    @property
    def transform(self) -> str:
        """The label of the transform."""
        return self.subscription.transform


class Lease:
    """The messages of a subscription, from a position on.

    Args:
      position: of a checkpoint; None without one.
    """

    def __init__(self, reading: Reading, position: Position | None) -> None:
        self.reading = reading
        self._count, ids = position or (0, b"")
        self._ids = RecentIds(reading.max_ids, ids)
        self._received: deque[Any] = deque()
        # Those that were taken, with the position after each.
        self._unacknowledged: deque[tuple[int, Any]] = deque()
        self._failure: BaseException | None = None
        self._closed = threading.Event()
        self._news = threading.Condition()
        self._outage = reading.subscription.outage()
        self.last_received = time.monotonic()
        self._client: Any = None
        self._stream: Any = None
        self._open()
        self._watch = threading.Thread(target=self._look, name=f"penstock-pubsub-{reading.transform}", daemon=True)
        self._watch.start()

    # In the reader's thread

    def take(self, number: int) -> list[PubsubMessage]:
        """Return messages that have arrived, without those that a position covers."""
        if self._failure is not None:
            self._reopen()
        taken: list[PubsubMessage] = []
        with self._news:
            while self._received and len(taken) < number:
                received = self._received.popleft()
                if self._is_new(received):
                    taken.append(message_of(received))
                    self._count += 1
                # A repeated message is covered by the same checkpoint as the next new one.
                self._unacknowledged.append((self._count, received))
        return taken

    def position(self) -> Position:
        """Return the position after all messages that were taken."""
        return self._count, self._ids.encoded()

    def waiting(self) -> int:
        """Return the number of messages that have arrived and weren't taken."""
        return len(self._received)

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the messages that a position covers."""
        covered: list[Any] = []
        while self._unacknowledged and self._unacknowledged[0][0] <= position[0]:
            covered.append(self._unacknowledged.popleft()[1])
        for start in range(0, len(covered), _TOGETHER):
            ids = [received.ack_id for received in covered[start : start + _TOGETHER]]
            try:
                self._client.acknowledge(subscription=self.reading.subscription.path, ack_ids=ids, **ONCE)
            except Exception as error:
                # They come again, and are dropped.
                if is_lost(error):
                    self._outage.lost(error)
                elif isinstance(error, import_module("google.api_core.exceptions").FailedPrecondition):
                    # A subscription with exactly-once delivery says that the lease of some of them has ended.
                    _logger.warning("%s: messages will come again, and are dropped: %s", self.reading.transform, error)
                else:
                    raise self.reading.subscription.error("can't be acknowledged", error) from None
        for received in covered:
            received.drop()

    def close(self) -> None:
        """Disconnect.  Pub/Sub delivers again, soon, what was not acknowledged."""
        self._closed.set()
        self._watch.join()
        self._close_stream()
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is None:
            return
        with self._news:
            left = [*self._received, *(received for _, received in self._unacknowledged)]
            self._received.clear()
            self._unacknowledged.clear()
        for received in left:
            received.nack()
        stream.cancel()
        try:
            stream.result(timeout=30)
        except Exception:
            # What ended the stream was told, or doesn't matter any more.
            _logger.debug("%s: the stream has ended", self.reading.transform, exc_info=True)

    def _open(self) -> None:
        pubsub = package(self.reading.transform)
        if self._client is None:
            self._client = open_subscriber(self.reading.transform)
        limits = pubsub.types.FlowControl(
            max_messages=self.reading.max_in_flight,
            max_bytes=_LEASED_BYTES,
            max_lease_duration=_LEASED,
            max_duration_per_lease_extension=_AT_A_TIME,
        )
        self._stream = self._client.subscribe(
            self.reading.subscription.path, self._receive, flow_control=limits, await_callbacks_on_shutdown=True
        )
        self._stream.add_done_callback(self._ended)

    def _reopen(self) -> None:
        """Begin anew after the stream has ended; the client has tried for a while.  Raises `SourceError`."""
        error, self._failure = self._failure, None
        assert error is not None
        if not is_lost(error):
            raise self.reading.subscription.error("can't be read", error)
        self._outage.lost(error)
        time.sleep(RETRIED_AFTER)
        self._close_stream()
        self._open()

    def _is_new(self, received: Any) -> bool:
        label = self.reading.id_label
        id = received.message_id if label is None else received.attributes.get(label)
        if id is None:
            raise SourceError(
                f"{self.reading.transform}: message {received.message_id} of {self.reading.subscription.path} has no "
                f"attribute {label!r}, which id_label names; it has {sorted(received.attributes)}"
            )
        return self._ids.is_new(id.encode())

    # In the client's threads

    def _receive(self, received: Any) -> None:
        with self._news:
            self._received.append(received)
            self.last_received = time.monotonic()

    def _ended(self, stream: Any) -> None:
        error = None if stream.cancelled() else stream.exception()
        if error is not None and not self._closed.is_set():
            self._failure = error

    def _look(self) -> None:
        """Say that the server doesn't answer, and that it answers again."""
        while not self._closed.wait(_QUIET):
            if time.monotonic() - self.last_received < _QUIET:
                self._outage.over()
                continue
            try:
                self._client.get_subscription(subscription=self.reading.subscription.path, **ONCE)
            except Exception as error:
                if is_lost(error):
                    self._outage.lost(error)
                else:
                    self._failure = error
            else:
                self._outage.over()
