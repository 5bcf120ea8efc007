"""KafkaSink: records of a topic, committed exactly once, or written at least once.

1. Each worker stages its records (`staging`): in blocks of a topic of their own, and in its token.
2. A commit publishes them in one transaction of Kafka, with a token in a compacted topic (`publisher`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import RejectedRecordError, SinkError
from ...sdk.sink import SinkContext, SinkSpec, SinkWriter
from ..records import as_dict, is_record
from ..sinks.net_changes import NetChanges
from ..sinks.opened_sink import OpenedSink
from .client import Connection, closed, described, error_of, metadata, package, waits
from .limits import CLIENT_BYTES, DEFAULT_BYTES, is_topic, limits_of, size_of
from .publisher import TOKENS, Publisher, Series, create_topic
from .registry.formats import RegistryFormat, RegistryWriter
from .serialization import Encoder
from .staging import STAGED_MILLISECONDS, StagedRecord, StagedRecords, StagingWriter, token_of


class Retractions(StrEnum):
    """What becomes of retracted elements.

    UPSERT: a key's latest value in a commit, or a tombstone if it has none left.
    CHANGELOG: a record for each change, with its sign in the header `penstock-sign`.
    """

    UPSERT = "upsert"
    CHANGELOG = "changelog"


SIGN_HEADER = "penstock-sign"

_RETRACTIONS_ADVICE = (
    "give retractions='upsert', for each key's latest value or a tombstone, or retractions='changelog', for each "
    "change with its sign in a header"
)


@frozen
class Writing:
    """How elements become records.

    Attributes:
      topic: a name, or a function from an element to a name.
      with_headers: whether elements are records with key, value and headers.
      control_topic, staging_topic: where tokens and staged blocks are.
    """

    connection: Connection
    topic: str | Callable[[Any], str]
    key: Encoder | RegistryFormat
    value: Encoder | RegistryFormat
    with_headers: bool
    retractions: Retractions | None
    exactly_once: bool
    control_topic: str
    staging_topic: str
    _writers: tuple[RegistryWriter | None, RegistryWriter | None] = attrs.field(init=False, repr=False)

    @_writers.default
    def _of_registry(self) -> tuple[RegistryWriter | None, RegistryWriter | None]:
        key, value = self.key, self.value
        return (
            key.writer("key", self.label) if isinstance(key, RegistryFormat) else None,
            value.writer("value", self.label) if isinstance(value, RegistryFormat) else None,
        )

    def register(self) -> None:
        """Register the schemas of keys and values, unless their topic depends on the element."""
        for writer in self._writers:
            if writer is not None and isinstance(self.topic, str):
                writer.prepare(self.topic)

    @property
    def label(self) -> str:
        return self.connection.transform

    @property
    def topic_name(self) -> str:
        return self.topic if isinstance(self.topic, str) else "by element"

    def record(self, element: Any, sign: int = 1, version: tuple[int, int, int] | None = None) -> StagedRecord:
        """Return an element as a record.  Raises `SinkError` for one that isn't a pair, or can't be encoded."""
        headers: list[tuple[str, bytes | None]] = []
        if self.with_headers:
            key, value, headers = self._fields(element)
        elif isinstance(element, tuple) and len(element) == 2:
            key, value = element
        else:
            raise SinkError(f"{self.label}: expected pairs of a key and a value, got {shortened(element, 100)}")
        topic = self.topic if isinstance(self.topic, str) else self.topic(element)
        if not is_topic(topic):
            raise self.rejection(element, f"{topic!r} can't be the name of a topic")
        if self.retractions is Retractions.CHANGELOG:
            headers = [*headers, (SIGN_HEADER, b"+1" if sign > 0 else b"-1")]
        kept_version = version if self.retractions is Retractions.UPSERT else None
        of_key, of_value = self._writers
        encoded = (
            self._encoded(self.key if of_key is None else partial(of_key, topic=topic), key, "key"),
            self._encoded(self.value if of_value is None else partial(of_value, topic=topic), value, "value"),
        )
        return StagedRecord(topic, *encoded, headers or None, sign=sign, version=kept_version)

    def rejection(self, record: Any, why: str) -> RejectedRecordError:
        """Return the error for a record that can't be written."""
        shown = shortened(record, 100)
        error = RejectedRecordError(f"{self.label}: {why}; the record: {shown}")
        error.record, error.transform = shown, self.label
        return error

    def no_topic(self, topic: str) -> str:
        """Return the reason that there is no such topic."""
        return f"{self.connection.server} has no topic {topic!r}; create it"

    def too_large(self, topic: str, size: int, limits: Mapping[str, int]) -> str:
        """Return the reason that a record is larger than its topic accepts."""
        return (
            f"a record of {size} bytes is larger than topic {topic!r} accepts; its setting max.message.bytes permits "
            f"{limits[topic]}"
        )

    def large_messages(self) -> dict[str, Any]:
        """Return the client's settings for records that are larger than its own default, if topics accept them."""
        return {} if "message.max.bytes" in self.connection.settings.all else {"message.max.bytes": CLIENT_BYTES}

    def _fields(self, element: Any) -> tuple[Any, Any, list[tuple[str, bytes | None]]]:
        fields = as_dict(element) if is_record(element) else {}
        if "key" not in fields or "value" not in fields:
            raise SinkError(
                f"{self.label}: expected Rows with the fields key, value and headers (with_headers=True), got "
                f"{shortened(element, 100)}"
            )
        headers = fields.get("headers") or ()
        pairs = headers.items() if isinstance(headers, Mapping) else map(_pair, headers)
        return fields["key"], fields["value"], [(name, value) for name, value in pairs]

    def _encoded(self, encode: Any, value: Any, what: str) -> bytes | None:
        if value is None:
            return None
        try:
            data = encode(value)
        except SinkError:
            # Of a schema registry that doesn't answer.
            raise
        except Exception as error:
            is_given = self._writers[what == "value"] is not None
            advice = "the schema has to fit" if is_given else f"give a {what}_serializer"
            raise SinkError(
                f"{self.label}: the {what} {shortened(value, 100)} can't be encoded: {error}; {advice}"
            ) from error
        if data is not None and not isinstance(data, bytes):
            raise SinkError(f"{self.label}: {what}_serializer must return bytes, got {type(data).__name__}")
        return data

    def explained(self, what: str) -> AbstractContextManager[None]:
        """Convert the client's errors into `SinkError`s."""
        return self.connection.explained(what, SinkError)


