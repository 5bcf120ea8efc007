"""GroupBy, with and without aggregates, and Select.  The data are those of Beam's documentation."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.groups.group_by import named_tuple

GROCERIES = [
    beam.Row(recipe="pie", fruit="strawberry", quantity=3, unit_price=1.50),
    beam.Row(recipe="pie", fruit="raspberry", quantity=1, unit_price=3.50),
    beam.Row(recipe="pie", fruit="blackberry", quantity=1, unit_price=4.00),
    beam.Row(recipe="pie", fruit="blueberry", quantity=1, unit_price=2.00),
    beam.Row(recipe="muffin", fruit="blueberry", quantity=2, unit_price=2.00),
    beam.Row(recipe="muffin", fruit="banana", quantity=3, unit_price=1.00),
]


def as_sets(grouped: Any) -> dict[Any, set[Any]]:
    return {key: set(values) for key, values in grouped}


def test_a_single_function_is_the_key_itself() -> None:
    """No tuple around it."""
    fruit = ["strawberry", "raspberry", "blueberry", "blackberry", "banana"]
    grouped = fruit | beam.GroupBy(lambda s: s[0])
    assert {"s": {fruit[0]}, "r": {fruit[1]}, "b": set(fruit[2:])} == as_sets(grouped)


def test_a_single_name_is_the_attribute_itself() -> None:
    """Of whatever has that attribute."""
    assert {"pie": set(GROCERIES[:4]), "muffin": set(GROCERIES[4:])} == as_sets(GROCERIES | beam.GroupBy("recipe"))


def test_a_named_field_makes_the_key_a_named_tuple() -> None:
    """Even where there is only one."""
    ((key, values),) = [1, 3] | beam.GroupBy(odd=lambda x: x % 2 == 1)
    assert ((True,), True, [1, 3]) == (key, key.odd, sorted(values))


def test_several_fields_make_the_key_a_named_tuple() -> None:
    """Functions by position are called key0, key1 and so on."""
    grouped = GROCERIES | beam.GroupBy("recipe", lambda row: row.quantity > 1, is_berry=lambda x: "berry" in x.fruit)
    keys = {key for key, _ in grouped}
    assert {("pie", True, True), ("pie", False, True), ("muffin", True, True), ("muffin", True, False)} == keys
    assert ("recipe", "key1", "is_berry") == next(iter(keys))._fields


def test_tuple_keys_can_be_forced() -> None:
    """The single field is then called after its attribute, or key."""
    ((by_name, _),) = GROCERIES[:1] | beam.GroupBy("recipe").force_tuple_keys()
    ((by_function, _),) = GROCERIES[:1] | beam.GroupBy(lambda row: row.recipe).force_tuple_keys()
    assert ("Key(recipe='pie')", "Key(key='pie')") == (repr(by_name), repr(by_function))


def test_fields_are_aggregated_by_the_combiners_that_are_named() -> None:
    """The results are named tuples: equal to tuples, with attributes."""
    results = GROCERIES | beam.GroupBy("recipe").aggregate_field("quantity", sum, "total").aggregate_field(
        lambda row: row.quantity * row.unit_price, sum, "price"
    )
    assert {("pie", 6, 14.0), ("muffin", 5, 7.0)} == set(results)
    assert {"pie": 14.0, "muffin": 7.0} == {result.recipe: result.price for result in results}


def test_fields_given_by_name_only_are_aggregated_alike() -> None:
    """They take another, faster way."""
    results = GROCERIES | beam.GroupBy("recipe").aggregate_field("quantity", sum, "n").aggregate_field(
        "fruit", max, "last"
    )
    assert {("pie", 6, "strawberry"), ("muffin", 5, "blueberry")} == set(results)


def test_without_fields_everything_is_aggregated() -> None:
    """The result has the aggregates only."""
    grouping = beam.GroupBy().aggregate_field("unit_price", min, "low")
    (result,) = GROCERIES | grouping.aggregate_field("unit_price", beam.combiners.MeanCombineFn(), "mean")
    assert "Result(low=1.0, mean=2.3333333333333335)" == repr(result)


def test_a_named_tuple_can_be_unpickled_where_its_class_was_never_made() -> None:
    """It is made then; of the same fields there is one class."""
    key = named_tuple("Key", ("a", "b"))(1, 2)
    data = pickle.dumps(key)
    program = "import pickle, sys; key = pickle.load(sys.stdin.buffer); print(repr(key), key == (1, 2))"
    elsewhere = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert b"Key(a=1, b=2) True\n" == elsewhere.stdout
    assert type(pickle.loads(data)) is named_tuple("Key", ("a", "b"))


def test_labels_name_the_fields() -> None:
    """Of aggregating ones too."""
    assert "GroupBy(a, key1, b)" == beam.GroupBy("a", len, b=len).label
    assert "GroupBy(a).aggregate_field" == beam.GroupBy("a").aggregate_field("x", sum, "y").label


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: beam.GroupBy("a", "a"), "two fields are called 'a'"),
        (lambda: beam.GroupBy("a").aggregate_field("x", sum, "a"), "two fields are called 'a'"),
        (lambda: beam.GroupBy("a").aggregate_field("x", sum, "no name"), "'no name' can't be the name of a field"),
        (lambda: beam.GroupBy(_a="a"), "'_a' can't be the name of a field"),
        (lambda: beam.GroupBy("a b"), "'a b' can't be the name of a field"),
        (lambda: beam.GroupBy(x="a.b"), "'a.b' is not the name of an attribute"),
        (lambda: beam.Select("a", a=len), "two fields are called 'a'"),
    ],
)
def test_names_that_can_not_be_fields_are_refused_when_the_pipeline_is_built(make: Any, message: str) -> None:
    """Named tuples would refuse them too, in the midst of the run."""
    with pytest.raises(PipelineError, match=message):
        make()


def test_a_field_is_a_name_or_a_function() -> None:
    """Nothing else."""
    with pytest.raises(TypeError, match="GroupBy: expected a field's name or a function for 'key', got 3"):
        beam.GroupBy(3)  # type: ignore[arg-type]


def test_select_makes_rows_of_fields_and_functions() -> None:
    """Functions by position are called arg00, arg01 and so on by their position."""
    selected = GROCERIES[:1] | beam.Select("fruit", lambda row: row.quantity, price=lambda row: row.unit_price)
    assert [beam.Row(fruit="strawberry", arg01=3, price=1.5)] == selected
    assert "ToRows(fruit, arg01, price)" == beam.Select("fruit", len, price=len).label


def test_select_can_send_what_it_fails_on_to_dead_letters() -> None:
    """As every ParDo can."""
    with TestPipeline() as p:
        good, bad = p | beam.Create([1, "a"]) | beam.Select(half=lambda x: x / 2).with_exception_handling()
        assert_that(good, equal_to([beam.Row(half=0.5)]), label="good")
        assert_that(bad | beam.Keys(), equal_to(["a"]), label="bad")


def test_groups_and_aggregates_of_the_same_field_have_labels_of_their_own() -> None:
    """Neither needs a label beside the other."""
    with TestPipeline() as p:
        rows = p | beam.Create([beam.Row(a=1, b="x"), beam.Row(a=2, b="x")])
        sums = rows | beam.GroupBy("b").aggregate_field("a", sum, "total")
        assert_that(sums | beam.Map(tuple), equal_to([("x", 3)]))
        assert_that(rows | beam.GroupBy("b") | beam.Keys(), equal_to(["x"]))
