"""WriteToPubSub: a message for each element."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle, expanded
from ...sdk.errors import SinkError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection, PDone
from ...sdk.sink import SinkContext
from ...transforms import Map
from ...windowing.timestamp import MIN_MICROS
from ..sinks.message_sink import MessageSink
from ..sinks.write_into import WriteInto
from .client import Resource, error_of_client, open_publisher, package
from .messages import PubsubMessage, attribute_of_micros

# The attribute that has the id of a message without an `id_label`.
ID_ATTRIBUTE = "penstock-id"

# The messages and the bytes of a request, which may have ten million; and the requests that aren't answered.
_TOGETHER = 1_000
_REQUEST_BYTES = 1 << 20
_UNANSWERED = 8

# How long the answer to a request is waited for, in seconds.
_TIMEOUT = 30.0

_PUBLISH = "/google.pubsub.v1.Publisher/Publish"

# The size of a message, with its attributes, that Pub/Sub permits, in bytes.
_MOST_BYTES = 10_000_000

# The number of a message in its transaction, its data, attributes and ordering key.
Record = tuple[bytes, Mapping[str, str], str]


@frozen
class Writing:
    """How elements become messages.

    Attributes:
      with_attributes: whether elements are `PubsubMessage`s; otherwise bytes.
      id_label: the attribute that gets an id.
      timestamp_attribute: the attribute that gets the event time; None for none.
    """

    topic: Resource
    with_attributes: bool
    id_label: str
    timestamp_attribute: str | None

    @property
    def transform(self) -> str:
        """The label of the transform."""
        return self.topic.transform

    def message(self, element: Any, micros: int) -> Record:
        """Return the data, attributes and ordering key of an element.  Raises `SinkError`."""
        attributes: dict[str, str] = {}
        data, key = element, ""
        if self.with_attributes:
            if not isinstance(element, PubsubMessage):
                raise SinkError(f"{self.transform}: expected a PubsubMessage, got {shortened(element, 100)}")
            data, attributes, key = element.data or b"", dict(element.attributes or {}), element.ordering_key
        if not isinstance(data, bytes):
            advice = "encode it, or use with_attributes=True for PubsubMessages"
            raise SinkError(f"{self.transform}: expected bytes, got {shortened(data, 100)}; {advice}")
        if self.timestamp_attribute is not None:
            if micros == MIN_MICROS:
                raise SinkError(
                    f"{self.transform}: an element has no event time for the attribute {self.timestamp_attribute!r}; "
                    f"give elements times by WithTimestamps. It is {shortened(element, 100)}"
                )
            attributes[self.timestamp_attribute] = attribute_of_micros(micros)
        size = len(data) + sum(len(name.encode()) + len(text.encode()) for name, text in attributes.items())
        if size > _MOST_BYTES:
            raise SinkError(f"{self.transform}: a message of {size:,} bytes; Pub/Sub permits {_MOST_BYTES:,}")
        return data, attributes, key


class PubsubSink(MessageSink["Publishing"]):
    """Messages of a topic; see `WriteToPubSub`."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing = writing

    def target(self) -> str:
        return self.writing.topic.path

    def open_for(self, label: str) -> Publishing:
        return Publishing(attrs.evolve(self.writing, topic=self.writing.topic.labelled(label)))

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"topic": self.writing.topic.path}

    def prepare(self, context: SinkContext) -> None:
        self.opened(context).check()


