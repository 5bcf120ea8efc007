"""WriteToRedis: a key of Redis for each key, corrected by retractions.

The two phases:

1. Each worker appends its signed changes to a list of its own, which belongs to this transaction.
2. Committing is *one* transaction of Redis (MULTI): what the changes come to is applied, the transaction's
   name is noted, and the lists are removed.  A commit that finds the name noted has nothing to do.

Whoever reads sees all that a commit changes, or nothing of it.  All of the sink's own keys begin with `penstock:`.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import attrs
import msgspec

from ..sdk.bundle import Bundle
from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection, PDone
from ..sdk.sink import Sink, SinkWriter
from ..transforms.write import Write
from .optional_package import optional_package
from .records import as_dict, is_record
from .transaction_series import pattern_of

# What Redis keeps under a key: text, or fields and their texts.
Stored = bytes | dict[bytes, bytes]

# How many changes a worker holds before it stages them, and how many are read back at a time.
_STAGE = 5_000

# How many committed transactions are remembered, besides the last of each series.
_REMEMBERED = 1_000

# Appends changes to a worker's list, if the transaction is open.
_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], KEYS[2])
for i, change in ipairs(ARGV) do redis.call('RPUSH', KEYS[2], change) end
return 1
"""

# Deletes a key, if it holds exactly that.
_DELETE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if ARGV[1] == 'string' then
  if kind ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
else
  if kind ~= 'hash' or redis.call('HLEN', KEYS[1]) * 2 ~= #ARGV - 1 then return 0 end
  for i = 2, #ARGV, 2 do
    if redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1] then return 0 end
  end
