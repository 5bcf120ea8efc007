"""apache_beam.testing."""

import apache_beam as beam
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import (
    BeamAssertException,
    TestWindowedValue,
    assert_that,
    contains_in_any_order,
    equal_to,
    equal_to_approx,
    equal_to_per_window,
    has_at_least_one,
    is_empty,
    is_not_empty,
    matches_all,
    row_namedtuple_equals_fn,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue
from refusals import refused


def equal() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create([1, 2, 3]), equal_to([3, 2, 1]))
    print("passed")


def not_equal() -> None:
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([1, 2, 3]), equal_to([3, 2]))


def an_element_too_few() -> None:
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([1]), equal_to([1, 1]))


def two_assertions_need_labels() -> None:
    with TestPipeline() as p:
        values = p | beam.Create([1])
        assert_that(values, equal_to([1]), label="first")
        assert_that(values, is_not_empty(), label="second")
    print("passed")


def empty() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create([]), is_empty())
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([1]), is_empty())
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([]), is_not_empty())


def equal_by_a_function() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create(["A", "b"]), equal_to(["B", "a"], equals_fn=lambda x, y: x.lower() == y.lower()))
    print("passed")


def approximately_equal() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create([0.1 + 0.2, 1.0]), equal_to_approx([0.3, 1.0]))
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([0.4]), equal_to_approx([0.3], rel_tol=0.01))


def equal_lists_that_can_not_be_hashed() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create([[1], {"a": 2}]), equal_to([{"a": 2}, [1]]))
    print("passed")


def equal_of_different_types() -> None:
    with TestPipeline() as p:
        assert_that(p | beam.Create([1, "a", None]), equal_to(["a", None, 1.0]))
    print("passed")


def matchers() -> None:
    with TestPipeline() as p:
        values = p | beam.Create([[1, 2], [4, 3]])
        assert_that(values, matches_all([contains_in_any_order([2, 1]), contains_in_any_order([3, 4])]))
    print("passed")


def a_matcher_of_users() -> None:
    def even(actual):
        if any(x % 2 for x in actual):
            raise BeamAssertException("odd")

    with TestPipeline() as p:
        assert_that(p | beam.Create([2, 4]), even)
    with refused(BeamAssertException), TestPipeline() as p:
        assert_that(p | beam.Create([3]), even)


def assertions_of_users() -> None:
    def even(actual):
        assert all(x % 2 == 0 for x in actual), "odd"

    with refused(AssertionError), TestPipeline() as p:
        assert_that(p | beam.Create([3]), even)


def at_least_one() -> None:
    with TestPipeline() as p:
        has_at_least_one(p | beam.Create([1, 5]), lambda x, timestamp, window, pane: x > 3)
    with refused(Exception), TestPipeline() as p:
        has_at_least_one(p | beam.Create([1, 2]), lambda x, timestamp, window, pane: x > 3)


def by_window() -> None:
    with TestPipeline() as p:
        values = (
            p | beam.Create([1, 2, 11]) | beam.Map(lambda x: TimestampedValue(x, x)) | beam.WindowInto(FixedWindows(10))
        )
        assert_that(
            values,
            equal_to_per_window({IntervalWindow(0, 10): [2, 1], IntervalWindow(10, 20): [11]}),
            use_global_window=False,
            reify_windows=True,
        )
    print("passed")


def by_window_and_wrong() -> None:
    with refused(BeamAssertException), TestPipeline() as p:
        values = p | beam.Create([1]) | beam.Map(lambda x: TimestampedValue(x, x)) | beam.WindowInto(FixedWindows(10))
        assert_that(
            values,
            equal_to_per_window({IntervalWindow(0, 10): [2]}),
            use_global_window=False,
            reify_windows=True,
        )


def reified_windows() -> None:
    with TestPipeline() as p:
        values = p | beam.Create([1]) | beam.Map(lambda x: TimestampedValue(x, x))
        assert_that(values, equal_to([TestWindowedValue(1, 1, [GlobalWindow()])]), reify_windows=True)
    print("passed")


def rows_against_named_tuples() -> None:
    import typing

    class Point(typing.NamedTuple):
        x: int
        y: int

    print(
        row_namedtuple_equals_fn(Point(1, 2), beam.Row(x=1, y=2)),
        row_namedtuple_equals_fn(Point(1, 2), beam.Row(x=1, y=3)),
    )


def a_pipeline_that_is_not_run_by_with() -> None:
    p = TestPipeline()
    assert_that(p | beam.Create([1]), equal_to([1]))
    result = p.run()
    result.wait_until_finish()
    print(result.state)


def options_of_a_test_pipeline() -> None:
    print(TestPipeline(argv=["--test-pipeline-options=--project=x"]).get_option("project"))
    print(TestPipeline().get_full_options_as_args(a=1) == ["--a=1"])


def get_full_options() -> None:
    p = TestPipeline(is_integration_test=False)
    print(p.get_full_options_as_args(job="x", flag=True))
