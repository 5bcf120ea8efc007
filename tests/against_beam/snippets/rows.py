"""Rows, GroupBy and Select."""

import typing

import apache_beam as beam
from refusals import refused


class _Sale(typing.NamedTuple):
    shop: str
    item: str
    price: float


_SALES = [_Sale("a", "x", 1.0), _Sale("a", "y", 2.5), _Sale("b", "x", 4.0)]


def rows() -> None:
    row = beam.Row(a=1, b="x")
    print(row, repr(row), row.a, row == beam.Row(a=1, b="x"), row == beam.Row(a=2, b="x"))
    print(row._asdict(), list(row), row.as_dict())


def rows_in_another_order() -> None:
    print(beam.Row(a=1, b=2) == beam.Row(b=2, a=1), beam.Row(b=2, a=1))


def rows_against_named_tuples() -> None:
    print(beam.Row(shop="a", item="x", price=1.0) == _SALES[0])


def select_fields() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(_SALES) | beam.Select("shop", "price") | beam.Map(print)


def select_expressions() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(_SALES) | beam.Select("item", twice=lambda s: s.price * 2) | beam.Map(print)


def select_from_rows() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([beam.Row(a=1, b=2), beam.Row(a=3, b=4)])
            | beam.Select(c="b", d=lambda row: row.a)
            | beam.Map(print)
        )


def group_by_a_function() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["ab", "cd", "efg"])
            | beam.GroupBy(len)
            | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
            | beam.Map(print)
        )


def group_by_a_field() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy("shop")
            | beam.MapTuple(lambda k, vs: (k, sorted(s.item for s in vs)))
            | beam.Map(print)
        )


def group_by_fields() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy("shop", "item")
            | beam.MapTuple(lambda k, vs: (k.shop, k.item, len(list(vs))))
            | beam.Map(print)
        )


def the_key_of_several_fields() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES[:1])
            | beam.GroupBy("shop", cheap=lambda s: s.price < 2)
            | beam.Keys()
            | beam.Map(tuple)
            | beam.Map(print)
        )


def aggregate_a_field() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy("shop").aggregate_field("price", sum, "total")
            | beam.Map(lambda row: (row.shop, row.total))
            | beam.Map(print)
        )


def aggregate_fields() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy("item")
            .aggregate_field("price", sum, "total")
            .aggregate_field("price", beam.combiners.MeanCombineFn(), "mean")
            .aggregate_field(lambda s: len(s.shop), max, "longest")
            | beam.Map(lambda row: (row.item, row.total, row.mean, row.longest))
            | beam.Map(print)
        )


def results_of_aggregations_are_rows() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy("shop").aggregate_field("price", sum, "total")
            | beam.Map(lambda row: row == beam.Row(shop=row.shop, total=row.total))
            | beam.Map(print)
        )


def printed_results_of_aggregations() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(_SALES) | beam.GroupBy("shop").aggregate_field("price", sum, "total") | beam.Map(print)


def group_everything() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(_SALES)
            | beam.GroupBy().aggregate_field("price", sum, "total")
            | beam.Map(lambda row: row.total)
            | beam.Map(print)
        )


def group_by_with_a_name() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create(["ab", "cd", "efg"])
            | beam.GroupBy(size=len)
            | beam.MapTuple(lambda k, vs: (k.size, sorted(vs)))
            | beam.Map(print)
        )


def a_field_that_is_missing() -> None:
    with refused(Exception), beam.Pipeline() as p:
        p | beam.Create(_SALES) | beam.Select("colour") | beam.Map(print)


def rows_as_keys() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([(beam.Row(a=1), 1), (beam.Row(a=1), 2), (beam.Row(a=2), 3)])
            | beam.CombinePerKey(sum)
            | beam.MapTuple(lambda row, total: print(row.a, total))
        )


def named_tuples_as_keys() -> None:
    with beam.Pipeline() as p:
        (p | beam.Create([(_SALES[0], 1), (_SALES[0], 2), (_SALES[1], 3)]) | beam.CombinePerKey(sum) | beam.Map(print))


def rows_of_rows() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([beam.Row(a=beam.Row(b=1))]) | beam.Map(lambda row: row.a.b) | beam.Map(print)


def map_to_rows() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("b", 2), ("a", 5)])
            | beam.Map(lambda kv: beam.Row(key=str(kv[0]), value=int(kv[1])))
            | beam.GroupBy("key").aggregate_field("value", max, "largest")
            | beam.MapTuple(lambda key, largest: (key, largest))
            | beam.Map(print)
        )