class KafkaSink(OpenedSink["Publishing"]):
    """Records of a topic; see `WriteToKafka`."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing = writing
        self.spec = SinkSpec(writing.retractions is not None, _RETRACTIONS_ADVICE)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"servers": self.writing.connection.settings.servers, "topic": self.writing.topic_name}

    def target(self) -> str:
        writing = self.writing
        topics = (writing.topic_name, writing.control_topic, writing.staging_topic)
        return f"{', '.join(topics)} at {writing.connection.settings.servers}"

    def open_for(self, label: str) -> Publishing:
        return Publishing(attrs.evolve(self.writing, connection=self.writing.connection.labelled(label)))

    def prepare(self, context: SinkContext) -> None:
        self.opened(context).prepare()

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        writing = self.opened(context).writing
        if not writing.exactly_once:
            return _DirectSinkWriter(writing)
        return _StagingSinkWriter(writing, Series.of(context.transaction, context.label))

    def precommit(self, staged: Mapping[SinkContext, Sequence[bytes]]) -> None:
        self.opened(next(iter(staged))).precommit(chain.from_iterable(staged.values()))

    def commit(self, context: SinkContext, staged: Sequence[bytes]) -> None:
        self.opened(context).commit(context.transaction, staged)

    def abort(self, context: SinkContext) -> None:
        """Do nothing: staged blocks that no token names are never read, and are removed by the topic's retention."""


