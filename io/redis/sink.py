"""WriteToRedis: a key of Redis for each key, corrected by retractions.

The two phases:

1. Each worker (`RedisSinkWriter`) appends its signed changes to a list of its own, which belongs to this transaction.
2. A commit is *one* transaction of Redis (MULTI): it applies the net effect of the changes, notes the transaction's
   name and removes the lists. A commit that finds the name noted has nothing to do.

A reader sees all changes of a commit, or none. All of the sink's own keys begin with `penstock:`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, TypeVar, overload

from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SinkError
from ...sdk.sink import SinkContext, SinkSpec, SinkWriter
from ...sdk.transaction_series import pattern_of
from ...sdk.type_variables import A
from ..records import as_dict, is_record
from ..sinks.dead_letters import Rejected, raise_for, tell
from ..sinks.opened_sink import OpenedSink
from ..sinks.write_into import WriteInto
from .changes import Change, Effect, Stored, commands, decode_change, encode_change, net_effects
from .server import RedisServer, package, queueing

T = TypeVar("T")

# Number of committed transactions whose names are kept, besides the last of each series.
_REMEMBERED = 1_000

# Number of changes that are staged at a time.
STAGE_CHANGES = 5_000

# Appends changes to the first so many of a worker's list, if the transaction is open.  Those behind them are of a call
# whose answer was lost.
_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], KEYS[2])
local staged = tonumber(ARGV[1])
if staged == 0 then redis.call('DEL', KEYS[2]) else redis.call('LTRIM', KEYS[2], 0, staged - 1) end
for i = 2, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
return 1
"""


