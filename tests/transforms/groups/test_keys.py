"""Keys, Values, KvSwap and WithKeys."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow
import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError, TypeHintError
from penstock.sdk.typehints import pair_of
from penstock.testing import TestPipeline, assert_that, equal_to

PAIRS = [("a", 1), ("b", 2), ("a", 3)]


def test_keys_are_the_first_items_in_order_and_with_repetitions() -> None:
    """Nothing is grouped."""
    assert ["a", "b", "a"] == PAIRS | beam.Keys()


def test_values_are_the_second_items() -> None:
    """In order."""
    assert [1, 2, 3] == PAIRS | beam.Values()


def test_swapping_twice_gives_the_pairs_back() -> None:
    """KvSwap is its own inverse."""
    assert [(1, "a"), (2, "b"), (3, "a")] == PAIRS | beam.KvSwap()
    assert PAIRS == PAIRS | beam.KvSwap() | "again" >> beam.KvSwap()


def test_they_take_beams_label() -> None:
    """As their only argument."""
    assert ["first", "second", "third"] == [
        beam.Keys("first").label,
        beam.Values("second").label,
        beam.KvSwap("third").label,
    ]
    assert ["Keys", "Values", "KvSwap"] == [beam.Keys().label, beam.Values().label, beam.KvSwap().label]


@pytest.mark.parametrize("transform", [beam.Keys, beam.Values, beam.KvSwap])
def test_what_is_known_to_be_no_pair_is_refused_when_the_pipeline_is_built(transform: Any) -> None:
    """The message names both transforms."""
    p = TestPipeline()
    numbers = p | "Numbers" >> beam.Create([1, 2])
    with pytest.raises(
        TypeHintError, match="violation at the keys: expected .* got .*int.*produced by .*Numbers/Values"
    ):
        numbers | "the keys" >> transform()


def test_types_of_the_items_are_known_afterwards() -> None:
    """A mismatch downstream is found."""
    pairs = TestPipeline() | beam.Create([("a", 1)])
    assert str is (pairs | beam.Keys()).element_type
    assert int is (pairs | beam.Values()).element_type
    assert pair_of(int, str) == (pairs | beam.KvSwap()).element_type


@pytest.mark.parametrize(
    "key", ["k", "it's", 'a"b\\', b"k", 1, -1.5, True, None, ("a", 1), frozenset("ab"), float("inf")]
)
def test_a_constant_key_is_put_in_front_of_each_value(key: Any) -> None:
    """With a repr that is an expression, and with one that isn't."""
    assert [(key, 1), (key, 2)] == [1, 2] | beam.WithKeys(key)


def test_a_key_can_be_computed_from_the_value() -> None:
    """By any callable."""
    assert [(3, "abc"), (1, "d")] == ["abc", "d"] | beam.WithKeys(len)


def test_the_key_function_is_given_further_arguments() -> None:
    """By position and by keyword."""
    assert [((1, 10, 100), 1)] == [1] | beam.WithKeys(lambda v, a, b: (v, a, b), 10, b=100)


def test_the_key_function_is_given_side_inputs() -> None:
    """As their views."""
    with TestPipeline() as p:
        lengths = p | "lengths" >> beam.Create([("a", 7)])
        keyed = p | "words" >> beam.Create(["a"]) | beam.WithKeys(lambda v, by: by[v], beam.pvalue.AsDict(lengths))
        assert_that(keyed, equal_to([(7, "a")]))


def test_a_constant_key_takes_no_arguments() -> None:
    """They would be lost silently."""
    with pytest.raises(TypeError, match="WithKeys: the key 'k' is a constant"):
        beam.WithKeys("k", 1)


def test_arguments_that_the_key_function_does_not_take_are_found_when_the_pipeline_is_built() -> None:
    """Not when it runs."""
    with pytest.raises(PipelineError, match=r"WithKeys\(<lambda.*: .*can't be called"):
        TestPipeline() | beam.Create([1]) | beam.WithKeys(lambda v: v, 1)


def test_the_type_of_the_key_is_that_of_the_constant_or_what_the_function_is_annotated_with() -> None:
    """The value's is that of the input."""

    def shout(word: str) -> bytes:
        return word.upper().encode()

    words = TestPipeline() | beam.Create(["a"])
    assert pair_of(int, str) == (words | beam.WithKeys(1)).element_type
    assert pair_of(bytes, str) == (words | beam.WithKeys(shout)).element_type


class Sale(NamedTuple):
    item: str
    price: int


@pytest.mark.parametrize("sale", [Sale("tea", 3), beam.Row(item="tea", price=3), {"item": "tea", "price": 3}], ids=repr)
def test_a_key_is_an_expression_of_the_elements_fields(sale: Any) -> None:
    keyed = beam.WithKeys(beam.col("price") * 2)

    assert "WithKeys(price * 2)" == keyed.default_label()
    assert [(6, sale)] == [sale] | keyed


def test_elements_of_columns_are_grouped_by_an_expression_as_by_a_function() -> None:
    table = pyarrow.table({"item": ["tea", "fig", "tea"], "price": [3, 4, 5]})
    expected = [("fig", [beam.Row(item="fig", price=4)])]
    expected.append(("tea", [beam.Row(item="tea", price=3), beam.Row(item="tea", price=5)]))
    with beam.Pipeline() as p:
        sales = p | beam.Create(table)
        for key in (beam.col("item"), lambda sale: sale.item):
            grouped = sales | f"by {key}" >> beam.WithKeys(key) | f"group by {key}" >> beam.GroupByKey()
            listed = grouped | f"list of {key}" >> beam.MapTuple(lambda item, found: (item, list(found)))
            assert_that(listed, equal_to(expected), label=f"of {key}")


def test_an_expression_takes_no_arguments() -> None:
    with pytest.raises(TypeError, match=r"WithKeys: the key <Column item> is an expression and takes no arguments"):
        beam.WithKeys(beam.col("item"), 3)
