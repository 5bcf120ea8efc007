"""SqlEnrichmentHandler: asks a database for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sdk.elements.row import Row
from ...sdk.redaction import redacted
from ...transforms.enrichment import EnrichmentSourceHandler
from ...transforms.services.request_response import UserCodeExecutionException, UserCodeRemoteSystemException
from ..connections.lost_connections import is_lost_connection
from ..sql.database import database_of
from ..sql.dialect import MARK


class SqlEnrichmentHandler(EnrichmentSourceHandler[Row, Row]):
    """The row that a query returns for a row.

    Each call has a connection of its own, in a thread: `Enrichment(handler, concurrency=8)` has eight at once.  A
    refused or lost connection raises `UserCodeRemoteSystemException`: the call is repeated.

    Args:
      connection: a path of a file of SQLite, a URL of SQLAlchemy (the extra `sql`), or a function that returns a
        connection (PEP 249).
      query: a SELECT with a `?` for each of `fields`.
      fields: the names of the fields whose values are the query's parameters.
      default: the fields of the answer where the query returns no row; without it that is an error.

    >>> import penstock as beam
    >>> handler = SqlEnrichmentHandler("shop.db", "SELECT price FROM items WHERE id = ?", ["item"], {"price": None})
    >>> enriched = beam.transforms.enrichment.Enrichment(handler)
    """

    def __init__(
        self, connection: Any, query: str, fields: Sequence[str], default: dict[str, Any] | None = None
    ) -> None:
        if isinstance(fields, str) or query.count("?") != len(fields):
            raise ValueError(
                f"SqlEnrichmentHandler: the query has {query.count('?')} parameters, and fields are {fields!r}; "
                "name a field for each `?`"
            )
        given = connection if callable(connection) else str(connection)
        self._database = database_of("SqlEnrichmentHandler", given)
        self._query = query
        self._fields = tuple(fields)
        self._default = default

    def __repr__(self) -> str:
        return f"<SqlEnrichmentHandler {self._database}>"

    def __call__(self, request: Row, *args: Any, **kwargs: Any) -> tuple[Row, Row]:
        values = [getattr(request, name) for name in self._fields]
        # Connections of SQLite are one thread's, and the next call runs in another one.
        try:
            with self._database.session() as session:
                names, rows = session.select(self._query.replace("?", MARK), values, 2)
        except Exception as error:
            if not is_lost_connection(error):
                raise
            said = redacted(str(getattr(error, "orig", None) or error)).partition("\n")[0]
            raise UserCodeRemoteSystemException(f"{self._database} doesn't answer ({said})") from error
        if len(rows) > 1:
            raise UserCodeExecutionException(
                f"{self._database}: the query has several rows for {dict(zip(self._fields, values, strict=True))}; "
                "an element is enriched by one"
            )
        if rows:
            return request, Row(**dict(zip(names, rows[0], strict=True)))
        if self._default is None:
            raise UserCodeExecutionException(
                f"{self._database}: the query has no row for {dict(zip(self._fields, values, strict=True))}; "
                "give a default"
            )
        return request, Row(**self._default)

    def get_cache_key(self, request: Row) -> str:
        """Return the parameters of the query."""
        return repr([getattr(request, name) for name in self._fields])
