"""A real NATS server with JetStream on the loopback interface."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import pathlib
import shutil
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from servers.loopback_server import LoopbackServer

T = TypeVar("T")

PASSWORD = "drawn-from-the-well"
USER = "ann"


def _program() -> str | None:
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


def why_there_is_no_nats() -> str | None:
    """Return the missing prerequisite, or None."""
    if importlib.util.find_spec("nats") is None:
        return "nats-py is not installed"
    if _program() is None:
        return "nats-server is not installed (on Debian: sudo apt-get install nats-server)"
    return None


class NatsServer(LoopbackServer):
    """A server that stores its streams in files; it wants a user and a password.

    Args:
      certificate, key: files for encrypted connections.
    """

    name = "NATS"

    def __init__(
        self, directory: pathlib.Path, certificate: pathlib.Path | None = None, key: pathlib.Path | None = None
    ) -> None:
        super().__init__(directory)
        self._tls = None if certificate is None else (certificate, key)

    @property
    def url(self) -> str:
        """With a user and a password."""
        return self.url_of_ann()

    def url_of_ann(self, password: str = PASSWORD) -> str:
        return f"nats://{USER}:{password}@127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        program = _program()
        assert program is not None
        store = str(self.directory / "streams")
        return [
            *(program, "--addr", "127.0.0.1", "--port", str(self.port), "--jetstream", "--store_dir", store),
            *("--user", USER, "--pass", PASSWORD),
            *(() if self._tls is None else ("--tls", "--tlscert", str(self._tls[0]), "--tlskey", str(self._tls[1]))),
        ]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return b"INFO" in connection.recv(1024)
        except OSError:
            return False

    def call(self, function: Callable[[Any], Awaitable[T]]) -> T:
        """Return what a function returns for JetStream's context."""

        async def called() -> T:
            import nats

            tls = {} if self._tls is None else {"tls": ssl.create_default_context(cafile=str(self._tls[0]))}
            client = await nats.connect(self.url, allow_reconnect=False, **tls)
            try:
                return await function(client.jetstream(timeout=30))
            finally:
                await client.close()

        return asyncio.run(called())

    def make_stream(self, name: str, subjects: Iterable[str], **settings: Any) -> None:
        """Make a stream."""
        self.call(lambda js: js.add_stream(name=name, subjects=list(subjects), **settings))

    def publish(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Publish messages to their subjects, and wait until their streams have them."""

        async def published(js: Any) -> None:
            await asyncio.gather(*[await js.publish_async(subject, data) for subject, data in messages])

        self.call(published)

    def messages(self, stream: str, first: int = 1) -> list[tuple[int, str, bytes]]:
        """Return the messages of a stream from a sequence on: their sequences, subjects and data."""

        async def message(js: Any, sequence: int) -> Any:
            from nats.js.errors import NotFoundError

            try:
                return await js.get_msg(stream, sequence)
            except NotFoundError:
                return None

        async def read(js: Any) -> list[tuple[int, str, bytes]]:
            info = await js.stream_info(stream)
            sequences = range(max(info.state.first_seq, first), info.state.last_seq + 1)
            found: list[Any] = []
            for start in range(0, len(sequences), 200):
                found += await asyncio.gather(*(message(js, each) for each in sequences[start : start + 200]))
            return [(each.seq, each.subject, each.data) for each in found if each is not None]

        return self.call(read)


class Stream:
    """A stream of a test's own, with the subjects `NAME.*`."""

    _numbers = itertools.count()

    def __init__(self, server: NatsServer, **settings: Any) -> None:
        self.server = server
        self.name = f"s{next(self._numbers)}"
        server.make_stream(self.name, [f"{self.name}.*"], **settings)

    @property
    def url(self) -> str:
        return self.server.url

    def write(self, numbers: Iterable[int], subject: str = "n") -> None:
        """Publish numbers."""
        self.server.publish((f"{self.name}.{subject}", b"%d" % n) for n in numbers)

    def values(self) -> list[int]:
        """Return the numbers that the stream has."""
        return [int(data) for _, _, data in self.server.messages(self.name)]

    def count(self) -> int:
        """Return the number of messages that the stream has."""
        return int(self.server.call(lambda js: js.stream_info(self.name)).state.messages)
