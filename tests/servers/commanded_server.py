"""A server in a process of its own that follows the commands of its input: base class of fake object stores."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from servers.loopback_server import free_port


class CommandedServer:
    """The server, from a test.  Each command is a line; the process answers with lines, and then with "done".

    Args:
      module: the name of the program, whose first argument is the port.
      arguments: others.
      python: the interpreter that runs it.
      environment: environment variables besides those of this process.

    Attributes:
      port, url: where it listens.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [python, "-m", module, str(self.port), *arguments],
            cwd=pathlib.Path(__file__).parents[1],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def command(self, line: str) -> list[str]:
        """Send a command, and wait until it is done; the lines that it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        printed = []
        while (answer := self._process.stdout.readline().strip()) != "done":
            assert answer or self._process.poll() is None, "the server has ended"
            printed.append(answer)
        return printed

    @contextmanager
    def faults(self, **shares: float | str) -> Iterator[None]:
        """Fail these shares of the requests within a block; one in which none fails is an error."""
        before = self.command("failed")
        self.command(json.dumps(shares))
        try:
            yield
        finally:
            self.command("{}")
        assert not shares or before != self.command("failed")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Refuse connections within a block."""
        self.command("stop")
        try:
            yield
        finally:
            self.command("start")

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Answer nobody within a block; connections stay open."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait(60)
