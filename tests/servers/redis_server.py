"""A real Redis server on the loopback interface, which lives as long as it is used."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from servers.postgresql import free_port

STARTUP_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0
PASSWORD = "drawn-from-the-well"


def why_there_is_no_redis() -> str | None:
    """What is missing; None if nothing is."""
    if importlib.util.find_spec("redis") is None:
        return "redis is not installed"
    if shutil.which("redis-server") is None:
        return "redis-server is not installed (on Debian: sudo apt-get install redis-server)"
    return None


class RedisServer:
    """A server that keeps nothing on disk."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """With the password that it asks for."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/0"

    def client(self) -> Any:
        """A connection to it."""
        import redis

        return redis.Redis.from_url(self.url, decode_responses=True)

    def start(self) -> None:
        """Start it on a free port; another, if somebody else was quicker."""
        for attempt in range(3):
            self.port = free_port()
            settings = {"port": str(self.port), "bind": "127.0.0.1", "save": "", "appendonly": "no"}
            settings |= {"requirepass": PASSWORD, "dir": str(self.directory)}
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    ["redis-server", *(part for n, v in settings.items() for part in (f"--{n}", v))],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            if self._is_ready():
                return
            self.stop()
            if "Address already in use" not in self.log.read_text(errors="replace") or attempt == 2:
                break
        raise RuntimeError(f"Redis did not start; its log:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Stop it, connected clients or not."""
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(SHUTDOWN_SECONDS)

    def _is_ready(self) -> bool:
        import redis

        assert self.process is not None
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(redis.ConnectionError), contextlib.closing(self.client()) as client:
                client.ping()
                return True
            time.sleep(0.02)
        return False


@contextlib.contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A server that lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="penstock-redis-") as directory:
        server = RedisServer(pathlib.Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()
