"""A server program on a free port of the loopback interface, started and stopped."""

from __future__ import annotations

import contextlib
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

SHUTDOWN_SECONDS = 30.0


def free_port() -> int:
    """Return a port of the loopback interface that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def lasting_port() -> int:
    """Return a port that stays free for who listens there again and again: systems give none below 32768 away."""
    for port in random.sample(range(15_000, 30_000), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port from 15000 to 29999 is free")


class LoopbackServer(ABC):
    """A server in a directory of its own, in a process group of its own."""

    name: ClassVar[str]
    startup_seconds: ClassVar[float] = 60.0
    # What asks it to stop although clients are connected, and what makes it.
    stop_signal = signal.SIGTERM
    kill_signal = signal.SIGKILL

    def __init__(self, directory: pathlib.Path, **process: Any) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self._process = process

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments, to listen at `port`."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server accepts connections yet."""

    @classmethod
    @contextlib.contextmanager
    def running(cls) -> Iterator[Self]:
        """One that lives as long as the block.

        Its directory is not one of pytest's, which other users can't enter.
        """
        with tempfile.TemporaryDirectory(prefix=f"penstock-{cls.name.lower()}-") as directory:
            server = cls(pathlib.Path(directory))
            try:
                server.start()
                yield server
            finally:
                server.stop()

    def start(self, port: int | None = None) -> None:
        """Start it on a port, or on a free one; retry on another if a different process took that first."""
        for attempt in range(3):
            self.port = port or free_port()
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    self.command(),
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **self._process,
                )
            if self._is_ready():
                return
            self.stop()
            if "Address already in use" not in self.log.read_text(errors="replace") or attempt == 2:
                break
        raise RuntimeError(f"{self.name} did not start; its log:\n{self.log.read_text(errors='replace')}")

    def kill(self) -> None:
        """Kill it, as a lost machine would."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(self.kill_signal)
            process.wait(SHUTDOWN_SECONDS)

    def stop(self) -> None:
        """Stop it, connected clients or not."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(self.stop_signal)
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(self.kill_signal)
            process.wait(SHUTDOWN_SECONDS)

    def _is_ready(self) -> bool:
        assert self.process is not None
        deadline = time.monotonic() + self.startup_seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.answers():
                return True
            time.sleep(0.02)
        return False
