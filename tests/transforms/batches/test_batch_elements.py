"""BatchElements, and the estimate that its batches' size comes from."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.testing import TestPipeline, TestStream, TestWindowedValue, assert_that, equal_to
from penstock.transforms.batches.batch_elements import BatchSizeEstimator, fitted_line
from penstock.windowing import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue


class Clock:
    """A clock that moves when it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sizes(estimator: BatchSizeEstimator, clock: Clock, takes: Callable[[int], float], count: int) -> list[int]:
    """The sizes of the next batches, if one of size n takes `takes(n)` seconds."""
    found = []
    for _ in range(count):
        found.append(estimator.next_batch_size())
        with estimator.record_time(found[-1]):
            clock.now += takes(found[-1])
    return found


def test_the_size_grows_until_a_batch_takes_as_long_as_it_may() -> None:
    """At most twofold each time; the target leaves the fixed cost out."""
    clock = Clock()
    estimator = BatchSizeEstimator(target_batch_overhead=None, target_batch_duration_secs=10, variance=0, clock=clock)
    assert [1, 2, 4, 8, 14, 14, 14] == sizes(estimator, clock, lambda n: 1 + 0.7 * n, 7)


def test_the_fixed_cost_counts_where_the_target_says_so() -> None:
    """The rest of the time is what is left for the elements."""
    clock = Clock()
    estimator = BatchSizeEstimator(
        target_batch_overhead=None,
        target_batch_duration_secs=None,
        target_batch_duration_secs_including_fixed_cost=10,
        variance=0,
        clock=clock,
    )
    assert [1, 2, 4, 8, 12, 12, 12] == sizes(estimator, clock, lambda n: 1 + 0.7 * n, 7)


def test_the_size_grows_until_the_fixed_cost_is_a_small_enough_part() -> None:
    """5% of 1 + 0.7 * 27 seconds is just about one."""
    clock = Clock()
    estimator = BatchSizeEstimator(target_batch_overhead=0.05, target_batch_duration_secs=None, variance=0, clock=clock)
    assert [1, 2, 4, 8, 16, 27, 27, 27] == sizes(estimator, clock, lambda n: 1 + 0.7 * n, 8)


def test_the_size_stays_within_its_limits() -> None:
    """Where batches take no time, they are as large as can be."""
    clock = Clock()
    estimator = BatchSizeEstimator(min_batch_size=5, max_batch_size=30, variance=0, clock=clock)
    assert [5, 10, 20, 30, 30] == sizes(estimator, clock, lambda n: 0, 5)


def test_where_small_batches_are_best_two_sizes_take_turns() -> None:
    """Through one size alone there would be no line to draw, and no way back."""
    clock = Clock()
    estimator = BatchSizeEstimator(min_batch_size=10, target_batch_duration_secs=1, variance=0, clock=clock)
    assert {10, 11} == set(sizes(estimator, clock, lambda n: 2 * n, 10))


def test_sizes_vary_around_the_target_once_there_is_one() -> None:
    """By a quarter either way."""
    clock = Clock()
    estimator = BatchSizeEstimator(
        target_batch_overhead=None, target_batch_duration_secs=100, variance=0.25, clock=clock, rng=random.Random(1)
    )
    later = sizes(estimator, clock, lambda n: 1.0 * n, 60)[20:]
    assert 10 < len(set(later))
    assert (75 <= min(later), max(later) <= 125) == (True, True)


def test_noise_does_not_mislead_the_estimate() -> None:
    """Times are off by up to 10%."""
    clock, noise = Clock(), random.Random(2)
    estimator = BatchSizeEstimator(target_batch_overhead=None, target_batch_duration_secs=10, clock=clock, rng=noise)
    later = sizes(estimator, clock, lambda n: (5 + 0.1 * n) * noise.uniform(0.9, 1.1), 100)[50:]
    assert 70 < sum(later) / len(later) < 130


def test_the_first_batch_of_a_bundle_is_left_out_and_its_size_tried_again() -> None:
    """It often includes what is set up by it."""
    clock = Clock()
    estimator = BatchSizeEstimator(target_batch_overhead=None, target_batch_duration_secs=10, variance=0, clock=clock)
    estimator.ignore_next_timing()
    with estimator.record_time(estimator.next_batch_size()):
        clock.now += 1000
    assert [1, 2, 4, 8, 10] == sizes(estimator, clock, lambda n: float(n), 5)