class RedisSink(OpenedSink[RedisServer]):
    """Keys of Redis; see `WriteToRedis`."""

    spec = SinkSpec(accepts_retractions=True, has_dead_letters=True)

    def __init__(
        self, server: RedisServer, prefix: str, key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None
    ) -> None:
        super().__init__()
        self.server = server
        self.prefix = prefix
        self.key = key
        self.value = value

    def open_for(self, label: str) -> RedisServer:
        return self.server.labelled(label)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"server": self.server.shown, "prefix": self.prefix}

    def target(self) -> str:
        return f"{self.prefix!r} at {self.server.shown}"

    def own(self, label: str, *parts: str) -> str:
        """Return a key of the bookkeeping of the transform with this label."""
        digest = hashlib.blake2s(f"{self.prefix}\0{label}".encode(), digest_size=8).hexdigest()
        return ":".join(("penstock", digest, *parts))

    def failed(self, verb: str) -> str:
        """Return what failed, such as "keys 'count:*' can't be committed"."""
        return f"keys {self.prefix + '*'!r} can't be {verb}"

    # Two phases

    def prepare(self, context: SinkContext) -> None:
        server = self.opened(context)

        def prepared(client: Any) -> None:
            self.check(client, server)
            client.sadd(self.own(context.label, "open", context.transaction), "")

        server.called(self.failed("written"), prepared)

    def check(self, client: Any, server: RedisServer) -> None:
        """Raise `SinkError` if the existing data can't be written to."""

    def open_writer(self, context: SinkContext) -> RedisSinkWriter:
        return RedisSinkWriter(self, context)

    def precommit(self, staged: Mapping[SinkContext, Sequence[tuple[str, int]]]) -> None:
        """Check the net effects of the staged changes."""

        def checked(client: Any) -> None:
            for context, tokens in staged.items():
                if any(count for _, count in tokens) and not self._is_committed(client, context):
                    rejected: list[Rejected] = []
                    with suppress(package(context.label).WatchError):
                        for _ in self._effects(client, context, tokens, rejected):
                            pass
                    if not context.dead_letters:
                        raise_for(rejected)

        self.opened(next(iter(staged))).called(self.failed("committed"), checked)

    def commit(self, context: SinkContext, staged: Sequence[tuple[str, int]]) -> None:
        own, transaction = partial(self.own, context.label), context.transaction
        noted, last, is_open = own("committed"), own("last", "committed"), own("open", transaction)
        series = pattern_of(transaction)
        # Told once, also if the answer of the commit is lost.
        rejected: list[Rejected] = []

        def committed(client: Any) -> None:
            while True:
                if self._is_committed(client, context):
                    return
                # It fails if another client commits meanwhile, and if the connection is lost.
                with suppress(package("WriteToRedis").WatchError), client.pipeline(transaction=True) as pipe:
                    rejected.clear()
                    # Before the connection is used, which a server may close while nothing is sent.
                    effects = self._effects(client, context, staged, rejected)
                    pipe.watch(noted, last)
                    if self._is_committed(pipe, context):
                        return
                    lists = pipe.smembers(is_open)
                    newest = pipe.zrevrange(noted, 0, 0, withscores=True)
                    with queueing(pipe) as queue:
                        for command in commands(effects):
                            queue(*command)
                        if not context.dead_letters:
                            raise_for(rejected)
                        for each in rejected:
                            queue("RPUSH", own("dead_letters"), each.as_json())
                        if series is None:
                            # Removes the oldest names, independent of the wall clock.
                            queue("ZADD", noted, newest[0][1] + 1 if newest else time.time(), transaction)
                            queue("ZREMRANGEBYRANK", noted, 0, -_REMEMBERED - 1)
                        else:
                            queue("HSET", last, series, transaction)
                        queue("DEL", is_open, *filter(None, lists))
                    return

        self.opened(context).called(self.failed("committed"), committed)
        tell(rejected, context.label, f"list {own('dead_letters')!r}")

    def _is_committed(self, client: Any, context: SinkContext) -> bool:
        transaction = context.transaction
        if client.zscore(self.own(context.label, "committed"), transaction) is not None:
            return True
        series = pattern_of(transaction)
        last = self.own(context.label, "last", "committed")
        return series is not None and (client.hget(last, series) or b"") >= transaction.encode()

    def abort(self, context: SinkContext) -> None:
        is_open = self.own(context.label, "open", context.transaction)
        lists: set[bytes] = set()

        def aborted(client: Any) -> None:
            # Before they are forgotten: the answer of the transaction may be lost.
            lists.update(client.smembers(is_open))
            # No worker stages any more after it.
            with client.pipeline(transaction=True) as pipe:
                pipe.smembers(is_open)
                pipe.delete(is_open)
                lists.update(pipe.execute()[0])
            if any(lists):
                client.delete(*filter(None, lists))

        self.opened(context).called(self.failed("cleaned up"), aborted)

    def _effects(
        self, client: Any, context: SinkContext, staged: Sequence[tuple[str, int]], rejected: list[Rejected]
    ) -> Iterator[Effect]:
        """Yield the effects of staged changes, and add those that are rejected to a list."""
        # A failing command doesn't stop the others of a transaction in Redis, so this is checked before.
        self.check(client, self.opened(context))
        return self.net(self._changes(client, context, staged), rejected)

    def _changes(self, client: Any, context: SinkContext, staged: Sequence[tuple[str, int]]) -> Iterator[Change]:
        """Yield staged changes.  Raises `WatchError` if another process has committed them."""
        for name, count in staged:
            found = client.llen(name)
            for start in range(0, count if found == count else 0, STAGE_CHANGES):
                portion = client.lrange(name, start, start + STAGE_CHANGES - 1)
                yield from map(decode_change, portion)
                found -= max(0, min(STAGE_CHANGES, count - start) - len(portion))
            if found == count:
                continue
            if self._is_committed(client, context):
                raise package(context.label).WatchError("another process has committed the transaction")
            raise SinkError(
                f"{context.label}: {self.server.server}: {count - found} of {count} staged changes of "
                f"transaction {context.transaction!r} are gone. Another client removed them before the commit; "
                "run the pipeline again"
            )

    def net(self, changes: Iterable[Change], rejected: list[Rejected]) -> Iterator[Effect]:
        """Yield the net effects of changes, and add the rejected elements to a list."""
        return net_effects(changes, rejected)

    # Elements

    def change(self, label: str, element: Any, sign: int, version: tuple[int, int, int]) -> Change:
        """Return the change to stage for an element.  Raises `SinkError`, with the label of the transform."""
        if self.key is not None:
            key, value = self.key(element), element
        elif isinstance(element, tuple) and len(element) == 2:
            key, value = element
        else:
            raise SinkError(
                f"{label}: expected (key, value) pairs, got {shortened(element, 100)}; give the "
                "key of an element by key=..."
            )
        if self.value is not None:
            value = self.value(value)
        name = self.prefix.encode() + self._text(label, key, "key")
        if is_record(value):
            fields = {str(n): v for n, v in as_dict(value).items() if v is not None}
            stored: Stored = {n.encode(): self._text(label, v, f"field {n!r} of {name!r}") for n, v in fields.items()}
            if not stored:
                raise SinkError(f"{label}: {name!r} has no field that isn't None; Redis keeps no empty hash")
        else:
            stored = self._text(label, value, f"value of {name!r}")
        return Change(name, stored, sign, version)

    def _text(self, label: str, value: Any, what: str) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return str(value).encode()
        raise SinkError(
            f"{label}: the {what} is a {type(value).__name__}, {shortened(value, 100)}; expected text, bytes "
            "or a number" + (", or a record for a hash" if what.startswith("value") else "")
        )


