"""`[1, 2, 3] | transform`: what comes out has the structure that the transform gives."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError, TypeHintError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows


class Parts(NamedTuple):
    low: Any
    high: Any


class Split(beam.PTransform):
    def expand(self, numbers: Any) -> Parts:
        return Parts(
            numbers | "low" >> beam.Filter(lambda n: n < 3),
            numbers | "high" >> beam.Filter(lambda n: n >= 3),
        )


class Negated(beam.PTransform):
    def expand(self, parts: Parts) -> tuple[Any, list[Any]]:
        return parts.low, [parts.high | beam.Map(lambda n: -n)]


class ByName(beam.PTransform):
    def expand(self, numbers: Any) -> dict[str, Any]:
        return {"itself": numbers, "parts": numbers | Split()}


def test_a_named_tuple_of_outputs_stays_one() -> None:
    """Each field is the list of its PCollection's elements."""
    assert Parts([1, 2], [3, 4]) == ([1, 2, 3, 4] | Split())


def test_a_named_tuple_of_inputs_is_one_in_expand() -> None:
    """And a tuple is a tuple, a list a list."""
    assert ([1], [[-5]]) == (Parts([1], [5]) | Negated())


def _by_sign(n: int) -> Any:
    yield n if n > 0 else beam.TaggedOutput("negative", n)


def test_tagged_outputs_are_found_by_tag_and_unpacked() -> None:
    """As those of a pipeline."""
    results = [1, -1, 2] | beam.FlatMap(_by_sign).with_outputs("negative", main="rest")
    rest, negative = results
    assert ([1, 2], [-1], 2) == (rest, negative, len(results))
    assert ([1, 2], [-1], [-1]) == (results.rest, results.negative, results["negative"])


def test_an_unnamed_main_output_is_that_of_none() -> None:
    """It isn't unpacked."""
    results = [1, -1] | beam.FlatMap(_by_sign).with_outputs("negative")
    assert ([1], [[-1]]) == (results[None], list(results))


def test_values_of_a_tag_that_is_not_declared_are_refused() -> None:
    """By name and by index, with the declared ones."""
    results = [1] | beam.FlatMap(_by_sign).with_outputs("negative")
    with pytest.raises(PipelineError, match="there is no output tagged 'odd'; with_outputs names"):
        results["odd"]
    assert not hasattr(results, "odd")


def test_structures_may_be_nested() -> None:
    """To any depth."""
    assert {"itself": [1, 3], "parts": Parts([1], [3])} == ([1, 3] | ByName())


def test_elements_that_are_named_tuples_stay_what_they_are() -> None:
    """In a grouping, too."""
    assert [("k", [Parts(1, 2)])] == (
        [("k", Parts(1, 2))] | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, list(v)))
    )


def test_a_view_is_what_a_function_would_see_of_it() -> None:
    """A singleton's value."""
    assert 6 == ([1, 2, 3] | beam.CombineGlobally(sum).as_singleton_view())


def test_a_write_writes_and_gives_nothing(tmp_path: pathlib.Path) -> None:
    """There is no PCollection to show."""
    assert ([("a", 1)] | beam.io.WriteToSQLite(str(tmp_path / "out.db"), "words", "word", ["word", "n"])) is None


class Corrected(beam.PTransform):
    """Emits a pane for each element, and retracts the one before."""

    def __init__(self, grouping: beam.PTransform) -> None:
        super().__init__()
        self.grouping = grouping

    def expand(self, pairs: Any) -> Any:
        each_element = beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.RETRACTING
        )
        return pairs | each_element | self.grouping


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "grouping", "expected"),
    [
        ([1, 2, 3], beam.CombinePerKey(sum), "[('k', 6)]"),
        ([1, NAN, 3], beam.CombinePerKey(sum), "[('k', nan)]"),
        ([1, 2, 3], beam.CombinePerKey(beam.combiners.ToListCombineFn()), "[('k', [1, 2, 3])]"),
        ([NAN, 2], beam.CombinePerKey(beam.combiners.ToListCombineFn()), "[('k', [nan, 2])]"),
    ],
    ids=["hashable", "not equal to itself", "without a hash", "without a hash, not equal to itself"],
)
def test_a_retraction_removes_the_value_that_it_retracts(
    values: list[Any], grouping: beam.PTransform, expected: str
) -> None:
    """The last pane of each key is left."""
    assert expected == repr([("k", value) for value in values] | Corrected(grouping))


