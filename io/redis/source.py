"""ReadFromRedisStream: the entries of Redis Streams."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.claims import Claim, Claimant
from ...sdk.errors import SourceError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...sdk.sources.unbounded import UnboundedSource
from ...sdk.watermark_estimators import EstimatorTypes, MonotonicWatermarkEstimator
from ...transforms.read import Read
from ...windowing.timestamp import Timestamp
from .server import RedisServer, package

# The id of the last entry that was read, and the number of entries added to the stream up to it, removed ones included;
# None if the server is too old to tell.
Offset = tuple[str, int | None]

_BEGINNING = "0-0"


@stored_as("redis-stream-entry", 1)
@frozen
class RedisStreamEntry:
    """An entry of a Redis Stream.

    Attributes:
      stream: the key of the stream.
      id: Redis' id: the time of adding in milliseconds since 1970, a dash, and a number.
      fields: names and values as text, or as bytes with `decode=False`.

    >>> from penstock.io import RedisStreamEntry
    >>> entry = RedisStreamEntry("clicks", "1700000000000-0", {"page": "home"})
    >>> entry.fields["page"]
    'home'
    """

    stream: str
    id: str
    fields: dict[Any, Any]

    @property
    def micros(self) -> int:
        """Return the time of adding in microseconds."""
        return int(self.id.partition("-")[0]) * 1000

    def __hash__(self) -> int:
        return hash((self.stream, self.id))


class RedisStreamSource(UnboundedSource[RedisStreamEntry], Claimant):
    """Source of Redis Streams.  A partition is a stream, and an offset is the id of an entry."""

    def __init__(
        self,
        server: RedisServer,
        streams: Sequence[str],
        group: str | None,
        trim: bool,
        decode: bool,
        times: EventTimes,
    ) -> None:
        self.server = server
        self.streams = tuple(streams)
        self.group = group
        self.trim = trim
        self.decode = decode
        self.times = times

    def partitions(self) -> Sequence[str]:
        with self.server.explained("streams can't be read"), closing(self.server.connect()) as client:
            client.ping()
        return self.streams

    def claims(self) -> Sequence[Claim]:
        server = self.server.identity
        found = []
        for stream in self.streams:
            at = f"stream {stream!r} of {self.server.server}"
            what = f"it {'trims' if self.trim else 'reads'} the {at}"
            advice = (
                "trim=True removes entries that the other one hasn't read; read the stream once, or without trim=True"
            )
            found.append(Claim(what, advice, ("redis stream", server, stream), is_shared=not self.trim))
            if self.group is not None:
                what = f"it reads the {at} as group {self.group!r}"
                advice = "a group has one position for each stream; give one of them another group"
                found.append(Claim(what, advice, ("redis group", server, stream, self.group)))
        return found

    def identity(self) -> Mapping[str, Any]:
        return {"url": self.server.shown.partition("?")[0], "streams": sorted(self.streams)}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        # A new stream is read from its beginning.  A missing stream may be created later.
        return {"streams"} if set(before["streams"]) <= set(self.streams) else frozenset()

    def open(self, partition: str, offset: Offset | None) -> RedisStreamReader:
        with self.server.explained(f"stream {partition!r} can't be read"):
            return RedisStreamReader(self, partition, None if offset is None else tuple(offset))  # type: ignore[arg-type]


class RedisStreamReader(EventTimeReader[RedisStreamEntry]):
    """Reader of ranges of ids.  A range is stable until entries are removed."""

    def __init__(self, source: RedisStreamSource, stream: str, offset: Offset | None) -> None:
        super().__init__(source.times)
        self.source = source
        self.stream = stream
        self._what = f"stream {stream!r} can't be read"
        self._client = source.server.connect()
        self._backlog: int | None = None
        self._outage = source.server.outage()
        if offset is None:
            offset = self._beginning()
        self._last, self._added = offset

    def take(self, max_elements: int, now: Timestamp) -> tuple[list[RedisStreamEntry], list[int] | int | None]:
        with self.source.server.explained(self._what):
            looked = self._outage.poll(lambda: self._look(max_elements), self._client.close, waits=self.end is not None)
        if looked is None:
            return [], None
        found, exists, information = looked
        if not exists:
            if self._last != _BEGINNING:
                raise SourceError(
                    f"{self._label}: expected the stream to exist, since it was read up to {self._last}, found none; "
                    "was it deleted?"
                )
            return [], None
        if isinstance(information, Exception):
            raise information
        self._count(information, [id for id, _ in found])
        return self._entries(found)

    def _look(self, limit: int) -> tuple[list[Any], bool, Any]:
        """Return the next entries, whether the stream exists, and what the server knows of it."""
        stop = "+" if self.end is None else self.end[0]
        # In one transaction, so that all are of the same moment.
        transaction = self._client.pipeline(transaction=True)
        transaction.xrange(self.stream, min=f"({self._last}", max=stop, count=limit)
        transaction.exists(self.stream)
        transaction.execute_command("XINFO", "STREAM", self.stream)
        found, exists, information = transaction.execute(raise_on_error=False)
        if isinstance(found, Exception):
            raise found
        return found, exists, information

    def offset(self) -> Offset:
        return self._last, self._added

    def backlog(self) -> int | None:
        return self._backlog

    def acknowledge(self, offset: Any) -> None:
        last = _BEGINNING if offset is None else offset[0]
        if last == _BEGINNING:
            return

        def acknowledged() -> None:
            if self.source.group is not None:
                self._tell_group(last)
            if self.source.trim:
                milliseconds, _, number = last.partition("-")
                self._client.xtrim(self.stream, minid=f"{milliseconds}-{int(number) + 1}", approximate=False)

        with self.source.server.explained(self._what):
            # During an outage the next checkpoint does it.
            self._outage.poll(acknowledged, self._client.close, waits=False)

    def close(self) -> None:
        self._client.close()

    def _beginning(self) -> Offset:
        """Return the position of the consumer group, or else the beginning of the stream."""
        group = self.source.group
        if not self._client.exists(self.stream):
            return _BEGINNING, 0
        information = self._client.xinfo_stream(self.stream)
        added = information.get("entries-added")
        removed = None if added is None else added - information["length"]
        if group is not None:
            for known in self._client.xinfo_groups(self.stream):
                if _text(known["name"]) == group:
                    read = known.get("entries-read")
                    return _text(known["last-delivered-id"]), read
        return _BEGINNING, removed

    def _tell_group(self, last: str) -> None:
        """Set the position of the consumer group, so that its lag can be monitored."""
        try:
            self._client.xgroup_setid(self.stream, self.source.group, last)
        except package("ReadFromRedisStream").ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._client.xgroup_create(self.stream, self.source.group, last)

    def _count(self, information: Any, ids: list[bytes]) -> None:
        """Count the entries, and raise `SourceError` if entries were removed before they were read."""
        facts = (
            dict(zip(map(_text, information[::2]), information[1::2]))
            if isinstance(information, list)
            else {_text(name): value for name, value in information.items()}
        )
        added = facts.get("entries-added")
        if added is None or self._added is None:
            return
        removed = added - facts["length"]
        if removed > self._added:
            raise SourceError(
                f"{self._label}: expected all entries after {self._last} to exist, found that "
                f"{removed - self._added} of them or more were removed before they were read; trim the stream less, or "
                "let this transform do it (trim=True)"
            )
        self._added += len(ids)
        last = _text(ids[-1]) if ids else self._last
        if last == _text(facts["last-generated-id"]):
            # Counts entries that were removed one by one as well.
            self._added = added
        self._backlog = max(added - self._added, 0)

    def _entries(self, found: list[Any]) -> tuple[list[RedisStreamEntry], list[int]]:
        try:
            entries = [RedisStreamEntry(self.stream, _text(id), self._fields(fields)) for id, fields in found]
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{self._label}: an entry after {self._last} is not UTF-8 (0x{error.object[error.start]:02x}); "
                "to get bytes, use decode=False"
            ) from error
        if entries:
            self._last = entries[-1].id
        return entries, [entry.micros for entry in entries]

    def _fields(self, fields: dict[bytes, bytes]) -> dict[Any, Any]:
        return {n.decode(): v.decode() for n, v in fields.items()} if self.source.decode else fields

    @property
    def _label(self) -> str:
        return f"{self.source.server.transform}: {self.stream!r}"


class ReadFromRedisStream(PTransform):
    """A `RedisStreamEntry` for each entry of streams, from their beginning or from the position of a consumer group.

    Returns a `PCollection[RedisStreamEntry]`.

    Entries are read again by their ids after a failure, so they must stay in the stream until a checkpoint after them
    is durable.  Redis 7 and later detect entries that were removed earlier, which is an error.  Needs Redis 6.2 and the
    extra `redis`.

    Args:
      url: such as 'redis://user:password@host:6379/0'.
      streams: the name of a stream, or several names.  A stream may be created later.
      group: a consumer group whose position follows the durable checkpoints, and at which reading begins without a
        checkpoint.  Entries aren't read through the group.
      trim: removes entries from the stream once a checkpoint after them is durable.
      decode: emits text; otherwise bytes.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`.  Without them the event time of an entry is the
        time of adding, and the watermark follows the last entry.

    >>> import penstock as beam
    >>> beam.io.ReadFromRedisStream("redis://localhost", "clicks").source.streams
    ('clicks',)
    """

    def __init__(
        self,
        url: str,
        streams: str | Sequence[str],
        *,
        group: str | None = None,
        trim: bool = False,
        decode: bool = True,
        timestamp_fn: Callable[[RedisStreamEntry], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        server = RedisServer.of("ReadFromRedisStream", url)
        names = [streams] if isinstance(streams, str) else list(streams)
        if not names:
            raise ValueError("ReadFromRedisStream: expected the name of a stream, got none")
        monotonic = MonotonicWatermarkEstimator.default_provider()
        times = EventTimes.of("ReadFromRedisStream", timestamp_fn, watermark_estimator, idle_after, monotonic)
        self.source = RedisStreamSource(server, names, group, trim, decode, times)

    def expand(self, pbegin: PBegin) -> PCollection[RedisStreamEntry]:
        source = copy.copy(self.source)
        source.server = source.server.labelled(pbegin.pipeline.full_label)
        read = Read(source).with_output_types(RedisStreamEntry)
        entries: PCollection[RedisStreamEntry] = pbegin | read
        return entries


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
