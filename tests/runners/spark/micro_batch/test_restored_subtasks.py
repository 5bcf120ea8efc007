"""Subtasks that are restored before a batch: full snapshots and deltas hold all of their state."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest
from support.pipelines.recording import recorded
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows, TimestampedValue

EACH = Repeatedly(AfterCount(1))
ALWAYS, NEVER = (lambda number: True), (lambda number: False)


@pytest.mark.parametrize("forgets", [ALWAYS, NEVER, lambda number: number % 3 == 0])
def test_a_side_input_is_kept_in_batches_without_input_for_it(forgets: Any) -> None:
    """A subtask with side inputs only has no changes in such a batch, and was once taken for one without state."""

    def build(p: Any) -> Any:
        stream = TestStream(output_tags=["rates", "prices"])
        for price, rate in ((10, 2), (20, None), (25, None), (26, 3), (30, None), (31, None)):
            stream.add_elements([TimestampedValue(price, 0)], "prices")
            if rate is not None:
                stream.add_elements([TimestampedValue(rate, 0)], "rates")
        stream.advance_watermark_to_infinity("rates").advance_watermark_to_infinity("prices")
        outputs = p | stream
        windows = beam.WindowInto(
            beam.window.GlobalWindows(), trigger=EACH, accumulation_mode=AccumulationMode.RETRACTING
        )
        rates = outputs["rates"] | beam.WithKeys("rate") | windows | beam.CombinePerKey(max) | beam.Values()
        return outputs["prices"] | "paid" >> beam.Map(lambda price, rate: price * rate, beam.pvalue.AsSingleton(rates))

    changes = recorded(build, RunnerInThisProcess(1, forgets=forgets)).changes
    assert [20, 40, 50, 52, 90, 93] == [change.value for change in changes]


NUMBERS = count()


class Number(beam.DoFn):
    """Outputs a new number each time."""

    deterministic = False

    def process(self, element: Any) -> Any:
        yield element, next(NUMBERS)


@pytest.mark.parametrize("forgets", [ALWAYS, NEVER, lambda number: number % 3 == 0])
def test_retractions_equal_earlier_outputs(forgets: Any) -> None:
    """By a subtask whose state another one has written."""

    def build(p: Any) -> Any:
        stream = TestStream()
        for n in range(12):
            stream.add_elements([TimestampedValue(("abc"[n % 3], 1), 0)])
        windows = beam.WindowInto(
            beam.window.GlobalWindows(), trigger=EACH, accumulation_mode=AccumulationMode.RETRACTING
        )
        return p | stream.advance_watermark_to_infinity() | windows | beam.CombinePerKey(sum) | beam.ParDo(Number())

    changes = recorded(build, RunnerInThisProcess(2, forgets=forgets)).changes
    left: Counter[Any] = Counter()
    for change in changes:
        left[change.value] += change.sign
    assert [("a", 4), ("b", 4), ("c", 4)] == sorted(element for (element, _), times in left.items() if times)
    assert {0, 1} == set(left.values())


@pytest.mark.parametrize("forgets", [ALWAYS, NEVER])
def test_late_elements_are_counted_in_each_batch(forgets: Any) -> None:
    """A grouping keeps its counters from batch to batch, and each batch reports and resets them."""
    stream = TestStream().advance_watermark_to(100)
    for value in range(3):
        stream.add_elements([TimestampedValue(("late", value), 0)])
    p = beam.Pipeline(runner=RunnerInThisProcess(1, forgets=forgets), argv=[])
    _ = p | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(10)) | beam.CombinePerKey(sum)
    counters = p.run().metrics().query(beam.metrics.MetricsFilter().with_name("dropped_late"))["counters"]
    assert [3] == [counter.committed for counter in counters]
