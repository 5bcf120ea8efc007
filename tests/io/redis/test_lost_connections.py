"""A connection to Redis that is lost at any step: it is made again, and each entry counts once."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection
from servers.redis_server import RedisServer

from penstock.io import ReadFromRedisStream, WriteToRedisStream
from penstock.io.connections import waiting
from penstock.io.redis import changes
from penstock.io.redis import server as redis_connection
from penstock.io.redis import sink as redis_sink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import LabelledSink
from penstock.windowing import Timestamp

NOW = Timestamp(2_000_000_000)

# A number of steps that no test takes.
NEVER = 10**9

_names = (f"lost{n}" for n in itertools.count())


class Loss:
    """Loses the connection at the n-th command and at the next one, since the client repeats one by itself.

    Args:
      after: loses the answer, instead of the command.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
        self.steps = NEVER
        method = "read_response" if after else "send_packed_command"
        original: Callable[..., Any] = getattr(AbstractConnection, method)

        def around(*arguments: Any, **options: Any) -> Any:
            self.steps -= 1
            is_lost = self.steps in (0, -1)
            found = original(*arguments, **options) if after or not is_lost else None
            if is_lost:
                raise redis.ConnectionError("Connection closed by server.")
            return found

        monkeypatch.setattr(AbstractConnection, method, around)


@pytest.fixture(params=[False, True], ids=["before", "after"])
def loss(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Loss:
    """Without the delays of waiting."""
    monkeypatch.setattr(waiting, "FuzzedExponentialIntervals", lambda *_, **__: itertools.repeat(0.0))
    monkeypatch.setattr(waiting, "RETRIED_AFTER", 0.0)
    return Loss(monkeypatch, request.param)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of the server."""
    texts = ("doesn't answer", "answers again")
    return [text for line in caplog.messages for text in texts if text in line]


def test_each_entry_is_written_once(
    redis_server: RedisServer, loss: Loss, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Staged ones included; an aborted transaction leaves nothing."""
    monkeypatch.setattr(redis_sink, "STAGE_CHANGES", 2)
    # So a commit sends several commands.
    monkeypatch.setattr(changes, "_AT_ONCE", 2)
    caplog.set_level(logging.WARNING)
    client, stream = redis_server.client(), next(_names)
    sink = LabelledSink(WriteToRedisStream(redis_server.url, stream).sink, "WriteToRedisStream")
    sink.prepare("first")
    sink.commit("first", [])
    expected: list[str] = []
    times = 0
    for number in itertools.count(1):
        loss.steps = number
        for transaction in ("committed", "aborted"):
            name = f"{transaction} {number}"
            sink.prepare(name)
            writer = sink.sink.open_writer(sink.context(name, "unit"))
            writer.write(Bundle([{"n": n} for n in range(5)]))
            token = writer.stage()
            sink.commit(name, [token]) if transaction == "committed" else sink.abort(name)
        left, loss.steps = loss.steps, NEVER
        expected += map(str, range(5))
        assert expected == [fields["n"] for _, fields in client.xrange(stream)]
        assert [sink.sink.own(sink.label, "committed")] == list(client.scan_iter(f"{sink.sink.own(sink.label)}*"))
        if left > 0:
            break
        times += bool(said(caplog))
        assert said(caplog) in (["doesn't answer", "answers again"], [])
        caplog.clear()
    assert number > 30
    # Otherwise the two losses were those of two connections, each of which was made again.
    assert times > 20


def test_each_entry_is_read_once(redis_server: RedisServer, loss: Loss, caplog: pytest.LogCaptureFixture) -> None:
    """A poll without an answer has no entries, and the next one has them; trimming is caught up, too."""
    caplog.set_level(logging.WARNING)
    client, stream = redis_server.client(), next(_names)
    source = ReadFromRedisStream(redis_server.url, stream, group="shop", trim=True).source
    reader = source.open(stream, None)
    times = 0
    for number in itertools.count(1):
        for n in range(5):
            client.xadd(stream, {"n": n})
        loss.steps = number
        found: list[int] = []
        for _ in range(10):
            bundle = reader.poll(2, NOW)
            found += [int(entry.fields["n"]) for entry in (bundle.values if bundle is not None else [])]
            reader.acknowledge(reader.offset())
        left, loss.steps = loss.steps, NEVER
        assert reader.poll(2, NOW) is None
        assert list(range(5)) == found
        assert 0 == client.xlen(stream)
        if left > 0:
            break
        times += bool(said(caplog))
        assert said(caplog) in (["doesn't answer", "answers again"], [])
        caplog.clear()
    reader.close()
    assert number > 10
    assert times > 10


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (redis.ConnectionError("Error 111 connecting to localhost:6379. Connection refused."), True),
        (redis.TimeoutError("Timeout reading from socket"), True),
        (redis.BusyLoadingError("Redis is loading the dataset in memory"), True),
        (redis.ReadOnlyError("You can't write against a read only replica."), True),
        (redis.AuthenticationError("invalid username-password pair or user is disabled."), False),
        (redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"), False),
    ],
)
def test_errors_of_lost_connections_are_told_from_others(error: Exception, expected: bool) -> None:
    assert expected == redis_connection.RedisServer("Read", "redis://localhost").may_answer(error)
