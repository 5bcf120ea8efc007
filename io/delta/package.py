"""The client of Delta Lake, its tables, and its errors in words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...sdk.errors import PenstockError, SinkError, SourceError, UnsupportedError
from ...sdk.redaction import redacted, redacted_cause, without_environment
from ..connections.lost_connections import is_lost
from ..files.filesystem import AnyPath, absolute_path, path_string
from ..optional_package import optional_package

# The process in which the client was used first.  In its forked children the client doesn't work.
_users: list[int] = []


def package(needed_for: str, module: str = "deltalake") -> Any:
    """Import and return a module of the client's package.  Raises `MissingExtraError`."""
    if not _users:
        _users.append(os.getpid())
    if _users[0] != os.getpid():
        raise UnsupportedError(
            f"{needed_for}: this process was forked from one that has used Delta's client, which doesn't work in it; "
            'start it by multiprocessing\'s "spawn" or "forkserver", or use the client in one of them only'
        )
    return optional_package(module, extra="delta", needed_for=needed_for)


def uri_of(table: AnyPath, transform: str) -> str:
    """Return the address of a table, without a slash at its end.  Raises `ValueError` for one with credentials."""
    given = path_string(table)
    if not given:
        raise ValueError(f"{transform}: expected the path or URL of a table, got an empty one")
    if redacted(given) != given:
        raise ValueError(
            f"{transform}: {redacted(given)!r} has credentials in it; give them by environment variables, such as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    path = absolute_path(given.removeprefix("file://") if given.startswith("file://") else given)
    return path.rstrip("/") or "/"


# How often the client repeats a request.  With its default it would try for minutes, without a word, before the caller
# hears that the store is lost, and waits for it.
_RETRIES = {"max_retries": "4", "retry_timeout": "30s"}


def storage_options(uri: str) -> dict[str, str] | None:
    """Return the client's settings of a store, with those that the environment has in another form than it reads."""
    if not uri.startswith(("s3://", "s3a://")):
        return None
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return _RETRIES
    allow_http = {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http:") else {}
    return _RETRIES | {"AWS_ENDPOINT_URL": endpoint} | allow_http


def opened(uri: str, transform: str, version: Any = None) -> Any:
    """Return a version of a table, by number or time; None for the last one.  Raises the client's errors."""
    if isinstance(version, int):
        return package(transform).DeltaTable(uri, version=version, storage_options=storage_options(uri))
    table = package(transform).DeltaTable(uri, storage_options=storage_options(uri))
    if version is not None:
        table.load_as_version(version)
    return table


def arrow_schema(table: Any) -> Any:
    """Return the `pyarrow.Schema` of a table of the client."""
    return arrow_of(table.schema())


def arrow_of(schema: Any) -> Any:
    """Return the `pyarrow.Schema` of a schema of the client."""
    import pyarrow

    return pyarrow.schema(schema.to_arrow())


# Apart from other letters and digits, which names of files have.
_SAYS_DENIED = re.compile(r"\b(40[13]|Forbidden|AccessDenied|InvalidAccessKeyId|credentials?)\b")


@contextmanager
def explained(
    uri: str, transform: str, what: str, kind: type[SourceError] | type[SinkError] = SourceError
) -> Iterator[None]:
    """Convert the client's errors, except of lost connections, into `SourceError`s or `SinkError`s.

    Args:
      what: such as "can't be read".
    """
    delta = package(transform, "deltalake.exceptions")
    try:
        yield
    except PenstockError:
        raise
    except delta.TableNotFoundError:
        raise kind(f"{transform}: there is no Delta table at {uri!r}") from None
    except (delta.DeltaError, OSError, ValueError) as error:
        if is_lost(error):
            raise
        said = without_environment(str(error))
        advice = ""
        if _SAYS_DENIED.search(said):
            advice = "; are the credentials in the environment right?"
        elif "No such file or directory" in said and kind is SourceError:
            advice = "; was the file removed by vacuum?"
        raise kind(f"{transform}: Delta table {uri!r} {what}: {said}{advice}") from redacted_cause(error)
