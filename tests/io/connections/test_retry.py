"""Retries with growing delays."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.io.connections.retry import FuzzedExponentialIntervals, no_retries
from penstock.utils import retry


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, value: float) -> None:
        self.slept.append(value)


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        self.status_code = status


def calls_until_failure(error: Exception, **arguments: Any) -> tuple[int, list[float]]:
    """The number of calls, and the delays, of a function that always fails."""
    clock, calls = Clock(), []

    @retry.with_exponential_backoff(clock=clock, **{"fuzz": False, "logger": lambda *_: None, **arguments})
    def fails(*args: Any, key: int) -> None:
        calls.append((args, key))
        raise error

    with pytest.raises(type(error)):
        fails(1, 2, key=3)
    assert {((1, 2), 3)} == set(calls)
    return len(calls), clock.slept


def test_a_call_is_retried_with_growing_delays() -> None:
    assert (4, [1, 3, 9]) == calls_until_failure(OSError(), num_retries=3, initial_delay_secs=1, factor=3)
    assert (4, [1, 2, 2]) == calls_until_failure(OSError(), num_retries=3, initial_delay_secs=1, max_delay_secs=2)
    assert (3, [5, 10]) == calls_until_failure(OSError(), stop_after_secs=20)


@pytest.mark.parametrize(
    ("error", "filter_name", "is_retried"),
    [
        (retry.PermanentException(), "retry_on_server_errors_filter", False),
        (HttpError(500), "retry_on_server_errors_filter", True),
        (HttpError(404), "retry_on_server_errors_filter", False),
        (HttpError(404), "retry_on_server_errors_and_notfound_filter", True),
        (HttpError(408), "retry_on_server_errors_and_timeout_filter", True),
        (HttpError(429), "retry_on_server_errors_and_timeout_filter", False),
        (HttpError(429), "retry_on_server_errors_timeout_or_quota_issues_filter", True),
        (ValueError(), "retry_if_valid_input_but_server_error_and_timeout_filter", False),
        (OSError(), "retry_if_valid_input_but_server_error_and_timeout_filter", True),
    ],
)
def test_only_errors_that_may_pass_are_retried(error: Exception, filter_name: str, is_retried: bool) -> None:
    count, _ = calls_until_failure(error, retry_filter=getattr(retry, filter_name), num_retries=1)
    assert (2 if is_retried else 1) == count


def test_delays_are_fuzzed() -> None:
    """By up to the given share."""
    delays = list(FuzzedExponentialIntervals(10, 100, factor=1, fuzz=0.5))
    assert all(5 <= delay <= 10 for delay in delays)
    assert len(set(delays)) > 1
    for arguments in ({"num_retries": 10_001}, {"num_retries": 1, "fuzz": 2}):
        with pytest.raises(ValueError, match=r"num_retries|fuzz"):
            FuzzedExponentialIntervals(1, **arguments)


def test_a_function_may_be_left_as_it_is() -> None:
    assert len is no_retries(len)
