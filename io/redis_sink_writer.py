"""RedisSinkWriter: one worker's changes, staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..sdk.bundle import Bundle
from ..sdk.errors import SinkError
from ..sdk.redaction import redacted_cause
from ..sdk.sink import SinkWriter
from .redis_changes import encode_change
from .redis_server import package

if TYPE_CHECKING:
    from .redis_sink import RedisSink

# How many changes are staged at a time.
STAGE_CHANGES = 5_000

# Appends changes to a worker's list, if the transaction is open.
_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SADD', KEYS[1], KEYS[2])
for i, change in ipairs(ARGV) do redis.call('RPUSH', KEYS[2], change) end
return 1
"""


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
            self._pending.append(encode_change(self._sink.change(value, sign, place)))
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
                with self._sink.session("can't be cleaned up") as client:
                    client.delete(self._list)
        finally:
            self._close()

    def _flush(self) -> None:
        sink, now = self._sink, self._pending[:STAGE_CHANGES]
        try:
            if self._client is None:
                self._client = sink.client()
            is_open = self._client.eval(_APPEND, 2, self._open, self._list, *now)
        except package("WriteToRedis").RedisError as error:
            raise SinkError(
                f"{sink.transform}: Redis at {sink.server} can't be written to: {error}"
            ) from redacted_cause(error)
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
