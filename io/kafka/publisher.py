"""Publisher: commits staged records, each transaction exactly once.

A transaction is published in one transaction of Kafka, together with a *token*: its name, in a compacted topic, under
the key of the sink's series.  Kafka shows both to readers of committed records, or neither.

A series has the transactions of one sink in one start of the pipeline, which have the same `transactional.id`.  A new
producer with this id fences the older one, and aborts what that had begun; from then on the token doesn't change, and
tells which transactions were published.  After an error that leaves the outcome of a commit open, the same steps find
it out: a new producer reads the token, and publishes the transaction again if it is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.errors import SinkError
from ...sdk.transaction_series import digest_of_sink, series_of
from ..connections.waiting import is_stopping, paused
from .client import (
    PARTITION_EOF,
    Connection,
    administration,
    closed,
    error_of,
    fetched,
    metadata,
    package,
    timed_out,
    waits,
)
from .staging import StagedRecord

_logger = logging.getLogger(__name__)

# How long a transaction may take, in milliseconds, unless the settings say it: the most that brokers permit by default.
TRANSACTION_MILLISECONDS = 900_000

# How long a commit is tried again while the brokers don't answer, in seconds.
TRIED_FOR = 600.0

# How long a producer waits for the next delivery or for the end of a transaction, in seconds, before a new one takes
# its place: a client may not find the coordinator of its transactions again.  The transaction is one that an older
# producer has begun, or its own, whose outcome is then open.
_ENDED_WITHIN = 60.0

# The settings of the topic of tokens: only the last one of each start is needed.
TOKENS = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}

# How many errors of records are kept, and those that no waiting mends.
_KEPT_ERRORS = 100
_REFUSED_RECORDS = (
    "MSG_SIZE_TOO_LARGE",
    "INVALID_RECORD",
    "UNKNOWN_TOPIC_OR_PART",
    "_UNKNOWN_TOPIC",
    "TOPIC_EXCEPTION",
)


def create_topic(connection: Connection, topic: str, **config: str) -> None:
    """Create a topic with one partition, if there is none.  Raises `KafkaException`."""
    kafka = package(connection.transform)
    admin = connection.admin()
    if topic in metadata(connection, admin).topics:
        return
    (created,) = admin.create_topics(
        [administration(connection.transform).NewTopic(topic, 1, config=config)], request_timeout=20.0
    ).values()
    try:
        created.result()
    except kafka.KafkaException as exception:
        error = error_of(exception)
        if error is None or error.name() != "TOPIC_ALREADY_EXISTS":
            raise


@frozen
class Series:
    """The transactions of one sink in one start of a pipeline, whose names sort as text.

    Attributes:
      key: of the token.
    """

    key: str

    @staticmethod
    def of(transaction: str, label: str) -> Series:
        """Return the series of a sink's transaction.

        >>> Series.of("00000012-5be1", "counts/Write").transactional_id
        'penstock-5be1-04b6dfdedc7432ec'
        """
        return Series(f"{_start_of(transaction)}-{digest_of_sink(label)}")

    @staticmethod
    def of_earlier_version(transaction: str, topic: str) -> Series:
        """Return the series of a transaction that an earlier version has staged, which named it by the topic."""
        return Series(f"{_start_of(transaction)}-{topic}")

    @property
    def transactional_id(self) -> str:
        return f"penstock-{self.key}"


def _start_of(transaction: str) -> str:
    return (series_of(transaction) or transaction).lstrip("-")


class Publisher:
    """The one producer for the transactions of a series.

    Args:
      tokens: the topic of tokens.
      settings: more settings of the producer.
    """

    def __init__(
        self, connection: Connection, tokens: str, series: Series, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.series = series
        self._settings: dict[str, Any] = dict(settings or {})
        self._connection = connection
        self._tokens = tokens
        self._producer: Any = None
        self._last = ""
        self._has_begun = False
        # The first errors of records, and the records.
        self._undelivered: list[tuple[Any, Any]] = []

    def publish(self, transaction: str, records: Iterable[StagedRecord]) -> None:
        """Publish a transaction, unless it, or a later one of the series, is published.

        Args:
          records: can be iterated over again.

        Raises `SinkError` if another process publishes the series, and `KafkaException`.
        """
        kafka = package(self._connection.transform)
        until, pause = time.monotonic() + TRIED_FOR, 0.1
        while True:
            try:
                if self._producer is None:
                    self._begin()
                if self._last >= transaction:
                    return
                self._publish(transaction, records)
            except kafka.KafkaException as exception:
                error = error_of(exception)
                self.close()
                if error is not None and error.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
                    raise SinkError(
                        f"{self._connection.transform}: transaction {transaction!r} can't be published: another "
                        f"process publishes as {self.series.transactional_id!r} now; was the pipeline started again?"
                    ) from exception
                self._connection.raise_refusal()
                if error is None or not (waits(error) or error.txn_requires_abort()) or time.monotonic() > until:
                    raise
                if is_stopping():
                    raise
                _logger.warning(
                    "%s: the outcome of transaction %r is open (%s); a new producer finds it out",
                    self._connection.transform,
                    transaction,
                    error.name(),
                )
                paused(pause)
                pause = min(2 * pause, 5.0)
            except BaseException:
                self.close()
                raise
            else:
                self._last = transaction
                return

    def joins(self, size: int) -> None:
        """Send at most so many bytes of records together: a topic compares their sum with its limit."""
        own = self._connection.settings.get("batch.size")
        size = size if own is None else min(size, int(own))
        if self._settings.get("batch.size", 1_000_000) > size:
            self._settings["batch.size"] = size
            self.close()

    def wait_until_visible(self) -> None:
        """Wait until readers of committed records find all that was published, and drop the producer.

        Brokers answer a commit as soon as it is decided, and tell its partitions afterwards.  Before they have, they
        take no record of another transaction, so one is begun, with the last token again, and aborted.

        Raises `KafkaException`.
        """
        try:
            if self._producer is not None and self._last:
                self._producer.begin_transaction()
                self._has_begun = True
                self._produce_token(self._last)
                self._flush()
        finally:
            self.close()

    def close(self) -> None:
        """Abort what was begun, if that is possible, and drop the producer; else the next one aborts it."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):
                if self._has_begun:
                    producer.abort_transaction(10.0)
            closed(producer)

    def _begin(self) -> None:
        milliseconds = self._connection.settings.get("transaction.timeout.ms", TRANSACTION_MILLISECONDS)
        settings = {
            "transactional.id": self.series.transactional_id,
            "transaction.timeout.ms": milliseconds,
            "message.timeout.ms": milliseconds,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "on_delivery": self._delivered,
            **self._settings,
        }
        producer = self._connection.producer(**settings)
        try:
            # Fences older producers, and ends what they have begun: after it the token doesn't change.
            producer.init_transactions(_ENDED_WITHIN)
            self._last = self._token()
        except BaseException:
            closed(producer)
            raise
        self._producer = producer

    def _publish(self, transaction: str, records: Iterable[StagedRecord]) -> None:
        producer = self._producer
        self._undelivered = []
        producer.begin_transaction()
        self._has_begun = True
        for record in records:
            self._produce(record)
        self._produce_token(transaction)
        self._flush()
        self._raise_refused(transaction)
        producer.commit_transaction(_ENDED_WITHIN)
        self._has_begun = False
        self._connection.answers()

    def _flush(self) -> None:
        """Wait until all records are delivered; raise the client's error if none is for a while."""
        left, answered = None, 0.0
        while remaining := self._producer.flush(1.0):
            if left is None or remaining < left:
                left, answered = remaining, time.monotonic()
            elif time.monotonic() > answered + _ENDED_WITHIN or is_stopping(answered):
                raise timed_out()

    def _delivered(self, error: Any, message: Any) -> None:
        if len(self._undelivered) < _KEPT_ERRORS:
            self._undelivered.append((error, message))

    def _raise_refused(self, transaction: str) -> None:
        """Raise `SinkError` for a record that the brokers refuse."""
        for error, message in self._undelivered:
            if error.name() in _REFUSED_RECORDS:
                size = len(message.key() or b"") + len(message.value() or b"")
                raise SinkError(
                    f"{self._connection.transform}: transaction {transaction!r} can't be published: "
                    f"{self._connection.server} refuses a record of {size} bytes for topic "
                    f"{message.topic()!r}: {error.str()}; the record: {shortened(message.value(), 100)}"
                )

    def _produce(self, record: StagedRecord) -> None:
        settings: dict[str, Any] = {}
        if record.partition is not None:
            settings["partition"] = record.partition
        if record.timestamp is not None:
            settings["timestamp"] = record.timestamp
        if record.headers:
            settings["headers"] = [tuple(header) for header in record.headers]
        while True:
            try:
                self._producer.produce(record.topic, record.value, record.key, **settings)
            except BufferError:
                # The client's queue is full; it empties while brokers answer.
                self._producer.poll(0.5)
                self._connection.raise_refusal()
            else:
                # Serves the reports of errors.
                self._producer.poll(0)
                return

    def _produce_token(self, transaction: str) -> None:
        self._produce(StagedRecord(self._tokens, self.series.key.encode(), transaction.encode(), partition=0))

    def _token(self) -> str:
        """Return the name of the last transaction of the series that was published; empty text for none."""
        last = ""
        for key, value in records_of(self._connection, self._tokens):
            if key == self.series.key.encode() and value is not None:
                last = max(last, value.decode())
        return last


def records_of(connection: Connection, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield keys and values of the committed records of a topic with one partition, up to its end."""
    kafka = package(connection.transform)
    consumer = connection.reader(topic, kafka.OFFSET_BEGINNING, **{"isolation.level": "read_committed"})
    try:
        until = time.monotonic() + 60.0
        while True:
            for message in fetched(consumer, 1000, 0.5):
                error = message.error()
                if error is None:
                    yield message.key(), message.value()
                elif error.name() == PARTITION_EOF:
                    return
                elif not waits(error):
                    raise kafka.KafkaException(error)
                until = time.monotonic() + 60.0
            connection.raise_refusal()
            if time.monotonic() > until:
                raise timed_out()
    finally:
        closed(consumer)
