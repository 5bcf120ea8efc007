"""Errors of databases that may answer later, told by the errors of any driver (PEP 249)."""

from __future__ import annotations

import sqlite3

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

# What other drivers say of a lost connection, in any case.
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
    >>> is_lost_connection(OperationalError("2006: Server has gone away")), is_lost_connection(ValueError("gone away"))
    (True, False)
    """
    # SQLAlchemy wraps the driver's errors.
    original = getattr(error, "orig", None) or error
    if isinstance(original, (ConnectionError, TimeoutError)):
        return True
    code = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if isinstance(code, str):
        return code in UNAVAILABLE or code.startswith("08")
    kinds = {kind.__name__ for kind in type(original).__mro__}
    if isinstance(original, sqlite3.Error) or kinds.isdisjoint({"OperationalError", "InterfaceError"}):
        return False
    text = str(original)
    if type(original).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
        return not any(refusal in text for refusal in REFUSALS)
    return any(each in text.lower() for each in _LOST)
