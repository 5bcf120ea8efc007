"""Matchers of `assert_that`, and TestPipeline; see tests/model/test_assert_that.py."""

from __future__ import annotations

import unittest
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest import SkipTest

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.testing import TestPane, TestPipeline, assert_that, equal_to, equal_to_panes, equal_to_per_window
from penstock.testing.util import PenstockAssertionError, SortLists, TestWindowedValue, has_at_least_one, open_shards
from penstock.triggers import PaneInfo
from penstock.triggers.pane import PaneInfoTiming
from penstock.windowing import IntervalWindow, TimestampedValue

EARLY, ON_TIME = PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME
WINDOW = IntervalWindow(0, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        TestPane(2),
        TestPane(1, sign=-1),
        TestPane(1, IntervalWindow(10, 20)),
        TestPane(1, WINDOW, ON_TIME),
        TestPane(1, pane_info=PaneInfo(True, True, EARLY, 0, -1)),
        TestPane(1, timestamp=5),
    ],
)
def test_a_pane_that_differs_in_one_thing_is_another(wrong: TestPane) -> None:
    """Value, sign, window, timing, pane info or timestamp."""
    came = TestPane(1, WINDOW, PaneInfo(True, False, EARLY, 0, -1), timestamp=9.999999)

    equal_to_panes([TestPane(1)])([came])
    with pytest.raises(PenstockAssertionError, match="missing"):
        equal_to_panes([wrong])([came])


def test_what_is_no_pane_is_refused_when_the_matcher_is_made() -> None:
    """A value alone has its place in `equal_to`."""
    with pytest.raises(TypeError, match="equal_to_panes: expected a TestPane"):
        equal_to_panes([3])  # type: ignore[list-item]


def test_the_timing_of_a_pane_is_shown_by_its_name() -> None:
    """As text, in a format, and in the pane's repr."""
    assert ("ON_TIME", "ON_TIME", "  EARLY") == (str(ON_TIME), f"{ON_TIME}", f"{EARLY:>7}")
    assert 1 == ON_TIME


class Point(NamedTuple):
    x: int
    y: Any


def test_a_row_equals_a_named_tuple_with_the_same_fields() -> None:
    """In any order, and within another row; another value or name differs."""
    equal_to([beam.Row(x=1, y=beam.Row(x=2, y=3))])([Point(1, Point(2, 3))])
    equal_to([Point(1, 2)])([beam.Row(y=2, x=1)])
    for other in [beam.Row(x=1, y=3), beam.Row(x=1), beam.Row(x=1, z=2)]:
        with pytest.raises(PenstockAssertionError, match="missing"):
            equal_to([Point(1, 2)])([other])


@pytest.mark.parametrize("how", [{}, {"reify_windows": True}, {"use_global_window": False}])
def test_elements_are_compared_window_by_window(how: dict[str, bool]) -> None:
    """With or without reified windows; a window without its elements fails, too."""

    def check(expected: dict[IntervalWindow, list[int]]) -> None:
        with TestPipeline() as p:
            elements = p | beam.Create([TimestampedValue(1, 3), TimestampedValue(2, 4)])
            windowed = elements | beam.WindowInto(beam.window.FixedWindows(10))
            assert_that(windowed, equal_to_per_window(expected), **how)

    check({WINDOW: [2, 1]})
    for wrong in [{WINDOW: [1]}, {WINDOW: [1, 2], IntervalWindow(10, 20): [3]}, {IntervalWindow(10, 20): [1, 2]}]:
        with pytest.raises(PenstockAssertionError, match="window"):
            check(wrong)


def test_a_second_assertion_has_a_number_in_its_label() -> None:
    """Each is checked."""
    p = TestPipeline()
    ones = p | beam.Create([1])
    for expected in [[1], [1], [2]]:
        assert_that(ones, equal_to(expected))

    assert {"assert_that", "assert_that_2", "assert_that_3"} <= p.applied_labels
    with pytest.raises(PenstockAssertionError, match=r"assert_that_3/Match: Failed assert: expected \[2\]"):
        p.run()


def test_lists_are_sorted_within_tuples_and_dictionaries() -> None:
    """Other values are unchanged."""
    with TestPipeline() as p:
        elements = p | beam.Create([("a", [2, 1]), {"b": [4, 3]}, "cb"], reshuffle=False)
        assert_that(elements | SortLists, equal_to([("a", [1, 2]), {"b": [3, 4]}, "cb"]))


