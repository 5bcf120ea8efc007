"""PubsubMessage: a message of Pub/Sub, with its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...windowing.timestamp import Timestamp


@stored_as("pubsub-message", 1)
@frozen(repr=False)
class PubsubMessage:
    """A message of Pub/Sub.  Messages with equal data and attributes are equal.

    Attributes:
      data: the payload.
      attributes: texts by name.
      message_id: Pub/Sub's id; None for a message that isn't published yet.
      publish_time: when it was published.
      ordering_key: messages with the same key keep their order; "" for none.

    Raises `ValueError` without data and attributes.

    >>> PubsubMessage(b"click", {"user": "7"}, message_id="1") == PubsubMessage(b"click", {"user": "7"})
    True
    """

    data: bytes | None
    attributes: Mapping[str, str] | None
    message_id: str | None = attrs.field(default=None, eq=False)
    publish_time: Any = attrs.field(default=None, eq=False)
    ordering_key: str = attrs.field(default="", eq=False)

    def __attrs_post_init__(self) -> None:
        if self.data is None and not self.attributes:
            raise ValueError(
                f"Either data ({self.data!r}) or attributes ({self.attributes!r}) must be set."  # Beam's words
            )

    def __hash__(self) -> int:
        return hash((self.data, frozenset((self.attributes or {}).items())))

    def __repr__(self) -> str:
        return f"PubsubMessage({self.data!r}, {self.attributes!r})"


def message_of(received: Any) -> PubsubMessage:
    """Return a client's message."""
    return PubsubMessage(
        received.data,
        dict(received.attributes),
        received.message_id,
        Timestamp(micros=published_micros(received)),
        received.ordering_key,
    )


def published_micros(received: Any) -> int:
    """Return the microseconds since 1970 at which a client's message was published."""
    at = received.publish_time
    return int(at.seconds * 1_000_000 + at.nanos // 1000)


def micros_of_attribute(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp: milliseconds since 1970, or a time of RFC 3339.

    Raises `ValueError` for another text.

    >>> micros_of_attribute("1500"), micros_of_attribute("1970-01-01T00:00:01.5Z")
    (1500000, 1500000)
    """
    try:
        return int(text) * 1000
    except ValueError:
        return Timestamp.from_rfc3339(text).micros


def attribute_of_micros(micros: int) -> str:
    """Return a time of RFC 3339, to the microsecond.

    >>> attribute_of_micros(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    return datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{micros % 1_000_000:06}Z"
    )
