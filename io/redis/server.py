"""Connections to a Redis server, for its source and sinks.

>>> address_of("redis://user:secret@localhost:6379/0")
'localhost:6379/0'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...sdk.claims import server_key
from ...sdk.redaction import HIDDEN, redacted
from ..optional_package import optional_package


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    return optional_package("redis", extra="redis", needed_for=needed_for)


def check_url(url: Any, transform: str) -> None:
    """Raise `ValueError` for an invalid URL, without showing its password."""
    if not isinstance(url, str) or "://" not in url:
        raise ValueError(f"{transform}: expected a URL such as 'redis://localhost:6379/0', got another text")
    try:
        package(transform).connection.parse_url(url)
    except ValueError as error:
        # The error may repeat a part of the password.
        raise ValueError(
            f"{transform}: expected a URL such as 'redis://localhost:6379/0', got {redacted(url)!r}, which the client "
            f"can't read ({type(error).__name__}); quote a password as urllib.parse.quote does"
        ) from None


def address_of(url: str) -> str:
    """Return the server's address without secrets.

    >>> address_of("redis://localhost:6379/0?username=ann&password=secret")
    'localhost:6379/0?username=ann&password=***'
    """
    return redacted(url).partition("://")[2].removeprefix(f"{HIDDEN}@")


def identity_of(url: str) -> tuple[Any, ...]:
    """Return the server and its database, equal for the same ones.

    >>> identity_of("redis://localhost") == identity_of("redis://ann:secret@127.0.0.1:6379/0?socket_timeout=5")
    True
    """
    found = package("Redis").connection.parse_url(url)
    if "path" in found:
        return found["path"], int(found.get("db") or 0)
    return server_key(found.get("host") or "", found.get("port") or 6379), int(found.get("db") or 0)


# How long the server may take to accept a connection, and to answer a command, in seconds; the URL may say otherwise.
_CONNECTS_WITHIN, _ANSWERS_WITHIN = 5.0, 60.0


def connected(url: str, needed_for: str) -> Any:
    """Return a client.  A lost connection is made again once, at once: the caller decides how long it waits."""
    redis = package(needed_for)
    return redis.Redis.from_url(
        url,
        decode_responses=False,
        retry=redis.retry.Retry(redis.backoff.NoBackoff(), 1),
        socket_connect_timeout=_CONNECTS_WITHIN,
        socket_timeout=_ANSWERS_WITHIN,
    )


def is_lost_connection(error: BaseException) -> bool:
    """Return True for an error of a server that may answer later: it is stopped, starts, or is a replica for a while.

    >>> import redis
    >>> is_lost_connection(redis.ConnectionError("refused")), is_lost_connection(redis.AuthenticationError("no"))
    (True, False)
    """
    errors = optional_package("redis.exceptions", extra="redis", needed_for="Redis")
    refusals = (errors.AuthenticationError, errors.AuthorizationError)
    lost = (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, errors.MasterDownError)
    return isinstance(error, lost) and not isinstance(error, refusals)


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