end
return redis.call('DEL', KEYS[1])
"""


class Change(msgspec.Struct, array_like=True, frozen=True):
    """An element, as it is staged.

    Attributes:
      place: end of window, number of pane and timestamp: of several values of a key the latest is meant.
    """

    key: bytes
    value: Stored
    sign: int
    place: tuple[int, int, int]


_decode = msgspec.msgpack.Decoder(Change).decode


class RedisSink(Sink[Any]):
    """Keys of Redis; see `WriteToRedis`."""

    accepts_retractions: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        prefix: str,
        key: Callable[[Any], Any] | None,
        value: Callable[[Any], Any] | None,
        transform: str,
    ) -> None:
        self.url = url
        self.prefix = prefix
        self.key = key
        self.value = value
        self.transform = transform

    def display_data(self) -> dict[str, Any]:
        """What a drawing of the pipeline may show of it."""
        return {"server": self.server, "prefix": self.prefix}

    @property
    def server(self) -> str:
        """The server, without a password."""
        return self.url.rpartition("@")[2].partition("://")[2] or self.url.rpartition("@")[2]

    def client(self) -> Any:
        """A connection of its own."""
        return package().Redis.from_url(self.url, decode_responses=False)

    def own(self, *parts: str) -> str:
        """A key of the sink's own."""
        digest = hashlib.blake2s(f"{self.prefix}\0{self.transform}".encode(), digest_size=8).hexdigest()
        return ":".join(("penstock", digest, *parts))

    @contextmanager
    def session(self, what: str) -> Iterator[Any]:
        """A connection, whose errors say which server they are about, and not its password."""
        try:
            client = self.client()
            try:
                yield client
            finally:
                client.close()
        except package().RedisError as error:
            raise SinkError(f"{self.transform}: Redis at {self.server} {what}: {error}") from error

    # Two phases

    def prepare(self, transaction: str) -> None:
        with self.session("can't be written to") as client:
            self.check(client)
            client.sadd(self.own("open", transaction), "")

    def check(self, client: Any) -> None:
        """Raises `SinkError` where what is there can't be written to."""

    def open_writer(self, transaction: str, unit: str) -> RedisSinkWriter:
        return RedisSinkWriter(self, transaction, unit)

    def commit(self, transaction: str, staged: Sequence[tuple[str, int]]) -> None:
        noted, last, is_open = self.own("committed"), self.own("last", "committed"), self.own("open", transaction)
        series = pattern_of(transaction)
        with self.session("can't be committed to") as client:
            while True:
                with client.pipeline(transaction=True) as pipe:
                    # If anybody else commits it meanwhile, nothing of what follows happens.
                    pipe.watch(noted, last)
                    if pipe.zscore(noted, transaction) is not None:
                        return
                    if series is not None and (pipe.hget(last, series) or b"") >= transaction.encode():
                        return
                    effects = self._effects(pipe, transaction, staged)
                    lists = pipe.smembers(is_open)
                    pipe.multi()
                    for effect in effects:
                        effect.apply(pipe)
                    if series is None:
                        pipe.zadd(noted, {transaction: time.time()})
                        pipe.zremrangebyrank(noted, 0, -_REMEMBERED - 1)
                    else:
                        pipe.hset(last, series, transaction)
                    pipe.delete(is_open, *filter(None, lists))
                    try:
                        pipe.execute()
                    except package().WatchError:
                        continue
                    return

    def abort(self, transaction: str) -> None:
        is_open = self.own("open", transaction)
        with self.session("can't be cleaned up") as client:
            # First this: then nobody stages any more.
            with client.pipeline(transaction=True) as pipe:
                pipe.smembers(is_open)
                pipe.delete(is_open)
                lists, _ = pipe.execute()
            if any(lists):
                client.delete(*filter(None, lists))

    def _effects(self, client: Any, transaction: str, staged: Sequence[tuple[str, int]]) -> list[Any]:
        changes: list[Change] = []
        for name, count in staged:
            found = client.llen(name)
            if found != count:
                raise SinkError(
                    f"{self.transform}: Redis at {self.server}: {count - found} of {count} staged changes of "
                    f"transaction {transaction!r} are gone. Something removed them before the commit; "
                    "run the pipeline again"
                )
            for start in range(0, count, _STAGE):
                changes += map(_decode, client.lrange(name, start, start + _STAGE - 1))
        return self.net(changes)

    def net(self, changes: Sequence[Change]) -> list[Any]:
        """What changes come to, whatever their order: for each key its latest value that is left, or what is gone."""
        by_key: dict[bytes, dict[Any, _Value]] = {}
        for change in changes:
            values = by_key.setdefault(change.key, {})
            value = values.setdefault(_hashable(change.value), _Value(change.value))
            value.net += change.sign
            if change.sign > 0:
                value.place = max(value.place, change.place)
        effects = []
        for key, values in by_key.items():
            left = sorted((value for value in values.values() if value.net > 0), key=lambda value: value.place)
            if len(left) > 1 and left[-1].place == left[-2].place:
                shown = " and ".join(shortened(value.stored, 100) for value in left[-2:])
                raise SinkError(
                    f"{self.transform}: key {key.decode(errors='replace')!r} has two values of one window, pane and "
                    f"timestamp, {shown}. Make the key whatever else tells them apart, or combine them"
                )
            if left:
                effects.append(_Effect(key, left[-1].stored))
            else:
                effects += [_Effect(key, value.stored, is_gone=True) for value in values.values() if value.net < 0]
        return effects

    # Elements

    def change(self, element: Any, sign: int, place: tuple[int, int, int]) -> Change:
        """What is staged of an element."""
        if self.key is not None:
            key, value = self.key(element), element
        elif isinstance(element, tuple) and len(element) == 2:
            key, value = element
        else:
            raise SinkError(
                f"{self.transform}: expected (key, value) pairs, got {shortened(element, 100)}; say by key=... which "
                "key an element has"
            )
        if self.value is not None:
            value = self.value(value)
        name = self.prefix.encode() + self._text(key, "key")
        if is_record(value):
            fields = {str(n): v for n, v in as_dict(value).items() if v is not None}
            stored: Stored = {n.encode(): self._text(v, f"field {n!r} of {name!r}") for n, v in fields.items()}
            if not stored:
                raise SinkError(f"{self.transform}: {name!r} has no field that isn't None; Redis keeps no empty hash")
        else:
            stored = self._text(value, f"value of {name!r}")
        return Change(name, stored, sign, place)

    def _text(self, value: Any, what: str) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return str(value).encode()
        raise SinkError(
            f"{self.transform}: the {what} is a {type(value).__name__}, {shortened(value, 100)}; expected text, bytes "
            "or a number" + (", or a record for a hash" if what.startswith("value") else "")
        )


@attrs.define
class _Value:
    """One of the values of a key."""

    stored: Stored
    net: int = 0
    place: tuple[int, int, int] = (-(2**63), -1, -(2**63))


