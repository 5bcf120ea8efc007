"""HttpEnrichmentHandler: asks a web service for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ...sdk.elements.row import Row
from ...sdk.redaction import logger_of, redacted
from ...sdk.user_code.error_text import text_or_class
from ...transforms.enrichment import EnrichmentSourceHandler
from ...transforms.services.request_response import (
    UserCodeExecutionException,
    UserCodeQuotaException,
    UserCodeRemoteSystemException,
    UserCodeTimeoutException,
)
from ..optional_package import optional_package

# Statuses of calls that may succeed later.
_STATUSES = {
    429: UserCodeQuotaException,
    502: UserCodeRemoteSystemException,
    503: UserCodeQuotaException,
    504: UserCodeRemoteSystemException,
}


class HttpEnrichmentHandler(EnrichmentSourceHandler[Row, Row]):
    """The JSON object that a URL returns for a row, as a row.

    A status of 429 or 503 raises `UserCodeQuotaException`.  A refused or lost connection, or a gateway's status 502 or
    504, raises `UserCodeRemoteSystemException`.  These calls are repeated.  Any other error status raises
    `UserCodeExecutionException`.

    Args:
      url: the URL, with the names of fields in braces, whose values are quoted: "http://127.0.0.1:8000/items/{item}";
        or a function of a row that returns it.
      response_fn: returns the fields of the answer for the decoded JSON; by default it is an object with them.
      settings: of `httpx.AsyncClient`, such as `headers`, `auth` and `verify`.

    Raises `MissingExtraError` without the extra `enrichment`.
    """

    def __init__(
        self,
        url: str | Callable[[Row], str],
        response_fn: Callable[[Any], Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        optional_package("httpx", extra="enrichment", needed_for="HttpEnrichmentHandler")
        if not isinstance(url, str) and not callable(url):
            raise TypeError(f"HttpEnrichmentHandler: expected a URL or a function of a row, got {url!r}")
        self._url = url
        self._response_fn = response_fn
        self._settings = settings
        self._client: Any = None

    def __repr__(self) -> str:
        # The settings may have a password.
        return f"<HttpEnrichmentHandler {redacted(self._url) if isinstance(self._url, str) else self._url!r}>"

    async def __aenter__(self) -> HttpEnrichmentHandler:
        httpx = optional_package("httpx", extra="enrichment", needed_for="HttpEnrichmentHandler")
        # httpx logs the URL of each request.
        logger_of("httpx")
        # The transform limits the number of calls and their time.
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(**{"timeout": None, "limits": limits, **self._settings})
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.aclose()

    def _url_of(self, row: Row) -> str:
        if isinstance(self._url, str):
            return self._url.format(**{name: quote(str(value), safe="") for name, value in row.as_dict().items()})
        return self._url(row)

    async def __call__(self, request: Row, *args: Any, **kwargs: Any) -> tuple[Row, Row]:
        url = self._url_of(request)
        httpx = optional_package("httpx", extra="enrichment", needed_for="HttpEnrichmentHandler")
        try:
            response = await self._client.get(url)
        except httpx.NetworkError as error:
            raise UserCodeRemoteSystemException(f"{redacted(url)} doesn't answer ({_said(error)})") from error
        except httpx.RemoteProtocolError as error:
            raise UserCodeRemoteSystemException(f"{redacted(url)} has not answered ({_said(error)})") from error
        except httpx.TimeoutException as error:
            raise UserCodeTimeoutException(f"{redacted(url)} takes too long ({_said(error)})") from error
        if response.is_error:
            kind = _STATUSES.get(response.status_code, UserCodeExecutionException)
            raise kind(f"{redacted(url)} has answered with status {response.status_code} {response.reason_phrase}")
        content = response.json()
        fields = content if self._response_fn is None else self._response_fn(content)
        if not isinstance(fields, Mapping):
            raise UserCodeExecutionException(
                f"{redacted(url)} has answered with a {type(fields).__name__}, not an object; give a response_fn"
            )
        return request, Row(**fields)

    def get_cache_key(self, request: Row) -> str:
        """Return the URL."""
        return self._url_of(request)


def _said(error: Exception) -> str:
    return redacted(text_or_class(error))
