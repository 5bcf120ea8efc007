"""AsyncWrapper: calls of a DoFn in the background, by the engine of async DoFns."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import penstock as beam
from penstock.metrics import Metrics
from penstock.options.pipeline_options import PipelineOptions
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.transforms.async_dofn import AsyncWrapper


class Squares(beam.DoFn):
    """Emits the square of a value, which takes a while."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.seconds = seconds

    def process(self, element: Any) -> Any:
        time.sleep(self.seconds)
        Metrics.counter("squares", "made").inc()
        key, n = element
        yield key, n * n


class AsyncSquares(beam.DoFn):
    async def process(self, element: Any) -> Any:
        await asyncio.sleep(0.2)
        key, n = element
        return [(key, n * n)]


@pytest.mark.parametrize("use_asyncio", [False, True])
def test_the_outputs_of_all_calls_on_each_runner(make_pipeline: Any, use_asyncio: bool) -> None:
    """With Beam's parameters, those without effect included; keys may have equal values."""
    wrapper = AsyncWrapper(
        Squares(), parallelism=4, max_items_to_buffer=5, timeout=0.01, callback_frequency=1, use_asyncio=use_asyncio
    )
    elements = [(key, n) for key in "ab" for n in range(8)]
    with make_pipeline() as p:
        assert_that(p | beam.Create(elements) | beam.ParDo(wrapper), equal_to([(key, n * n) for key, n in elements]))


def test_metrics_of_the_calls_are_counted() -> None:
    """Those of threads, too."""
    p = beam.Pipeline("local")
    _ = p | beam.Create([("a", n) for n in range(5)]) | beam.ParDo(AsyncWrapper(Squares(0), parallelism=3))
    result = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(beam.metrics.MetricsFilter().with_name("made"))["counters"]
    assert 5 == counter.committed


def test_no_thread_stays_when_the_pipeline_has_ended() -> None:
    before = threading.active_count()
    assert [("a", 9)] == [("a", 3)] | beam.ParDo(AsyncWrapper(Squares(), parallelism=4))
    assert before == threading.active_count()


def test_coroutines_run_at_the_same_time() -> None:
    wrapper = AsyncWrapper(AsyncSquares(), max_items_to_buffer=50, use_asyncio=True)
    begin = time.monotonic()
    assert [("a", n * n) for n in range(30)] == sorted([("a", n) for n in range(30)] | beam.ParDo(wrapper))
    assert time.monotonic() - begin < 4


def test_elements_with_one_id_that_are_in_flight_have_one_call() -> None:
    """The first one's; other keys have calls of their own."""
    wrapper = AsyncWrapper(Squares(0.3), parallelism=5, id_fn=lambda n: n % 10)
    elements = [("a", 1), ("a", 11), ("b", 1), ("a", 2)]
    assert [("a", 1), ("a", 4), ("b", 1)] == sorted(elements | beam.ParDo(wrapper))


def test_outputs_do_not_wait_for_timers_nor_for_the_end_of_the_window() -> None:
    """In a stream they come when their call ends, and keep the time of their element."""
    script = TestStream().add_elements([beam.window.TimestampedValue(("a", 3), 5)]).advance_watermark_to_infinity()
    with TestPipeline(options=PipelineOptions()) as p:
        squares = p | script | beam.ParDo(AsyncWrapper(Squares(), callback_frequency=1e6))
        times = squares | beam.Map(lambda pair, at=beam.DoFn.TimestampParam: (pair, int(at)))
        assert_that(times, equal_to([(("a", 9), 5)]))


def test_a_failed_call_fails_the_pipeline_or_makes_a_dead_letter() -> None:
    """With the wrapped DoFn's error."""

    class Fails(beam.DoFn):
        def process(self, element: Any) -> Any:
            if element[1] == 2:
                raise RuntimeError("unavailable")
            yield element

    elements = [("a", 1), ("a", 2)]
    with pytest.raises(RuntimeError, match="unavailable"):
        _ = elements | beam.ParDo(AsyncWrapper(Fails()))
    with TestPipeline() as p:
        good, bad = p | beam.Create(elements) | beam.ParDo(AsyncWrapper(Fails())).with_exception_handling()
        assert_that(good, equal_to([("a", 1)]), "good")
        assert_that(bad | beam.Map(lambda letter: letter[0]), equal_to([("a", 2)]), "bad")


def test_only_a_dofn_is_wrapped() -> None:
    with pytest.raises(TypeError, match="AsyncWrapper: expected a DoFn, got <built-in function len>"):
        AsyncWrapper(len)  # type: ignore[arg-type]
