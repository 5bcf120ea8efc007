"""A drawing shows which PCollections are columns, and where they are converted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet

import penstock as beam
from penstock.io.files.csv import CsvSource
from penstock.io.files.parquet_source import ParquetSource
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.drawing.drawing import to_dot, to_html, to_mermaid, to_text
from penstock.sdk.graph import Graph
from penstock.sdk.sources.bounded import ValuesSource
from penstock.testing import ScriptedSource

SALES = {"user": ["a", "b"], "n": [1, 2], "at": [1, 2]}


def example(directory: Path) -> Graph:
    """Columns of a file through operations, a grouping, a sink and a Flatten; and elements between two operations."""
    pyarrow.parquet.write_table(pa.table(SALES), directory / "sales.parquet")
    n = beam.col("n")
    p = beam.Pipeline()
    read = p | "Read" >> beam.io.ReadFromParquet(directory / "sales.parquet", as_rows=True)
    stamped = read | "Sold" >> beam.Filter(n > 0) | "At" >> beam.WithTimestamps("at")
    windowed = stamped | "Hours" >> beam.WindowInto(beam.window.FixedWindows(3600))
    totals = windowed | "Totals" >> beam.GroupBy("user").aggregate_field("n", sum, "total")
    _ = totals | "Print" >> beam.Map(print)
    _ = windowed | "Csv" >> beam.io.WriteToCsv(directory / "csv")
    _ = windowed | "Text" >> beam.io.WriteToText(directory / "text")
    both = (windowed, windowed | "Many" >> beam.Filter(n > 9)) | "Both" >> beam.Flatten()
    changed = both | "Change" >> beam.Map(lambda row: row) | "Few" >> beam.Filter(n < 5)
    _ = changed | "Sessions" >> beam.WindowInto(beam.window.Sessions(5))
    made = p | "Made" >> beam.Create([beam.Row(n=1)]) | "Days" >> beam.WindowInto(beam.window.FixedWindows(86_400))
    _ = made | "Double" >> beam.Map(n * 2)
    return p.graph()


def test_columns_and_conversions_are_in_the_text(tmp_path: Path) -> None:
    expected = """\
Read/Read(ParquetSource): Read
Sold: ParDo of Read/Read(ParquetSource) (columns)
At: ParDo of Sold (columns)
Hours: AssignWindows of At (columns)
Totals/Key: ParDo of Hours (columns)
Totals/Combine: GroupByKeyAndWindow of Totals/Key (columns)
Totals/Result: ParDo of Totals/Combine (columns)
Print: ParDo of Totals/Result (columns, to elements)
Csv/Write(FileSink)/Stage: Write of Hours (columns)
Text/Write(FileSink)/Stage: Write of Hours (columns, to elements)
Many: ParDo of Hours (columns)
Both: Flatten of Hours (columns), Many (columns)
Change: ParDo of Both (columns, to elements)
Few: ParDo of Change (to columns)
Sessions: AssignWindows of Few (columns, to elements)
Made/Values: Read
Days: AssignWindows of Made/Values (to columns)
Double: ParDo of Days (columns)"""
    assert expected == to_text(example(tmp_path))


def test_arrows_of_columns_are_thick(tmp_path: Path) -> None:
    """And say where they are converted."""
    graph = example(tmp_path)
    mermaid, dot, html = to_mermaid(graph), to_dot(graph), to_html(graph)
    for line in ("t0 ==> t1", 't6 ==>|"to elements"| t7', 't12 -->|"to columns"| t13'):
        assert f"    {line}\n" in mermaid
    assert 't0 -> t1 [style=bold, tooltip="user: string, n: int64, at: int64"];' in dot
    assert 't6 -> t7 [label="to elements", style=bold, tooltip="user: string, total"];' in dot
    assert 't12 -> t13 [label="to columns", tooltip="user: string, n: int64, at: int64"];' in dot
    columnar = mermaid.count("==>")
    assert columnar == dot.count("style=bold") == html.count('<g class="columns">') == html.count('stroke-width="3"')
    assert mermaid.count("to elements") == html.count(">to elements</text>") == dot.count("to elements")


def test_a_reshuffle_keeps_columns() -> None:
    """And doesn't make columns of elements."""
    p = beam.Pipeline()
    rows = p | "Rows" >> beam.Create(pa.table(SALES)) | beam.WindowInto(beam.window.FixedWindows(60))
    _ = rows | "Columns" >> beam.Reshuffle() | "Few" >> beam.Filter(beam.col("n") < 5)
    _ = rows | "Change" >> beam.Map(print) | "Elements" >> beam.Reshuffle() | "Print" >> beam.Map(print)
    _, _, *lines = to_text(p.graph()).splitlines()
    assert lines == [
        "Columns/AddRandomKeys: ParDo of WindowInto (columns)",
        "Columns/Globally: AssignWindows of Columns/AddRandomKeys (columns)",
        "Columns/Group: GroupByKeyAndWindow of Columns/Globally (columns)",
        "Columns/Restore: ParDo of Columns/Group (columns)",
        "Few: ParDo of Columns/Restore (columns)",
        "Change: ParDo of WindowInto (columns, to elements)",
        "Elements/AddRandomKeys: ParDo of Change",
        "Elements/Globally: AssignWindows of Elements/AddRandomKeys",
        "Elements/Group: GroupByKeyAndWindow of Elements/Globally",
        "Elements/Restore: ParDo of Elements/Group",
        "Print: ParDo of Elements/Restore",
    ]


class _Ticks(ScriptedSource[Any]):
    """A stream of columns, which is drawn only."""

    gives_columns = True


def test_a_stream_has_elements_behind_a_grouping() -> None:
    """Sums of columns are panes there, each by itself."""
    p = beam.Pipeline()
    windowed = p | "Ticks" >> beam.io.Read(_Ticks([])) | beam.WindowInto(beam.window.FixedWindows(60))
    sums = windowed | "Sum" >> beam.GroupBy("user").aggregate_field("n", sum, "total")
    _ = sums | "Print" >> beam.Map(print)
    text = to_text(p.graph())
    assert "Sum/Combine: GroupByKeyAndWindow of Sum/Key (columns)\n" in text
    assert text.endswith("Print: ParDo of Sum/Result")


def test_sources_give_columns_if_they_say_so(tmp_path: Path) -> None:
    """Of files, of tables, and none of lists."""
    pyarrow.parquet.write_table(pa.table(SALES), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("user,n\na,1\n")
    sources: list[tuple[Any, bool]] = [
        (ParquetSource(tmp_path / "a.parquet"), True),
        (ParquetSource(tmp_path / "a.parquet", batched=True), False),
        (CsvSource(tmp_path / "a.csv"), True),
        (CsvSource(tmp_path / "a.csv", converters={"n": complex}), False),
        (beam.Create(pa.table(SALES)), True),
        (beam.Create(pandas.DataFrame(SALES)), True),
        (beam.Create([1, 2]), False),
    ]
    for given, expected in sources:
        source = ValuesSource(given.values) if isinstance(given, beam.Create) else given
        bundles = [bundle for split in source.split(1) for bundle in source.read_bundles(split)]
        assert [expected] == [isinstance(bundle, ColumnBundle) for bundle in bundles]
        assert expected == source.gives_columns