class Publishing:
    """The topics as one transform writes to them, with the producer that publishes."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        self._publisher: Publisher | None = None
        # True if the topics are known to exist.
        self._is_prepared = False

    def prepare(self) -> None:
        """Check that the topics exist, or create those of the sink."""
        if self._is_prepared:
            return
        writing = self.writing
        with writing.explained("it can't be written to"):
            admin = writing.connection.admin()
            topics = metadata(writing.connection, admin).topics
            if isinstance(writing.topic, str) and described(writing.connection, admin, writing.topic) is None:
                raise SinkError(
                    f"{writing.label}: {writing.connection.server} has no topic {writing.topic!r}; "
                    "create it, with the partitions and the retention that its readers need"
                )
            if writing.exactly_once:
                if writing.control_topic not in topics:
                    create_topic(writing.connection, writing.control_topic, **TOKENS)
                if writing.staging_topic not in topics:
                    create_topic(
                        writing.connection, writing.staging_topic, **{"retention.ms": str(STAGED_MILLISECONDS)}
                    )
        writing.register()
        self._is_prepared = True

    def commit(self, transaction: str, staged: Sequence[bytes]) -> None:
        """Publish the records of the tokens."""
        tokens = [token_of(data) for data in staged if data]
        tokens = [token for token in tokens if token.count]
        if not tokens:
            return
        writing = self.writing
        series = min((Series(token.series) for token in tokens), key=lambda each: each.key)
        if not series.key:
            series = Series.of_earlier_version(transaction, writing.topic_name)
        if self._publisher is None or self._publisher.series != series:
            if self._publisher is not None:
                self._publisher.close()
            self._publisher = Publisher(
                writing.connection, writing.control_topic, series, settings=writing.large_messages()
            )
        with writing.explained(f"transaction {transaction!r} can't be published"):
            limits = self._checked(largest_of(tokens), transaction)
        self._publisher.joins(min([*limits.values(), DEFAULT_BYTES]))
        records: Iterable[StagedRecord] = StagedRecords(writing.connection, writing.staging_topic, tokens)
        with writing.explained(f"transaction {transaction!r} can't be published"):
            if writing.retractions is Retractions.UPSERT:
                records = NetRecords(records)
            self._publisher.publish(transaction, records)

    def precommit(self, staged: Iterable[bytes]) -> None:
        """Check that the topics still exist, and accept the largest records."""
        tokens = [token_of(data) for data in staged if data]
        with self.writing.explained("it can't be committed to"):
            self._checked(largest_of(tokens), "")

    def _checked(self, largest: Mapping[str, int], transaction: str) -> Mapping[str, int]:
        """Return the limits of the topics; raise `RejectedRecordError` for a topic that doesn't accept its records."""
        writing = self.writing
        try:
            limits = limits_of(writing.connection, largest.keys(), fresh=not transaction)
        except package(writing.label).KafkaException as exception:
            error = error_of(exception)
            if error is None or not waits(error):
                raise
            # The commit waits for brokers that don't answer.
            return {}
        before = f"transaction {transaction!r} can't be published: " if transaction else ""
        for topic, size in largest.items():
            if topic not in limits:
                raise writing.rejection(topic, before + writing.no_topic(topic))
            if size > limits[topic]:
                raise writing.rejection(topic, before + writing.too_large(topic, size, limits))
        return limits

    def close(self) -> None:
        """Wait until readers find what was published, and drop the producer."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            with self.writing.explained("readers may not find yet what was published"):
                publisher.wait_until_visible()


def largest_of(tokens: Sequence[Any]) -> dict[str, int]:
    """Return the size of the largest record of each topic; of tokens of an earlier version nothing is known."""
    largest: dict[str, int] = {}
    for token in tokens:
        for topic, size in token.largest.items():
            largest[topic] = max(size, largest.get(topic, 0))
    return largest


class NetRecords:
    """Each key's latest value that isn't retracted, or a tombstone.

    >>> changes = [StagedRecord("t", b"ann", b"3", sign=sign, version=(0, 0, 0)) for sign in (1, -1)]
    >>> list(NetRecords(changes)), [record.value for record in NetRecords(changes[1:])]
    ([], [None])
    """

    def __init__(self, records: Iterable[StagedRecord]) -> None:
        self._net = NetChanges(records, StagedRecord, _key_and_value, _size)

    def __iter__(self) -> Iterator[StagedRecord]:
        for values in self._net:
            record = max((value.change for value in values), key=lambda change: change.value or b"")
            yield record if values[0].count > 0 else StagedRecord(record.topic, record.key, None)


def _key_and_value(record: StagedRecord) -> tuple[Any, Any]:
    return (record.topic, record.key), record.value


def _size(record: StagedRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers or ())
    return len(record.key or b"") + len(record.value or b"") + headers


class _Writer(SinkWriter[Any]):
    """Turns elements into records, and checks their sizes."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    def records(self, bundle: Bundle) -> Iterator[tuple[StagedRecord, int]]:
        """Return the elements as records, each with its size."""
        record_of = self.writing.record
        if self.writing.retractions is None:
            made: Iterable[StagedRecord] = map(record_of, bundle.values)
        else:
            made = (
                record_of(value, sign, (max(window.max_micros for window in windows), pane.index, timestamp))
                for value, timestamp, windows, pane, sign in bundle.rows()
            )
        sized = [(record, size_of(record)) for record in made]
        self._check(sized)
        return iter(sized)

    def _check(self, sized: Sequence[tuple[StagedRecord, int]]) -> None:
        """Raise `RejectedRecordError` for a record that its topic doesn't accept."""
        if not sized:
            return
        limits = limits_of(self.writing.connection, {record.topic for record, _ in sized})
        own = self.writing.connection.settings.get("message.max.bytes")
        for record, size in sized:
            if record.topic not in limits:
                raise self.writing.rejection(record.value, self.writing.no_topic(record.topic))
            if size > limits[record.topic]:
                raise self.writing.rejection(record.value, self.writing.too_large(record.topic, size, limits))
            # What the client assumes for the lengths of fields.
            if own is not None and size + 40 + 10 * len(record.headers or ()) > int(own):
                raise self.writing.rejection(
                    record.value,
                    f"a record of {size} bytes is larger than the producer's message.max.bytes: {own}",
                )