def test_the_estimate_adapts_to_what_has_changed() -> None:
    """Only the latest hundred times count."""
    clock = Clock()
    estimator = BatchSizeEstimator(target_batch_overhead=None, target_batch_duration_secs=10, variance=0, clock=clock)
    sizes(estimator, clock, lambda n: 0.01 * n, 50)
    assert 12 > sizes(estimator, clock, lambda n: 1.0 * n, 110)[-1]


def test_a_line_is_fitted_through_the_points() -> None:
    """Through the origin if there is nothing else to go by."""
    assert (3, 2) == fitted_line([(0, 3), (10, 23)])
    assert (0, 2) == fitted_line([(5, 10), (5, 10)])
    assert (7, 0) == fitted_line([(0, 7)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_batch_size": 0}, "min_batch_size"),
        ({"min_batch_size": 5, "max_batch_size": 4}, "max_batch_size, got 5 and 4"),
        ({"target_batch_overhead": 1.5}, "target_batch_overhead must be between 0 and 1"),
        ({"target_batch_duration_secs": -1}, "target_batch_duration_secs must be positive"),
        ({"target_batch_overhead": None, "target_batch_duration_secs": None}, "at least one of"),
        ({"bucket_boundaries": [3]}, "bucket_boundaries needs a length_fn"),
        ({"length_fn": len, "bucket_boundaries": [3, 3]}, "must be positive and ascending"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any], message: str) -> None:
    """When the transform is made."""
    with pytest.raises(ValueError, match=f"BatchElements: .*{message}"):
        beam.BatchElements(**arguments)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (10, [[1, 2, 3], [4]]),  # Full; and waited for 10 seconds, to which 5 joined after.
        (100, [[1, 2, 3], [4, 5]]),  # Full; and the end of the window.
    ],
)
def test_elements_of_several_bundles_are_buffered(seconds: int, expected: list[list[int]]) -> None:
    """For a limited time, if they have to wait for others."""
    events = TestStream()
    for value in (1, 2, 3, 4):
        events = events.add_elements([value])
    events = events.advance_processing_time(20).add_elements([5]).advance_watermark_to_infinity()
    with TestPipeline() as p:
        batches = p | events | beam.BatchElements(3, 3, max_batch_duration_secs=seconds)
        expected = [*expected, [5]] if seconds == 10 else expected
        assert_that(batches, equal_to(expected))


def test_buffered_elements_are_of_one_window_and_bucket_and_not_too_large() -> None:
    """As the lists of a bundle."""
    words = ["a", "b", "c" * 20, "d" * 20, "e"]
    with TestPipeline() as p:
        timed = p | beam.Create([TimestampedValue(word, t) for t, word in enumerate(words)])
        windowed = timed | beam.WindowInto(FixedWindows(4))
        batches = windowed | beam.BatchElements(9, 9, max_batch_duration_secs=100, length_fn=len)
        assert_that(batches, equal_to([["a", "b"], ["c" * 20, "d" * 20], ["e"]]))
        small = timed | "small" >> beam.BatchElements(22, 22, max_batch_duration_secs=100, element_size_fn=len)
        assert_that(small, equal_to([["a", "b", "c" * 20], ["d" * 20, "e"]]), label="sizes")


def test_buffering_takes_time() -> None:
    with pytest.raises(ValueError, match="BatchElements: max_batch_duration_secs must be positive, got 0"):
        beam.BatchElements(max_batch_duration_secs=0)


def test_batches_of_a_fixed_size_are_full_but_for_the_last() -> None:
    """In the order of the elements."""
    batches = [1, 2, 3, 4, 5, 6, 7] | beam.BatchElements(min_batch_size=3, max_batch_size=3)
    assert [[1, 2, 3], [4, 5, 6], [7]] == batches


def test_no_elements_make_no_batch() -> None:
    """Not an empty one."""
    assert [] == [] | beam.BatchElements()


