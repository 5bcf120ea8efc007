"""Errors of stores and databases that may answer later, told by the classes of their clients' errors, and by codes.

Texts aren't looked at: they have the names of tables, columns and paths in them.  There are two exceptions.  The
clients of Delta and of PyArrow, which aren't written in Python, have one class for all errors, and a fixed form for
their texts.  And some drivers of databases have no codes for errors of connecting, which name no tables.
"""

from __future__ import annotations

import errno
import re
import socket
import sqlite3
import sys
from collections.abc import Iterator, Set
from typing import Any

from ...sdk.errors import PenstockError

# Stores

# Classes of lost connections, by the module that defines them and their names; subclasses count, too.
_LOST_CLASSES = frozenset(
    {
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "urllib3.exceptions.TimeoutError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.MaxRetryError",
        "httpx.TransportError",
        "azure.core.exceptions.ServiceRequestError",
        "azure.core.exceptions.ServiceResponseError",
        "google.auth.exceptions.TransportError",
        "google.api_core.exceptions.RetryError",
        "pyiceberg.exceptions.ServerError",
        "pyiceberg.exceptions.ServiceUnavailableError",
    }
)
# Certificates that aren't trusted stay so.
_REFUSED_CLASSES = frozenset(
    {
        "botocore.exceptions.SSLError",
        "aiohttp.client_exceptions.ClientSSLError",
        "aiohttp.client_exceptions.ClientConnectorCertificateError",
        "requests.exceptions.SSLError",
        "httpx.UnsupportedProtocol",
        "httpx.ProxyError",
    }
)
# Statuses of a request that took too long, and of too many requests; servers' errors are from 500 on, except of what
# they don't implement.
_TOO_MANY = 429
_LATER = (408, _TOO_MANY)
_NEVER = (501, 505)
# Codes of S3 whose status may be that of a wrong request.
_LATER_CODES = frozenset(
    {
        "InternalError",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
    }
)
_LIMITS = ("RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException")
# Reasons of Google's services for an exhausted quota, and a rate that is too high.
LIMITS_OF_GOOGLE = frozenset({"rateLimitExceeded", "jobRateLimitExceeded", "quotaExceeded", "userRateLimitExceeded"})
_LATER_ERRNOS = frozenset(
    {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH, errno.ETIMEDOUT}
)
# The text of Delta's client: a request that got no answer, or one with a status.
_OF_DELTA = re.compile(
    r"Error performing [A-Z]+ \S+ in \S+(?:, after [^-]*)?\s+- "
    r"(?:(HTTP error)|Server returned non-2xx status code\W*(\d{3}))"
)
# The text of PyArrow's client of S3.
_OF_PYARROW = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status (\d{3})\))? during \w+ operation")
_PYARROW_CODES = frozenset(
    {
        "INTERNAL_FAILURE",
        "NETWORK_CONNECTION",
        "REQUEST_TIMEOUT",
        "SERVICE_UNAVAILABLE",
        "SLOW_DOWN",
        "THROTTLING",
    }
)
# Colors of a terminal.
_COLORS = re.compile(r"\x1b\[\d*m")


def is_lost(error: BaseException) -> bool:
    """Return True for an error of a store that may answer later: a lost connection, or a throttled request.

    >>> is_lost(ConnectionRefusedError("no")), is_lost(PermissionError("403"))
    (True, False)
    >>> is_lost(OSError("the operation timed out")), is_lost(OSError(errno.EHOSTUNREACH, "no route"))
    (False, True)
    """
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if isinstance(error, (PenstockError, PermissionError, FileNotFoundError, FileExistsError)):
        return False
    names = _names_of(error)
    if not names.isdisjoint(_REFUSED_CLASSES):
        return False
    if "google.auth.exceptions.GoogleAuthError" in names and getattr(error, "retryable", False) is True:
        return True
    if "sqlalchemy.exc.DBAPIError" in names:
        return is_lost_connection(error) or _is_busy(getattr(error, "orig", None))
    if not names.isdisjoint(_LOST_CLASSES):
        return True
    for each in _with_causes(error):
        found = _decided(each)
        if found is not None:
            return found
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _LATER_ERRNOS
    return (isinstance(error, OSError) or _is_of_delta(error)) and _says_lost(str(error))


def is_limited(error: BaseException) -> bool:
    """Return True for the error of a server that answers, and limits the rate or the number of requests.

    >>> class TooMany(Exception):
    ...     code = 429
    >>> is_limited(TooMany()), is_limited(ConnectionRefusedError())
    (True, False)
    """
    return any(
        _status_of(each) == _TOO_MANY or _code_of(each) in _LIMITS or not LIMITS_OF_GOOGLE.isdisjoint(reasons_of(each))
        for each in _with_causes(error)
    )


