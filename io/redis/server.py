"""Connections to a Redis server, for its source and sinks.

>>> RedisServer("ReadFromRedisStream", "redis://user:secret@localhost:6379/0?username=ann&password=secret")
RedisServer('localhost:6379/0?username=ann&password=***')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import attrs

from ...sdk.claims import server_key
from ...sdk.redaction import HIDDEN, redacted
from ...sdk.user_code.error_text import text_or_class
from ..connections.server_connection import ServerConnection
from ..optional_package import optional_package

T = TypeVar("T")


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    return optional_package("redis", extra="redis", needed_for=needed_for)


@attrs.define(repr=False, eq=False)
class RedisServer(ServerConnection):
    """A server by its URL.  Its text shows the address only."""

    service = "Redis"

    transform: str
    url: str

    @staticmethod
    def of(transform: str, url: Any) -> RedisServer:
        """Return the server of a transform's argument.  Raises `ValueError`, without showing the password."""
        expected = f"{transform}: expected a URL such as 'redis://localhost:6379/0'"
        if not isinstance(url, str) or "://" not in url:
            raise ValueError(f"{expected}, got another text")
        try:
            package(transform).connection.parse_url(url)
        except ValueError as error:
            # The error may repeat a part of the password.
            raise ValueError(
                f"{expected}, got {redacted(url)!r}, which the client can't read ({type(error).__name__}); quote a "
                "password as urllib.parse.quote does"
            ) from None
        return RedisServer(transform, url)

    @property
    def shown(self) -> str:
        return redacted(self.url).partition("://")[2].removeprefix(f"{HIDDEN}@")

    @property
    def identity(self) -> tuple[Any, ...]:
        """The server and its database, equal for the same ones.

        >>> one, two = (RedisServer("Read", f"redis://{rest}") for rest in ("localhost", "ann:secret@127.0.0.1:6379/0"))
        >>> one.identity == two.identity
        True
        """
        found = package(self.transform).connection.parse_url(self.url)
        if "path" in found:
            return found["path"], int(found.get("db") or 0)
        return server_key(found.get("host") or "", found.get("port") or 6379), int(found.get("db") or 0)

    def connect(self) -> Any:
        """Return a client.  A lost connection is made again once, at once: the caller decides how long it waits."""
        redis = package(self.transform)
        return redis.Redis.from_url(
            self.url,
            decode_responses=False,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 1),
            socket_connect_timeout=_CONNECTS_WITHIN,
            socket_timeout=_ANSWERS_WITHIN,
        )

    def called(self, what: str, call: Callable[[Any], T]) -> T:
        """Return the result of a call with a connection of its own; see `reached`."""

        def once() -> T:
            with closing(self.connect()) as client:
                return call(client)

        return self.reached(what, once)

    def said(self, error: Any) -> str:
        return error if isinstance(error, str) else text_or_class(error)

    def is_own(self, error: Exception) -> bool:
        return isinstance(error, package(self.transform).RedisError)

    def may_answer(self, error: BaseException) -> bool:
        """Return True for an error of a server that is stopped, starts, or is a replica for a while.

        >>> import redis
        >>> server = RedisServer("Read", "redis://localhost")
        >>> server.may_answer(redis.ConnectionError("refused")), server.may_answer(redis.AuthenticationError("no"))
        (True, False)
        """
        errors = package(self.transform).exceptions
        refusals = (errors.AuthenticationError, errors.AuthorizationError)
        lost = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.MasterDownError)
        return isinstance(error, lost) and not isinstance(error, refusals)


# How long the server may take to accept a connection, and to answer a command, in seconds; the URL may say otherwise.
_CONNECTS_WITHIN, _ANSWERS_WITHIN = 5.0, 60.0


@contextmanager
def queueing(pipe: Any) -> Iterator[Callable[..., None]]:
    """Begin a transaction, which the end of the block executes: the block calls what it is given with each command.

    The server keeps the commands.  The client's own transactions keep them in memory until the end.

    Args:
      pipe: the client's pipeline, which watches a key.

    Raises the client's errors: `WatchError` if a key that is watched was changed, and that of a command that fails.
    """
    errors = optional_package("redis.exceptions", extra="redis", needed_for="Redis")
    connection = pipe.connection

    def call(*command: Any) -> Any:
        connection.send_command(*command)
        return connection.read_response()

    def queue(*command: Any) -> None:
        if (answer := call(*command)) not in (b"QUEUED", "QUEUED"):
            raise errors.ConnectionError(f"expected the server to queue a command, got {answer!r}")

    try:
        call("MULTI")
        yield queue
        answers = call("EXEC")
    except BaseException:
        # The server forgets what it has queued.
        connection.disconnect()
        raise
    if answers is None:
        raise errors.WatchError("a watched key was changed")
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
