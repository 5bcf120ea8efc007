"""An HTTP endpoint of a running job, which serves one WSGI application on a thread of its own."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from ....sdk.errors import OptionsError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_REUSE = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

# The timeout of a request in seconds; requests are served one after the other.
_REQUEST_TIMEOUT = 2.0


class HttpPort:
    """The endpoint, until it is closed.

    Args:
      application: answers the requests, which it gets one after the other.
      option: the name of the option with the port, for errors.
      port: 0 for a free one.
      host: the address to listen at.

    Attributes:
      address: the host and port that it listens at, as text.

    Raises `OptionsError` if the port is not available.
    """

    def __init__(self, application: WSGIApplication, option: str, port: int, host: str = "127.0.0.1") -> None:
        try:
            self._server = make_server(host, port, application, _Server, _Handler)
        except (OSError, OverflowError) as error:
            raise OptionsError(f"option --{option}: {host}:{port} can't be listened at: {error}") from error
        self.address = f"{host}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name=f"penstock {option}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the endpoint."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(WSGIServer):
    def server_bind(self) -> None:
        # HTTPServer would look up the host's full name, which may take long.
        self.socket.setsockopt(*_REUSE)
        self.socket.bind(self.server_address)
        host, port = self.server_address = self.socket.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a client sends a request every few seconds."""
