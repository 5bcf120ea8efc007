"""PostgresServer: the address of a database of PostgreSQL, its connections, and its errors without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, quote_plus

from ...sdk.claims import server_key
from ...sdk.errors import SourceError
from ...sdk.redaction import HIDDEN, looks_secret, redacted, redacted_cause
from ..lost_connections import is_lost_connection
from ..optional_package import optional_package

# Texts of values are the same in the log and in queries, whatever the server's settings are.
_SETTINGS = (
    "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET extra_float_digits = 1; "
    "SET bytea_output = 'hex'; SET synchronous_commit = 'local'; SET statement_timeout = 0; "
    "SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0"
)

# A server that is lost without a word is noticed after so many seconds.
_CONNECTION = {"connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}
_CONNECTION |= {"tcp_user_timeout": "30000", "application_name": "penstock"}


def psycopg_of(needed_for: str) -> Any:
    """Import and return psycopg.  Raises `MissingExtraError`."""
    return optional_package("psycopg", extra="postgres", needed_for=needed_for)


class PostgresServer:
    """A database by its URL.  Its text has no secrets.

    Args:
      url: as libpq takes it: 'postgresql://user:password@host:5432/database', or settings such as
        'host=localhost dbname=shop'.
      transform: the label for errors.

    Raises `ValueError`, without repeating the URL, for one that libpq can't read.
    """

    def __init__(self, url: str, transform: str) -> None:
        psycopg_of(transform)
        from psycopg.conninfo import conninfo_to_dict

        if not isinstance(url, str):
            raise TypeError(f"{transform}: expected the URL of a database, got a {type(url).__name__}")
        self.transform = transform
        try:
            # SQLAlchemy's URLs may name the driver.
            settings = conninfo_to_dict(url.replace("postgresql+psycopg://", "postgresql://", 1))
            for port in str(settings.get("port") or "5432").split(","):
                int(port)
        except Exception as error:
            raise ValueError(
                f"{transform}: expected a URL such as 'postgresql://user:password@host/database', got one that libpq "
                f"can't read ({type(error).__name__})"
            ) from None
        self._settings = {name: str(value) for name, value in settings.items()}
        secrets = [value for name, value in self._settings.items() if looks_secret(name) and value]
        self._secrets = [*secrets, *map(quote, secrets), *map(quote_plus, secrets)]

    @property
    def database(self) -> str:
        """The name of the database."""
        return self._settings.get("dbname") or self._settings.get("user") or ""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The hosts and ports, equal for the same server."""
        hosts = (self._settings.get("host") or self._settings.get("hostaddr") or "").split(",")
        ports = (self._settings.get("port") or "5432").split(",")
        return tuple(server_key(host, ports[min(i, len(ports) - 1)]) for i, host in enumerate(hosts))

    def of(self, transform: str) -> PostgresServer:
        """Return the same database for another label."""
        server: PostgresServer = object.__new__(PostgresServer)
        server.__dict__.update(self.__dict__ | {"transform": transform})
        return server

    def connect(self) -> Any:
        """Return a new connection, which commits each statement by itself."""
        psycopg = psycopg_of(self.transform)
        connection = psycopg.connect(**(_CONNECTION | self._settings), autocommit=True, client_encoding="UTF8")
        try:
            for statement in _SETTINGS.split("; "):
                # Older servers don't know all of them.
                with suppress(psycopg.errors.UndefinedObject):
                    connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def said(self, error: BaseException) -> str:
        """Return the text of an error, without secrets, on one line."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return " ".join(redacted(text).split())

    def shown_cause(self, error: BaseException) -> BaseException | None:
        """Return an error as the cause of another one; None if its text has a secret."""
        return None if any(secret in str(error) for secret in self._secrets) else redacted_cause(error)

    def error(self, text: str, cause: BaseException | None = None) -> SourceError:
        """Return an error that names the transform and the database."""
        error = SourceError(f"{self.transform}: {text} ({self})")
        error.__cause__ = None if cause is None else self.shown_cause(cause)
        error.__suppress_context__ = True
        return error

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        """Convert the errors of a server into `SourceError`s, except of one that may answer later, or of a slot in use.

        Args:
          what: such as "slot 'orders' can't be read".
        """
        psycopg = psycopg_of(self.transform)
        try:
            yield
        except psycopg.Error as error:
            if is_lost_connection(error) or isinstance(error, psycopg.errors.ObjectInUse):
                raise
            raise self.error(f"{what}: {self.said(error)}{self._advice(error)}", error) from self.shown_cause(error)

    def _advice(self, error: Any) -> str:
        if error.sqlstate == "42501":
            return (
                f"; the role needs LOGIN and REPLICATION (ALTER ROLE {self._settings.get('user', '...')} REPLICATION), "
                "SELECT on the tables, and to own them to create a publication"
            )
        if error.sqlstate == "53400":
            return "; remove slots that aren't used (pg_drop_replication_slot), or raise max_replication_slots"
        if error.sqlstate == "58P01":
            return "; the server doesn't have the changes since the checkpoint: begin again, with a new slot"
        if error.sqlstate is None and "password" in str(error):
            return "; are the user and the password right?"
        return ""

    def __str__(self) -> str:
        host, port = self._settings.get("host", "localhost"), self._settings.get("port", "5432")
        return redacted(f"database {self.database!r} at {host}:{port}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"
