"""The server that other tests rely on answers, asks for its password, and leaves nothing behind."""

from __future__ import annotations

import os

import pytest
from servers.redis_server import RedisServer, why_there_is_no_redis


def test_the_server_runs_as_long_as_the_block_and_asks_for_its_password() -> None:
    """On a port of its own, with its files in a directory that is gone afterwards."""
    if reason := why_there_is_no_redis():
        pytest.skip(reason)
    import redis

    with RedisServer.running() as server:
        assert server.client().ping()
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port).ping()
        process = server.process
        assert process is not None
    assert process.poll() is not None
    assert not os.path.exists(server.directory)
    with pytest.raises(redis.ConnectionError):
        server.client().ping()