def reasons_of(error: BaseException) -> Set[str]:
    """Return the reasons in an error of Google's clients."""
    details = getattr(error, "errors", None)
    return (
        {str(each.get("reason")) for each in details if isinstance(each, dict)} if isinstance(details, list) else set()
    )


def _is_of_delta(error: BaseException) -> bool:
    # Its own classes are those of a module `_internal`, which any package may have.
    delta = sys.modules.get("deltalake.exceptions")
    return delta is not None and isinstance(error, delta.DeltaError)


def _names_of(error: BaseException) -> set[str]:
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _decided(error: BaseException) -> bool | None:
    """Return True or False by the status or the code of an answer in an error; None if there is none."""
    if _code_of(error) in _LATER_CODES:
        return True
    status = _status_of(error)
    return None if status is None else _is_later(status)


def _code_of(error: BaseException) -> Any:
    """Return the code of an answer of S3 in an error; None if there is none."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _status_of(error: BaseException) -> int | None:
    """Return the status of an answer in an error; None if there is none."""
    # botocore has a dict, requests and azure an object, aiohttp and gcsfs a number.
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        found = (getattr(response, "status_code", None), *(getattr(error, name, None) for name in _STATUSES))
        status = next((each for each in found if isinstance(each, int)), None)
    return status if isinstance(status, int) and status >= 400 else None


_STATUSES = ("status_code", "status", "code")


def _is_later(status: int) -> bool:
    return (status >= 500 and status not in _NEVER) or status in _LATER


def _says_lost(text: str) -> bool:
    if found := _OF_DELTA.search(_COLORS.sub("", text)):
        return found[1] is not None or _is_later(int(found[2]))
    if found := _OF_PYARROW.search(text):
        return found[1] in _PYARROW_CODES or _is_later(int(found[2] or 0))
    return False


def _is_busy(error: BaseException | None) -> bool:
    """Return True for an error of SQLite while another process writes."""
    # Extended codes have more bits.
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 255 in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


# Databases (PEP 249)

# PostgreSQL's codes of a server that stops, starts, has no more connections, or is a standby.
UNAVAILABLE = ("57P01", "57P02", "57P03", "53300", "25006")

# What PostgreSQL says to those whom it will never let in; these errors have no code.
REFUSALS = (
    "password authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "authentication failed",
    " does not exist",
    "is not permitted to log in",
    "permission denied",
    "certificate verify failed",
    "server does not support SSL",
)

# MySQL's codes of a server that stops or has no more connections, and of its clients for a lost connection.
_MYSQL_CODES = frozenset(
    {1040, 1042, 1053, 1158, 1159, 1160, 1161, 1184, 1203, 2002, 2003, 2004, 2005, 2006, 2012, 2013, 2055, 4031}
)

# SQLSTATEs of ODBC for a timeout of connecting, besides those of lost connections.
_ODBC_TIMEOUTS = ("HYT00", "HYT01")

# What drivers without codes say of a lost connection, in any case.
_LOST = (
    "can't connect",
    "could not connect",
    "connection refused",
    "connection reset",
    "connection timed out",
    "gone away",
    "lost connection",
    "broken pipe",
    "connection is closed",
    "connection already closed",
    "closed the connection",
)


def is_lost_connection(error: BaseException) -> bool:
    """Return True for an error of a database that may answer later.

    >>> class OperationalError(Exception): pass
    >>> is_lost_connection(OperationalError(2006, "Server has gone away")), is_lost_connection(ValueError("gone away"))
    (True, False)
    >>> is_lost_connection(OperationalError(1146, "no table 'gone away'"))
    False
    """
    # SQLAlchemy wraps the driver's errors.
    original = getattr(error, "orig", None) or error
    if isinstance(original, (ConnectionError, TimeoutError)):
        return True
    if (found := _by_code(original)) is not None:
        return found
    kinds = {kind.__name__ for kind in type(original).__mro__}
    if isinstance(original, sqlite3.Error) or kinds.isdisjoint({"OperationalError", "InterfaceError"}):
        return False
    text = str(original)
    if type(original).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
        return not any(refusal in text for refusal in REFUSALS)
    return any(each in text.lower() for each in _LOST)


def _by_code(error: BaseException) -> bool | None:
    """Return True or False by the code of a driver's error; None if it has none."""
    code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    first = error.args[0] if error.args else None
    if not isinstance(code, str) and isinstance(first, str) and _SQLSTATE.fullmatch(first):
        # As ODBC's drivers have it.
        code = first
    if isinstance(code, str):
        return code in UNAVAILABLE or code in _ODBC_TIMEOUTS or code.startswith("08")
    recovers = getattr(first, "isrecoverable", None)
    if isinstance(recovers, bool):
        # Of Oracle's driver: the session is lost, and another may be opened.
        return recovers
    number = first if isinstance(first, int) else getattr(error, "errno", None)
    return number in _MYSQL_CODES if isinstance(number, int) and not isinstance(error, OSError) else None


_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
