"""Limits of topics: which topics there are, and the sizes of the records that they accept."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from typing import Any

from .client import Connection, administration, described, error_of, metadata, package
from .staging import StagedRecord

# The size of a record that brokers accept unless settings differ, for a topic whose settings may not be read.
DEFAULT_BYTES = 1_000_000

# The greatest message that the client can be told to send: the topics' limits are checked before.
CLIENT_BYTES = 1_000_000_000

# How long the limit of a topic is known in a process, in seconds.
_KNOWN_FOR = 60.0

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

# By servers and topic, the limit and the time at which it was asked.
_known: dict[tuple[str, str], tuple[int, float]] = {}


def is_topic(name: Any) -> bool:
    """Return True for a name that a topic can have.

    >>> is_topic("clicks.v1"), is_topic(""), is_topic("a b"), is_topic(".."), is_topic(None)
    (True, False, False, False, False)
    """
    return isinstance(name, str) and name not in (".", "..") and _NAME.fullmatch(name) is not None


def size_of(record: StagedRecord) -> int:
    """Return the size of a batch of one record, headers included, which brokers compare with a topic's limit.

    >>> size_of(StagedRecord("topic", b"k", b"v", [("h", b"x")]))
    74
    """
    parts = [record.key, record.value]
    headers = record.headers or []
    for name, value in headers:
        parts += [name.encode(), value]
    # Its attributes, and its distances from the batch's time and offset.
    size = 3 + _varint(len(headers))
    size += sum(_varint(-1 if part is None else len(part)) + len(part or b"") for part in parts)
    return 61 + _varint(size) + size


def _varint(n: int) -> int:
    """Return the bytes of a number, in the encoding of the protocol."""
    return max(1, (((n << 1) ^ (n >> 63)).bit_length() + 6) // 7)


def limits_of(connection: Connection, topics: Collection[str], fresh: bool = False) -> Mapping[str, int]:
    """Return the size of a record that each topic accepts; a topic that doesn't exist is left out.

    Args:
      fresh: asks the brokers for all of them; otherwise answers of the last minute are used.

    Raises `KafkaException`.
    """
    servers, now = connection.settings.servers, time.monotonic()
    found = {} if fresh else {topic: _known[servers, topic] for topic in topics if (servers, topic) in _known}
    limits = {topic: limit for topic, (limit, at) in found.items() if now - at < _KNOWN_FOR}
    unknown = [topic for topic in topics if topic not in limits]
    if unknown:
        # Kept by a name until it has answered.
        admin = connection.admin()
        existing = metadata(connection, admin).topics
        there = [t for t in unknown if t in existing or described(connection, admin, t) is not None]
        for topic, limit in _described(connection, admin, there).items():
            limits[topic] = limit
            _known[servers, topic] = limit, now
    return limits


def _described(connection: Connection, admin: Any, topics: Collection[str]) -> dict[str, int]:
    """Return the limits of topics that exist."""
    if not topics:
        return {}
    kinds, kafka = administration(connection.transform), package(connection.transform)
    asked = admin.describe_configs([kinds.ConfigResource(kinds.ResourceType.TOPIC, topic) for topic in topics])
    limits = {}
    for resource, answer in asked.items():
        try:
            limits[resource.name] = int(answer.result(20.0)["max.message.bytes"].value)
        except kafka.KafkaException as exception:
            error = error_of(exception)
            if error is None or error.name() not in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
                raise
            # The right to write to a topic isn't the right to read its settings.
            limits[resource.name] = DEFAULT_BYTES
    return limits