class Publishing:
    """The topic as one transform writes to it, with the client that publishes."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._client: Any = None
        self._stub: Any = None
        # Requests that aren't answered.
        self._sent: deque[_Request] = deque()

    def check(self) -> None:
        """Raise `SinkError` if there is no such topic, or if it may not be published to."""
        topic = self.writing.topic
        with topic.explained("can't be written to", SinkError):
            topic.check(self._opened(), "pubsub.topics.publish")

    def messages(self, bundle: Bundle) -> Iterable[Record]:
        """Return the messages of a bundle's elements."""
        return map(self.writing.message, bundle.values, expanded(bundle.timestamps, len(bundle)))

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Publish messages, each with its id, and wait until the topic has them all.

        A request has messages of one ordering key, and is sent when those before it with the same key are answered.
        """
        message_of, label = self._types().PubsubMessage.pb(), self.writing.id_label
        gathered: dict[str, _Request] = {}
        total = 0
        try:
            for id, data, attributes, key in messages:
                message = message_of(data=data, attributes={**attributes, label: id}, ordering_key=key)
                request = gathered.get(key)
                size = message.ByteSize()
                if request is not None and request.size + size > _REQUEST_BYTES:
                    self._send(gathered.pop(key), transaction)
                    total -= request.size
                    request = None
                if request is None:
                    request = gathered[key] = _Request(key)
                request.messages.append(message)
                request.size += size
                total += size
                if len(request.messages) >= _TOGETHER:
                    self._send(gathered.pop(key), transaction)
                    total -= request.size
                if total > _UNANSWERED * _REQUEST_BYTES:
                    self._send_all(gathered, transaction)
                    total = 0
            self._send_all(gathered, transaction)
            while self._sent:
                self._wait(transaction)
        except BaseException:
            self.close()
            raise

    def _send_all(self, gathered: dict[str, _Request], transaction: str) -> None:
        for request in gathered.values():
            self._send(request, transaction)
        gathered.clear()

    def _send(self, request: _Request, transaction: str) -> None:
        while len(self._sent) >= _UNANSWERED or (request.key and any(each.key == request.key for each in self._sent)):
            self._wait(transaction)
        request.answer = self._sent_now(request)
        self._sent.append(request)

    def _sent_now(self, request: _Request) -> Any:
        """Send a request, and return the future of its answer."""
        if self._stub is None:
            kind, answer = self._types().PublishRequest.pb(), self._types().PublishResponse.pb()
            self._stub = self._opened().transport.grpc_channel.unary_unary(
                _PUBLISH, request_serializer=kind.SerializeToString, response_deserializer=answer.FromString
            )
        path = self.writing.topic.path
        sent = self._types().PublishRequest.pb()(topic=path, messages=request.messages)
        return self._stub.future(sent, timeout=_TIMEOUT, metadata=(("x-goog-request-params", f"topic={path}"),))

    def _wait(self, transaction: str) -> None:
        """Wait until the topic has the messages of the first request; send it again while Pub/Sub doesn't answer."""
        request = self._sent.popleft()

        def published() -> None:
            answer, request.answer = request.answer or self._sent_now(request), None
            try:
                answer.result()
            except Exception as error:
                raise error_of_client(error) from None

        try:
            self.writing.topic.patiently(published)
        except Exception as error:
            what = f"can't be published to by transaction {transaction!r}"
            raise self.writing.topic.error(what, error, SinkError) from None

    def _types(self) -> Any:
        return package(self.writing.transform).types

    def _opened(self) -> Any:
        if self._client is None:
            self._client = open_publisher(self.writing.transform)
        return self._client

    def close(self) -> None:
        """Disconnect."""
        client, self._client, self._stub = self._client, None, None
        self._sent.clear()
        if client is not None:
            client.transport.close()


class _Request:
    """Messages that are published together.

    Attributes:
      key: their ordering key.
      size: in bytes.
      answer: the future of the answer, if the request is sent.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.messages: list[Any] = []
        self.size = 0
        self.answer: Any = None


class WriteToPubSub(WriteInto["bytes | PubsubMessage"]):
    """A message for each element, at least once: a commit that is interrupted is repeated, and doubles messages.

    Takes a `PCollection[bytes]`, or a `PCollection[PubsubMessage]`.

    Messages are part of a checkpoint until it is complete, and are published then: nothing that a failure takes back is
    ever published.  Each message has an id, in the attribute `id_label`, by which `ReadFromPubSub(id_label=...)` drops
    doubles.  Messages with the same ordering key keep their order.  An input with retractions is refused while the
    pipeline is built.  Needs the extra `pubsub`.

    Args:
      topic: 'projects/PROJECT/topics/NAME'.
      with_attributes: whether elements are `PubsubMessage`s; otherwise bytes.
      id_label: the attribute that gets the id; by default `penstock-id`.
      timestamp_attribute: the attribute that gets the event time, as a time of RFC 3339.

    Raises `MissingExtraError` and `ValueError` while the pipeline is built, and `SinkError` before the run starts if
    there is no such topic.

    >>> import penstock as beam
    >>> beam.io.WriteToPubSub("projects/shop/topics/orders").display_data()
    {'topic': 'projects/shop/topics/orders'}
    """

    def __init__(
        self,
        topic: str,
        with_attributes: bool = False,
        id_label: str | None = None,
        timestamp_attribute: str | None = None,
    ) -> None:
        name = type(self).__name__
        package(name)
        of = Resource.of(name, topic, "topics")
        super().__init__(PubsubSink(Writing(of, with_attributes, id_label or ID_ATTRIBUTE, timestamp_attribute)))


class WriteStringsToPubSub(PTransform):
    """A message for each text.

    Takes a `PCollection[str]`.

    Args: as those of `WriteToPubSub`.

    >>> import penstock as beam
    >>> beam.io.WriteStringsToPubSub("projects/shop/topics/orders").default_label()
    'WriteStringsToPubSub'
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._write = WriteToPubSub(topic)

    def expand(self, pcoll: PCollection[str]) -> PDone:
        done: PDone = pcoll | "EncodeString" >> Map(_encoded).with_output_types(bytes) | self._write
        return done


def _encoded(text: str) -> bytes:
    return text.encode("utf-8")
