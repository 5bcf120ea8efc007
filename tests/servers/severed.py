"""A connection to a server that can be severed: a proxy on the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class SeverableProxy:
    """Passes on what clients and a server say to each other, until it is severed.

    Attributes:
      port: where clients connect.
      ends: the directions of connections that neither side has closed yet.
    """

    def __init__(self, target: int, port: int) -> None:
        self.port = port
        self._target = target
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_mute = False
        self.ends = 0

    @classmethod
    @contextlib.contextmanager
    def running(cls, target: int, port: int) -> Iterator[SeverableProxy]:
        """One that lives as long as the block."""
        proxy = cls(target, port)
        proxy.join()
        try:
            yield proxy
        finally:
            proxy.sever()

    def mute(self) -> None:
        """Lose what the server says from now on, until connections are severed."""
        self._is_mute = True

    def join(self) -> None:
        """Accept connections."""
        self._is_mute = False
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def sever(self) -> None:
        """Close all connections, and accept no more."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Wakes the thread that accepts.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open |= {client, server}
                    self.ends += 2
                for source, target in ((client, server), (server, client)):
                    arguments = source, target, source is server
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not (is_answer and self._is_mute):
                    target.sendall(data)
        # The other side says itself when it has understood the end.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        source.close()
        with self._lock:
            self._open.discard(source)
            self.ends -= 1
