"""Retries of calls that fail for a while, with growing delays between them (Beam's `utils.retry`)."""

from __future__ import annotations

import functools
import random
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ...sdk.redaction import logger_of

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

SERVER_ERROR_OR_TIMEOUT_CODES = (408, 500, 502, 503, 504, 598, 599)

_logger = logger_of(__name__)


class PermanentException(Exception):
    """A failure that a retry can't change."""


class Clock:
    """A clock that sleeps.  Tests pass another one."""

    def sleep(self, value: float) -> None:
        """Wait for some seconds."""
        time.sleep(value)


class FuzzedExponentialIntervals:
    """Delays in seconds, each a multiple of the one before, less a random part.

    Args:
      num_retries: the number of delays.
      fuzz: the largest share of a delay that is taken off at random, from 0 to 1.
      stop_after_secs: the largest sum of the delays.

    >>> list(FuzzedExponentialIntervals(1, 4, fuzz=0, max_delay_secs=5))
    [1, 2, 4, 5]
    """

    def __init__(
        self,
        initial_delay_secs: float,
        num_retries: int,
        factor: float = 2,
        fuzz: float = 0.5,
        max_delay_secs: float = 60 * 60,
        stop_after_secs: float | None = None,
    ) -> None:
        if num_retries > 10_000:
            raise ValueError(f"num_retries must be at most 10000, got {num_retries}")
        if not 0 <= fuzz <= 1:
            raise ValueError(f"fuzz must be between 0 and 1, got {fuzz}")
        self._initial = initial_delay_secs
        self._retries = num_retries
        self._factor = factor
        self._fuzz = fuzz
        self._max = max_delay_secs
        self._sum = stop_after_secs

    def __iter__(self) -> Iterator[float]:
        delay, total = min(self._initial, self._max), 0.0
        for _ in range(self._retries):
            fuzzed = delay * (1 - self._fuzz * random.random()) if self._fuzz else delay
            total += fuzzed
            if self._sum is not None and total > self._sum:
                return
            yield fuzzed
            delay = min(delay * self._factor, self._max)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status in an error of a client library: its `status_code` or `code`."""
    status = getattr(error, "status_code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def retry_on_server_errors_filter(exception: BaseException) -> bool:
    """Return whether an error is a server's, or of another kind than HTTP, and not a `PermanentException`."""
    status = status_of(exception)
    return status >= 500 if status is not None else not isinstance(exception, PermanentException)


def retry_on_server_errors_and_notfound_filter(exception: BaseException) -> bool:
    """Return whether to retry: as of `retry_on_server_errors_filter`, or status 404."""
    return status_of(exception) == 404 or retry_on_server_errors_filter(exception)


def retry_on_server_errors_and_timeout_filter(exception: BaseException) -> bool:
    """Return whether to retry: as of `retry_on_server_errors_filter`, or status 408."""
    return status_of(exception) == 408 or retry_on_server_errors_filter(exception)


def retry_on_server_errors_timeout_or_quota_issues_filter(exception: BaseException) -> bool:
    """Return whether to retry: as of `retry_on_server_errors_and_timeout_filter`, or status 429."""
    return status_of(exception) == 429 or retry_on_server_errors_and_timeout_filter(exception)


def retry_if_valid_input_but_server_error_and_timeout_filter(exception: BaseException) -> bool:
    """Return whether to retry: as of `retry_on_server_errors_and_timeout_filter`, unless it is a `ValueError`."""
    return not isinstance(exception, ValueError) and retry_on_server_errors_and_timeout_filter(exception)


def no_retries(fun: FunctionT) -> FunctionT:
    """Return a function that is called once."""
    return fun


def with_exponential_backoff(
    num_retries: int = 7,
    initial_delay_secs: float = 5.0,
    logger: Callable[..., Any] = _logger.warning,
    retry_filter: Callable[[BaseException], bool] = retry_on_server_errors_filter,
    clock: Any = Clock(),
    fuzz: bool | float = True,
    factor: float = 2,
    max_delay_secs: float = 60 * 60,
    stop_after_secs: float | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator of functions that are called again after an error that `retry_filter` accepts.

    Args:
      logger: is called before each retry with a format and its arguments: the delay, the function's name, the error and
        its traceback.
      fuzz: whether delays are random: half to all of their length.
      max_delay_secs, stop_after_secs: the longest delay, and the longest sum of delays.

    >>> calls = []
    >>> class NoClock:
    ...     def sleep(self, value):
    ...         print("sleep", value)
    >>> @with_exponential_backoff(clock=NoClock(), fuzz=False, logger=lambda *arguments: None)
    ... def unstable(x):
    ...     calls.append(x)
    ...     if len(calls) < 3:
    ...         raise OSError("not yet")
    ...     return x
    >>> unstable(7)
    sleep 5.0
    sleep 10.0
    7
    """

    def decorate(fun: FunctionT) -> FunctionT:
        share = 0.5 if fuzz is True else float(fuzz)
        delays = FuzzedExponentialIntervals(
            initial_delay_secs, num_retries, factor, share, max_delay_secs, stop_after_secs
        )

        @functools.wraps(fun)
        def retried(*args: Any, **kwargs: Any) -> Any:
            left = iter(delays)
            while True:
                try:
                    return fun(*args, **kwargs)
                except Exception as error:
                    delay = next(left, None) if retry_filter(error) else None
                    if delay is None:
                        raise
                    shown = "".join(traceback.format_exception_only(error))
                    frames = "".join(traceback.format_tb(error.__traceback__))
                    name = getattr(fun, "__name__", str(fun))
                    logger("Retry with exponential backoff: in %s seconds, %s, after %s%s", delay, name, shown, frames)
                    clock.sleep(delay)

        return retried  # type: ignore[return-value]

    return decorate
