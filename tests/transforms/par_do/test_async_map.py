"""AsyncMap and async DoFns: what is true of them on every runner, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from penstock.metrics import Metrics
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.dofn.hints import hints_of_dofn
from penstock.sdk.dofn.splittable_dofn import RestrictionProvider
from penstock.sdk.errors import PenstockError, UnsupportedError
from penstock.sdk.side_inputs import AsDict
from penstock.sdk.userstate import BagStateSpec
from penstock.testing.util import TestWindowedValue
from penstock.windowing import FixedWindows, SlidingWindows, TimestampedValue


async def double(n: int) -> int:
    await asyncio.sleep(0.001)
    return 2 * n


async def reversing(n: int) -> int:
    """End in the reverse order of five."""
    await asyncio.sleep(0.02 * (4 - n % 5))
    return n


class Numbers(RestrictionProvider):
    """The numbers up to an element."""

    def initial_restriction(self, n: int) -> OffsetRange:
        return OffsetRange(0, n)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, n: int, restriction: OffsetRange) -> float:
        return restriction.size()


class Both(beam.DoFn):
    """Each element and the next one; tagged text of the time and window."""

    async def setup(self) -> None:
        await asyncio.sleep(0)
        self.step = 1

    async def process(
        self, n: int, factor: int, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> AsyncIterator[Any]:
        yield factor * n
        await asyncio.sleep(0.001)
        yield factor * (n + self.step)
        yield beam.TaggedOutput("when", (n, float(at), float(window.end)))


def test_results_of_calls_are_outputs(pipeline: Any) -> None:
    """More elements than there may be calls at once."""
    with pipeline as p:
        check([2 * n for n in range(500)], p | beam.Create(range(500)) | beam.AsyncMap(double, concurrency=20))


def test_an_async_generator_has_several_outputs_with_the_properties_of_their_element(pipeline: Any) -> None:
    """Timestamps and windows are those of the element, in each of its windows; tags work."""
    with pipeline as p:
        times = p | beam.Create([TimestampedValue(n, n) for n in (1, 4)])
        windowed = times | beam.WindowInto(FixedWindows(3))
        found = windowed | beam.ParDo(Both(), 10).with_outputs("when", main="main")
        check([(1, 1.0, 3.0), (4, 4.0, 6.0)], found.when)
        window = FixedWindows(3)
        expected = [
            TestWindowedValue(value, at, [window.assign(window.AssignContext(beam.utils.timestamp.Timestamp(at)))[0]])
            for value, at in [(10, 1), (20, 1), (40, 4), (50, 4)]
        ]
        check(expected, found.main, reify_windows=True)


def test_an_element_in_two_windows_has_a_call_for_each_if_it_asks_for_the_window(pipeline: Any) -> None:
    """And one call for both if it doesn't."""

    async def with_end(n: int, window: Any = beam.DoFn.WindowParam) -> float:
        return float(window.end)

    with pipeline as p:
        sliding = p | beam.Create([TimestampedValue(7, 3)]) | beam.WindowInto(SlidingWindows(4, 2))
        check([4.0, 6.0], sliding | "ends" >> beam.AsyncMap(with_end))
        counted = sliding | beam.AsyncMap(double) | beam.combiners.Count.PerElement()
        check([(14, 1), (14, 1)], counted)


def test_arguments_and_side_inputs_reach_the_function(pipeline: Any) -> None:
    """A side input is that of the whole window."""

    async def named(n: int, names: dict[int, str], suffix: str) -> str:
        return names[n] + suffix

    with pipeline as p:
        names = p | "names" >> beam.Create([(1, "one"), (2, "two")])
        check(["one!", "two!"], p | beam.Create([1, 2]) | beam.AsyncMap(named, AsDict(names), suffix="!"))


def test_a_function_for_pardo_and_flatmap_may_be_async(pipeline: Any) -> None:
    """A coroutine returns an iterable of outputs."""

    async def twice(n: int) -> list[int]:
        return [n, n]

    async def none(n: int) -> None: ...

    async def each(*items: int) -> AsyncIterator[int]:
        for item in items:
            yield item

    with pipeline as p:
        ones = p | beam.Create([1])
        check([1, 1], ones | beam.ParDo(twice))
        check([1, 1], ones | beam.FlatMap(twice))
        check([], ones | "none" >> beam.ParDo(none))
        pairs = p | "pairs" >> beam.Create([(1, 2)])
        check([1, 2, 3], pairs | beam.FlatMapTuple(each, 3))


