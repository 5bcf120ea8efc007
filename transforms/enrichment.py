"""Enrichment: rows joined with the answers of a service (Beam's names).

>>> import penstock as beam
>>> class Prices(EnrichmentSourceHandler):
...     async def __call__(self, row):
...         return row, beam.Row(price={"tea": 3}[row.item])
>>> [beam.Row(item="tea", n=2)] | Enrichment(Prices())
[Row(item='tea', n=2, price=3)]
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, overload

from ..sdk.elements.row import Row
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..sdk.type_variables import B
from .par_do.map_and_filter import MapTuple
from .services.request_response import (
    DEFAULT_TIMEOUT_SECS,
    Caller,
    DefaultThrottler,
    ExponentialBackOffRepeater,
    PreCallThrottler,
    Repeater,
    RequestResponseIO,
    RequestT,
    ResponseT,
)
from .services.response_caches import DEFAULT_CACHE_ENTRY_TTL_SEC, Cache, LocalCache, RedisCache

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    A = TypeVar("A")
    C = TypeVar("C")
    RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
    JoinedT_co = TypeVar("JoinedT_co", covariant=True)

    class JoiningHandler(Protocol[RequestT_contra, JoinedT_co]):
        """A handler with a `join_fn` of its own."""

        def __call__(self, request: RequestT_contra, /, *args: Any, **kwargs: Any) -> Any: ...
        def join_fn(self, left: Any, right: Any, /) -> JoinedT_co: ...


JoinFn = Callable[[dict[str, Any], dict[str, Any]], Row]


def cross_join(left: dict[str, Any], right: dict[str, Any]) -> Row:
    """Return a row of the fields of the request and those of the response, of which the request's take precedence.

    >>> cross_join({"id": 1}, {"id": 2, "name": "tea"})
    Row(id=1, name='tea')
    """
    return Row(**{**left, **{name: value for name, value in right.items() if name not in left}})


class EnrichmentSourceHandler(Caller[RequestT, ResponseT]):
    """A call of a service that returns a pair: the row that was asked for, and the row of the answer.

    `__call__` may be a coroutine function, so that many calls run at once.
    """


class Enrichment(PTransform[PCollection[RequestT], PCollection[B]]):
    """Rows joined with the answers of a service.

    Returns a `PCollection[Row]`, or a `PCollection[B]` for a `join_fn` with results of type B.

    Calls run in the event loop of the worker, as those of `AsyncMap` (docs/async.md), and answers may be cached.

    Args:
      source_handler: calls the service.
      join_fn: returns the output for the fields of a row and those of its answer, as dictionaries.
      timeout: the seconds that a call may take.
      repeater: repeats calls that took too long, exceeded a quota or didn't reach the service.
      throttler: delays calls while many fail.
      use_custom_types: whether requests and answers are no rows, and `join_fn` gets them as they are.
      concurrency: the greatest number of simultaneous calls in each subtask; by default 100 for an async handler, and
        1 for any other.
    """

    @overload
    def __init__(
        self: Enrichment[A, C],
        source_handler: JoiningHandler[A, C],
        join_fn: None = None,
        timeout: float | None = DEFAULT_TIMEOUT_SECS,
        repeater: Repeater | None = None,
        throttler: PreCallThrottler | None = None,
        use_custom_types: bool = False,
        *,
        concurrency: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Enrichment[A, Row],
        source_handler: EnrichmentSourceHandler[A, Any],
        join_fn: None = None,
        timeout: float | None = DEFAULT_TIMEOUT_SECS,
        repeater: Repeater | None = None,
        throttler: PreCallThrottler | None = None,
        use_custom_types: bool = False,
        *,
        concurrency: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Enrichment[A, C],
        source_handler: EnrichmentSourceHandler[A, Any],
        join_fn: Callable[[Any, Any], C],
        timeout: float | None = DEFAULT_TIMEOUT_SECS,
        repeater: Repeater | None = None,
        throttler: PreCallThrottler | None = None,
        use_custom_types: bool = False,
        *,
        concurrency: int | None = None,
    ) -> None: ...
    def __init__(
        self,
        source_handler: Any,
        join_fn: JoinFn | Callable[[Any, Any], Any] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT_SECS,
        repeater: Repeater | None = None,
        throttler: PreCallThrottler | None = None,
        use_custom_types: bool = False,
        *,
        concurrency: int | None = None,
    ) -> None:
        super().__init__()
        self._cache: Cache | None = None
        self._handler = source_handler
        self._join_fn: Callable[[Any, Any], Any] = join_fn or getattr(source_handler, "join_fn", None) or cross_join
        self._timeout = timeout
        self._repeater = ExponentialBackOffRepeater() if repeater is None else repeater
        self._throttler = DefaultThrottler() if throttler is None else throttler
        self._use_custom_types = getattr(source_handler, "use_custom_types", use_custom_types)
        self._concurrency = concurrency
        # Checks the settings.
        self._requests()

    def _requests(self) -> RequestResponseIO[Any, Any]:
        return RequestResponseIO(
            self._handler,
            self._timeout,
            None,
            self._repeater,
            self._cache,
            self._throttler,
            concurrency=self._concurrency,
        )

    def _joined(self, answers: PCollection[Any]) -> PCollection[Any]:
        join_fn, as_they_are = self._join_fn, self._use_custom_types

        def join(request: Any, response: Any) -> Any:
            return join_fn(request, response) if as_they_are else join_fn(request.as_dict(), response.as_dict())

        return answers | "enrichment_join" >> MapTuple(join)

    def expand(self, pcoll: PCollection[RequestT]) -> PCollection[B]:
        return self._joined(pcoll | "Enrichment-RRIO" >> self._requests())

    def with_exception_handling(
        self, main_tag: str = "good", dead_letter_tag: str = "bad", **kwargs: Any
    ) -> PTransform[PCollection[RequestT], tuple[PCollection[B], PCollection[tuple[RequestT, Any]]]]:
        """Return the transform with two outputs: joined rows, and dead letters of rows whose calls fail."""
        return _WithDeadLetters(self, main_tag, dead_letter_tag, kwargs)

    def with_cache(self, max_size: int = 10_000, time_to_live: float | None = None) -> Self:
        """Return the transform with a cache of so many answers in each subtask, each for so many seconds at most."""
        return self._with(LocalCache(max_size, time_to_live))

    def with_redis_cache(
        self,
        host: str,
        port: int,
        time_to_live: float | timedelta = DEFAULT_CACHE_ENTRY_TTL_SEC,
        *,
        request_coder: Any = None,
        response_coder: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Return the transform with a cache in Redis; see `RedisCache`."""
        cache = RedisCache(
            host, port, time_to_live, request_coder=request_coder, response_coder=response_coder, **kwargs
        )
        return self._with(cache)

    def _with(self, cache: Cache) -> Self:
        cached = copy(self)
        cached._cache = cache
        return cached


class _WithDeadLetters(PTransform):
    def __init__(
        self, enrichment: Enrichment[Any, Any], main_tag: str, dead_letter_tag: str, settings: dict[str, Any]
    ) -> None:
        super().__init__()
        self._enrichment = enrichment
        self._tags = main_tag, dead_letter_tag
        self._settings = settings

    def default_label(self) -> str:
        return "Enrichment"

    def expand(self, pcoll: PCollection[Any]) -> Any:
        asked = self._enrichment._requests().with_exception_handling(*self._tags, **self._settings)
        answers, failed = pcoll | "Enrichment-RRIO" >> asked
        return self._enrichment._joined(answers), failed
