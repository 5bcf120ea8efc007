"""CoGroupByKey."""

from __future__ import annotations

from typing import Any, Union

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError, TypeHintError
from penstock.sdk.typehints import pair_of
from penstock.testing import TestPipeline, assert_that, equal_to

ONE, TWO, THREE = [("k1", 1)], [("none", 0)][:0], [("k1", 31), ("k1", 32), ("k2", 33)]


def by_key(pairs: Any) -> dict[Any, Any]:
    return dict(pairs)


def test_a_dict_of_pcollections_gives_dicts_of_lists() -> None:
    """Beam's own example; the keys of the dict may be anything."""
    grouped = {"tag1": ONE, "tag2": TWO, 333: THREE} | beam.CoGroupByKey()
    expected = {"k1": {"tag1": [1], "tag2": [], 333: [31, 32]}, "k2": {"tag1": [], "tag2": [], 333: [33]}}
    assert expected == by_key(grouped)


def test_a_tuple_of_pcollections_gives_tuples_of_lists() -> None:
    """In the order of the tuple."""
    grouped = (ONE, TWO, THREE) | beam.CoGroupByKey()
    assert {"k1": ([1], [], [31, 32]), "k2": ([], [], [33])} == by_key(grouped)


def test_a_single_pcollection_in_a_list_is_grouped_too() -> None:
    """Beam's flat iterables."""
    with TestPipeline() as p:
        assert_that([p | beam.Create([("a", 1), ("a", 2)])] | beam.CoGroupByKey(), equal_to([("a", ([1, 2],))]))


def test_values_are_grouped_by_window_as_well() -> None:
    """A key of two windows comes twice."""
    with TestPipeline() as p:
        windowed = [
            p
            | f"values {i}" >> beam.Create([beam.window.TimestampedValue(("a", i + t), t) for t in (1, 11)])
            | f"windows {i}" >> beam.WindowInto(beam.window.FixedWindows(10))
            for i in (100, 200)
        ]
        assert_that(windowed | beam.CoGroupByKey(), equal_to([("a", ([101], [201])), ("a", ([111], [211]))]))


def test_inputs_of_different_windows_are_refused() -> None:
    """The message names the inputs."""
    p = TestPipeline()
    plain = p | "plain" >> beam.Create([("a", 1)])
    windowed = p | "more" >> beam.Create([("a", 1)]) | "daily" >> beam.WindowInto(beam.window.FixedWindows(86400))
    with pytest.raises(PipelineError, match="CoGroupByKey/Flatten: its inputs are windowed differently"):
        (plain, windowed) | beam.CoGroupByKey()


def test_an_input_without_pairs_is_refused_when_the_pipeline_is_built() -> None:
    """Naming it."""
    p = TestPipeline()
    with pytest.raises(
        TypeHintError, match="violation at CoGroupByKey: expected .* got .*int.*produced by .*numbers/Values"
    ):
        (p | "pairs" >> beam.Create([("a", 1)]), p | "numbers" >> beam.Create([1])) | beam.CoGroupByKey()


def test_one_pcollection_by_itself_is_probably_a_forgotten_comma() -> None:
    """The message suggests it."""
    with pytest.raises(TypeError, match="expected a dict or a tuple of PCollections, got one; did you forget a comma"):
        TestPipeline() | beam.Create([("a", 1)]) | beam.CoGroupByKey()


def test_no_inputs_at_all_need_a_pipeline_and_give_nothing() -> None:
    """As in Beam."""
    with TestPipeline() as p:
        assert_that({} | beam.CoGroupByKey(pipeline=p), equal_to([]))


def test_the_types_of_keys_and_values_are_known_afterwards() -> None:
    """Keys of different types are of either."""
    p = TestPipeline()
    strings, numbers = p | "strings" >> beam.Create([("a", 1)]), p | "numbers" >> beam.Create([(2, b"b")])
    expected = pair_of(Union[str, int], pair_of(list[int], list[bytes]))  # noqa: UP007
    assert expected == ((strings, numbers) | beam.CoGroupByKey()).element_type
