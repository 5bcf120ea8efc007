"""Lease: the messages of a subscription, kept by Pub/Sub until a checkpoint covers them.

A reader holds a lease on each message that it has received, and extends it until the message is acknowledged, which is
done once a checkpoint that covers it is durable.  When the lease ends otherwise, such as with the process, Pub/Sub
delivers the message again.  So the ids of the last messages are part of a position: a message that a checkpoint covers,
and whose acknowledgement was lost, is dropped when it comes again.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from ...frozen import frozen
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ..connections.lost_connections import is_limited, is_lost
from ..connections.recent_ids import RecentIds
from ..connections.waiting import RETRIED_AFTER
from .client import ONCE, Resource, error_of_client, open_subscriber, package

_logger = logger_of(__name__)

# By how long a lease is extended at a time, in seconds: as long after a crash, messages come again.  A subscription
# with exactly-once delivery demands a minute.
_AT_A_TIME = 20
_AT_A_TIME_EXACTLY_ONCE = 60

# The size of messages that Pub/Sub sends without acknowledgements, in bytes.
_LEASED_BYTES = 1 << 30

# The seconds between two looks, at which leases are extended.  The server is asked for the subscription if no message
# has come since the last one: it may not answer.
_LOOKS = 5.0

# Pub/Sub ends streams now and then, which isn't logged: a second end within so many seconds is.
_ENDS = 60.0

# The longest delay before a stream is opened again, in seconds.
_LONGEST_DELAY = 10.0

# The acknowledgements of a request.
_TOGETHER = 2_000

_PULL = "/google.pubsub.v1.Subscriber/StreamingPull"

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

    A thread receives messages from a stream; another one extends their leases, and looks whether the server answers.

    Args:
      position: of a checkpoint; None without one.

    Attributes:
      last_received: when a message has come last, by `time.monotonic`.
      last_answered: when the server, asked for the subscription, has answered last.
    """

    def __init__(self, reading: Reading, position: Position | None) -> None:
        self.reading = reading
        self._count, ids = position or (0, b"")
        self._ids = RecentIds(reading.max_ids, ids)
        self._received: deque[Any] = deque()
        # The ids of the acknowledgements of those that were taken, with the position after each.
        self._unacknowledged: deque[tuple[int, str]] = deque()
        self._failure: BaseException | None = None
        self._closed = threading.Event()
        self._news = threading.Condition()
        self._outage = reading.subscription.outage()
        self._at_a_time = _AT_A_TIME
        # By which Pub/Sub tells that a stream goes on with the messages of the one before it.
        self._id = uuid.uuid4().hex
        self._stream_failed = -_ENDS
        self.last_received = self.last_answered = time.monotonic()
        self._client = open_subscriber(reading.transform)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: Any = None
        name = f"penstock-pubsub-{reading.transform}"
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for run in (self._receive, self._look)]
        for thread in self._threads:
            thread.start()

    # In the reader's thread

    def take(self, number: int) -> list[Any]:
        """Return messages of the client that have arrived, without those that a position covers."""
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise self.reading.subscription.error("can't be read", error)
        received, taken = self._received, []
        with self._news:
            for _ in range(min(number, len(received))):
                each = received.popleft()
                if self._is_new(each.message):
                    taken.append(each.message)
                    self._count += 1
                # A repeated message is covered by the same checkpoint as the next new one.
                self._unacknowledged.append((self._count, each.ack_id))
        return taken

    def position(self) -> Position:
        """Return the position after all messages that were taken."""
        return self._count, self._ids.encoded()

    def waiting(self) -> int:
        """Return the number of messages that have arrived and weren't taken."""
        return len(self._received)

    def has_backlog(self) -> bool:
        """Return False if the server has answered since the last message came, and would have sent others."""
        is_answered = self.last_answered > self.last_received and not self._outage.goes_on
        return bool(self._received) or self._is_full() or not is_answered

    def acknowledge(self, position: Position) -> None:
        """Acknowledge the messages that a position covers."""
        covered: list[str] = []
        with self._news:
            while self._unacknowledged and self._unacknowledged[0][0] <= position[0]:
                covered.append(self._unacknowledged.popleft()[1])
            self._news.notify_all()
        for ids in _in_requests(covered):
            try:
                self._client.acknowledge(subscription=self.reading.subscription.path, ack_ids=ids, **ONCE)
            except Exception as error:
                # They come again, and are dropped.
                if is_lost(error):
                    self._outage.lost(error)
                elif _has_ended(error):
                    _logger.warning("%s: messages will come again, and are dropped: %s", self.reading.transform, error)
                else:
                    raise self.reading.subscription.error("can't be acknowledged", error) from None

    def close(self) -> None:
        """Disconnect.  Pub/Sub delivers again, soon, what was not acknowledged."""
        self._closed.set()
        with self._news:
            self._news.notify_all()
            answers = self._answers
        if answers is not None:
            answers.cancel()
        self._requests.put(None)
        for thread in self._threads:
            thread.join()
        for ids in _in_requests(self._held()):
            try:
                self._extend(ids, 0)
            except Exception:
                # They come again when their leases end.
                _logger.debug("%s: messages aren't given back", self.reading.transform, exc_info=True)
                break
        self._client.close()

    def _held(self) -> list[str]:
        """Return the ids of the acknowledgements of all messages that aren't acknowledged."""
        with self._news:
            return [*(id for _, id in self._unacknowledged), *(received.ack_id for received in self._received)]

    def _extend(self, ids: Sequence[str], seconds: int) -> None:
        """Let Pub/Sub deliver messages again after so many seconds, unless they are acknowledged."""
        self._client.modify_ack_deadline(
            subscription=self.reading.subscription.path, ack_ids=ids, ack_deadline_seconds=seconds, **ONCE
        )

    def _is_new(self, message: Any) -> bool:
        label = self.reading.id_label
        id = message.message_id if label is None else message.attributes.get(label)
        if id is None:
            raise SourceError(
                f"{self.reading.transform}: message {message.message_id} of {self.reading.subscription.path} has no "
                f"attribute {label!r}, which id_label names; it has {sorted(message.attributes)}"
            )
        return self._ids.is_new(id.encode())

    # In the thread that receives

    def _receive(self) -> None:
        """Receive messages until the lease is closed, from one stream after the other."""
        ended, delays = -_ENDS, 0
        while not self._closed.is_set():
            try:
                self._receive_stream()
                error = None
            except Exception as raised:
                error = error_of_client(raised)
            if self._closed.is_set():
                return
            if error is not None and not _may_be_opened_again(error):
                self._failure = error
                return
            now = time.monotonic()
            if now - ended >= _ENDS:
                delays = 0
            if error is not None:
                self._stream_failed = now
            if error is not None and (delays or is_limited(error)):
                self._outage.lost(error)
            if delays or (error is not None and is_limited(error)):
                self._closed.wait(min(RETRIED_AFTER * delays, _LONGEST_DELAY))
            ended, delays = now, delays + 1

    def _receive_stream(self) -> None:
        """Receive the messages of a stream until it ends."""
        kind = package(self.reading.transform).types
        request, answer = kind.StreamingPullRequest.pb(), kind.StreamingPullResponse.pb()
        path = self.reading.subscription.path
        pull = self._client.transport.grpc_channel.stream_stream(
            _PULL, request_serializer=request.SerializeToString, response_deserializer=answer.FromString
        )
        requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        requests.put(
            request(
                subscription=path,
                client_id=self._id,
                stream_ack_deadline_seconds=self._at_a_time,
                max_outstanding_messages=self.reading.max_in_flight,
                max_outstanding_bytes=_LEASED_BYTES,
            )
        )
        answers = pull(iter(requests.get, None), metadata=(("x-goog-request-params", f"subscription={path}"),))
        with self._news:
            self._requests, self._answers = requests, answers
        if self._closed.is_set():
            answers.cancel()
        try:
            for each in answers:
                with self._news:
                    self._received.extend(each.received_messages)
                    self.last_received = time.monotonic()
                    if each.subscription_properties.exactly_once_delivery_enabled:
                        self._at_a_time = _AT_A_TIME_EXACTLY_ONCE
                    while not self._closed.is_set() and self._is_full():
                        self._news.wait(_LOOKS)
                self._outage.over()
        finally:
            requests.put(None)

    def _is_full(self) -> bool:
        return len(self._received) + len(self._unacknowledged) >= self.reading.max_in_flight

    # In the thread that looks

    def _look(self) -> None:
        """Extend leases; say that the server doesn't answer, and that it answers again."""
        ping = package(self.reading.transform).types.StreamingPullRequest.pb()()
        while not self._closed.wait(_LOOKS):
            try:
                for ids in _in_requests(self._held()):
                    self._extend(ids, self._at_a_time)
                if time.monotonic() - self.last_received >= _LOOKS:
                    self._client.get_subscription(subscription=self.reading.subscription.path, **ONCE)
                    # A stream on which nothing is sent may be cut by what is between.
                    self._requests.put(ping)
            except Exception as error:
                if is_lost(error):
                    self._outage.lost(error)
                    continue
                if not (_has_ended(error) or _may_not_ask(error)):
                    self._failure = error
                    continue
            if time.monotonic() - self._stream_failed >= _LOOKS:
                self._outage.over()
            self.last_answered = time.monotonic()


def _in_requests(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _TOGETHER):
        yield ids[start : start + _TOGETHER]


def _may_be_opened_again(error: Exception) -> bool:
    """Return True for an error of a stream after which another one may be opened."""
    return is_lost(error) or isinstance(error, import_module("google.api_core.exceptions").Aborted)


def _has_ended(error: Exception) -> bool:
    """Return True if the leases of some messages have ended, as a subscription with exactly-once delivery says."""
    return isinstance(error, import_module("google.api_core.exceptions").FailedPrecondition)


def _may_not_ask(error: Exception) -> bool:
    """Return True for the answer of a server to an account that may receive, and may not ask for the subscription."""
    return isinstance(error, import_module("google.api_core.exceptions").PermissionDenied)
