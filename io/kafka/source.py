"""KafkaSource: the partitions of topics as an unbounded source."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.claims import Claim, Claimant
from ...sdk.errors import SourceError
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...windowing.duration import DurationTypes
from ...windowing.timestamp import Timestamp
from ..connections.prefetching_reader import PrefetchingReader
from .client import (
    OFFSET_LOST,
    PARTITION_EOF,
    Connection,
    attempts,
    closed,
    described,
    error_of,
    fetched,
    metadata,
    package,
    waits,
)
from .records import Elements, TimestampPolicy, micros_of, pairs_of, pairs_with_offsets, records_of

_logger = logging.getLogger(__name__)

# The offset of the first record that there is, whichever that is.
BEGINNING = -2

# The records that the client returns at a time, at most.
_TOGETHER = 10_000

# How long a search for new partitions takes, in seconds, before it is left to the next one.
_FOUND_WITHIN = 1.0

# The names of errors for a partition of which a broker that has just started doesn't know yet.
_NOT_YET_KNOWN = ("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART")


@stored_as("kafka-partition", 1)
@frozen
class TopicPartition:
    """A partition of a topic.

    Attributes:
      is_new: whether it was found while the pipeline ran, and so is read from its first record.
    """

    topic: str
    number: int
    is_new: bool = attrs.field(default=False, eq=False, repr=False)

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic!r}"


@frozen
class Start:
    """Where partitions are read from, without a checkpoint.

    Attributes:
      time: milliseconds since 1970: the first record whose timestamp isn't earlier.
      offsets: by topic and partition.
      otherwise: 'earliest', 'latest' or 'error'.
      of_group: whether the committed offsets of the consumer's group come first.
    """

    time: int | None = None
    offsets: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    otherwise: str = "latest"
    of_group: bool = False


@frozen
class Reading:
    """How records are read, in a run of either kind.

    Attributes:
      connection: makes clients.
      policy: which of a record's timestamps is its event time.
      elements: what elements are.
      on_lost_offsets: 'fail', 'earliest' or 'latest'.
    """

    connection: Connection
    topics: tuple[str, ...]
    start: Start
    policy: TimestampPolicy
    elements: Elements
    on_lost_offsets: str

    @property
    def label(self) -> str:
        return self.connection.transform

    def values_of(self, messages: list[Any], partition: TopicPartition) -> list[Any]:
        """Return messages of a partition as elements."""
        if self.elements is Elements.PAIRS:
            return pairs_of(messages)
        return records_of(messages) if self.elements is Elements.RECORDS else pairs_with_offsets(messages, partition)

    def micros_of(self, messages: list[Any]) -> list[int] | None:
        """Return their event times in microseconds; None for the time of reading."""
        return micros_of(messages, self.policy, self.label)

    def explained(self, what: str) -> AbstractContextManager[None]:
        """Convert the client's errors into `SourceError`s."""
        return self.connection.explained(what)

    def partitions(self, seconds: float | None = None) -> list[TopicPartition]:
        """Return the partitions of the topics.  Raises `SourceError` for a missing topic."""
        with self.explained("the topics can't be listed"):
            consumer = self.connection.consumer()
            try:
                return [each for topic in self.topics for each in self._partitions_of(consumer, topic, seconds)]
            finally:
                closed(consumer)

    def _partitions_of(self, consumer: Any, topic: str, seconds: float | None) -> list[TopicPartition]:
        found = described(self.connection, consumer, topic, seconds)
        if found is None or found.error is not None:
            # Asked for one topic, the brokers say what is wrong.
            found = metadata(self.connection, consumer, topic, seconds).topics[topic]
        if found.error is not None:
            raise SourceError(
                f"{self.label}: topic {topic!r} of {self.connection.server} can't be read: {found.error.str()}"
            )
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    def first_offset(self, consumer: Any, partition: TopicPartition) -> int:
        """Return where a partition is read from, without a checkpoint."""
        start = self.start
        client_partition = self._client_partition(partition)
        if partition.is_new:
            return self.bounds(consumer, partition)[0]
        if (given := start.offsets.get((partition.topic, partition.number))) is not None:
            return given
        if start.time is not None:
            (found,) = self._patiently(
                lambda: consumer.offsets_for_times([self._at(client_partition, start.time)], timeout=5.0)
            )
            return int(found.offset) if found.offset >= 0 else self.bounds(consumer, partition)[1]
        if start.of_group:
            (committed,) = self._patiently(lambda: consumer.committed([client_partition], timeout=5.0))
            if committed.offset >= 0:
                return int(committed.offset)
        if start.otherwise == "error":
            raise SourceError(
                f"{self.label}: {partition} has no committed offset, and 'auto.offset.reset' is {start.otherwise!r}"
            )
        low, high = self.bounds(consumer, partition)
        return low if start.otherwise == "earliest" else high

    def bounds(self, consumer: Any, partition: TopicPartition) -> tuple[int, int]:
        """Return the offset of the first record, and the one after the last."""
        client_partition = self._client_partition(partition)
        low, high = self._patiently(lambda: consumer.get_watermark_offsets(client_partition, timeout=5.0))
        return int(low), int(high)

    def _patiently(self, call: Callable[[], Any]) -> Any:
        """Return a call's result; while the cluster doesn't answer, call again for a while."""
        kafka = package(self.label)
        for is_over in attempts():
            try:
                found = call()
            except kafka.KafkaException as exception:
                self.connection.raise_refusal()
                error = error_of(exception)
                if error is None or not (waits(error) or error.name() in _NOT_YET_KNOWN) or is_over():
                    raise
            else:
                if found is not None or is_over():
                    return found
        raise AssertionError

    def assign(self, consumer: Any, partition: TopicPartition, offset: int) -> None:
        """Let a consumer read a partition from an offset."""
        consumer.assign([self._client_partition(partition, offset)])

    def _client_partition(self, partition: TopicPartition, offset: int = -1001) -> Any:
        return package(self.label).TopicPartition(partition.topic, partition.number, offset)

    @staticmethod
    def _at(client_partition: Any, milliseconds: int | None) -> Any:
        client_partition.offset = milliseconds
        return client_partition