class WriteToRedis(WriteInto[A]):
    """A key of Redis for each key: text, or a hash where the value is a record.

    Takes a `PCollection[tuple[K, V]]`, or of what `key` takes.

    An element sets its key.  Of several values, the value of the latest window, pane and timestamp is stored.  A
    retraction deletes its key if the key still holds the retracted value.  A commit changes all keys in one transaction
    of the server.  Needs one server (no cluster), Redis 6 or later, and the extra `redis`.  The server's setting
    `appendfsync` decides which commits survive its crash.

    Args:
      url: such as 'redis://user:password@host:6379/0'.
      prefix: the prefix of the keys.
      key: a function from an element to its key, which is text, bytes or a number.  Without it, elements are (key,
        value) pairs.
      value: a function from a value (or from the element, if `key` is given) to the stored value: text, bytes, a
        number, or a record such as a dict or a Row, whose fields are text, bytes or numbers.  Fields that are None are
        left out.

    Raises `MissingExtraError` while the pipeline is built if the package isn't installed, and `SinkError` before the
    run starts if the server can't be written to.

    >>> import penstock as beam
    >>> beam.io.WriteToRedis("redis://:secret@localhost:6379/0", "count:").display_data()
    {'server': 'localhost:6379/0', 'prefix': 'count:'}
    """

    @overload
    def __init__(
        self: WriteToRedis[tuple[Any, Any]],
        url: str,
        prefix: str = "",
        *,
        key: None = None,
        value: Callable[[Any], Any] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        url: str,
        prefix: str = "",
        *,
        key: Callable[[A], Any],
        value: Callable[[Any], Any] | None = None,
    ) -> None: ...
    def __init__(
        self,
        url: str,
        prefix: str = "",
        *,
        key: Callable[[Any], Any] | None = None,
        value: Callable[[Any], Any] | None = None,
    ) -> None:
        server = RedisServer.of("WriteToRedis", url)
        for name, function in (("key", key), ("value", value)):
            if function is not None and not callable(function):
                raise TypeError(f"WriteToRedis: {name} must be a function, got {function!r}")
        super().__init__(RedisSink(server, prefix, key, value))


class RedisSinkWriter(SinkWriter[Any]):
    """Writer that stages one worker's changes in a list."""

    def __init__(self, sink: RedisSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._server = sink.opened(context)
        self._open = sink.own(context.label, "open", context.transaction)
        self._list = sink.own(context.label, "staged", context.transaction, context.unit)
        self._pending: list[bytes] = []
        self._staged = 0
        self._client: Any = None

    def write(self, bundle: Bundle) -> None:
        for value, timestamp, windows, pane, sign in bundle.rows():
            version = (max(window.max_micros for window in windows), pane.index, timestamp)
            self._pending.append(encode_change(self._sink.change(self._context.label, value, sign, version)))
        while len(self._pending) >= STAGE_CHANGES:
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
                server = self._server
                with server.explained(self._sink.failed("cleaned up"), SinkError), closing(server.connect()) as client:
                    client.delete(self._list)
        finally:
            self._close()

    def _flush(self) -> None:
        server, now = self._server, self._pending[:STAGE_CHANGES]
        if self._client is None:
            self._client = server.connect()
        client = self._client
        with server.explained(self._sink.failed("written"), SinkError):
            is_open = server.patiently(lambda: client.eval(_APPEND, 2, self._open, self._list, self._staged, *now))
        if not is_open:
            raise SinkError(
                f"{server.transform}: transaction {self._context.transaction!r} isn't prepared in {server.server}; "
                "it was committed or aborted already"
            )
        del self._pending[: len(now)]
        self._staged += len(now)

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
