"""WriteToMqtt: a message for each element."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SinkError
from ...sdk.sink import SinkContext
from ...sdk.type_variables import A
from ..connections.waiting import WAITS, is_stopping
from ..sinks.message_sink import MessageSink
from ..sinks.write_into import WriteInto
from .client import Client, Connection, is_topic, properties_of
from .messages import ID_PROPERTY

# The messages that are published before the first is acknowledged: what brokers accept unless they say otherwise.
_IN_FLIGHT = 20

# The messages that the client has at a time, in flight or not.
_WAITING = 1_000

# The size of a payload that the protocol permits, with its topic and properties.
_MOST_BYTES = 268_435_455 - 70_000


@frozen
class Writing:
    """How elements become messages.

    Attributes:
      topic: a topic, or a function from an element to one.
      payload: a function from an element to bytes; None for elements that are bytes.
      qos: 1 or 2.
      retain: whether the broker keeps the last message of each topic.
    """

    connection: Connection
    topic: str | Callable[[Any], str]
    payload: Callable[[Any], bytes] | None
    qos: int
    retain: bool

    @property
    def label(self) -> str:
        return self.connection.transform

    def message(self, element: Any) -> tuple[str, bytes]:
        """Return the topic and the payload of an element.  Raises `SinkError`."""
        topic = self.topic(element) if callable(self.topic) else self.topic
        if not is_topic(topic, wildcards=False):
            raise SinkError(f"{self.label}: expected a topic without wildcards, got {topic!r}")
        payload = element if self.payload is None else self.payload(element)
        if not isinstance(payload, bytes):
            advice = "give a function to bytes by payload=..." if self.payload is None else "payload must return bytes"
            raise SinkError(f"{self.label}: expected bytes, got {shortened(payload, 100)}; {advice}")
        if len(payload) > _MOST_BYTES:
            raise SinkError(f"{self.label}: a payload of {len(payload)} bytes; MQTT permits {_MOST_BYTES}")
        return topic, payload


class MqttSink(MessageSink["Publishing"]):
    """Messages of a broker; see `WriteToMqtt`."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing = writing

    def target(self) -> str:
        shown = self.display_data()
        return f"{shown['topic']} at {shown['server']}"

    def open_for(self, label: str) -> Publishing:
        return Publishing(attrs.evolve(self.writing, connection=self.writing.connection.labelled(label)))

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        topic = self.writing.topic
        return {"server": self.writing.connection.shown, "topic": topic if isinstance(topic, str) else "by element"}

    def prepare(self, context: SinkContext) -> None:
        self.opened(context).connect()