def test_calls_follow_each_other_and_groupings(pipeline: Any) -> None:
    """An async step behind another one, and behind a grouping."""
    with pipeline as p:
        twice = p | beam.Create(range(40)) | "a" >> beam.AsyncMap(double) | "b" >> beam.AsyncMap(double)
        total = twice | beam.Map(lambda n: (n % 8, n)) | beam.CombinePerKey(sum) | beam.Values() | beam.AsyncMap(double)
        check([2 * sum(4 * n for n in range(0, 40, 2)), 2 * sum(4 * n for n in range(1, 40, 2))], total)


def test_metrics_of_calls_are_counted_for_their_step(pipeline: Any) -> None:
    """Each once, although calls run in another thread."""

    async def counting(n: int) -> int:
        Metrics.counter("app", "calls").inc()
        await asyncio.sleep(0.001)
        Metrics.counter("app", "calls").inc()
        return n

    with pipeline as p:
        _ = p | beam.Create(range(10)) | "Count" >> beam.AsyncMap(counting)
    counters = p.result.metrics().query()["counters"]
    assert [("Count", 20)] == [(c.key.step, c.committed) for c in counters if c.key.metric.name == "calls"]


# --- Order and limits


@pytest.mark.parametrize(("ordered", "expected"), [(True, [0, 1, 2, 3, 4]), (False, [4, 3, 2, 1, 0])])
def test_outputs_are_in_the_order_of_inputs_if_that_is_asked_for(ordered: bool, expected: list[int]) -> None:
    """Otherwise each is emitted when its call ends."""
    assert expected == (range(5) | beam.AsyncMap(reversing, ordered=ordered))


def test_the_order_of_a_key_can_be_kept_alone() -> None:
    """Values of a key are in their order; another key overtakes."""

    async def wait(pair: tuple[str, float]) -> tuple[str, float]:
        await asyncio.sleep(pair[1])
        return pair

    pairs = [("a", 0.15), ("a", 0.0), ("b", 0.05), ("b", 0.0)]
    assert [*pairs[2:], *pairs[:2]] == (pairs | beam.AsyncMap(wait, ordered="key"))


def test_no_more_calls_run_at_once_than_allowed(pipeline: Any) -> None:
    """And as many do."""

    class Running(beam.DoFn):
        concurrency = 7

        def setup(self) -> None:
            self.running = 0

        async def process(self, n: int) -> list[int]:
            self.running += 1
            most = self.running
            await asyncio.sleep(0.005)
            self.running -= 1
            return [most]

    with pipeline as p:
        # A runner may cut the input into parts.
        most = p | beam.Create(range(60)) | beam.Reshuffle(1) | beam.ParDo(Running()) | beam.combiners.Top.Of(1)
        check([[7]], most)


def test_a_rate_limits_the_calls_of_a_second() -> None:
    """Retries included."""
    began = time.monotonic()
    assert 21 == len(range(21) | beam.AsyncMap(double, rate=100))
    assert 0.19 < time.monotonic() - began < 5


# --- Failures


async def failing(n: int) -> int:
    if n == 2:
        raise KeyError("no such item")
    if n == 3:
        await asyncio.sleep(60)
    return n


def test_an_error_fails_the_pipeline_with_the_users_line_and_the_label(
    make_pipeline: Callable[..., Any],
) -> None:
    """And names the element, whether it was tried again or not."""
    line = inspect.getsourcelines(failing)[1] + 2
    for retries in (0, 1):
        p = make_pipeline()
        _ = p | beam.Create([1, 2]) | "Ask" >> beam.AsyncMap(failing, retries=retries)
        with pytest.raises(Exception, match=r"no such item.*while running 'Ask'.*on element 2") as raised:
            p.run()
        assert f"test_async_map.py:{line}" in str(raised.value)


