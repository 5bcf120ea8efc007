"""Matchers of metrics, states, files and display data, as tests of programs for Beam use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import TestCase, mock

import pytest

import penstock as beam
from penstock.beam.io.run_results import FileChecksumMatcher, PipelineStateMatcher
from penstock.beam.io.test_utils import LCGenerator, compute_hash, delete_files
from penstock.beam.sdk.display_items import DisplayDataItemMatcher
from penstock.beam.sdk.extra_assertions import ExtraAssertionsMixin
from penstock.beam.sdk.metric_results import DistributionMatcher, MetricResultMatcher, verify_all
from penstock.sdk.metrics import DistributionData, DistributionResult, MetricKey, MetricName, MetricResult, Metrics
from penstock.sdk.runner import PipelineResult, PipelineState
from penstock.testing import TestPipeline
from penstock.transforms.display import DisplayDataItem


class GreaterThan:
    """A matcher, as PyHamcrest's."""

    def __init__(self, least: int) -> None:
        self.least = least

    def matches(self, item: Any) -> bool:
        return bool(item > self.least)

    def describe_to(self, description: Any) -> None:
        description.append_text(f"a value greater than <{self.least}>")


RESULT = MetricResult(MetricKey("Read", MetricName("app", "lines"), {"pcollection": "text"}), committed=3, attempted=4)


@pytest.mark.parametrize(
    ("expected", "matcher"),
    [
        (True, MetricResultMatcher(namespace="app", name="lines", step="Read", committed=3, attempted=4)),
        (True, MetricResultMatcher(labels={"pcollection": "text"}, committed=GreaterThan(2))),
        (False, MetricResultMatcher(committed=GreaterThan(3))),
        (False, MetricResultMatcher(labels={"pcollection": "numbers"})),
        (False, MetricResultMatcher(name="words")),
    ],
)
def test_a_metric_matches_if_all_its_given_attributes_do(expected: bool, matcher: MetricResultMatcher) -> None:
    assert expected == matcher.matches(RESULT)


def test_a_distribution_matches_by_its_values() -> None:
    result = DistributionResult(DistributionData(6, 3, 1, 3))
    assert DistributionMatcher(sum_value=6, count_value=GreaterThan(2), min_value=1, max_value=3).matches(result)
    assert not DistributionMatcher(min_value=2).matches(result)
    assert not DistributionMatcher(min_value=1).matches(5)


def test_verify_all_names_the_matchers_without_a_metric() -> None:
    assert "" == verify_all([RESULT], [MetricResultMatcher(name="lines")])
    text = verify_all([RESULT], [MetricResultMatcher(name="words", committed=GreaterThan(5))])
    assert (
        "Unable to match metrics for matcher name: <'words'> committed: a value greater than <5>\n"
        f"Actual MetricResults:\n{RESULT}" == text
    )


def test_the_metrics_of_a_run_can_be_matched() -> None:
    def count(x: int) -> int:
        Metrics.counter("app", "elements").inc()
        return x

    p = TestPipeline()
    _ = p | beam.Create([1, 2]) | "Count" >> beam.Map(count)
    found = p.run().metrics().query()["counters"]
    assert "" == verify_all(found, [MetricResultMatcher(name="elements", step="Count", committed=2)])


def test_a_state_matches_a_result() -> None:
    assert PipelineStateMatcher().matches(PipelineResult(PipelineState.DONE))
    assert not PipelineStateMatcher().matches(PipelineResult(PipelineState.FAILED))
    assert PipelineStateMatcher(PipelineState.FAILED).matches(PipelineResult(PipelineState.FAILED))


def test_files_match_by_the_hash_of_their_lines(tmp_path: Path) -> None:
    (tmp_path / "out-0").write_text("b\na\n")
    (tmp_path / "out-1").write_text("c\n")
    pattern = str(tmp_path / "out-*")
    assert FileChecksumMatcher(pattern, compute_hash(["a\n", "b\n", "c\n"])).matches(None)
    assert not FileChecksumMatcher(pattern, compute_hash(["a\n"])).matches(None)


def test_files_are_matched_after_the_wait(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a\n")
    with mock.patch("time.sleep") as sleep:
        assert FileChecksumMatcher(str(tmp_path / "out"), compute_hash(["a\n"]), 10).matches(None)
    sleep.assert_called_once_with(10)
    with pytest.raises(ValueError, match="Sleep seconds, if received, must be int"):
        FileChecksumMatcher("out", "", "10")  # type: ignore[arg-type]


def test_display_data_matches_by_the_given_attributes() -> None:
    item = DisplayDataItem(3, key="size", namespace="app")
    assert DisplayDataItemMatcher(key="size", namespace="app").matches(item)
    assert not DisplayDataItemMatcher("size", 4).matches(item)
    with pytest.raises(ValueError, match="Must receive at least one"):
        DisplayDataItemMatcher()


class Assertions(ExtraAssertionsMixin, TestCase):
    """A test case to call."""


def test_values_that_cannot_be_hashed_are_counted() -> None:
    import numpy as np

    check: Callable[[Any, Any], None] = Assertions().assertUnhashableCountEqual
    check([np.zeros((2, 2)), {"a": [1]}, 5], [5, {"a": [1]}, np.zeros((2, 2))])
    with pytest.raises(AssertionError):
        check([{"a": 1}], [{"b": 1}])
    with pytest.raises(AssertionError):
        check([np.zeros(4)], [np.zeros((2, 2))])


def test_the_generator_is_that_of_java() -> None:
    generator = LCGenerator()
    generator.seed_jdk(42)
    assert [-1170105035, 234785527] == [generator.next_int(), generator.next_int()]
    generator.seed_jdk(42)
    assert 0.7275636 == pytest.approx(generator.random_sample())
    assert 7 == len(generator.randbytes(7))


def test_deleting_a_missing_file_names_it(tmp_path: Path) -> None:
    from penstock.io.filesystem import BeamIOError

    path = str(tmp_path / "missing")
    with pytest.raises(BeamIOError) as raised:
        delete_files([path])
    assert [path] == list(raised.value.exception_details)
