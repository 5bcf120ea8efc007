"""RequestResponseIO: an answer of a service for each element, with throttling, repeats and a cache (Beam's names).

>>> import penstock as beam
>>> class Square(Caller):
...     async def __call__(self, request):
...         return request * request
>>> [3] | RequestResponseIO(Square())
[9]
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from ...sdk.dofn.async_dofn import is_coroutine_function
from ...sdk.dofn.dofn import DoFn
from ...sdk.errors import UnsupportedError
from ...sdk.redaction import logger_of
from ..par_do.pardo import ParDo
from .response_caches import Cache, OpenCache

if TYPE_CHECKING:
    # With defaults, so that `Caller` alone is a type.
    from typing_extensions import TypeVar

    RequestT = TypeVar("RequestT", default=Any)
    ResponseT = TypeVar("ResponseT", default=Any)
else:
    from typing import TypeVar

    RequestT, ResponseT = map(TypeVar, ("RequestT", "ResponseT"))

DEFAULT_TIMEOUT_SECS = 30

_logger = logger_of(__name__)


class UserCodeExecutionException(Exception):
    """A call of a service failed."""


class UserCodeQuotaException(UserCodeExecutionException):
    """A call of a service exceeded a quota; the call is repeated."""


class UserCodeTimeoutException(UserCodeExecutionException):
    """A call of a service took too long; the call is repeated."""


class UserCodeRemoteSystemException(UserCodeExecutionException):
    """A service couldn't be reached, or ended the connection; the call is repeated.

    The name is that of Beam's Java SDK.
    """


# What may be over when the call is made again.
_REPEATED = (UserCodeQuotaException, UserCodeTimeoutException, UserCodeRemoteSystemException)


class Caller(ABC, Generic[RequestT, ResponseT]):
    """A call of a service.  `__call__` may be a coroutine function: then many calls run at once.

    A worker enters the caller as a context before its first call, and leaves it at the end: an async caller by
    `__aenter__` and `__aexit__`, if it has them.
    """

    @abstractmethod
    def __call__(self, request: RequestT, *args: Any, **kwargs: Any) -> Any:
        """Return the response for a request, or its awaitable."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def get_cache_key(self, request: RequestT) -> str:
        """Return the text by which a cache knows a request; the default "" stands for the whole request."""
        return ""


class Repeater(ABC):
    """Repeats failed calls."""

    @abstractmethod
    def repeat(self, caller: Caller[Any, Any], request: Any, timeout: float, metrics_collector: Any = None) -> Any:
        """Return the response of `caller(request)`, which may be called several times."""


class NoOpsRepeater(Repeater):
    """Calls once."""

    def repeat(self, caller: Caller[Any, Any], request: Any, timeout: float, metrics_collector: Any = None) -> Any:
        return caller(request)


class ExponentialBackOffRepeater(Repeater):
    """Repeats calls that took too long, exceeded a quota or didn't reach the service, with growing and random delays.

    Args:
      num_retries: how often a call is repeated.
      initial_delay_secs: the greatest delay before the first repeat, in seconds; twice as much before each further one.
    """

    def __init__(self, num_retries: int = 2, initial_delay_secs: float = 5.0) -> None:
        self.num_retries = num_retries
        self.initial_delay_secs = initial_delay_secs

    def delay(self, attempt: int) -> float:
        """Return the seconds before the repeat of this number, from 0 on."""
        return self.initial_delay_secs * float(2**attempt) * random.uniform(0.5, 1)

    def repeat(self, caller: Caller[Any, Any], request: Any, timeout: float, metrics_collector: Any = None) -> Any:
        for attempt in range(self.num_retries):
            try:
                return caller(request)
            except _REPEATED:
                time.sleep(self.delay(attempt))
        return caller(request)


class PreCallThrottler:
    """Delays calls before they are made.

    Attributes:
      delay_secs: seconds after which a delayed call asks again.
    """

    delay_secs: float = 5

    def throttle_request(self) -> bool:
        """Return True if a call has to wait."""
        return False

    def successful_request(self) -> None:
        """Called after each successful call."""

    def failed_request(self) -> None:
        """Called after each call that failed for the last time."""


class DefaultThrottler(PreCallThrottler):
    """Delays calls at random while many fail: adaptive throttling by the share of recent successes.

    Calls count when they end: those in flight say nothing about the service.

    Args:
      window_ms: the milliseconds of recent calls that count.
      bucket_ms: the milliseconds of a part of the window.
      overload_ratio: how many calls are made for each successful one before some are delayed.
      delay_secs: the delay of a call, in seconds, after which it asks again.
    """

    def __init__(
        self, window_ms: int = 1, bucket_ms: int = 1, overload_ratio: float = 2, delay_secs: float = 5
    ) -> None:
        self.window_ms = window_ms
        self.bucket_ms = bucket_ms
        self.overload_ratio = overload_ratio
        self.delay_secs = delay_secs
        # Milliseconds of recent calls, and of successful ones, by bucket.
        self._calls: deque[int] = deque()
        self._successes: deque[int] = deque()

    def throttle_request(self) -> bool:
        now = self._now()
        calls, successes = self._recent(self._calls, now), self._recent(self._successes, now)
        share = max(0.0, (calls - self.overload_ratio * successes) / (calls + 1))
        return random.random() < share

    def successful_request(self) -> None:
        now = self._now()
        self._calls.append(now)
        self._successes.append(now)

    def failed_request(self) -> None:
        self._calls.append(self._now())

    def _now(self) -> int:
        return int(time.monotonic() * 1000) // self.bucket_ms * self.bucket_ms

    def _recent(self, times: deque[int], now: int) -> int:
        while times and times[0] <= now - self.window_ms:
            times.popleft()
        return len(times)


