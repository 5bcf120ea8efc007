"""Streams into real sinks, a transaction for each checkpoint, by several writers at once."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.testing import ScriptedSource
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark

NUMBERS = [[beam.window.TimestampedValue(n, n // 10) for n in range(start, 600, 3)] for start in range(3)]
FLAGS = [{}, {"parallelism": 3, "workers": 1}, {"parallelism": 2}]
IDS = ["alone", "side by side", "in processes"]


def early(count: int) -> dict[str, Any]:
    """Early panes, which are taken back."""
    trigger = AfterWatermark(early=AfterCount(count))
    return {"trigger": trigger, "accumulation_mode": AccumulationMode.RETRACTING}


def counts(p: beam.Pipeline) -> Any:
    """How many sums there are of each remainder, by window: a grouping over what another takes back."""
    return (
        p
        | beam.io.Read(ScriptedSource(NUMBERS))
        | beam.Map(lambda n: (n % 7, n))
        | beam.WindowInto(beam.window.FixedWindows(10), **early(3))
        | beam.CombinePerKey(sum)
        | "Remainder" >> beam.MapTuple(lambda key, total: (total % 5, total))
        | "Coarse" >> beam.WindowInto(beam.window.FixedWindows(20), **early(2))
        | beam.combiners.Count.PerKey()
        | beam.MapTuple(lambda key, n, w=beam.DoFn.WindowParam: (f"{key} in {w.start.micros // 10**6}", n))
    )


def expected() -> list[tuple[str, int]]:
    """The same without the library."""
    sums: Counter[tuple[int, int]] = Counter()
    for n in range(600):
        sums[n // 10 // 10 * 10, n % 7] += n
    found = Counter(f"{total % 5} in {start // 20 * 20}" for (start, _), total in sums.items())
    return sorted(found.items())


@pytest.mark.parametrize("flags", FLAGS, ids=IDS)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_table_ends_with_the_rows_of_a_batch_run(
    database: Any, flags: dict[str, Any], request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    """And nothing that was staged is left."""
    table, columns = f"{database.schema}counts", {"name": str, "n": int}
    if database.schema:
        url = request.getfixturevalue("postgresql").url
        write: Any = beam.io.WriteToSQL(url, table, "name", columns=columns)
    else:
        write = beam.io.WriteToSQLite(tmp_path / "test.db", table, "name", columns=columns)
    with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.3, **flags)) as p:
        _ = counts(p) | write
    assert expected() == database.rows("counts")
    assert ["_penstock_transactions", "counts"] == database.tables()


@pytest.mark.parametrize("flags", FLAGS, ids=IDS)
def test_files_of_a_stream_hold_every_line_once(tmp_path: pathlib.Path, flags: dict[str, Any]) -> None:
    """Their names sort by epoch; only a subtask with output has a file; a bounded input beside it is written too."""
    with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1, **flags)) as p:
        lines = p | beam.io.GenerateSequence(0, 600, 1000, 1, partitions=3) | beam.Map(str)
        _ = lines | beam.io.WriteToText(tmp_path / "stream", ".txt")
        _ = p | beam.Create(range(10)) | "Bounded" >> beam.io.WriteToText(tmp_path / "bounded", ".txt")
    for name, n in (("stream", 600), ("bounded", 10)):
        files = sorted(tmp_path.glob(f"{name}*"))
        contents = [[int(line) for line in file.read_text().split()] for file in files]
        assert list(range(n)) == sorted(line for content in contents for line in content)
        assert all(contents)
    epochs = [int(file.name.split("-")[1]) for file in sorted(tmp_path.glob("stream*"))]
    assert sorted(epochs) == epochs
    assert [] == list(tmp_path.glob(".*"))
