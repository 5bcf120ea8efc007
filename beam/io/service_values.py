"""Values of Beam's transforms for Pub/Sub and BigQuery, which tests of programs use without these services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(repr=False)
class PubsubMessage:
    """A message of Pub/Sub.  Messages with equal data and attributes are equal.

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


class BigQueryDisposition:
    """Whether a write to BigQuery creates a table, and what it does with the rows of an existing one.

    >>> BigQueryDisposition.validate_write("WRITE_APPEND")
    'WRITE_APPEND'
    """

    CREATE_NEVER = "CREATE_NEVER"
    CREATE_IF_NEEDED = "CREATE_IF_NEEDED"
    WRITE_TRUNCATE = "WRITE_TRUNCATE"
    WRITE_APPEND = "WRITE_APPEND"
    WRITE_EMPTY = "WRITE_EMPTY"

    @staticmethod
    def validate_create(disposition: str) -> str:
        """Return a disposition of creation.  Raises `ValueError` for another string."""
        known = (BigQueryDisposition.CREATE_NEVER, BigQueryDisposition.CREATE_IF_NEEDED)
        return _one_of(known, disposition, "create")

    @staticmethod
    def validate_write(disposition: str) -> str:
        """Return a disposition of writing.  Raises `ValueError` for another string."""
        known = (
            BigQueryDisposition.WRITE_TRUNCATE,
            BigQueryDisposition.WRITE_APPEND,
            BigQueryDisposition.WRITE_EMPTY,
        )
        return _one_of(known, disposition, "write")


def _one_of(known: tuple[str, ...], disposition: str, kind: str) -> str:
    if disposition not in known:
        raise ValueError(f"Invalid {kind} disposition {disposition}. Expecting {known}")
    return disposition