def test_timeouts_and_exhausted_retries_make_dead_letters(pipeline: Any) -> None:
    """The dead letter has the last error; other elements are outputs."""
    with pipeline as p:
        asked = beam.AsyncMap(failing, timeout=0.05, retries=1).with_exception_handling()
        good, bad = p | beam.Create([1, 2, 3]) | asked
        check([1], good)
        kinds = bad | beam.MapTuple(lambda n, error: (n, error[0].__name__, error[1]))
        late = "TimeoutError('the call has not ended within 0.05 s')"
        check([(2, "KeyError", "KeyError('no such item')"), (3, "TimeoutError", late)], kinds)


def test_dead_letters_of_an_async_generator_may_keep_its_outputs(pipeline: Any) -> None:
    """With `partial`; without it they are dropped; a timeout of the exception handling counts too."""

    class Half(beam.DoFn):
        async def process(self, n: int) -> AsyncIterator[int]:
            yield n
            await asyncio.sleep(0 if n == 1 else 60)
            raise ValueError(n)

    with pipeline as p:
        numbers = p | beam.Create([1, 2])
        kept, bad = numbers | "kept" >> beam.ParDo(Half()).with_exception_handling(partial=True, timeout=0.1)
        check([1, 2], kept)
        check(["ValueError", "TimeoutError"], bad | "names" >> beam.Map(lambda letter: letter[1][0].__name__))
        dropped, _ = numbers | "dropped" >> beam.ParDo(Half()).with_exception_handling(timeout=0.1)
        check([], dropped)


def test_an_async_setup_is_awaited_with_exception_handling_too(pipeline: Any) -> None:
    """The process needs what it has prepared."""
    with pipeline as p:
        good, _ = p | beam.Create([TimestampedValue(1, 1)]) | beam.ParDo(Both(), 10).with_exception_handling()
        check([10, 20], good)


def test_a_failing_call_is_repeated_as_often_as_allowed(pipeline: Any) -> None:
    """It succeeds the third time."""

    attempts: dict[int, int] = {}

    async def flaky(n: int) -> tuple[int, int]:
        attempts[n] = attempts.get(n, 0) + 1
        if attempts[n] < 3:
            raise ConnectionError("try again")
        return n, attempts[n]

    with pipeline as p:
        check([(1, 3), (2, 3)], p | beam.Create([1, 2]) | beam.AsyncMap(flaky, retries=2))


def test_a_strategy_of_tenacity_says_what_is_repeated() -> None:
    """It is a `tenacity.AsyncRetrying`."""
    import tenacity

    strategy = tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(5), retry=tenacity.retry_if_exception_type(ConnectionError)
    )

    async def flaky(n: int) -> int:
        raise ConnectionError if n == 1 else ValueError("not a matter of time")

    for n, kind in ((1, ConnectionError), (2, ValueError)):
        with pytest.raises(kind):
            [n] | beam.AsyncMap(flaky, retries=strategy)


# --- Signs


def test_retractions_of_an_answer_retract_the_answer_that_was_given() -> None:
    """A service may answer otherwise the second time, so answers are kept; no retraction calls it again."""
    from penstock.testing import TestStream

    class Service(beam.DoFn):
        deterministic = False

        def setup(self) -> None:
            self.number = 0

        async def process(self, total: int) -> list[tuple[int, int]]:
            await asyncio.sleep(0.02 if self.number == 0 else 0)
            self.number += 1
            return [(total, self.number)]

    stream = TestStream().add_elements([TimestampedValue(1, 1)]).add_elements([TimestampedValue(2, 2)])
    with beam.Pipeline() as p:
        totals = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.WindowInto(
                FixedWindows(10),
                trigger=beam.triggers.Repeatedly(beam.triggers.AfterCount(1)),
                accumulation_mode=beam.triggers.AccumulationMode.RETRACTING,
            )
            | beam.CombineGlobally(sum).without_defaults()
        )
        signed = totals | beam.ParDo(Service()) | beam.Map(lambda answer, sign=beam.DoFn.SignParam: (answer, sign))
        check([((1, 1), 1), ((1, 1), -1), ((3, 2), 1)], signed)


