"""Connections to NATS servers, their settings without secrets, and their errors in words.

>>> Connection("ReadFromNats", ("nats://ann:secret@localhost:4222",), {"password": "secret"}, None)
Connection('nats://***@localhost:4222')
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from ...sdk.claims import server_key
from ...sdk.errors import SinkError, SourceError
from ...sdk.redaction import looks_secret, redacted
from ...sdk.user_code.error_text import text_or_class
from ..connections.server_connection import ServerConnection, hidden
from ..connections.tls import Tls
from ..connections.waiting import Busy, is_stopping
from ..optional_package import optional_package

T = TypeVar("T")

# How long servers are looked for, in seconds, before a run starts.
REACHED_WITHIN = 60.0

# How long a connection, and an answer of JetStream, may take, in seconds.
_ANSWERS_WITHIN = 5.0

# The client's text for a server that closes the connection before it speaks, an error without a class of its own.
_NO_INFO = "nats: empty response from server when expecting INFO message"

# The credentials that a client takes.
CREDENTIALS = ("user", "password", "token", "user_credentials", "nkeys_seed")


class Lost(ConnectionError):
    """A server that may answer later."""


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    return optional_package("nats", extra="nats", needed_for=needed_for)


def js_errors(needed_for: str) -> Any:
    """Import and return the client's errors of JetStream."""
    return optional_package("nats.js.errors", extra="nats", needed_for=needed_for)


class Stopped(Lost):
    """The program was asked to stop, and waits for no answer any more."""

    def __init__(self) -> None:
        super().__init__("the program was asked to stop")


@attrs.define(repr=False, eq=False)
class Connection(ServerConnection):
    """How to connect.  Its text shows the servers only.

    Attributes:
      servers: URLs, such as 'nats://localhost:4222'.
      credentials: of `CREDENTIALS`.
      max_payload: the size of a message that the server accepts, in bytes; None before the first connection.
      answered: when it has done last what it was asked for, by `time.monotonic`.
    """

    service = "NATS"

    transform: str
    servers: tuple[str, ...]
    credentials: dict[str, str]
    tls: Tls | None
    max_payload: int | None = attrs.field(init=False, default=None)
    answered: float = attrs.field(init=False, default=0.0)

    @staticmethod
    def of(transform: str, servers: Any, tls: Any, **credentials: Any) -> Connection:
        """Return the connection for a transform's arguments.  Raises `ValueError` and `TypeError`, naming it."""
        package(transform)
        urls = (servers,) if isinstance(servers, str) else tuple(servers)
        if not urls or not all(isinstance(url, str) and "://" in url for url in urls):
            raise ValueError(f"{transform}: expected URLs such as 'nats://localhost:4222'")
        given = {name: value for name, value in credentials.items() if value is not None}
        for name, value in given.items():
            if not isinstance(value, str):
                raise TypeError(f"{transform}: {name} must be text, got {type(value).__name__}")
        if "password" in given and "user" not in given:
            raise ValueError(f"{transform}: a password needs a user")
        return Connection(transform, urls, given, Tls.of(tls, transform))

    @property
    def shown(self) -> str:
        """The servers, without secrets."""
        return redacted(", ".join(self.servers))

    @property
    def server_keys(self) -> frozenset[tuple[str, str]]:
        """The hosts and ports of the servers."""
        urls = [urlsplit(url.strip()) for url in self.servers]
        return frozenset(server_key(url.hostname or "", url.port or 4222) for url in urls)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        """Connect.  Raises `Lost` if no server answers; the client doesn't reconnect."""
        nats = package(self.transform)
        settings: dict[str, Any] = dict(self.credentials)
        if self.tls is not None:
            settings["tls"] = self.tls.context()
        client = nats.NATS()
        reasons: list[Exception] = []

        async def failed(error: Exception) -> None:
            reasons.append(error)

        with self.losing():
            try:
                await client.connect(
                    list(self.servers),
                    allow_reconnect=False,
                    # Each server is tried twice, instead of for minutes.
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0.1,
                    connect_timeout=_ANSWERS_WITHIN,
                    name=f"penstock {self.transform}"[:100],
                    error_cb=failed,
                    **settings,
                )
            except nats.errors.NoServersError as error:
                raise (reasons[-1] if reasons else error) from None
        self.max_payload = client.max_payload
        try:
            with self.losing():
                yield client
        finally:
            with suppress(Exception):
                await asyncio.wait_for(client.close(), _ANSWERS_WITHIN)

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Convert errors of lost connections into `Lost`."""
        errors = package(self.transform).errors
        lost = (
            errors.NoServersError,
            errors.ConnectionClosedError,
            errors.StaleConnectionError,
            errors.ConnectionReconnectingError,
            errors.ConnectionDrainingError,
            errors.FlushTimeoutError,
            # JetStream starts after the server.
            js_errors(self.transform).ServiceUnavailableError,
            OSError,  # a TimeoutError is one
        )
        try:
            yield
        except (Lost, Busy, SourceError, SinkError):
            raise
        except lost as error:
            if isinstance(error, ssl.SSLError):
                raise
            raise Lost(text_or_class(error)) from error
        except errors.Error as error:
            if str(error) == _NO_INFO:
                raise Lost(text_or_class(error)) from error
            raise

    def is_own(self, error: Exception) -> bool:
        return isinstance(error, (package(self.transform).errors.Error, OSError, ValueError))

    def cause(self, error: BaseException | None) -> None:
        """Return None: the client's errors are about its own event loop."""

    def said(self, error: BaseException) -> str:
        said = redacted(str(getattr(error, "description", None) or error) or type(error).__name__)
        return hidden(said, [value for name, value in self.credentials.items() if looks_secret(name)])

    def advice(self, error: BaseException) -> str:
        if is_refusal(error):
            return "; are the credentials (user and password, token, user_credentials or nkeys_seed) right?"
        if isinstance(error, Lost) and not isinstance(error, Stopped):
            return "; is a server with JetStream running there (nats-server -js)?"
        return ""


