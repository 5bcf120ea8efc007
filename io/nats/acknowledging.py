"""Acknowledger: a durable consumer that acknowledges the messages of durable checkpoints.

A message is acknowledged by its delivery.  So after each checkpoint the durable consumer is given the headers of the
messages that the checkpoint covers, and acknowledges the last of them, which acknowledges all.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from ...sdk.redaction import logger_of
from .client import EventLoopThread, Lost, js_errors
from .messages import delivered
from .pulling import Reading

_logger = logger_of(__name__)

_REQUEST = 500

# How long the server waits for an acknowledgement before it delivers again, in seconds.
_ACK_WAIT = 10.0

# A delay after a lost connection, in seconds.
_LATER = 1.0


def durable_of(name: str, subject: str | None) -> str:
    """Return the name of a durable consumer: one for each filter.

    >>> durable_of("shop", None), durable_of("shop", "orders.*")
    ('shop', 'shop_orders-any')
    """
    if subject is None:
        return name
    return f"{name}_{subject}".replace("*", "any").replace(">", "all").replace(".", "-")


class Acknowledger:
    """The durable consumer of a filter.  It works in a thread of its own, and never holds up the reader."""

    def __init__(self, reading: Reading, durable: str) -> None:
        self.reading = reading
        self.name = durable_of(durable, reading.subject)
        self._goal = 0
        self._done = 0
        self._lock = threading.Lock()
        self._loop: EventLoopThread | None = None
        self._is_working = False
        # By sequence, where a delivered message is acknowledged.
        self._delivered: dict[int, str] = {}

    async def make(self, js: Any, position: int) -> None:
        """Make the consumer, if there is none yet."""
        try:
            await js.consumer_info(self.reading.stream, self.name)
        except js_errors(self.reading.label).NotFoundError:
            await self.reading.consumer(
                js,
                position,
                durable_name=self.name,
                ack_policy="all",
                ack_wait=_ACK_WAIT,
                headers_only=True,
                max_ack_pending=-1,
            )

    def acknowledge(self, sequence: int) -> None:
        """Acknowledge the messages up to a sequence, soon."""
        with self._lock:
            if sequence <= max(self._goal, self._done):
                return
            self._goal = sequence
            if self._loop is None:
                self._loop = EventLoopThread()
            if not self._is_working:
                self._is_working = True
                self._loop.start(self._work())

    def close(self) -> None:
        """End the thread; what is not acknowledged is by the next run."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    async def _work(self) -> None:
        while True:
            try:
                async with self.reading.connection.opened() as client:
                    while self._has_more():
                        await self._acknowledge(client, self._goal)
                return
            except Lost:
                await asyncio.sleep(_LATER)
            except Exception as error:
                what = f"{self.reading.what} can't be acknowledged by the durable consumer {self.name!r}"
                _logger.warning("%s", self.reading.connection.error(what, error))
                with self._lock:
                    self._is_working = False
                return

    def _has_more(self) -> bool:
        with self._lock:
            self._is_working = self._done < self._goal
            return self._is_working

    async def _acknowledge(self, client: Any, goal: int) -> None:
        """Let the consumer have the messages up to a sequence, and acknowledge them."""
        js = client.jetstream(timeout=5.0)
        inbox = client.new_inbox()
        messages = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
        try:
            while True:
                covered = [sequence for sequence in self._delivered if sequence <= goal]
                if covered:
                    # Acknowledges all before as well.
                    await client.request(self._delivered[max(covered)], b"+ACK", timeout=5.0)
                    for sequence in covered:
                        del self._delivered[sequence]
                known = await js.consumer_info(self.reading.stream, self.name)
                undelivered = known.num_pending if known.delivered.stream_seq < goal else 0
                # Others were delivered to an earlier run, and are delivered again after `_ACK_WAIT`.
                others = known.num_ack_pending > len(self._delivered) and known.ack_floor.stream_seq < goal
                if not undelivered and not others:
                    break
                await self._receive(client, messages, inbox, waits=not undelivered)
        finally:
            await messages.unsubscribe()
        self._done = goal

    async def _receive(self, client: Any, messages: Any, inbox: str, waits: bool) -> None:
        """Note the deliveries of one request."""
        request: dict[str, Any] = {"batch": _REQUEST}
        request |= {"expires": int(_ACK_WAIT * 1e9)} if waits else {"no_wait": True}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.reading.stream}.{self.name}"
        await client.publish(subject, json.dumps(request).encode(), reply=inbox)
        for _ in range(_REQUEST):
            message = await messages.next_msg(timeout=_ACK_WAIT + 5)
            if (message.headers or {}).get("Status") is not None and not message.reply:
                return
            self._delivered[delivered(message, self.reading.stream)[0].sequence] = message.reply