@attrs.frozen
class _Effect:
    """What becomes of a key."""

    key: bytes
    value: Stored
    is_gone: bool = False

    def apply(self, pipe: Any) -> None:
        """Say it to Redis; none of it can fail half-way."""
        if self.is_gone and isinstance(self.value, bytes):
            pipe.eval(_DELETE, 1, self.key, "string", self.value)
        elif self.is_gone:
            assert isinstance(self.value, dict)
            pipe.eval(_DELETE, 1, self.key, "hash", *(part for item in self.value.items() for part in item))
        elif isinstance(self.value, bytes):
            pipe.set(self.key, self.value)
        else:
            # Fields that it doesn't have any more go, and so does what isn't a hash.
            pipe.delete(self.key)
            pipe.hset(self.key, mapping=self.value)


class RedisSinkWriter(SinkWriter[Any]):
    """Stages one worker's changes in a list."""

    def __init__(self, sink: RedisSink, transaction: str, unit: str) -> None:
        self._sink = sink
        self._open = sink.own("open", transaction)
        self._list = sink.own("staged", transaction, unit)
        self._transaction = transaction
        self._pending: list[bytes] = []
        self._staged = 0
        self._client: Any = None

    def write(self, bundle: Bundle) -> None:
        for value, timestamp, windows, pane, sign in bundle.rows():
            place = (max(window.max_micros for window in windows), pane.index, timestamp)
            self._pending.append(msgspec.msgpack.encode(self._sink.change(value, sign, place)))
        while len(self._pending) >= _STAGE:
            self._flush()

    def stage(self) -> tuple[str, int]:
        while self._pending:
            self._flush()
        self._close()
        return self._list, self._staged

    def discard(self) -> None:
        self._pending.clear()
        try:
            if self._staged:
                with self._sink.session("can't be cleaned up") as client:
                    client.delete(self._list)
        finally:
            self._close()

    def _flush(self) -> None:
        sink, now = self._sink, self._pending[:_STAGE]
        try:
            if self._client is None:
                self._client = sink.client()
            is_open = self._client.eval(_APPEND, 2, self._open, self._list, *now)
        except package().RedisError as error:
            raise SinkError(f"{sink.transform}: Redis at {sink.server} can't be written to: {error}") from error
        if not is_open:
            raise SinkError(
                f"{sink.transform}: transaction {self._transaction!r} isn't prepared in Redis at {sink.server}; "
                "it was committed or aborted already"
            )
        del self._pending[: len(now)]
        self._staged += len(now)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class WriteToRedis(PTransform):
    """A key of Redis for each key: text, or a hash where the value is a record.

    An element sets its key, whatever was there; of several values the one of the latest window, pane
    and timestamp stays.  A retraction deletes its key, if it still holds what is taken back.  A commit changes all
    keys in one transaction of the server.  Needs one server (no cluster), Redis 6 or later, and the extra `redis`; how
    much of it survives the server's crash is the server's setting (`appendfsync`).

    Args:
      url: such as 'redis://user:password@host:6379/0'.
      prefix: what keys begin with.
      key: a function from an element to its key; without, elements are (key, value) pairs.  Text, bytes
        or a number.
      value: a function from a value (or the element, where `key` is given) to what is kept: text, bytes, a number, or
        a record such as a dict or a Row, whose fields are text, bytes or numbers; those that are None are left out.

    Raises `MissingExtraError` while the pipeline is built if the package isn't installed, and `SinkError` before
    anything runs if the server can't be written to.

    >>> import penstock as beam
    >>> beam.io.WriteToRedis("redis://:secret@localhost:6379/0", "count:").display_data()
    {'server': 'localhost:6379/0', 'prefix': 'count:'}
    """

    def __init__(
        self,
        url: str,
        prefix: str = "",
        *,
        key: Callable[[Any], Any] | None = None,
        value: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        package()
        if not isinstance(url, str) or "://" not in url:
            raise ValueError("WriteToRedis: expected a URL such as 'redis://localhost:6379/0', got another text")
        for name, function in (("key", key), ("value", value)):
            if function is not None and not callable(function):
                raise TypeError(f"WriteToRedis: {name} must be a function, got {function!r}")
        self.sink = RedisSink(url, prefix, key, value, type(self).__name__)

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        sink = copy.copy(self.sink)
        sink.transform = pcoll.pipeline.full_label
        done: PDone = pcoll | Write(sink)
        return done

    def display_data(self) -> dict[str, Any]:
        return self.sink.display_data()


def _hashable(value: Stored) -> Any:
    return value if isinstance(value, bytes) else tuple(sorted(value.items()))


def package(needed_for: str = "WriteToRedis") -> Any:
    """The client's package; raises `MissingExtraError`."""
    return optional_package("redis", extra="redis", needed_for=needed_for)
