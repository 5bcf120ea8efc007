"""The HTTP server of a page: uvicorn, with limits on connections, and on the time that a client takes for a request."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from .app import LONGEST_HEAD

# Connections at a time; more are answered with 503.
CONNECTIONS = 320

# Seconds that a client may take for the head of a request.
HEAD_SECONDS = 5.0


class _TimedProtocol(H11Protocol):
    """Closes connections that are open for long without a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._look)


class PageServer(uvicorn.Server):
    """The server of an application on a socket that listens already."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_TimedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=LONGEST_HEAD,
            )
        )

    async def run_on(self, listening: socket.socket) -> None:
        """Serve until `should_exit` is set."""
        await self.serve(sockets=[listening])
