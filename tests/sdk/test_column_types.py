"""Fields that are known when the pipeline is built: what is refused then, and what is left to the run."""

from __future__ import annotations

import re
from typing import Any

import pyarrow
import pyarrow.compute
import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import ColumnError
from penstock.sdk.typehints.schema import schemas_of
from penstock.testing.util import assert_that, equal_to

SALES = pyarrow.table({"item": ["tea", "milk"], "price": [3, 1], "at": [10, 70], "sold": [True, False]})
HAVE = "there is no field {!r}; the elements have item, price, at, sold"
col = beam.col


def sales(**flags: Any) -> Any:
    return beam.Pipeline(options=PipelineOptions([], **flags)) | beam.Create(SALES)


def fields(pcoll: Any) -> str:
    ((_, schema),) = schemas_of(pcoll.hint)
    return str(schema)


UNKNOWN = {
    "Filter(prize > 1)": beam.Filter(col("prize") > 1),
    "Map(prize)": beam.Map(col("prize")),
    "Map(item, prize)": beam.Map((col("item"), col("prize"))),
    "ToRows(item, prize)": beam.Select("item", "prize"),
    "ToRows(twice)": beam.Select(twice=col("prize") * 2),
    "ToRows(prize, one)": beam.Select("prize", one=lambda row: 1),
    "WithTimestamps(prize)": beam.WithTimestamps("prize"),
    "WithKeys(prize)": beam.WithKeys(col("prize")),
    "GroupBy(prize)": beam.GroupBy("prize"),
    "GroupBy(key)": beam.GroupBy(col("prize") % 2),
    "GroupBy(prize, odd)": beam.GroupBy("prize", odd=lambda row: row.price % 2),
    "GroupBy(item).aggregate_field": beam.GroupBy("item").aggregate_field("prize", sum, "total"),
}


@pytest.mark.parametrize("label", UNKNOWN)
def test_an_unknown_field_is_refused_with_the_transform_and_the_known_ones(label: str) -> None:
    with pytest.raises(ColumnError, match=f"^{re.escape(f'{label}: ' + HAVE.format('prize'))}$"):
        _ = sales() | UNKNOWN[label]


