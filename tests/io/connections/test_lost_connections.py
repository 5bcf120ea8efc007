"""Errors of stores that may answer later: by their classes and codes, and not by words, which names have, too."""

from __future__ import annotations

import errno
import socket
import sqlite3
from typing import Any

import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from penstock.io.connections.lost_connections import is_lost, is_lost_connection
from penstock.sdk.errors import SinkError

# What Delta's client says of a request without an answer, and of one with another status than 2xx.
REQUEST = (
    "Kernel error -> Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing PUT http://store/b/503/timeout in 7.671204ms"
)
NO_ANSWER = f"{REQUEST} - HTTP error\n \x1b[31m↳\x1b[0m error sending request\n"
OLDER = (
    "Generic S3 error: Error performing GET http://store/b in 1.2s, after 2 retries, max_retries: 2, retry_timeout: 1s"
)
RETRIED = (
    "Generic S3 error\n \x1b[31m↳\x1b[0m Error performing list request\n \x1b[31m↳\x1b[0m Error performing GET "
    "http://store/b?list-type=2 in 802.551816ms, after 4 retries, max_retries\n \x1b[31m↳\x1b[0m 4, retry_timeout\n "
    "\x1b[31m↳\x1b[0m 30s "
)
PYARROW = "When reading key 'timeout' in bucket 'b': AWS Error {} during GetObject operation: curlCode: 7"


def status(code: int, text: str) -> str:
    return f"{REQUEST} - Server returned non-2xx status code\n \x1b[31m↳\x1b[0m {code} {text}\n"


class Busy(Exception):
    """As of gcsfs and aiohttp."""

    def __init__(self, code: int) -> None:
        super().__init__(f"HTTP {code}")
        self.code = code


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("reset"), True),
        (OSError(errno.EHOSTUNREACH, "no route to host"), True),
        (OSError(errno.ENOSPC, "timeout"), False),
        (socket.gaierror(socket.EAI_AGAIN, "try again"), True),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), False),
        (OSError(NO_ANSWER), True),
        (OSError(f"{RETRIED} - HTTP error\n \x1b[31m↳\x1b[0m client error (Connect)\n"), True),
        (OSError(status(503, "Service Unavailable")), True),
        (OSError(status(429, "Too Many Requests")), True),
        (OSError(status(404, "Not Found")), False),
        (OSError(f"{OLDER} - HTTP error: error sending request"), True),
        (DeltaError(f"Generic DeltaTable error: {OLDER}  - HTTP error: error sending request"), True),
        (CommitFailedError(f"{OLDER}  - HTTP error: error sending request"), True),
        (DeltaError("Generic DeltaTable error: there is no timeout"), False),
        (OSError(f"{OLDER} - Server returned non-2xx status code: 500: internal"), True),
        (OSError(f"{OLDER} - Server returned non-2xx status code: 403: timeout"), False),
        (OSError(PYARROW.format("NETWORK_CONNECTION")), True),
        (OSError(PYARROW.format("UNKNOWN (HTTP status 503)")), True),
        (OSError(PYARROW.format("ACCESS_DENIED")), False),
        (Busy(503), True),
        (Busy(429), True),
        (Busy(404), False),
        (Busy(501), False),
        (SinkError("connection refused"), False),
    ],
)
def test_a_store_that_may_answer_later_is_told_by_classes_and_codes(error: Exception, expected: bool) -> None:
    """Of Python's errors, and by the form of the texts of clients that have no classes."""
    assert expected == is_lost(error)


@pytest.mark.parametrize("name", ["timeout", "slow down", "connection refused", "503", "internal error", "SlowDown"])
@pytest.mark.parametrize("kind", [OSError, ValueError, Exception, sqlite3.OperationalError, PermissionError])
def test_names_say_nothing_of_an_error(kind: Any, name: str) -> None:
    """Of tables, columns and paths: such an error was waited on for ten minutes."""
    for text in (f"table {name} has no column n", f"no such table: {name}", f"Invalid JSON: {name}"):
        assert not is_lost(kind(text))
        assert not is_lost_connection(kind(text))


def response(code: str, status: int) -> Any:
    return {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("SlowDown", 503, True),
        ("x", 500, True),
        ("RequestTimeout", 400, True),
        ("x", 429, True),
        ("timeout", 400, False),
    ],
)
@pytest.mark.parametrize("is_wrapped", [False, True], ids=["botocore", "s3fs"])
def test_s3_is_told_by_status_and_code(code: str, status: int, expected: bool, is_wrapped: bool) -> None:
    """Also in the OSError that s3fs makes of an error."""
    exceptions = pytest.importorskip("botocore.exceptions")
    error = exceptions.ClientError(response(code, status), "PutObject")
    if is_wrapped:
        wrapped = OSError(errno.EIO, "an error")
        wrapped.__cause__ = error
        error = wrapped
    assert expected == is_lost(error)


def test_clients_of_http_have_classes_of_lost_connections() -> None:
    """Those of stores and catalogs."""
    botocore = pytest.importorskip("botocore.exceptions")
    requests = pytest.importorskip("requests")
    aiohttp = pytest.importorskip("aiohttp")
    catalog = pytest.importorskip("pyiceberg.exceptions")
    lost = [
        botocore.EndpointConnectionError(endpoint_url="http://store"),
        botocore.ReadTimeoutError(endpoint_url="http://store"),
        requests.ConnectionError("lost"),
        requests.ReadTimeout("late"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError("cut"),
        catalog.ServiceUnavailableError("RESTError 503: timeout"),
        catalog.ServerError("RESTError 500"),
    ]
    others = [
        botocore.SSLError(endpoint_url="http://store", error="timeout"),
        requests.exceptions.SSLError("certificate"),
        catalog.NoSuchTableError("Table does not exist: timeout"),
        catalog.BadRequestError("RESTError 400: timeout"),
    ]
    assert [True] * len(lost) == [is_lost(error) for error in lost]
    assert [False] * len(others) == [is_lost(error) for error in others]


def test_a_catalog_of_sqlite_is_waited_for_while_another_writes() -> None:
    """By the code of SQLite's error; a missing table is an error."""
    exceptions = pytest.importorskip("sqlalchemy.exc")
    errors = []
    with sqlite3.connect(":memory:") as connection, pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute("SELECT * FROM timeout")
    for code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_SNAPSHOT, sqlite3.SQLITE_ERROR):
        original = sqlite3.OperationalError("database is locked")
        original.sqlite_errorcode = code
        errors.append(exceptions.OperationalError("INSERT", {}, original))
    missing = exceptions.OperationalError("SELECT", {}, raised.value)
    assert [True, True, False, False] == [is_lost(error) for error in [*errors, missing]]


class OperationalError(Exception):
    """As drivers call it."""


class OfOracle:
    """The first argument of an error of Oracle's driver."""

    def __init__(self, isrecoverable: bool) -> None:
        self.isrecoverable = isrecoverable


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError(2013, "Lost connection to server during query"), True),
        (OperationalError(1146, "Table 'shop.gone away' doesn't exist"), False),
        (OperationalError("08S01", "[08S01] Communication link failure"), True),
        (OperationalError("HYT00", "[HYT00] Login timeout expired"), True),
        (OperationalError("42S02", "[42S02] Invalid object name 'connection refused'"), False),
        (OperationalError(OfOracle(True)), True),
        (OperationalError(OfOracle(False)), False),
    ],
)
def test_drivers_of_databases_have_codes(error: Exception, expected: bool) -> None:
    """Of MySQL, of ODBC, and of Oracle."""
    assert expected == is_lost_connection(error)
