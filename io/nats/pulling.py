"""Pull: reads messages of a stream ahead, in a thread of its own.

It makes a consumer that the server forgets, which begins at a sequence and acknowledges nothing: the position is the
reader's.  After a lost connection, or if the consumer skips a number, it makes another one at its position.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...frozen import frozen
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ..connections.retry import FuzzedExponentialIntervals
from .client import Connection, EventLoopThread, Lost, is_refusal, js_errors
from .messages import NatsMessage, delivered

_logger = logger_of(__name__)

# The messages, and their bytes, that are read ahead.
_AHEAD, _AHEAD_BYTES = 4_000, 64 * 1024 * 1024

# The messages of a request, and how long the server keeps it, in seconds.
_REQUEST, _KEPT = 1_000, 20.0

# How long the server keeps a consumer without requests, in seconds.
_FORGOTTEN = 300.0

# A delay between two looks for messages that were removed, in seconds.
_LOOKED = 1.0


@frozen
class Reading:
    """What is read.

    Attributes:
      subject: a filter; None for all messages.
      on_lost_messages: 'fail', or 'continue' with an error in the log.
    """

    connection: Connection
    stream: str
    subject: str | None
    on_lost_messages: str

    @property
    def label(self) -> str:
        return self.connection.transform

    @property
    def what(self) -> str:
        """The stream, for messages."""
        return f"stream {self.stream!r}" + (f", subject {self.subject!r}," if self.subject else "")

    async def consumer(self, js: Any, position: int, **settings: Any) -> Any:
        """Make a consumer that begins at a sequence.  Returns what is known of it."""
        config: dict[str, Any] = {"opt_start_seq": position, "deliver_policy": "by_start_sequence"}
        if self.subject is not None:
            config["filter_subject"] = self.subject
        return await js.add_consumer(self.stream, **(config | settings))

    async def stream_info(self, js: Any) -> Any:
        """Return what is known of the stream.  Raises `SourceError` if there is none."""
        try:
            return await js.stream_info(self.stream)
        except js_errors(self.label).NotFoundError:
            raise SourceError(
                f"{self.label}: {self.connection.server} has no stream {self.stream!r}; create it, with the "
                "subjects and the retention that its readers need"
            ) from None

    def check_position(self, info: Any, position: int) -> int:
        """Return where reading goes on.  Raises `SourceError` if messages were removed before they were read."""
        first, last = info.state.first_seq, info.state.last_seq
        retention = info.config.retention
        if position > last + 1:
            lost = f"its last message is {last}: was it deleted and created again?"
        elif first > position and retention in (None, "limits"):
            lost = f"messages before {first} were removed, {first - position} or fewer of them unread"
        else:
            return position
        said = f"{self.label}: expected {self.what} to have message {position}, but {lost}"
        if self.on_lost_messages == "fail":
            raise SourceError(
                f"{said}; to go on without them, use on_lost_messages='continue'. Messages are lost if the stream's "
                "limits (max_age, max_msgs, max_bytes) are less than the pipeline needs"
            )
        _logger.error("%s; reading goes on at %d (on_lost_messages='continue')", said, first)
        return int(first)


class Pull:
    """Messages from a sequence on.

    Attributes:
      seen: the sequence up to which messages have been read ahead.
      is_drained: True once all messages that there were have been read ahead.
      pending: how many wait in the server; None before it has told.
    """

    def __init__(self, reading: Reading, position: int) -> None:
        self.reading = reading
        self.seen = position - 1
        self.is_drained = False
        self.pending: int | None = None
        self._found: deque[NatsMessage] = deque()
        self._bytes = 0
        self._error: SourceError | None = None
        self._news = threading.Condition()
        self._looked = 0.0
        self._is_over = False
        self._loop = EventLoopThread()
        self._room: asyncio.Event | None = None
        self._loop.start(self._run(position))

    # In the reader's thread

    def take(self, number: int, before: int | None = None) -> list[NatsMessage]:
        """Return messages that have been read ahead, whose sequences are less than `before`.

        Raises the `SourceError` that ended the reading.
        """
        taken: list[NatsMessage] = []
        with self._news:
            while self._found and len(taken) < number and (before is None or self._found[0].sequence < before):
                message = self._found.popleft()
                self._bytes -= len(message.data)
                taken.append(message)
            if not taken and not self._found and self._error is not None:
                raise self._error
        if taken and self._room is not None:
            self._loop.soon(self._room.set)
        return taken

    def following(self) -> int | None:
        """Return the sequence of the next message that has been read ahead."""
        with self._news:
            return self._found[0].sequence if self._found else None

    def waiting(self) -> int:
        """Return the number of messages that have been read ahead."""
        return len(self._found)

    def wait(self, seconds: float) -> None:
        """Wait for news."""
        with self._news:
            if not self._found and self._error is None:
                self._news.wait(seconds)

    def close(self) -> None:
        """End the reading."""
        self._is_over = True
        self._loop.close()

    # In the thread of the event loop

    async def _run(self, position: int) -> None:
        self._room = asyncio.Event()
        reading, outage = self.reading, self.reading.connection.outage()
        delays: Iterator[float] | None = None
        while True:
            try:
                async with reading.connection.opened() as client:
                    outage.over()
                    delays = None
                    await self._pull(client, self.seen + 1)
                if self._is_over:
                    return
            except Lost as error:
                if self._is_over:
                    return
                outage.lost(error)
                delays = delays or iter(FuzzedExponentialIntervals(0.1, 10_000, max_delay_secs=2.0))
                await asyncio.sleep(next(delays, 2.0))
            except SourceError as error:
                return self._failed(error)
            except Exception as error:
                return self._failed(reading.connection.error(f"{reading.what} can't be read", error))

    def _failed(self, error: Any) -> None:
        with self._news:
            self._error = error
            self._news.notify_all()

    async def _pull(self, client: Any, position: int) -> None:
        """Read ahead until the connection is lost, or the consumer is."""
        reading = self.reading
        js = client.jetstream(timeout=5.0)
        info = await reading.stream_info(js)
        position = reading.check_position(info, position)
        self.seen = max(self.seen, position - 1)
        known = await reading.consumer(
            js, position, ack_policy="none", inactive_threshold=_FORGOTTEN, mem_storage=True, num_replicas=1
        )
        self.pending = known.num_pending
        if not known.num_pending:
            self._drained(info.state.last_seq)
        inbox = client.new_inbox()
        messages = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{reading.stream}.{known.name}"
        expected = 1
        asked_at, asked = 0.0, 0
        # The end is noticed although a cancellation is lost.
        while not self._is_over:
            if not asked:
                await self._has_room()
                asked, asked_at = _REQUEST, time.monotonic()
                request = {"batch": asked, "max_bytes": _AHEAD_BYTES, "expires": int(_KEPT * 1e9)}
                await client.publish(subject, json.dumps(request).encode(), reply=inbox)
            try:
                message = await messages.next_msg(timeout=1.0)
            except TimeoutError:
                if client.is_closed or client.is_reconnecting:
                    raise Lost("the connection was closed") from None
                if client.last_error is not None and is_refusal(client.last_error):
                    raise client.last_error from None
                if time.monotonic() - asked_at > _KEPT + 10:
                    raise Lost("no answer to a request") from None
                continue
            if (status := (message.headers or {}).get("Status")) is not None and not message.reply:
                if status == "503":
                    # The server has forgotten the consumer.
                    return
                if status == "409" and "Deleted" in (message.headers or {}).get("Description", ""):
                    return
                asked = 0 if status != "100" else asked
                continue
            found, of_consumer, pending = delivered(message, reading.stream)
            if of_consumer != expected:
                return
            expected += 1
            asked -= 1
            if found.sequence > self.seen + 1 and time.monotonic() - self._looked > _LOOKED:
                self._looked = time.monotonic()
                reading.check_position(await reading.stream_info(js), self.seen + 1)
            self._add(found, pending)

    async def _has_room(self) -> None:
        assert self._room is not None
        while len(self._found) > _AHEAD or self._bytes > _AHEAD_BYTES:
            self._room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), 5.0)

    def _add(self, message: NatsMessage, pending: int) -> None:
        with self._news:
            self._found.append(message)
            self._bytes += len(message.data)
            self.seen = message.sequence
            self.pending = pending
            if not pending:
                self.is_drained = True
            self._news.notify_all()

    def _drained(self, last: int) -> None:
        with self._news:
            self.seen = max(self.seen, last)
            self.is_drained = True
            self._news.notify_all()