class _StagingSinkWriter(_Writer):
    """Stages records, for exactly once."""

    def __init__(self, writing: Writing, series: Series) -> None:
        super().__init__(writing)
        self._blocks = StagingWriter(writing.connection, writing.staging_topic, series.key)

    def write(self, bundle: Bundle) -> None:
        with self.writing.explained("records can't be staged"):
            for record, size in self.records(bundle):
                self._blocks.add(record, size)

    def stage(self) -> bytes:
        with self.writing.explained("records can't be staged"):
            return self._blocks.stage()

    def discard(self) -> None:
        self._blocks.close()


class _DirectSinkWriter(_Writer):
    """Writes records to their topic at once, at least once."""

    def __init__(self, writing: Writing) -> None:
        super().__init__(writing)
        self._producer: Any = None
        self._failed: Any = None

    def write(self, bundle: Bundle) -> None:
        with self.writing.explained("records can't be written"):
            if self._producer is None:
                settings = {"delivery.report.only.error": True, "on_delivery": self._delivered}
                self._producer = self.writing.connection.producer(
                    **({"enable.idempotence": True} | settings | self.writing.large_messages())
                )
            for record, _ in self.records(bundle):
                self._produce(record)
            self._producer.poll(0)
            self._raise_failed()

    def stage(self) -> bytes:
        with self.writing.explained("records can't be written"):
            while self._producer is not None and self._producer.flush(1.0):
                self.writing.connection.raise_refusal()
                self._raise_failed()
            self._raise_failed()
        self._close()
        return b""

    def discard(self) -> None:
        self._close()

    def _produce(self, record: StagedRecord) -> None:
        headers = {"headers": record.headers} if record.headers else {}
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, **headers)
                return
            except BufferError:
                self._producer.poll(0.5)
                self.writing.connection.raise_refusal()
                self._raise_failed()

    def _delivered(self, error: Any, message: Any) -> None:
        self._failed = self._failed or error

    def _raise_failed(self) -> None:
        if self._failed is not None:
            raise package(self.writing.label).KafkaException(self._failed)

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            closed(producer)


def _pair(header: Any) -> tuple[str, bytes | None]:
    if is_record(header):
        fields = as_dict(header)
        return fields["key"], fields["value"]
    name, value = header
    return name, value