class RequestResponseIO(ParDo[RequestT, ResponseT]):
    """The response of a service for each request.

    Returns a `PCollection[ResponseT]` for a `Caller[RequestT, ResponseT]`.

    Args:
      caller: calls the service.
      timeout: the seconds that a call may take, each repeat anew; None for any time.  Then it fails with a
        `UserCodeTimeoutException`.
      repeater: repeats failed calls.
      cache: responses that need no call.
      throttler: delays calls; None for no delays.
      concurrency: the greatest number of simultaneous calls in each subtask; the default is 100 for an async caller,
        and 1 for any other, whose calls run in threads.

    Raises `UnsupportedError` for `should_backoff`, which Beam doesn't use either, and for a repeater of one's own with
    an async caller.
    """

    def __init__(
        self,
        caller: Caller[RequestT, ResponseT],
        timeout: float | None = DEFAULT_TIMEOUT_SECS,
        should_backoff: Any = None,
        repeater: Repeater | None = None,
        cache: Cache | None = None,
        throttler: PreCallThrottler | None = None,
        *,
        concurrency: int | None = None,
    ) -> None:
        if should_backoff is not None:
            raise UnsupportedError("RequestResponseIO: should_backoff isn't supported; have a repeater decide")
        if not callable(caller):
            raise TypeError(f"RequestResponseIO: expected a Caller, got {caller!r}")
        repeater = ExponentialBackOffRepeater() if repeater is None else repeater
        is_async = is_coroutine_function(caller)
        if is_async and type(repeater) not in (NoOpsRepeater, ExponentialBackOffRepeater):
            raise UnsupportedError(
                f"RequestResponseIO: {type(repeater).__name__} can't repeat the calls of {type(caller).__name__}, "
                "which are async; use ExponentialBackOffRepeater, or repeat in the caller"
            )
        super().__init__(
            _RequestDoFn(caller, timeout, repeater, cache, throttler, concurrency or (100 if is_async else 1))
        )


class _RequestDoFn(DoFn):
    """The DoFn of RequestResponseIO."""

    deterministic = False

    def __init__(
        self,
        caller: Caller[Any, Any],
        timeout: float | None,
        repeater: Repeater,
        cache: Cache | None,
        throttler: PreCallThrottler | None,
        concurrency: int,
    ) -> None:
        self.caller = caller
        self.timeout = timeout
        self.repeater = repeater
        self.cache = cache
        self.throttler = throttler
        self.concurrency = concurrency  # type: ignore[misc]
        self._entered: Any = None
        self._cache: OpenCache | None = None
        # When the service was found to be out of reach, if it is.
        self._lost_at: float | None = None

    def default_label(self) -> str:
        return type(self.caller).__name__

    async def setup(self) -> None:
        if self.cache is not None:
            self._cache = self.cache.open()
        enter = getattr(self.caller, "__aenter__", None)
        self._entered = self.caller.__enter__() if enter is None else await enter()

    async def teardown(self) -> None:
        leave = getattr(self.caller, "__aexit__", None)
        if leave is None:
            self.caller.__exit__(None, None, None)
        else:
            await leave(None, None, None)
        if self._cache is not None:
            await self._cache.close()

    async def process(self, request: Any) -> list[Any]:
        if self._cache is None:
            return [await self._response(request)]
        key = self.caller.get_cache_key(request) or request
        found, response = await self._cache.read(key)
        if not found:
            response = await self._response(request)
            await self._cache.write(key, response)
        return [response]

    async def _response(self, request: Any) -> Any:
        import asyncio

        throttler = self.throttler
        while throttler is not None and throttler.throttle_request():
            await asyncio.sleep(throttler.delay_secs)
        try:
            response = await self._repeated(request)
        except Exception:
            if throttler is not None:
                throttler.failed_request()
            raise
        self._note_answer()
        if throttler is not None:
            throttler.successful_request()
        return response

    async def _repeated(self, request: Any) -> Any:
        import asyncio

        repeater = self.repeater
        if type(repeater) is not ExponentialBackOffRepeater:
            if type(repeater) is NoOpsRepeater:
                return await self._call(self.caller, request)
            return await self._call(lambda one: repeater.repeat(self.caller, one, self.timeout or 0, None), request)
        for attempt in range(repeater.num_retries):
            try:
                return await self._call(self.caller, request)
            except _REPEATED as error:
                if isinstance(error, UserCodeRemoteSystemException):
                    self._note_outage(error)
                await asyncio.sleep(repeater.delay(attempt))
        return await self._call(self.caller, request)

    def _note_outage(self, error: UserCodeRemoteSystemException) -> None:
        if self._lost_at is None:
            self._lost_at = time.monotonic()
            _logger.warning("%s: %s; asking again", self.default_label(), error)

    def _note_answer(self) -> None:
        if self._lost_at is not None:
            seconds = time.monotonic() - self._lost_at
            _logger.warning("%s: the service answers again, after %.0f s", self.default_label(), seconds)
            self._lost_at = None

    async def _call(self, call: Callable[[Any], Any], request: Any) -> Any:
        import asyncio

        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                if is_coroutine_function(call):
                    return await call(request)
                return await asyncio.to_thread(call, request)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise UserCodeTimeoutException(
                f"Timeout {self.timeout} exceeded while executing request: {request}"
            ) from error
