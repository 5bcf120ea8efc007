"""Enrichment and RequestResponseIO with callers of one's own."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.io.requestresponse import (
    Caller,
    DefaultThrottler,
    ExponentialBackOffRepeater,
    NoOpsRepeater,
    PreCallThrottler,
    Repeater,
    RequestResponseIO,
    UserCodeQuotaException,
    UserCodeTimeoutException,
)
from penstock.sdk.errors import UnsupportedError
from penstock.transforms.enrichment import Enrichment, EnrichmentSourceHandler, cross_join


class Names(EnrichmentSourceHandler[Any, Any]):
    """A caller as written for Beam: not async, with a context."""

    def __enter__(self) -> Any:
        self.names = {1: "one", 2: "two"}
        return self

    def __call__(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        return request, beam.Row(name=self.names[request.id])


def test_a_caller_written_for_beam_enriches_rows(pipeline: Any) -> None:
    """Its calls run in a thread, one after the other."""
    with pipeline as p:
        rows = p | beam.Create([beam.Row(id=1), beam.Row(id=2)])
        check([beam.Row(id=1, name="one"), beam.Row(id=2, name="two")], rows | Enrichment(Names()))


def test_a_join_function_decides_on_the_output() -> None:
    """It gets dictionaries, or with custom types what the caller returns; fields of the request aren't overwritten."""

    class Twice(EnrichmentSourceHandler[int, int]):
        async def __call__(self, request: int, *args: Any, **kwargs: Any) -> tuple[int, int]:
            return request, 2 * request

    assert beam.Row(a=1, b=2) == cross_join({"a": 1}, {"a": 3, "b": 2})
    joined = [beam.Row(id=1)] | Enrichment(Names(), join_fn=lambda left, right: (left["id"], right["name"]))
    assert [(1, "one")] == joined
    assert [(5, 10)] == ([5] | Enrichment(Twice(), lambda left, right: (left, right), use_custom_types=True))


def test_calls_that_exceed_a_quota_are_repeated_and_calls_that_hang_time_out() -> None:
    """Not by NoOpsRepeater; a repeater of one's own repeats callers that aren't async."""

    class Limited(Caller[int, int]):
        def __enter__(self) -> Any:
            self.calls = 0
            return self

        def __call__(self, request: int, *args: Any, **kwargs: Any) -> int:
            self.calls += 1
            if self.calls < 3:
                raise UserCodeQuotaException("later")
            return self.calls

    class Slow(Caller[int, int]):
        def __call__(self, request: int, *args: Any, **kwargs: Any) -> int:
            time.sleep(0.3)
            return request

    class Often(Repeater):
        def repeat(self, caller: Any, request: Any, timeout: float, metrics_collector: Any = None) -> Any:
            while True:
                try:
                    return caller(request)
                except UserCodeQuotaException:
                    pass

    for repeater in (ExponentialBackOffRepeater(2, 0.01), Often()):
        assert [3] == ([1] | RequestResponseIO(Limited(), repeater=repeater))
    with pytest.raises(UserCodeQuotaException):
        [1] | RequestResponseIO(Limited(), repeater=NoOpsRepeater())
    with pytest.raises(UserCodeTimeoutException, match=r"Timeout 0\.05 exceeded while executing request: 7"):
        [7] | RequestResponseIO(Slow(), timeout=0.05, repeater=NoOpsRepeater())


def test_callers_that_are_not_async_are_called_one_at_a_time_unless_more_are_allowed() -> None:
    """As in Beam, whose callers needn't be safe in several threads."""

    class Counting(Caller[int, int]):
        def __enter__(self) -> Any:
            self.lock = threading.Lock()
            self.running = 0
            return self

        def __call__(self, request: int, *args: Any, **kwargs: Any) -> int:
            with self.lock:
                self.running += 1
                running = self.running
            time.sleep(0.01)
            with self.lock:
                self.running -= 1
            return running

    assert 1 == max(range(5) | RequestResponseIO(Counting()))
    assert 1 < max(range(12) | RequestResponseIO(Counting(), concurrency=4)) <= 4


def test_calls_wait_while_many_fail() -> None:
    """By the share of recent successes; a throttler of one's own is asked too."""
    throttler = DefaultThrottler(window_ms=60_000, overload_ratio=1)
    assert not any(throttler.throttle_request() for _ in range(200))
    for _ in range(400):
        throttler.failed_request()
    assert 150 < sum(throttler.throttle_request() for _ in range(200))
    for _ in range(4_000):
        throttler.successful_request()
    assert 20 > sum(throttler.throttle_request() for _ in range(20))

    class Second(PreCallThrottler):
        delay_secs = 0.01

        def __init__(self) -> None:
            self.asked = 0

        def throttle_request(self) -> bool:
            self.asked += 1
            return self.asked % 2 == 1

    class Same(Caller[int, int]):
        async def __call__(self, request: int, *args: Any, **kwargs: Any) -> int:
            return request

    began = time.monotonic()
    assert [1, 2, 3] == sorted([1, 2, 3] | RequestResponseIO(Same(), throttler=Second(), concurrency=1))
    assert time.monotonic() - began > 0.03


def test_what_is_not_supported_is_refused_by_name() -> None:
    """When the transform is created."""

    class Same(Caller[int, int]):
        async def __call__(self, request: int, *args: Any, **kwargs: Any) -> int:
            return request

    class Mine(NoOpsRepeater):
        pass

    with pytest.raises(UnsupportedError, match="Mine can't repeat the calls of Same, which are async"):
        RequestResponseIO(Same(), repeater=Mine())
    with pytest.raises(UnsupportedError, match="should_backoff isn't supported"):
        RequestResponseIO(Same(), should_backoff=object())
    with pytest.raises(ValueError, match="max_size is a number of responses, got 0"):
        Enrichment(Names()).with_cache(0)
