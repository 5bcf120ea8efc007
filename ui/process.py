"""The process that serves the page of a running job, which starts it, and feeds it through a socket.

The process ends when the socket does, so it never outlives the job for long.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

import msgspec

from ..sdk.errors import UnsupportedError
from .app import PageApp
from .run_model import RunModel
from .serving import PageServer

# The longest line of the feed in bytes: the status of thousands of subtasks.
_LONGEST = 1 << 28

# Seconds that a request may take, and those for which the server waits for its clients at the end.
_ANSWER, _LAST = 120.0, 0.5


class JobBackend:
    """The job at the other end of the socket."""

    def __init__(self, writer: asyncio.StreamWriter, model: RunModel, requests: tuple[str, ...]) -> None:
        self.requests = requests
        self._writer = writer
        self._model = model
        self._numbers = itertools.count(1)

    def _send(self, **message: Any) -> None:
        with suppress(OSError):
            self._writer.write(msgspec.json.encode(message) + b"\n")

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Say whether the page is open, and what it draws."""
        self._send(kind="observe", is_open=is_open, step=step, key=key)

    def profile(self, seconds: float) -> int:
        """Begin a profile, and return its number."""
        if why := self._model.limits.get("profiles"):
            raise UnsupportedError(why)
        number = next(self._numbers)
        self._send(kind="profile", number=number, seconds=seconds)
        return number

    async def request(self, kind: str) -> dict[str, Any]:
        """Execute a request, and return the job's answer."""
        number = next(self._numbers)
        self._send(kind="request", request=kind, number=number)
        until = asyncio.get_running_loop().time() + _ANSWER
        while number not in self._model.answers:
            if asyncio.get_running_loop().time() > until:
                text = f"the job has received the request ({kind}), but not answered within {_ANSWER:g} s"
                return {"is_done": False, "text": text, "epoch": None}
            await asyncio.sleep(0.05)
        return self._model.answers.pop(number)


async def _serve(listening: socket.socket, feed: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=feed, limit=_LONGEST)
    hello = msgspec.json.decode(await reader.readline())
    model = RunModel(is_live=True)
    page = PageApp(model, JobBackend(writer, model, tuple(hello["requests"])), hello["token"], (hello["host"],))
    server = PageServer(page.app)
    serving = asyncio.ensure_future(server.run_on(listening))
    looking = asyncio.ensure_future(_look(page))
    with suppress(ConnectionError):
        while line := await reader.readline():
            model.apply(msgspec.json.decode(line))
            page.changed()
    model.lost()
    await page.close()
    await asyncio.sleep(_LAST)
    looking.cancel()
    server.should_exit = True
    await serving


async def _look(page: PageApp) -> None:
    while True:
        page.look()
        await asyncio.sleep(1.0)


def serve_job() -> None:
    """Serve the page of the job that has started this process, on the descriptors of its arguments."""
    listening, feed = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(listening, feed))