def test_flags_of_a_test_pipeline_can_be_asked_for() -> None:
    """Those of `--test-pipeline-options`, and additional ones."""
    options = ["--test-pipeline-options=--checkpoint_dir 'a b' --streaming"]
    p = TestPipeline(argv=options, additional_pipeline_args=["--parallelism=2"])

    assert ("a b", "2", None) == (p.get_option("checkpoint_dir"), p.get_option("--parallelism"), p.get_option("none"))
    assert (True, False) == (p.get_option("streaming", bool_option=True), p.get_option("none", bool_option=True))
    expected = ["--checkpoint_dir", "a b", "--streaming", "--parallelism=2", "--x=1"]
    assert expected == p.get_full_options_as_args(x=1, y=None)


def test_shards_are_opened_as_one_file(tmp_path: Path) -> None:
    """In the order of their names; as bytes with `rb`."""
    for name, content in ("out-1", "z\n"), ("out-0", "é"), ("other", "x"):
        (tmp_path / name).write_text(content, encoding="utf-8")
    with open_shards(f"{tmp_path}/out-*") as lines:
        assert ["éz\n"] == list(lines)
    with open_shards(f"{tmp_path}/out-*", "rb") as content:
        assert "éz\n".encode() == content.read()


def test_an_assertion_after_the_run_is_refused() -> None:
    """It would never be checked."""
    with TestPipeline() as p:
        pcoll = p | beam.Create([1])

    with pytest.raises(RuntimeError, match="assert_that: the pipeline has run"):
        assert_that(pcoll, equal_to([1]))


def test_an_integration_test_is_skipped_without_options_of_tests() -> None:
    """It needs a service that only the options tell."""
    options = ["--test-pipeline-options=--parallelism=3"]
    assert "3" == TestPipeline(argv=options, is_integration_test=True).get_option("parallelism")
    with pytest.raises(SkipTest, match="--test-pipeline-options"):
        TestPipeline(argv=[], is_integration_test=True)


def test_a_criterion_takes_the_element_or_all_of_it():
    """Beam's takes the timestamp, the window and the pane, too."""
    for criterion in (lambda e: e == 2, lambda e, t, w, p: e == t == w.start and p.is_first):
        with TestPipeline() as p:
            timed = p | beam.Create([1, 2]) | beam.Map(lambda n: beam.window.TimestampedValue(n, n))
            has_at_least_one(timed | beam.WindowInto(beam.window.FixedWindows(1)), criterion)
    with pytest.raises(AssertionError, match="no element meets the criterion"), TestPipeline() as p:
        has_at_least_one(p | beam.Create([1, 2]), lambda e, t, w, p: e > 2)


def test_a_matcher_may_use_its_test_case():
    """Which may have the pipeline, and has the state of its own run."""

    class Case(unittest.TestCase):
        def setUp(self):
            self.pipeline = TestPipeline()

        def test(self):
            assert_that(self.pipeline | beam.Create([2, 1]), lambda actual: self.check(actual))
            self.pipeline.run()

        def check(self, actual):
            assert [1, 2] == sorted(actual)

    output = StringIO()
    assert unittest.TextTestRunner(output).run(Case("test")).wasSuccessful(), output.getvalue()


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({IntervalWindow(0, 10): [1]}, r"elements \[2\] not found in window \[0.0, 10.0\)"),
        ({IntervalWindow(0, 10): [1, 2, 3]}, r"unmatched elements \[3\] in window \[0.0, 10.0\)"),
        ({IntervalWindow(50, 60): [1, 2]}, r"\{\[0.0, 10.0\): \[1, 2\]\} not found in any expected windows"),
    ],
)
def test_a_failure_by_window_tells_what_was_not_found(expected: Any, message: str) -> None:
    elements = [TestWindowedValue(value, 5, [IntervalWindow(0, 10)]) for value in (1, 2)]
    with pytest.raises(AssertionError, match=message):
        equal_to_per_window(expected)(elements)


@given(st.lists(st.one_of(st.integers(0, 3), st.lists(st.integers(0, 1), max_size=1))), st.randoms())
def test_elements_without_a_hash_are_matched_among_others(elements: list[Any], random: Any) -> None:
    """In any order, and what is missing or unexpected is named."""
    shuffled = list(elements)
    random.shuffle(shuffled)
    equal_to(elements)(shuffled)
    with pytest.raises(AssertionError, match=r": unexpected elements \[5\]$"):
        equal_to(elements)([*shuffled, 5])
    with pytest.raises(AssertionError, match=r": missing elements \[\[7\]\]$"):
        equal_to([[7], *elements])(shuffled)


def test_many_elements_are_matched_in_another_order() -> None:
    """A comparison of each with each would take minutes."""
    numbers = range(50_000)
    equal_to(numbers)(numbers[::-1])
