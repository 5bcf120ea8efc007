"""PostgresServer: the address of a database of PostgreSQL, its connections, and its errors without secrets."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs

from ...sdk.claims import server_key
from ...sdk.redaction import looks_secret, redacted, redacted_cause
from ..connections.lost_connections import is_lost_connection
from ..connections.server_connection import ServerConnection, as_in_urls, hidden
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


@attrs.define(repr=False, eq=False)
class PostgresServer(ServerConnection):
    """A database by its settings, as libpq has them.  Its text has no secrets."""

    service = "database"

    transform: str
    settings: dict[str, str]

    @staticmethod
    def of(transform: str, url: Any) -> PostgresServer:
        """Return the database of a transform's argument.

        Args:
          url: as libpq takes it: 'postgresql://user:password@host:5432/database', or settings such as
            'host=localhost dbname=shop'.

        Raises `ValueError`, without repeating the URL, for one that libpq can't read.
        """
        psycopg_of(transform)
        from psycopg.conninfo import conninfo_to_dict

        if not isinstance(url, str):
            raise TypeError(f"{transform}: expected the URL of a database, got a {type(url).__name__}")
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
        return PostgresServer(transform, {name: str(value) for name, value in settings.items()})

    @property
    def shown(self) -> str:
        host, port = self.settings.get("host", "localhost"), self.settings.get("port", "5432")
        return redacted(f"{self.database!r} at {host}:{port}")

    @property
    def server(self) -> str:
        return f"database {self.shown}"

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.settings.get("dbname") or self.settings.get("user") or ""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """The hosts and ports, equal for the same server."""
        hosts = (self.settings.get("host") or self.settings.get("hostaddr") or "").split(",")
        ports = (self.settings.get("port") or "5432").split(",")
        return tuple(server_key(host, ports[min(i, len(ports) - 1)]) for i, host in enumerate(hosts))

    def connect(self) -> Any:
        """Return a new connection, which commits each statement by itself."""
        psycopg = psycopg_of(self.transform)
        connection = psycopg.connect(**(_CONNECTION | self.settings), autocommit=True, client_encoding="UTF8")
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
        return " ".join(redacted(hidden(str(error), self._secrets)).split())

    def cause(self, error: BaseException | None) -> BaseException | None:
        return None if any(secret in str(error) for secret in self._secrets) else redacted_cause(error)

    def failed(self, what: str) -> str:
        return f"{what} ({self.server})"

    def is_own(self, error: Exception) -> bool:
        """Return True for an error that no waiting mends."""
        return isinstance(error, psycopg_of(self.transform).Error) and not self.may_answer(error)

    def may_answer(self, error: BaseException) -> bool:
        """Return True for a lost connection, and for a slot that another process reads."""
        return is_lost_connection(error) or isinstance(error, psycopg_of(self.transform).errors.ObjectInUse)

    @property
    def _secrets(self) -> list[str]:
        return as_in_urls(value for name, value in self.settings.items() if looks_secret(name) and value)

    def advice(self, error: Any) -> str:
        code = getattr(error, "sqlstate", None)
        if code == "42501":
            return (
                f"; the role needs LOGIN and REPLICATION (ALTER ROLE {self.settings.get('user', '...')} REPLICATION), "
                "SELECT on the tables, and to own them to create a publication"
            )
        if code == "53400":
            return "; remove slots that aren't used (pg_drop_replication_slot), or raise max_replication_slots"
        if code == "58P01":
            return "; the server doesn't have the changes since the checkpoint: begin again, with a new slot"
        if code is None and "password" in str(error):
            return "; are the user and the password right?"
        return ""