def is_refusal(error: BaseException) -> bool:
    """Return True for an error that waiting doesn't mend: wrong credentials, or missing rights."""
    said = f"{type(error).__name__} {text_or_class(error)}".lower()
    return any(word in said for word in ("authorization", "authentication", "permissions violation", "credentials"))


class EventLoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # `penstock ...` are threads beside which snapshots fork.
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock nats", daemon=True)
        # The tasks that were started here; others are the client's.
        self._started: set[asyncio.Task[Any]] = set()
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine."""

        async def run() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._started.add(task)
            try:
                return await coroutine
            finally:
                self._started.discard(task)

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def soon(self, callback: Callable[[], Any]) -> None:
        """Call a function in the thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Cancel what runs, and end the thread."""

        async def cancelled() -> None:
            # Those that were started here first: they close their connections, which ends the client's.  A client may
            # take a cancellation for a lost connection, so it is repeated.
            for _ in range(4):
                if tasks := list(self._started):
                    await _cancelled(tasks, 0.5)
            if others := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
                await _cancelled(others, 1.0)

        if self._thread.is_alive():
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(cancelled(), self._loop).result(5.0)
            self.soon(self._loop.stop)
            self._thread.join(5.0)
        if not self._loop.is_running():
            self._loop.close()


async def _cancelled(tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=seconds)


def _result(connection: Connection, future: Future[T]) -> T:
    """Return the result of a coroutine; raise `Lost` instead if the program is to stop, and no server answers."""
    began = time.monotonic()
    while True:
        try:
            return future.result(0.2)
        except FutureTimeoutError:
            if future.done():
                raise
            if is_stopping(max(began, connection.answered)):
                future.cancel()
                raise Stopped from None


def called(
    connection: Connection,
    what: str,
    call: Callable[[Any], Awaitable[T]],
    kind: type[SourceError] | type[SinkError] = SourceError,
    seconds: float = REACHED_WITHIN,
) -> T:
    """Connect, and return what `call` returns for JetStream's context; while no server answers, try again.

    Raises errors of `kind`.  A `SourceError` or `SinkError` of the call is raised as it is.
    """

    async def once() -> T:
        async with connection.opened() as client:
            return await call(client.jetstream(timeout=_ANSWERS_WITHIN))

    loop = EventLoopThread()
    try:
        with connection.explained(what, kind):
            return connection.patiently(lambda: _result(connection, loop.start(once())), seconds)
    finally:
        loop.close()


def overlapping(subjects: Sequence[str]) -> tuple[str, str] | None:
    """Return two subjects that a message may both have, or None.

    >>> overlapping(["orders.*", "payments.>"]), overlapping(["orders.*", "*.new"])
    (None, ('orders.*', '*.new'))
    """
    for number, one in enumerate(subjects):
        for other in subjects[number + 1 :]:
            if _overlap(one.split("."), other.split(".")):
                return one, other
    return None


def _overlap(one: list[str], other: list[str]) -> bool:
    for mine, its in zip(one, other):
        if ">" in (mine, its):
            return True
        if mine != its and "*" not in (mine, its):
            return False
    return len(one) == len(other)


def is_subject(subject: Any, wildcards: bool) -> bool:
    """Return True for a valid subject.

    >>> is_subject("orders.new", False), is_subject("orders.*", False), is_subject("orders..new", True)
    (True, False, False)
    """
    if not isinstance(subject, str) or not subject or any(c.isspace() for c in subject):
        return False
    tokens = subject.split(".")
    if not wildcards:
        return all(token and token not in "*>" for token in tokens)
    return all(tokens) and ">" not in tokens[:-1]
