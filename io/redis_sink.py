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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ..sdk.coders.coder import shortened
from ..sdk.errors import RejectedRecordError, SinkError
from ..sdk.redaction import redacted_cause
from ..sdk.sink import Sink
from .dead_letters import Rejected, raise_for, tell
from .records import as_dict, is_record
from .redis_changes import Change, Stored, decode_change, net_effects
from .redis_server import address_of, check_url, package
from .redis_sink_writer import STAGE_CHANGES, RedisSinkWriter
from .transaction_series import pattern_of
from .write_into import WriteInto

# How many committed transactions are remembered, besides the last of each series.
_REMEMBERED = 1_000


class RedisSink(Sink[Any]):
    """Keys of Redis; see `WriteToRedis`."""

    accepts_retractions: ClassVar[bool] = True
    # True if a commit writes refused records to dead letters instead of failing.
    has_dead_letters = False

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
        return address_of(self.url)

    def client(self) -> Any:
        """A connection of its own."""
        return package("WriteToRedis").Redis.from_url(self.url, decode_responses=False)

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
        except RejectedRecordError as error:
            rejection = RejectedRecordError(f"{self.transform}: Redis at {self.server} {what}: {error}")
            rejection.record, rejection.transform = error.record, self.transform
            raise rejection from error.__cause__
        except package("WriteToRedis").RedisError as error:
            raise SinkError(f"{self.transform}: Redis at {self.server} {what}: {error}") from redacted_cause(error)

    # Two phases

    def prepare(self, transaction: str) -> None:
        with self.session("can't be written to") as client:
            self.check(client)
            client.sadd(self.own("open", transaction), "")

    def check(self, client: Any) -> None:
        """Raises `SinkError` where what is there can't be written to."""

    def open_writer(self, transaction: str, unit: str) -> RedisSinkWriter:
        return RedisSinkWriter(self, transaction, unit)

    def with_dead_letters(self) -> RedisSink:
        sink = copy.copy(self)
        sink.has_dead_letters = True
        return sink

    def precommit(self, transactions: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Check the net effects of the staged changes."""
        with self.session("can't be committed to") as client:
            for transaction, staged in transactions.items():
                if any(count for _, count in staged) and not self._is_committed(client, transaction):
                    _, rejected = self._effects(client, transaction, staged)
                    if not self.has_dead_letters:
                        raise_for(rejected)

    def commit(self, transaction: str, staged: Sequence[tuple[str, int]]) -> None:
        noted, last, is_open = self.own("committed"), self.own("last", "committed"), self.own("open", transaction)
        series = pattern_of(transaction)
        with self.session("can't be committed to") as client:
            while True:
                with client.pipeline(transaction=True) as pipe:
                    # If anybody else commits it meanwhile, nothing of what follows happens.
                    pipe.watch(noted, last)
                    if self._is_committed(pipe, transaction):
                        return
                    effects, rejected = self._effects(pipe, transaction, staged)
                    if not self.has_dead_letters:
                        raise_for(rejected)
                    lists = pipe.smembers(is_open)
                    newest = pipe.zrevrange(noted, 0, 0, withscores=True)
                    pipe.multi()
                    for effect in effects:
                        effect.apply(pipe)
                    if rejected:
                        pipe.rpush(self.own("dead_letters"), *(each.as_json() for each in rejected))
                    if series is None:
                        # The oldest are forgotten, whatever the wall clock says.
                        pipe.zadd(noted, {transaction: newest[0][1] + 1 if newest else time.time()})
                        pipe.zremrangebyrank(noted, 0, -_REMEMBERED - 1)
                    else:
                        pipe.hset(last, series, transaction)
                    pipe.delete(is_open, *filter(None, lists))
                    try:
                        pipe.execute()
                    except package("WriteToRedis").WatchError:
                        continue
                    tell(rejected, self.transform, f"list {self.own('dead_letters')!r}")
                    return

    def _is_committed(self, client: Any, transaction: str) -> bool:
        if client.zscore(self.own("committed"), transaction) is not None:
            return True
        series = pattern_of(transaction)
        last = self.own("last", "committed")
        return series is not None and (client.hget(last, series) or b"") >= transaction.encode()

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

    def _effects(
        self, client: Any, transaction: str, staged: Sequence[tuple[str, int]]
    ) -> tuple[list[Any], list[Rejected]]:
        # A command that fails within a transaction of Redis stops none of the others, so this is asked before.
        self.check(client)
        changes: list[Change] = []
        for name, count in staged:
            found = client.llen(name)
            if found != count:
                raise SinkError(
                    f"{self.transform}: Redis at {self.server}: {count - found} of {count} staged changes of "
                    f"transaction {transaction!r} are gone. Something removed them before the commit; "
                    "run the pipeline again"
                )
            for start in range(0, count, STAGE_CHANGES):
                changes += map(decode_change, client.lrange(name, start, start + STAGE_CHANGES - 1))
        return self.net(changes)

    def net(self, changes: Sequence[Change]) -> tuple[list[Any], list[Rejected]]:
        """What changes come to, as things that are applied to a pipeline of commands; and what can't be."""
        return net_effects(changes)

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


class WriteToRedis(WriteInto):
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
        package("WriteToRedis")
        check_url(url, "WriteToRedis")
        for name, function in (("key", key), ("value", value)):
            if function is not None and not callable(function):
                raise TypeError(f"WriteToRedis: {name} must be a function, got {function!r}")
        super().__init__(RedisSink(url, prefix, key, value, type(self).__name__))