class Publishing:
    """The broker as one transform writes to it, with the connection that publishes."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._publisher: Publisher | None = None

    def connect(self) -> Publisher:
        """Return the connection, which is made once."""
        if self._publisher is None:
            self._publisher = Publisher(self.writing)
        return self._publisher

    def messages(self, bundle: Bundle) -> Iterable[tuple[str, bytes]]:
        """Return the messages of a bundle's elements."""
        return map(self.writing.message, bundle.values)

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Publish messages, each with its id."""
        try:
            self.connect().publish(messages, transaction)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()


class Publisher:
    """A connection that publishes."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._refused: str | None = None
        # The client's numbers of the messages that the broker has.
        self._acknowledged: set[int] = set()
        self._news = threading.Event()
        self._client = Client(writing.connection, f"penstock-{uuid.uuid4().hex[:16]}")
        paho = self._client.client
        paho.max_inflight_messages_set(_IN_FLIGHT)
        paho.on_publish = self._published
        self._client.start()
        try:
            self._client.wait("it can't be written to", SinkError)
        except BaseException:
            self._client.close()
            raise

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Publish messages, each with its id, and wait until the broker has them all.

        The client keeps those that it publishes while no broker answers.
        """
        writing, what = self._writing, f"transaction {transaction!r} can't be published"
        waiting: deque[int] = deque()
        for id, topic, payload in messages:
            if len(waiting) == _WAITING:
                self._wait_for(waiting.popleft(), what)
            properties = _properties(id) if writing.connection.is_version_5 else None
            waiting.append(self._client.client.publish(topic, payload, writing.qos, writing.retain, properties).mid)
        for number in waiting:
            self._wait_for(number, what)
        self._raise_refused(what)

    def _wait_for(self, number: int, what: str) -> None:
        """Wait until the broker has a message, by the client's number of it."""
        answered = time.monotonic()
        while number not in self._acknowledged:
            self._client.raise_refusal(what, SinkError)
            self._raise_refused(what)
            if time.monotonic() > answered + WAITS or is_stopping(answered):
                waited = time.monotonic() - answered
                raise self._writing.connection.error(what, f"no answer for {waited:.0f} s", SinkError)
            self._news.clear()
            if number not in self._acknowledged:
                self._news.wait(0.2)
        # Numbers are used again after 65,535 others.
        self._acknowledged.discard(number)

    def _raise_refused(self, what: str) -> None:
        if self._refused is not None:
            raise self._writing.connection.error(what, self._refused, SinkError)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def _published(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._refused = self._refused or str(reason)
        self._acknowledged.add(mid)
        self._news.set()


def _properties(id: str) -> Any:
    properties = properties_of("PUBLISH")
    properties.UserProperty = (ID_PROPERTY, id)
    return properties


class WriteToMqtt(WriteInto[A]):
    """A message for each element, at least once: a commit that is interrupted is repeated, and doubles messages.

    Takes a `PCollection[bytes]`, or of what `payload` takes.

    Messages are part of a checkpoint until it is complete, and are published then: nothing that a failure takes back is
    ever published.  With MQTT 5 each message has an id, in the user property `penstock-id`, by which `ReadFromMqtt` and
    others drop doubles.  The messages of one worker keep their order.  An input with retractions is refused while the
    pipeline is built.  Needs the extra `mqtt`.

    Args:
      server: a URL such as 'mqtt://localhost:1883'; 'mqtts://' encrypts.
      topic: a topic, or a function from an element to one.
      payload: a function from an element to bytes.  Without it, elements are bytes.
      qos: the quality of service: 1, or 2, by which a lost connection doubles no messages.
      retain: lets the broker keep the last message of each topic, for later subscribers.
      username, password, tls, protocol: as those of `ReadFromMqtt`.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SinkError` before the run
    starts if the credentials are wrong, or no broker answers for a minute.

    >>> import penstock as beam
    >>> beam.io.WriteToMqtt("mqtt://ann:secret@localhost", "alarms").display_data()
    {'server': 'mqtt://***@localhost', 'topic': 'alarms'}
    """

    @overload
    def __init__(
        self: WriteToMqtt[bytes],
        server: str,
        topic: str | Callable[[Any], str],
        *,
        payload: None = None,
        qos: int = 1,
        retain: bool = False,
        username: str | None = None,
        password: str | None = None,
        tls: Mapping[str, str] | None = None,
        protocol: str = "5",
    ) -> None: ...
    @overload
    def __init__(
        self,
        server: str,
        topic: str | Callable[[Any], str],
        *,
        payload: Callable[[A], bytes],
        qos: int = 1,
        retain: bool = False,
        username: str | None = None,
        password: str | None = None,
        tls: Mapping[str, str] | None = None,
        protocol: str = "5",
    ) -> None: ...
    def __init__(
        self,
        server: str,
        topic: str | Callable[[Any], str],
        *,
        payload: Callable[[Any], bytes] | None = None,
        qos: int = 1,
        retain: bool = False,
        username: str | None = None,
        password: str | None = None,
        tls: Mapping[str, str] | None = None,
        protocol: str = "5",
    ) -> None:
        name = type(self).__name__
        connection = Connection.of(name, server, username, password, tls, protocol)
        if not callable(topic) and not is_topic(topic, wildcards=False):
            raise ValueError(f"{name}: expected a topic without wildcards, or a function, got {topic!r}")
        if payload is not None and not callable(payload):
            raise TypeError(f"{name}: payload must be a function, got {payload!r}")
        if qos not in (1, 2):
            raise ValueError(f"{name}: qos must be 1 or 2, got {qos!r}: with 0 messages may be lost")
        super().__init__(MqttSink(Writing(connection, topic, payload, qos, bool(retain))))
