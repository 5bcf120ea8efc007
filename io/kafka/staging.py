"""Staged records: blocks that wait for their commit, in a topic of their own or in the token that a writer stages.

A writer encodes its records as blocks.  Full blocks are written to the *staging topic*, by producers without
transactions; the last block, which isn't full, is part of the writer's token, so that little output needs no topic.
A commit reads the blocks of the accepted writers by their offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import msgspec

from ...frozen import frozen
from ...sdk.errors import SinkError
from .client import OFFSET_LOST, PARTITION_EOF, Connection, closed, fetched, package, timed_out, waits

# The size of a block in bytes, about.  Brokers accept messages of 1 MiB by default, and a block with larger records is
# sent in parts.
BLOCK_BYTES = 256 << 10

# The header of a part that others of its block follow.
_MORE = "penstock-more"

# How long a staged block is kept, in milliseconds: the longest time between a checkpoint and its commit.
STAGED_MILLISECONDS = 7 * 24 * 3600 * 1000

# How long blocks are waited for, in seconds.
_READ_WITHIN = 120.0


class StagedRecord(msgspec.Struct, array_like=True, frozen=True, omit_defaults=True):
    """A record to write.

    Attributes:
      timestamp: in milliseconds since 1970; None for the time of the commit.
      partition: None for the producer's choice by the key.
      sign, version: of an element that may be retracted: 1 or -1, and the end of its window, its pane and its
      timestamp.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None
    timestamp: int | None = None
    partition: int | None = None
    sign: int = 1
    version: tuple[int, int, int] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[StagedRecord]).decode


class Staged(msgspec.Struct, array_like=True, frozen=True):
    """The token of a writer.

    Attributes:
      offsets: of the blocks in the staging topic, as first and last of each run.
      last: the last block.
      count: the number of records.
      series: the key of the series that publishes them; "" in a token of an earlier version.
      largest: by topic, the size of the largest record; empty in a token of an earlier version.
    """

    offsets: list[tuple[int, int]]
    last: bytes
    count: int
    series: str = ""
    largest: dict[str, int] = {}


@attrs.define
class StagingWriter:
    """Writes the blocks of one writer.

    Args:
      topic: the staging topic.
      series: the key of the series that publishes the records.
    """

    connection: Connection
    topic: str
    series: str = ""
    _records: list[StagedRecord] = attrs.field(init=False, factory=list)
    _size: int = attrs.field(init=False, default=0)
    _count: int = attrs.field(init=False, default=0)
    _producer: Any = attrs.field(init=False, default=None)
    _offsets: list[int] = attrs.field(init=False, factory=list)
    _sent: int = attrs.field(init=False, default=0)
    _failed: Any = attrs.field(init=False, default=None)
    _largest: dict[str, int] = attrs.field(init=False, factory=dict)

    def add(self, record: StagedRecord, size: int) -> None:
        """Add a record.

        Args:
          size: the record's, in its topic.
        """
        self._records.append(record)
        self._count += 1
        self._size += size
        self._largest[record.topic] = max(size, self._largest.get(record.topic, 0))
        if self._size >= BLOCK_BYTES:
            self._send()

    def stage(self) -> bytes:
        """Wait until all blocks are durable, and return the token."""
        if self._producer is not None:
            kafka = package(self.connection.transform)
            self._producer.flush(120.0)
            self.connection.raise_refusal()
            if self._failed is not None:
                raise kafka.KafkaException(self._failed)
            if len(self._offsets) < self._sent:
                raise timed_out()
        self.close()
        last = _encode(self._records) if self._records else b""
        return msgspec.msgpack.encode(
            Staged(_runs(sorted(self._offsets)), last, self._count, self.series, self._largest)
        )

    def close(self) -> None:
        """Drop the producer, and what it hasn't sent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            closed(producer)

    def _send(self) -> None:
        if self._producer is None:
            # The staging topic's limit may be small, and the client joins messages.
            settings = {"acks": "all", "enable.idempotence": True, "batch.size": 2 * BLOCK_BYTES}
            self._producer = self.connection.producer(**settings)
        block = _encode(self._records)
        self._records, self._size = [], 0
        parts = [block[start : start + BLOCK_BYTES] for start in range(0, len(block), BLOCK_BYTES)]
        if len(block) < 2 * BLOCK_BYTES:
            parts = [block]
        for number, part in enumerate(parts):
            self._send_part(part, {} if number == len(parts) - 1 else {"headers": [(_MORE, b"")]})

    def _send_part(self, part: bytes, settings: dict[str, Any]) -> None:
        self._sent += 1
        while True:
            try:
                self._producer.produce(self.topic, part, partition=0, on_delivery=self._delivered, **settings)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.5)
                self.connection.raise_refusal()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed = error
        else:
            self._offsets.append(message.offset())


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as first and last of each run.

    >>> _runs([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def token_of(data: bytes) -> Staged:
    """Return the token that a writer has staged."""
    return msgspec.msgpack.decode(data, type=Staged)


@frozen
class StagedRecords:
    """The records of a transaction: of each token its blocks, in the order in which they were written."""

    connection: Connection
    topic: str
    tokens: Sequence[Staged]

    def __iter__(self) -> Iterator[StagedRecord]:
        for token in self.tokens:
            if token.offsets:
                for block in self._blocks(token):
                    yield from _decode(block)
            if token.last:
                yield from _decode(token.last)

    def _blocks(self, token: Staged) -> Iterator[bytes]:
        consumer: Any = None
        parts: list[bytes] = []
        try:
            for first, last in token.offsets:
                if consumer is None:
                    consumer = self.connection.reader(self.topic, first, **{"isolation.level": "read_uncommitted"})
                else:
                    consumer.assign([package(self.connection.transform).TopicPartition(self.topic, 0, first)])
                for part, has_more in self._run(consumer, first, last):
                    parts.append(part)
                    if not has_more:
                        yield b"".join(parts)
                        parts.clear()
        finally:
            if consumer is not None:
                closed(consumer)

    def _run(self, consumer: Any, first: int, last: int) -> Iterator[tuple[bytes, bool]]:
        kafka = package(self.connection.transform)
        following, until = first, time.monotonic() + _READ_WITHIN
        while following <= last:
            self.connection.raise_refusal()
            for message in fetched(consumer, min(last - following + 1, 64), 0.5):
                error = message.error()
                if error is None and message.offset() == following:
                    following, until = following + 1, time.monotonic() + _READ_WITHIN
                    yield message.value(), any(name == _MORE for name, _ in message.headers() or ())
                elif error is None or error.name() == OFFSET_LOST:
                    raise self._lost(following)
                elif error.name() != PARTITION_EOF and not waits(error):
                    raise kafka.KafkaException(error)
            if time.monotonic() > until:
                raise timed_out()

    def _lost(self, offset: int) -> SinkError:
        return SinkError(
            f"{self.connection.transform}: expected staged output at offset {offset} of topic {self.topic!r} of Kafka "
            f"at {self.connection.settings.servers}, found none: it was removed before its commit. The topic's "
            "retention.ms must be longer than the time between a checkpoint and its commit"
        )