async def slow_item(row: Any) -> tuple[int, str]:
    await asyncio.sleep(0.001 * (int(row.item) % 3))
    return row.id, row.item


@pytest.mark.parametrize(
    "step",
    [
        beam.Map(lambda row: (row.id, row.item)),
        beam.AsyncMap(slow_item, concurrency=2),
        beam.AsyncMap(slow_item, concurrency=100),
    ],
    ids=["no calls", "two calls", "many calls"],
)
def test_no_pane_has_a_row_without_what_it_replaces(step: Any) -> None:
    """The retraction of a row and the row that replaces it come together, however the input is cut."""
    from penstock.testing import TestStream

    def row(number: int) -> dict[str, Any]:
        return {"id": 1, "item": str(number)}

    create = {"op": "c", "before": None, "after": row(0), "source": {"ts_ms": 1000}}
    updates = [{"op": "u", "before": row(n), "after": row(n + 1), "source": {"ts_ms": 2000 + n}} for n in range(40)]
    stream = TestStream().add_elements([create]).add_elements(updates[:25]).add_elements(updates[25:])
    with beam.Pipeline() as p:
        counts = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.io.FromDebezium()
            | step
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=beam.triggers.Repeatedly(beam.triggers.AfterCount(1)),
                accumulation_mode=beam.triggers.AccumulationMode.RETRACTING,
            )
            | beam.combiners.Count.PerKey()
            | beam.Map(lambda count, sign=beam.DoFn.SignParam: (count, sign))
            | beam.combiners.Count.PerElement()
        )
        check([(((1, 1), 1), 41), (((1, 1), -1), 40)], counts)


def test_workers_of_a_batch_have_an_event_loop_each() -> None:
    """Forked after a run in this process."""
    assert [2] == ([1] | beam.AsyncMap(double))
    with beam.Pipeline(options=PipelineOptions([], parallelism=2)) as p:
        check([2 * n for n in range(100)], p | beam.Create(range(100)) | beam.Reshuffle() | beam.AsyncMap(double))


# --- Refusals


def test_what_an_async_dofn_can_not_have_is_refused_by_name() -> None:
    """When the pipeline is built."""

    class WithState(beam.DoFn):
        async def process(self, pair: Any, bag: Any = beam.DoFn.StateParam(BagStateSpec("bag"))) -> None: ...

    class WithBundles(beam.DoFn):
        async def process(self, n: Any) -> None: ...

        def finish_bundle(self) -> None: ...

    async def plain(n: Any) -> Any:
        return n

    class Finalized(beam.DoFn):
        async def process(self, n: Any, at_end: Any = beam.DoFn.BundleFinalizerParam) -> None: ...

    class Splittable(beam.DoFn):
        async def process(self, n: Any, tracker: Any = beam.DoFn.RestrictionParam(Numbers())) -> None: ...

    class Zero(beam.DoFn):
        concurrency = 0

        async def process(self, n: Any) -> None: ...

    def applied(transform: Any) -> Any:
        return beam.Pipeline() | beam.Create([("a", 1)]) | "Ask" >> transform

    for transform, message in [
        (beam.ParDo(WithState()), "Ask: an async DoFn can't have state or timers"),
        (beam.ParDo(Finalized()), "Ask: an async DoFn can't have a BundleFinalizerParam"),
        (beam.ParDo(Splittable()), "Ask: an async DoFn can't be splittable, but its process has a RestrictionParam"),
        (beam.ParDo(WithBundles()), "Ask: an async DoFn can't have a finish_bundle"),
        (beam.Map(plain), "Ask: Map would output coroutines.*use beam.AsyncMap"),
        (beam.Filter(plain), "Ask: Filter would output coroutines.*use beam.AsyncMap"),
        (beam.ParDo(WithBundles()).with_exception_handling(), "Ask: an async DoFn can't have a finish_bundle"),
        (beam.AsyncMap(plain).with_exception_handling(use_subprocess=True), "Ask: use_subprocess"),
    ]:
        with pytest.raises(UnsupportedError, match=message):
            applied(transform)
    for transform, message in [
        (beam.ParDo(Zero()), "Ask: concurrency is the number of simultaneous calls, got 0"),
        (beam.AsyncMap(plain, ordered="keys"), "Ask: ordered is False, True or 'key', got 'keys'"),
    ]:
        with pytest.raises(ValueError, match=message):
            applied(transform)


