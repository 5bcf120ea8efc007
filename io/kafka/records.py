"""Records of a topic as elements: pairs of a key and a value, or `KafkaRecord`s; and their event times."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from ...persistence import stored_as
from ...sdk.errors import SourceError


@stored_as("kafka-header", 1)
class KafkaHeader(NamedTuple):
    """A header of a record.

    >>> from penstock.io import KafkaHeader
    >>> KafkaHeader("trace", b"17")
    KafkaHeader(key='trace', value=b'17')
    """

    key: str
    value: bytes | None


@stored_as("kafka-record", 1)
class KafkaRecord(NamedTuple):
    """A record of a topic, with the names that Beam has for its fields.

    Attributes:
      timestamp: in milliseconds since 1970.
      key, value: bytes or None, until they are decoded.
      timestampTypeId, timestampTypeName: what the timestamp is: 0 and "CreateTime", 1 and "LogAppendTime", or -1 and
        "NoTimestampType".

    >>> from penstock.io import KafkaRecord
    >>> record = KafkaRecord("words", 0, 17, 1700000000000, None, b"tea", [], 0, "CreateTime")
    >>> record.offset, record.value
    (17, b'tea')
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: list[KafkaHeader]
    timestampTypeId: int
    timestampTypeName: str


class Elements(StrEnum):
    """What a reader returns for a record: its key and value, both with partition and offset, or a `KafkaRecord`."""

    PAIRS = "pairs"
    PLACED = "placed"
    RECORDS = "records"


class TimestampPolicy(StrEnum):
    """The event time of a record: the time of reading, of its producer, or of the broker."""

    PROCESSING_TIME = "ProcessingTime"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


# By the client's type of a timestamp, Kafka's id and name of it.
_TYPES = ((-1, "NoTimestampType"), (0, "CreateTime"), (1, "LogAppendTime"))


def pairs_of(messages: list[Any]) -> list[tuple[Any, Any]]:
    """Return the keys and values of messages."""
    return [(message.key(), message.value()) for message in messages]


def pairs_with_offsets(messages: list[Any], partition: Any) -> list[tuple[Any, Any, Any, int]]:
    """Return the keys and values of messages of a partition, with their offsets."""
    return [(message.key(), message.value(), partition, message.offset()) for message in messages]


def records_of(messages: list[Any]) -> list[KafkaRecord]:
    """Return messages as records."""
    found = []
    for message in messages:
        kind, milliseconds = message.timestamp()
        headers = [KafkaHeader(*header) for header in message.headers() or ()]
        origin = (message.topic(), message.partition(), message.offset(), milliseconds)
        found.append(KafkaRecord(*origin, message.key(), message.value(), headers, *_TYPES[kind]))
    return found


def micros_of(messages: list[Any], policy: TimestampPolicy, label: str) -> list[int] | None:
    """Return the event times of messages in microseconds; None for the time of reading.

    Raises `SourceError` for a record that has no timestamp of this kind.
    """
    if policy is TimestampPolicy.PROCESSING_TIME:
        return None
    times = [message.timestamp() for message in messages]
    wanted = 1 if policy is TimestampPolicy.CREATE_TIME else 2
    for message, (kind, _) in zip(messages, times, strict=True):
        if kind != wanted:
            raise SourceError(
                f"{label}: expected records with a {policy}, found one with {_TYPES[kind][1]} at offset "
                f"{message.offset()} of partition {message.partition()} of topic {message.topic()!r}; the topic's "
                "setting message.timestamp.type decides which they have"
            )
    return [milliseconds * 1000 for _, milliseconds in times]
