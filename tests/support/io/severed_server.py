"""A server behind a proxy, for conformance suites: the proxy loses its connections."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from servers.loopback_server import lasting_port
from servers.severed import SeverableProxy


class BehindAProxy:
    """Part of the tests of a connector whose server is reached through a proxy of the test's own."""

    server: Any
    proxy: SeverableProxy

    @contextlib.contextmanager
    def behind_a_proxy(self, server: Any, port: int | None = None) -> Iterator[None]:
        """Connect to a server through a proxy.

        Args:
          port: the proxy's; None for any.
        """
        self.server = server
        with SeverableProxy.running(server.port, port or lasting_port()) as self.proxy:
            yield

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return str(self.server.url.replace(f"127.0.0.1:{self.server.port}", f"127.0.0.1:{self.proxy.port}"))

    def sever(self) -> None:
        self.proxy.sever()

    def restore(self) -> None:
        self.proxy.join()
