"""A real Redis server on the loopback interface."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from typing import Any

from servers.loopback_server import LoopbackServer

PASSWORD = "drawn-from-the-well"


def why_there_is_no_redis() -> str | None:
    """Return the missing prerequisite, or None."""
    if importlib.util.find_spec("redis") is None:
        return "redis is not installed"
    if shutil.which("redis-server") is None:
        return "redis-server is not installed (on Debian: sudo apt-get install redis-server)"
    return None


class RedisServer(LoopbackServer):
    """A server that keeps nothing on disk."""

    name = "Redis"

    @property
    def url(self) -> str:
        """With the password that it asks for."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def client(self) -> Any:
        """A connection to it."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)

    def command(self) -> list[str]:
        settings = {"port": str(self.port), "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        settings |= {"requirepass": PASSWORD, "dir": str(self.directory)}
        return ["redis-server", *(part for name, value in settings.items() for part in (f"--{name}", value))]

    def answers(self) -> bool:
        import redis

        with contextlib.suppress(redis.ConnectionError), contextlib.closing(self.client()) as client:
            client.ping()
            return True
        return False