@pytest.mark.parametrize("windowed", [False, True])
def test_nothing_is_lost_or_doubled(windowed: bool) -> None:
    """With any batch sizes."""
    values = list(range(1000))
    with TestPipeline() as p:
        pcoll = p | beam.Create([TimestampedValue(v, v % 7) for v in values])
        if windowed:
            pcoll |= beam.WindowInto(FixedWindows(2))
        assert_that(pcoll | beam.BatchElements() | beam.FlatMap(), equal_to(values))


def test_batches_have_one_window_and_the_timestamp_of_its_end() -> None:
    """Windows are never mixed, however they alternate."""
    with TestPipeline() as p:
        elements = [TimestampedValue(t, t) for t in (1, 11, 2, 12, 3)]
        batches = (
            p
            | beam.Create(elements)
            | beam.WindowInto(FixedWindows(10))
            | beam.BatchElements(min_batch_size=2, max_batch_size=2)
        )
        expected = [
            TestWindowedValue([1, 2], 9.999999, [IntervalWindow(0, 10)]),
            TestWindowedValue([3], 9.999999, [IntervalWindow(0, 10)]),
            TestWindowedValue([11, 12], 19.999999, [IntervalWindow(10, 20)]),
        ]
        assert_that(batches, equal_to(expected), reify_windows=True)


def test_in_the_global_window_batches_have_its_end_as_well() -> None:
    """As in Beam."""
    with TestPipeline() as p:
        batches = p | beam.Create([1, 2, 3]) | beam.BatchElements(min_batch_size=2, max_batch_size=2)
        end = GlobalWindow().max_timestamp()
        expected = [TestWindowedValue(batch, end, [GlobalWindow()]) for batch in ([1, 2], [3])]
        assert_that(batches, equal_to(expected), reify_windows=True)


def test_elements_may_count_for_more_than_one() -> None:
    """A batch isn't made larger than the size; one element that is larger is a batch of its own."""
    batches = ["a", "bb", "cccccc", "d", "eee"] | beam.BatchElements(4, 4, element_size_fn=len)
    assert [["a", "bb"], ["cccccc"], ["d", "eee"]] == batches


def test_elements_of_different_lengths_are_not_mixed() -> None:
    """Each bucket of lengths has batches of its own."""
    words = ["a", "bbbb", "c", "dddd", "e", "ffff"]
    batches = words | beam.BatchElements(2, 2, length_fn=len, bucket_boundaries=[3])
    assert [["a", "c"], ["bbbb", "dddd"], ["e"], ["ffff"]] == sorted(batches, key=lambda b: (-len(b), b))


class Working:
    """A step that takes a second for each element of a batch; what it is sent as still moves its one clock."""

    clock = Clock()

    def __call__(self, batch: list[int]) -> int:
        self.clock.now += len(batch)
        return len(batch)

    @classmethod
    def time(cls) -> float:
        """In seconds."""
        return cls.clock.now


def test_the_size_adapts_to_how_long_the_fused_steps_after_it_take() -> None:
    """The clock runs while they are at work: batches stop growing where they take too long."""
    batching = beam.BatchElements(
        target_batch_overhead=None, target_batch_duration_secs=8, variance=0, clock=Working.time
    )
    lengths = list(range(47)) | (batching | beam.Map(Working()))
    # The first time doesn't count: it often includes what is set up.
    assert [1, 1, 2, 4, 8, 8, 8, 8, 7] == lengths


def test_sizes_are_reported_as_metrics() -> None:
    """Unless that is switched off."""
    reported = []
    for record_metrics in (True, False):
        p = beam.Pipeline()
        p | beam.Create([1, 2, 3, 4]) | beam.BatchElements(1, 1, record_metrics=record_metrics)
        result = p.run()
        result.wait_until_finish()
        names = {m.key.metric.name for m in result.metrics().query()["distributions"]}
        reported.append(names)
    assert [{"batch_size", "msec_per_batch"}, set()] == reported


def test_the_type_is_a_list_of_the_elements() -> None:
    """A mismatch downstream is found."""
    assert list[str] == (TestPipeline() | beam.Create(["a"]) | beam.BatchElements()).element_type
