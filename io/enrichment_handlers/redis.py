"""RedisEnrichmentHandler: asks a Redis server for each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sdk.elements.row import Row
from ...sdk.redaction import redacted
from ...transforms.enrichment import EnrichmentSourceHandler
from ...transforms.services.request_response import UserCodeExecutionException, UserCodeRemoteSystemException
from ..optional_package import optional_package
from ..redis.server import RedisServer


class RedisEnrichmentHandler(EnrichmentSourceHandler[Row, Row]):
    """The fields of a hash in Redis, as a row of texts.

    Args:
      url: the server's URL, such as "redis://localhost:6379/0".
      key: the key of the hash, with the names of fields in braces: "item:{item}"; or a function of a row.
      default: the fields of the answer where there is no such key; without it that is an error.

    A refused or lost connection raises `UserCodeRemoteSystemException`: the call is repeated.

    Raises `ValueError` for an invalid URL, and `MissingExtraError` without the extra `redis`.
    """

    def __init__(self, url: str, key: str | Callable[[Row], str], default: dict[str, Any] | None = None) -> None:
        self._server = RedisServer.of("RedisEnrichmentHandler", url)
        self._key = key
        self._default = default
        self._client: Any = None

    def __repr__(self) -> str:
        return f"<RedisEnrichmentHandler {self._server.shown}>"

    async def __aenter__(self) -> RedisEnrichmentHandler:
        package = optional_package("redis.asyncio", extra="redis", needed_for="RedisEnrichmentHandler")
        self._client = package.Redis.from_url(self._server.url, decode_responses=True)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.aclose()

    def get_cache_key(self, request: Row) -> str:
        """Return the key of the hash."""
        return self._key.format(**request.as_dict()) if isinstance(self._key, str) else self._key(request)

    async def __call__(self, request: Row, *args: Any, **kwargs: Any) -> tuple[Row, Row]:
        key = self.get_cache_key(request)
        try:
            fields = await self._client.hgetall(key) or self._default
        except Exception as error:
            if not self._server.may_answer(error):
                raise
            raise UserCodeRemoteSystemException(
                f"{self._server.shown} doesn't answer ({redacted(self._server.said(error))})"
            ) from error
        if fields is None:
            raise UserCodeExecutionException(f"{self._server.shown}: there is no hash {key!r}; give a default")
        return request, Row(**fields)
