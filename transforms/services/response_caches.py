"""Caches of a service's responses: in a worker's memory, or in Redis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from importlib import import_module
from typing import Any

from ...sdk.coders import PickleCoder, StrUtf8Coder
from ...sdk.errors import missing_extra

DEFAULT_CACHE_ENTRY_TTL_SEC = 24 * 60 * 60


class OpenCache(ABC):
    """A cache in a worker."""

    @abstractmethod
    async def read(self, key: Any) -> tuple[bool, Any]:
        """Return True and the response for a key, or False and None."""

    @abstractmethod
    async def write(self, key: Any, response: Any) -> None:
        """Keep the response for a key."""

    async def close(self) -> None:
        """Close connections."""


class Cache(ABC):
    """Settings of a cache."""

    @abstractmethod
    def open(self) -> OpenCache:
        """Return the cache of a worker."""


class LocalCache(Cache):
    """The least recently used responses in each subtask's memory.

    Args:
      max_size: the greatest number of responses.
      time_to_live: the seconds for which a response is used; None for no limit.

    Raises `MissingExtraError` without the extra `enrichment`, and `ValueError` for a wrong limit.
    """

    def __init__(self, max_size: int = 10_000, time_to_live: float | None = None) -> None:
        if type(max_size) is not int or max_size < 1:
            raise ValueError(f"LocalCache: max_size is a number of responses, got {max_size!r}")
        if time_to_live is not None and not time_to_live > 0:
            raise ValueError(f"LocalCache: time_to_live must be over 0 seconds, got {time_to_live!r}")
        _package("cachetools", "enrichment", "LocalCache")
        self.max_size = max_size
        self.time_to_live = time_to_live

    def open(self) -> OpenCache:
        return _OpenLocalCache(self)


class _OpenLocalCache(OpenCache):
    def __init__(self, cache: LocalCache) -> None:
        package = _package("cachetools", "enrichment", "LocalCache")
        if cache.time_to_live is None:
            self._responses: Any = package.LRUCache(cache.max_size)
        else:
            self._responses = package.TTLCache(cache.max_size, cache.time_to_live)

    async def read(self, key: Any) -> tuple[bool, Any]:
        try:
            return True, self._responses[key]
        except KeyError:
            return False, None

    async def write(self, key: Any, response: Any) -> None:
        self._responses[key] = response


class RedisCache(Cache):
    """Responses in Redis, which all workers share.

    Args:
      host, port: the server's address.
      time_to_live: the seconds for which a response is used, or a timedelta.
      request_coder, response_coder: encode keys, by default as text, and responses, by default pickled.
      kwargs: further settings of `redis.asyncio.Redis`.

    Raises `MissingExtraError` without the extra `redis`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        time_to_live: float | timedelta = DEFAULT_CACHE_ENTRY_TTL_SEC,
        *,
        request_coder: Any = None,
        response_coder: Any = None,
        **kwargs: Any,
    ) -> None:
        _package("redis", "redis", "RedisCache")
        self.host = host
        self.port = port
        seconds = time_to_live.total_seconds() if isinstance(time_to_live, timedelta) else time_to_live
        if not seconds > 0:
            raise ValueError(f"RedisCache: time_to_live must be over 0 seconds, got {time_to_live!r}")
        self.milliseconds = max(1, int(seconds * 1000))
        self.request_coder = request_coder
        self.response_coder = response_coder or PickleCoder()
        self.settings = kwargs

    def __repr__(self) -> str:
        # The settings may have a password.
        return f"<RedisCache {self.host}:{self.port}>"

    def open(self) -> OpenCache:
        return _OpenRedisCache(self)


class _OpenRedisCache(OpenCache):
    def __init__(self, cache: RedisCache) -> None:
        self._cache = cache
        package = _package("redis.asyncio", "redis", "RedisCache")
        self._client = package.Redis(host=cache.host, port=cache.port, **cache.settings)

    def _key(self, key: Any) -> bytes:
        if self._cache.request_coder is not None:
            return bytes(self._cache.request_coder.encode(key))
        return StrUtf8Coder().encode(key if isinstance(key, str) else repr(key))

    async def read(self, key: Any) -> tuple[bool, Any]:
        data = await self._client.get(self._key(key))
        if data is None:
            return False, None
        return True, self._cache.response_coder.decode(data)

    async def write(self, key: Any, response: Any) -> None:
        data = self._cache.response_coder.encode(response)
        await self._client.set(self._key(key), data, px=self._cache.milliseconds)

    async def close(self) -> None:
        await self._client.aclose()


def _package(name: str, extra: str, needed_for: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_extra(name.partition(".")[0], extra, needed_for) from error