def test_wrong_settings_are_refused_at_once() -> None:
    """Each by its name."""
    with pytest.raises(TypeError, match="expected an async function.*did you mean Map"):
        beam.AsyncMap(lambda n: n)
    with pytest.raises(ValueError, match="timeout must be over 0, got 0"):
        beam.AsyncMap(double, timeout=0)
    with pytest.raises(ValueError, match="rate must be over 0, got -1"):
        beam.AsyncMap(double, rate=-1)
    with pytest.raises(ValueError, match="retries must be at least 0, got -1"):
        beam.AsyncMap(double, retries=-1)
    with pytest.raises(TypeError, match=r"retries is a number or a tenacity.AsyncRetrying, got 'often'"):
        beam.AsyncMap(double, retries="often")


def test_an_element_without_a_key_fails_where_the_order_of_keys_is_kept() -> None:
    """The error names the transform."""
    with pytest.raises(PenstockError, match=r"Ask.*pair"):
        [1] | "Ask" >> beam.AsyncMap(double, ordered="key")


def test_types_are_those_of_the_result() -> None:
    """Of an async generator, those of its items."""

    class Items(beam.DoFn):
        async def process(self, n: int) -> AsyncIterator[str]:
            yield str(n)

    assert (int, str) == hints_of_dofn(Items())
    assert int is (beam.Pipeline() | beam.Create([1]) | beam.AsyncMap(double)).element_type


def test_rows_of_a_changing_table_are_retracted_with_their_answers(pipeline: Any) -> None:
    """Although a retraction has the time of the change, and not that at which the row was added."""
    envelopes = [
        {"op": "c", "before": None, "after": {"id": 1, "item": "tea"}, "source": {"ts_ms": 1000}},
        {"op": "c", "before": None, "after": {"id": 2, "item": "jam"}, "source": {"ts_ms": 1500}},
        {"op": "u", "before": {"id": 1, "item": "tea"}, "after": {"id": 1, "item": "jam"}, "source": {"ts_ms": 2000}},
        {"op": "d", "before": {"id": 2, "item": "jam"}, "after": None, "source": {"ts_ms": 3000}},
    ]

    async def ask(row: Any) -> tuple[int, str]:
        await asyncio.sleep(0.001)
        return row.id, row.item.upper()

    with pipeline as p:
        answers = p | beam.Create(envelopes) | beam.io.FromDebezium() | beam.AsyncMap(ask)
        signed = answers | beam.Map(lambda answer, sign=beam.DoFn.SignParam: (answer, sign))
        check([((1, "TEA"), 1), ((2, "JAM"), 1), ((1, "TEA"), -1), ((1, "JAM"), 1), ((2, "JAM"), -1)], signed)


class Numbered(beam.DoFn):
    """Pairs with the number of the call."""

    deterministic = False

    def setup(self) -> None:
        self.calls = 0

    def process(self, element: int) -> Any:
        self.calls += 1
        yield element, self.calls


def test_changes_find_their_elements_whatever_splits_the_source_would_have(make_pipeline: Any) -> None:
    """One task reads them all, in their order, with several workers as well."""
    rows = [{"op": "c", "before": None, "after": {"id": n}, "source": {"ts_ms": n}} for n in range(40)]
    rows += [{"op": "d", "before": {"id": n}, "after": None, "source": {"ts_ms": 90}} for n in range(39)]
    for parallelism in (1, 2):
        with make_pipeline(options=PipelineOptions(parallelism=parallelism)) as p:
            numbered = p | beam.Create(rows) | beam.io.FromDebezium() | beam.ParDo(Numbered())
            signed = numbered | beam.Map(lambda pair, sign=beam.DoFn.SignParam: (sign, pair[0].id, pair[1]))
            check([(1, n, n + 1) for n in range(40)] + [(-1, n, n + 1) for n in range(39)], signed)
