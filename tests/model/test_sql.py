"""SqlTransform gives what the query means: for each row by itself, or for each window."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow
import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.testing import TestStream, TestWindowedValue
from penstock.transforms.sql import SqlTransform
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, TimestampedValue


class Sale(NamedTuple):
    item: str
    cups: int
    at: int


SALES = [Sale(("tea", "milk", "coffee")[i % 3], i % 7, 3 * i) for i in range(60)]
KINDS = ["columns", "elements"]


def sales(kind: str) -> beam.PTransform:
    """The sales at their times, as columns or one by one."""
    if kind == "columns":
        table = pyarrow.Table.from_pylist([sale._asdict() for sale in SALES])
        return beam.Create(table) | beam.WithTimestamps("at")
    return beam.Create(SALES) | beam.WithTimestamps(lambda sale: sale.at)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_run_by_row_and_by_window(pipeline: Any, kind: str) -> None:
    """By row with the timestamps of the rows; by window with its end; a join sees the rows of one window."""
    with pipeline as p:
        rows = p | sales(kind) | beam.WindowInto(FixedWindows(60))
        many = rows | "many" >> SqlTransform("SELECT item, cups * 10 AS n FROM PCOLLECTION WHERE cups > 4")
        expected = [(IntervalWindow(sale.at // 60 * 60, sale.at // 60 * 60 + 60), sale) for sale in SALES]
        check([TestWindowedValue((s.item, s.cups * 10), s.at, [w]) for w, s in expected if s.cups > 4], many, True)
        totals = rows | "totals" >> SqlTransform(
            "SELECT item, SUM(cups) AS total, COUNT(*) AS `count` FROM PCOLLECTION GROUP BY item"
        )
        groups: dict[Any, list[int]] = {}
        for window, sale in expected:
            groups.setdefault((window, sale.item), []).append(sale.cups)
        aggregates = [((item, sum(own), len(own)), window) for (window, item), own in groups.items()]
        check([TestWindowedValue(row, w.max_timestamp(), [w]) for row, w in aggregates], totals, True)
        joined = {"sale": rows, "total": totals} | SqlTransform(
            "SELECT sale.item, cups, total FROM sale JOIN total USING (item) WHERE cups = 6 ORDER BY total LIMIT 2"
        )
        check(
            [(3,)],
            joined
            | "all" >> beam.WindowInto(beam.window.GlobalWindows())
            | "windows" >> SqlTransform("SELECT COUNT(*) // 2 AS n FROM PCOLLECTION"),
        )


def test_a_query_without_results_gives_none(pipeline: Any) -> None:
    """By row and by window; one that filters out all rows of a bundle too."""
    with pipeline as p:
        rows = p | sales("elements")
        check([], rows | "filtered" >> SqlTransform("SELECT item FROM PCOLLECTION WHERE cups > 1000"))
        none = "SELECT item, SUM(cups) AS n FROM PCOLLECTION WHERE cups > 1000 GROUP BY item"
        check([], rows | "grouped" >> SqlTransform(none))


def test_values_of_all_types_pass(pipeline: Any) -> None:
    """None, sums of whole numbers, lists, and times; and a query may have no input."""
    with pipeline as p:
        values = p | SqlTransform(
            "SELECT 1 AS n, 'a' AS text, NULL::DOUBLE AS missing, [1, 2] AS list, TIMESTAMP '2024-01-01' AS day"
        )
        read = values | "read" >> SqlTransform("SELECT SUM(n) AS n, MAX(text) AS text, COUNT(missing) AS missing, "
            "MAX(list) AS list, EXTRACT(year FROM MAX(day)) AS year FROM PCOLLECTION")  # fmt: skip
        check([(1, "a", 0, [1, 2], 2024)], read)


def test_windows_of_a_stream_are_evaluated_when_they_are_complete(streaming_runner: Any) -> None:
    """Sessions, too, and rows of several bundles."""
    stream = TestStream().with_output_types(Sale)
    for at, cups in ((1, 1), (3, 2), (30, 4)):
        stream = stream.advance_watermark_to(at).add_elements([TimestampedValue(Sale("tea", cups, at), at)])
    with beam.Pipeline(runner=streaming_runner) as p:
        windows = p | stream.advance_watermark_to_infinity() | beam.WindowInto(Sessions(10))
        totals = windows | SqlTransform("SELECT SUM(cups) AS cups FROM PCOLLECTION")
        first, second = IntervalWindow(1, 13), IntervalWindow(30, 40)
        check(
            [
                TestWindowedValue((3,), first.max_timestamp(), [first]),
                TestWindowedValue((4,), second.max_timestamp(), [second]),
            ],
            totals,
            reify_windows=True,
        )