def test_a_view_has_no_retracted_value() -> None:
    """A dictionary of the last panes."""

    class AsView(beam.PTransform):
        def expand(self, pairs: Any) -> Any:
            return beam.pvalue.AsMultiMap(pairs | Corrected(beam.CombinePerKey(sum)))

    assert {"a": [3], "b": [3]} == ([("a", 1), ("a", 2), ("b", 3)] | AsView())


def test_flatten_takes_a_list_of_lists() -> None:
    """Each is an input, as in a tuple."""
    assert [1, 2, "a"] == sorted([[1, 2], ["a"]] | beam.Flatten(), key=str)
    assert [1, 2, "a"] == sorted(([1, 2], ["a"]) | beam.Flatten(), key=str)


def test_a_list_among_pcollections_is_an_input() -> None:
    """In a list, a tuple and a dict."""
    with TestPipeline() as p:
        one = p | beam.Create([("k", 1)])
        assert_that([one, [("k", 2)]] | beam.Flatten(), equal_to([("k", 1), ("k", 2)]), label="list")
        assert_that((one, []) | "empty" >> beam.Flatten(), equal_to([("k", 1)]), label="tuple")
        grouped = {"a": one, "b": [("k", 2)]} | beam.CoGroupByKey()
        assert_that(grouped, equal_to([("k", {"a": [1], "b": [2]})]), label="dict")


def test_an_object_that_is_no_pcollection_is_the_result() -> None:
    """As expand returns it."""

    class Named(beam.PTransform):
        def expand(self, pcoll: Any) -> tuple[Any, str]:
            return pcoll, "name"

    assert ([1], "name") == ([1] | Named())


def test_nested_pcollections_are_inputs() -> None:
    """Of a composite; `Flatten` refuses them."""

    class Ends(beam.PTransform):
        def expand(self, pairs: Any) -> Any:
            return pairs[0][0], pairs[-1][-1]

    with TestPipeline() as p:
        one, two = p | "one" >> beam.Create([1]), p | "two" >> beam.Create([2])
        assert (one, two) == (((one, one), [two]) | Ends())
        for label, inputs in enumerate(([(one, two)], ((one, two),), (one, [two]))):
            with pytest.raises(TypeError, match="several PCollections; unpack them"):
                inputs | f"{label}" >> beam.Flatten()


def test_the_types_of_values_are_checked():
    def repeat(s: str, n: int) -> str:
        return s * n

    with pytest.raises(TypeHintError, match="requires"):
        [1, 2] | beam.Map(repeat, 3)


def test_an_iterator_is_taken_as_a_list() -> None:
    """Of values, or of PCollections."""
    assert ["1", "2"] == iter([1, 2]) | beam.Map(str)
    with TestPipeline() as p:
        pairs = p | beam.Create([("a", 1)])
        grouped = iter([pairs]) | beam.CoGroupByKey()
        assert_that(grouped, equal_to([("a", ([1],))]))
        nothing = iter([]) | "nothing" >> beam.CoGroupByKey(pipeline=p)
        assert_that(nothing, equal_to([]), label="nothing is grouped")


def test_what_is_no_input_is_refused() -> None:
    """As a `ValueError`, which Beam raises, and a `TypeError`."""
    with pytest.raises(ValueError, match="Flatten: expected PCollections, or an iterable of elements, got 4"):
        _ = 4 | beam.Flatten()
    with pytest.raises(TypeError, match="Flatten: expected a tuple of PCollections, got one"):
        _ = beam.Pipeline() | beam.Create([1]) | beam.Flatten()
