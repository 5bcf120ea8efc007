"""PubsubSource: the messages of a subscription as an unbounded source."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from importlib import import_module
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.claims import Claim, Claimant
from ...sdk.errors import SourceError
from ...sdk.redaction import logger_of
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.timestamp import MAX_MICROS, Timestamp
from .client import ONCE, Resource, open_publisher, open_subscriber
from .lease import Lease, Position, Reading
from .messages import message_of, micros_of_attribute, published_micros

_logger = logger_of(__name__)

# Seconds without a reader after which Pub/Sub removes a subscription that the source has made.
_KEPT = 7 * 86_400

# Microseconds: how far behind the clock the watermark is while no message waits.
_BEHIND = 10_000_000


@frozen
class Input:
    """What a source reads.

    Attributes:
      reading: of a subscription; its name is "" for one of the source's own.
      topic: of which the source makes a subscription; None for a subscription that there is.
      timestamp_attribute: the attribute that has the event time; None for the time of publication.
      with_attributes: whether elements are `PubsubMessage`s; otherwise bytes.
      is_temporary: whether a reader removes the source's own subscription when it is closed.
      acknowledges: whether messages are acknowledged.
    """

    reading: Reading
    topic: Resource | None
    timestamp_attribute: str | None
    with_attributes: bool
    is_temporary: bool = False
    acknowledges: bool = True

    def labelled(self, transform: str) -> Input:
        """Return the input of the transform with another label."""
        reading = attrs.evolve(self.reading, subscription=self.reading.subscription.labelled(transform))
        topic = None if self.topic is None else self.topic.labelled(transform)
        return attrs.evolve(self, reading=reading, topic=topic)


class PubsubSource(UnboundedSource[Any], Claimant):
    """Source of one subscription, its only partition.

    A reader at an earlier position doesn't get messages again that were acknowledged, so it can't be replayed.
    """

    replayable = False
    # The subscription that a checkpoint has.
    keeps_partitions = True

    def __init__(self, input: Input, times: EventTimes) -> None:
        self.input = input
        self.times = times
        self._own = f"penstock-{uuid.uuid4().hex}"

    def for_run(self) -> PubsubSource:
        # Each run has a subscription of its own, which all of its workers know.
        return PubsubSource(self.input, self.times)

    def partitions(self) -> Sequence[str]:
        reading, topic = self.input.reading, self.input.topic
        if topic is not None:
            with topic.explained("can't be read"):
                topic.check(open_publisher(topic.transform), "pubsub.topics.attachSubscription")
            return [attrs.evolve(topic, kind="subscriptions", name=self._own).path]
        subscription = reading.subscription
        with subscription.explained("can't be read"), self._subscriber() as client:
            subscription.check(client, "pubsub.subscriptions.consume")
        return [subscription.path]

    def _subscriber(self) -> Any:
        return open_subscriber(self.input.reading.transform)

    def claims(self) -> Sequence[Claim]:
        if self.input.topic is not None:
            return ()
        path = self.input.reading.subscription.path
        what = f"it reads Pub/Sub's {path}"
        advice = "each message goes to one of the readers of a subscription; give one of them another subscription"
        return [Claim(what, advice, ("pubsub", path))]

    def identity(self) -> Mapping[str, Any]:
        of = self.input.topic or self.input.reading.subscription
        return {of.kind[:-1]: of.path, "id_label": self.input.reading.id_label}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        return frozenset()

    def open(self, partition: str, offset: Position | None) -> PubsubReader:
        reading = self.input.reading
        subscription = Resource.of(reading.transform, partition, "subscriptions")
        if self.input.topic is not None and offset is None:
            self._subscribe(subscription)
        own = attrs.evolve(self.input, reading=attrs.evolve(reading, subscription=subscription))
        return PubsubReader(own, self.times, offset)

    def _subscribe(self, subscription: Resource) -> None:
        """Make a subscription of the source's own, unless an earlier reader has."""
        topic = self.input.topic
        assert topic is not None
        request = {
            "name": subscription.path,
            "topic": topic.path,
            "ack_deadline_seconds": 60,
            "expiration_policy": {"ttl": {"seconds": _KEPT}},
        }
        exists = import_module("google.api_core.exceptions").AlreadyExists
        with topic.explained("can't be subscribed to"), self._subscriber() as client, suppress(exists):
            topic.patiently(lambda: client.create_subscription(request=request, **ONCE))


class PubsubReader(EventTimeReader[Any]):
    """Reader of a subscription."""

    def __init__(self, input: Input, times: EventTimes, position: Position | None) -> None:
        super().__init__(times)
        self._input = input
        self._lease = Lease(input.reading, position)

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | None]:
        messages = self._lease.take(max_elements)
        if not messages:
            return [], None
        name = self._input.timestamp_attribute
        micros = (
            list(map(published_micros, messages)) if name is None else [self._micros(name, each) for each in messages]
        )
        return [message_of(each) if self._input.with_attributes else each.data for each in messages], micros

    def _micros(self, name: str, message: Any) -> int:
        """Return the time in an attribute of a message."""
        text = message.attributes.get(name)
        try:
            if text is not None:
                return micros_of_attribute(text)
        except ValueError:
            pass
        raise SourceError(
            f"{self._input.reading.transform}: message {message.message_id} has {text!r} in the attribute {name!r}, "
            "which timestamp_attribute names; expected milliseconds since 1970, or a time of RFC 3339"
        )

    def watermark(self, now: Timestamp) -> int:
        known = super().watermark(now)
        lease, clock = self._lease, time.monotonic()
        if known < MAX_MICROS and 1_000_000 * (clock - lease.last_received) >= _BEHIND and not lease.has_backlog():
            # The next message was not yet published when the server answered last.
            answered = now.micros - int(1_000_000 * (clock - lease.last_answered))
            known = self._watermark = max(known, answered - _BEHIND)
        return known

    def offset(self) -> Position:
        return self._lease.position()

    def backlog(self) -> int | None:
        return self._lease.waiting()

    def acknowledge(self, offset: Any) -> None:
        if offset is not None and self._input.acknowledges:
            self._lease.acknowledge(offset)

    def discard(self) -> None:
        """Remove the source's own subscription.  If that fails, Pub/Sub does it later."""
        self._lease.close()
        subscription = self._input.reading.subscription
        if self._input.topic is None:
            return
        with open_subscriber(subscription.transform) as client:
            try:
                client.delete_subscription(subscription=subscription.path, **ONCE)
            except import_module("google.api_core.exceptions").NotFound:
                pass
            except Exception as error:
                _logger.warning("%s; it expires in a week", subscription.error("can't be removed", error))

    def close(self) -> None:
        self._lease.close()
        if self._input.is_temporary:
            self.discard()