def test_the_full_label_is_named() -> None:
    class Totals(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | "By item" >> beam.GroupBy("itm").aggregate_field("price", sum, "total")

    with pytest.raises(ColumnError, match=r"^Totals/By item: there is no field 'itm'; "):
        _ = sales() | Totals()


def test_dead_letters_do_not_hide_an_unknown_field() -> None:
    with pytest.raises(ColumnError, match=HAVE.format("prize")):
        _ = sales() | beam.Map(col("prize") + 1).with_exception_handling()


def others(pcoll: Any) -> Any:
    return (pcoll, pcoll.pipeline | "Again" >> beam.Create(SALES)) | beam.Flatten()


CARRYING = {
    "Filter of an expression": beam.Filter(col("price") > 1),
    "Filter of a function": beam.Filter(lambda row: row.price > 1),
    "WithTimestamps": beam.WithTimestamps("at"),
    "WithTimestamps of a function": beam.WithTimestamps(lambda row: row.at),
    "WindowInto": beam.WindowInto(beam.window.FixedWindows(60)),
    "Reshuffle": beam.Reshuffle(),
    "Flatten": beam.ptransform_fn(others)(),
    "Distinct": beam.Distinct(),
    "LogElements": beam.LogElements(),
    "an exception handler": beam.ptransform_fn(
        lambda pcoll: (pcoll | beam.Filter(col("price") > 1).with_exception_handling()).good
    )(),
}


@pytest.mark.parametrize("name", CARRYING)
def test_transforms_of_the_same_elements_keep_their_fields(name: str) -> None:
    pcoll = sales() | CARRYING[name]
    assert "item: string, price: int64, at: int64, sold: bool" == fields(pcoll)
    with pytest.raises(ColumnError, match=HAVE.format("prize")):
        _ = pcoll | beam.Filter(col("prize") > 1)


def test_select_and_aggregates_have_new_fields() -> None:
    selected = sales() | beam.Select("item", half=col("price") / 2, name=col("item").apply(len))
    assert "item: string, half: double, name" == fields(selected)
    with pytest.raises(ColumnError, match=r"^Map\(price\): there is no field 'price'; the elements have item, half"):
        _ = selected | beam.Map(col("price"))
    totals = selected | beam.GroupBy("item", cheap=col("half") < 1).aggregate_field("half", sum, "total")
    assert "item: string, cheap: bool, total" == fields(totals)
    with pytest.raises(ColumnError, match=r"^ToRows\(totl\): there is no field 'totl'; .* have item, cheap, total$"):
        _ = totals | beam.Select("totl")


def test_results_are_known_without_the_fields_of_the_input() -> None:
    rows = beam.Pipeline() | beam.Create([beam.Row(a=1, b=2)])
    assert "a: int64, twice: int64" == fields(rows | beam.Select("a", twice=2 * col("b")))
    with pytest.raises(ColumnError, match=r"no field 'b'; the elements have a, n$"):
        _ = rows | beam.GroupBy("a").aggregate_field("b", sum, "n") | beam.Filter(col("b") > 1)


MISMATCHES = {
    "Map(item + 1)": (beam.Map(col("item") + 1), "item . 1 can't be computed: .*string, int64"),
    "Filter(price)": (beam.Filter(col("price")), "price is of the type int64; expected true or false"),
    "Filter(price + 1)": (beam.Filter(col("price") + 1), "price . 1 is of the type int64; expected true or false"),
    "Filter(price == 'tea')": (beam.Filter(col("price") == "tea"), "price == 'tea' can't be computed"),
    "Map(utf8_upper(price))": (beam.Map(col("price").apply(pyarrow.compute.utf8_upper)), r"utf8_upper\(price\) can't"),
    "WithKeys(~item)": (beam.WithKeys(~col("item")), "~item can't be computed"),
}


@pytest.mark.parametrize("label", MISMATCHES)
def test_types_that_do_not_fit_are_refused(label: str) -> None:
    transform, expected = MISMATCHES[label]
    with pytest.raises(ColumnError, match=f"^{re.escape(label)}: {expected}"):
        _ = sales() | transform


FITTING = {
    "quotient": col("price") / 2 // 3 % 5,
    "integers": col("price") // 2 % 4 ^ col("at"),
    "power of two": col("at") % 64,
    "truth": (col("price") > 1) & ~col("sold") | col("item").is_null(),
    "membership": col("item").isin(["tea"]) | col("price").isin([1, 2]) | col("price").isin([]),
    "cast": col("price").cast("string") == "3",
    "text": (col("item") >= "milk") | (col("item") != "tea"),
    "sign": abs(-col("price")) * 1.5 - col("at"),
    "function of Arrow": col("item").apply(pyarrow.compute.utf8_upper),
    "function of a user": col("item").apply(lambda values: pyarrow.array([len(values)] * len(values))),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_can_be_computed_is_not_refused(name: str) -> None:
    found = sales() | beam.Map(FITTING[name])
    assert_that(found | beam.combiners.Count.Globally(), equal_to([2]))
    found.pipeline.run().wait_until_finish()


def test_functions_of_users_are_not_called_when_the_pipeline_is_built() -> None:
    calls = []
    _ = sales() | beam.Map(col("price").apply(lambda values: calls.append(len(values)) or values))
    assert [] == calls


def test_attributes_of_classes_and_elements_of_unknown_types_are_left_to_the_run() -> None:
    class Sale(beam.Row):
        @property
        def total(self) -> int:
            return 2 * int(self.price)

    with beam.Pipeline() as p:
        rows = p | beam.Create([Sale(item="tea", price=3)])
        totals = rows | beam.GroupBy("total").aggregate_field("price", sum, "n")
        assert_that(totals | beam.MapTuple(lambda total, n: (total, n)), equal_to([(6, 3)]))


def test_a_map_by_a_function_has_other_fields() -> None:
    with beam.Pipeline() as p:
        grown = p | beam.Create(SALES) | beam.Map(lambda row: beam.Row(**row.as_dict(), tax=1))
        assert_that(grown | beam.Map(col("price") + col("tax")), equal_to([4, 2]))


def test_a_flatten_of_different_fields_is_checked_for_those_that_none_has() -> None:
    with beam.Pipeline() as p:
        rows = p | beam.Create(SALES) | beam.Select("item", "price")
        other = p | "Others" >> beam.Create(pyarrow.table({"item": ["fig"], "cost": [2]}))
        both = (rows, other) | beam.Flatten()
        priced = both | beam.Filter(lambda row: hasattr(row, "cost")) | beam.Select("cost")
        assert_that(priced | beam.Map(col("cost")), equal_to([2]))
        with pytest.raises(ColumnError, match="no field 'prize'; the elements have item, price, cost"):
            _ = both | beam.Select("prize")


def test_without_type_checks_fields_are_left_to_the_run() -> None:
    pcoll = sales(pipeline_type_check=False) | beam.Filter(col("prize") > 1) | beam.Select(x=col("item") + 1)
    with pytest.raises(ColumnError, match=HAVE.format("prize")):
        pcoll.pipeline.run().wait_until_finish()


def test_a_declared_type_replaces_the_known_fields() -> None:
    named = sales() | beam.GroupBy("item").aggregate_field("price", sum, "n").with_output_types(tuple[str, int])
    assert tuple[str, int] == named.element_type


def test_a_users_dofn_may_add_fields_to_the_type_it_was_given() -> None:
    class Taxed(beam.DoFn):
        def process(self, row):  # type: ignore[no-untyped-def]
            yield beam.Row(**row.as_dict(), tax=1)

        def infer_output_type(self, input_element_type: Any) -> Any:
            return input_element_type

    with beam.Pipeline() as p:
        assert_that(p | beam.Create(SALES) | beam.ParDo(Taxed()) | beam.Map(col("tax")), equal_to([1, 1]))