class KafkaSource(UnboundedSource[Any], Claimant):
    """Source of the partitions of topics.  An offset is Kafka's own: that of the next record.

    Args:
      commits: whether the offsets of durable checkpoints are committed to the consumer's group.
    """

    repeatable = True

    def __init__(
        self, reading: Reading, times: EventTimes, commits: bool, discovery_interval: DurationTypes | None
    ) -> None:
        self.reading = reading
        self.times = times
        self.commits = commits
        self.discovery_interval = discovery_interval
        self.repeatable = reading.policy is not TimestampPolicy.PROCESSING_TIME or times.timestamp_fn is not None
        self._known: list[TopicPartition] | None = None

    def claims(self) -> Sequence[Claim]:
        settings = self.reading.connection.settings
        group = settings.get("group.id")
        if group is None:
            return ()
        does = "commits offsets" if self.commits else "begins at the offsets"
        advice = (
            "a group has one offset for each partition, which commit_offset_in_finalize sets for both; give one of "
            "them another group.id, or read the topic once"
        )
        return [
            Claim(
                f"it {does} of group {group!r} and topic {topic!r} of {settings.servers}",
                advice,
                ("kafka", frozenset(map(str.strip, settings.servers.split(","))), group, topic),
                is_shared=not self.commits,
            )
            for topic in self.reading.topics
        ]

    def partitions(self) -> Sequence[TopicPartition]:
        before = self._known
        try:
            found = self.reading.partitions(None if before is None else _FOUND_WITHIN)
        except SourceError as error:
            kafka_error = None if error.__cause__ is None else error_of(error.__cause__)
            if before is None or kafka_error is None or not waits(kafka_error):
                raise
            return before
        self._known = (
            found if before is None else before + [attrs.evolve(p, is_new=True) for p in found if p not in before]
        )
        return self._known

    def identity(self) -> Mapping[str, Any]:
        if self._known is None:
            self.partitions()
        assert self._known is not None
        return {
            "topics": sorted(self.reading.topics),
            "partitions": sorted(f"{each.topic}-{each.number}" for each in self._known),
        }

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        # New partitions, and new topics, are read from their first records.
        return {name for name in ("topics", "partitions") if set(before[name]) <= set(self.identity()[name])}

    def rescale(self, before: Mapping[str, Any], offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        return dict(offsets) | {each: BEGINNING for each in self.partitions() if each not in offsets}

    def open(self, partition: TopicPartition, offset: int | None) -> KafkaReader:
        return KafkaReader(self, partition, offset)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": None}


class KafkaReader(PrefetchingReader[Any]):
    """Reader of one partition.  The client fetches records in threads of its own."""

    def __init__(self, source: KafkaSource, partition: TopicPartition, offset: int | None) -> None:
        super().__init__(source.times)
        self.source = source
        self.partition = partition
        self._reading = source.reading
        with self._explained():
            self._consumer = self._reading.connection.consumer()
            try:
                if offset is None:
                    offset = self._reading.first_offset(self._consumer, partition)
                elif offset == BEGINNING:
                    offset = self._reading.bounds(self._consumer, partition)[0]
                self._next = offset
                self._reading.assign(self._consumer, partition, offset)
            except BaseException:
                closed(self._consumer)
                raise

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[Any], list[int] | None]:
        with self._explained():
            messages = self._messages(max_elements)
        if not messages:
            return [], None
        return self._reading.values_of(messages, self.partition), self._reading.micros_of(messages)

    def offset(self) -> int:
        return self._next

    def backlog(self) -> int | None:
        client_partition = package(self._reading.label).TopicPartition(self.partition.topic, self.partition.number)
        _, high = self._consumer.get_watermark_offsets(client_partition, cached=True)
        return max(high - self._next, 0) if high >= 0 else None

    def acknowledge(self, offset: Any) -> None:
        if self.source.commits and offset is not None and offset >= 0:
            client_partition = package(self._reading.label).TopicPartition(
                self.partition.topic, self.partition.number, offset
            )
            self._consumer.commit(offsets=[client_partition], asynchronous=True)

    def close(self) -> None:
        closed(self._consumer)

    def available(self) -> int:
        with self._explained():
            return self._reading.bounds(self._consumer, self.partition)[1]

    def _messages(self, max_elements: int) -> list[Any]:
        """Return records that have been fetched, and follow the position."""
        wanted = min(max_elements, _TOGETHER)
        while True:
            waiting = self.end is not None or self.is_awaited(self._next)
            found = fetched(self._consumer, wanted, 0.2 if waiting else 0)
            if messages := self._kept(found):
                return messages
            self._reading.connection.raise_refusal()
            if self.end is not None:
                if self._next >= self.end:
                    self._next = self.end
                    return []
            elif not waiting:
                return []

    def _kept(self, found: list[Any]) -> list[Any]:
        """Return the records up to the end, without the reports among them."""
        if not found:
            return found
        if any(message.error() is not None for message in found):
            kept = [message for message in found if message.error() is None]
            reports = [message for message in found if message.error() is not None]
        else:
            kept, reports = found, []
        if kept:
            self._reading.connection.answers()
            kept = self._unread(kept)
        for report in reports:
            self._report(report)
        if self.end is not None and self._next > self.end:
            kept = [message for message in kept if message.offset() < self.end]
            self._next = self.end
        return kept

    def _unread(self, messages: list[Any]) -> list[Any]:
        """Return the records behind the position, and advance it.

        The client fetches again from an earlier offset if a partition's leader changes; then it gives records twice.
        """
        offsets = [message.offset() for message in messages]
        if offsets[0] < self._next or any(map(operator.ge, offsets, offsets[1:])):
            unread = []
            for message, offset in zip(messages, offsets, strict=True):
                if offset >= self._next:
                    self._next = offset + 1
                    unread.append(message)
            return unread
        self._next = offsets[-1] + 1
        return messages

    def _report(self, report: Any) -> None:
        kafka = package(self._reading.label)
        error = report.error()
        if error.name() == PARTITION_EOF:
            self._reading.connection.answers()
            # Beyond records that were compacted, and the marks of transactions.
            self._next = max(self._next, report.offset())
        elif error.name() == OFFSET_LOST:
            self._resume_after_loss()
        elif not waits(error):
            raise kafka.KafkaException(error)

    def _resume_after_loss(self) -> None:
        low, high = self._reading.bounds(self._consumer, self.partition)
        if self._next < low:
            lost = f"the records before {low} were removed, {low - self._next} of them or fewer unread"
        else:
            lost = f"its last offset is {high}: was the topic deleted and created again?"
        said = f"{self._reading.label}: expected {self.partition} to have offset {self._next}, but {lost}"
        policy = self._reading.on_lost_offsets
        if policy == "fail":
            raise SourceError(
                f"{said}; to go on without them, use on_lost_offsets='earliest' or 'latest'. Records were lost if the "
                "topic's retention is shorter than the time that the pipeline needs"
            )
        self._next = low if policy == "earliest" else high
        _logger.error("%s; reading goes on at %d (on_lost_offsets=%r)", said, self._next, policy)
        self._reading.assign(self._consumer, self.partition, self._next)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with self._reading.explained(f"{self.partition} can't be read"):
            yield
