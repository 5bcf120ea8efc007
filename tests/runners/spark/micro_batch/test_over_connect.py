"""Micro-batches over Spark Connect: by DataFrames, with the same plans, state and commits as elsewhere."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.errors import OptionsError, UnsupportedError
from penstock.sdk.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from penstock.transforms.timeutil import TimeDomain


class Running(beam.DoFn):
    """Counts the elements of a key, and tells the last count at the end."""

    COUNT = CombiningValueStateSpec("count", sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        count: Any = beam.DoFn.StateParam(COUNT),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[Any]:
        count.add(1)
        end.set(10**9)
        yield pair[0], pair[1], count.read()

    @on_timer(END)
    def at_end(
        self, key: Any = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[str, str, int]]:
        yield key, "end", count.read()


def build(p: beam.Pipeline, out: pathlib.Path, source: Any) -> None:
    """State, a shuffle, a side input, and two sinks."""
    factor = p | "Factor" >> beam.Create([10])
    pairs = p | "Read" >> source | beam.Map(lambda n, f: (f"k{n % 7}", n * f), beam.pvalue.AsSingleton(factor))
    counted = pairs | beam.ParDo(Running())
    _ = counted | "Lines" >> beam.Map(repr) | beam.io.WriteToText(out / "lines")
    sums = pairs | beam.WindowInto(beam.window.FixedWindows(10)) | beam.CombinePerKey(sum)
    rows = sums | "Rows" >> beam.MapTuple(lambda key, total: {"key": key, "total": total})
    _ = rows | beam.io.WriteToSQLite(out / "out.db", "sums", columns=["key", "total"], count_column="n")


def lines(out: pathlib.Path) -> list[str]:
    return sorted(line for file in out.glob("lines-*") for line in file.read_text().splitlines())


def expected_lines(count: int) -> list[str]:
    found = []
    for key in range(7):
        own = range(key, count, 7)
        found += [repr((f"k{key}", n * 10, i + 1)) for i, n in enumerate(own)]
        found += [repr((f"k{key}", "end", len(own)))] if own else []
    return sorted(found)


def test_a_stream_with_state_side_inputs_and_two_sinks_runs(connect_session: Any, tmp_path: pathlib.Path) -> None:
    """To its end, in batches of 20 elements, with state that one worker may have or another restores."""
    options = PipelineOptions(checkpoint_dir=str(tmp_path / "kept"), max_records_per_batch=20)
    p = beam.Pipeline(SparkMicroBatchRunner(connect_session), options)
    build(p, tmp_path, beam.io.GenerateSequence(0, 100, 10, 1, start_time=0))
    result = p.run()
    assert "DONE" == result.wait_until_finish()
    assert expected_lines(100) == lines(tmp_path)
    with sqlite3.connect(tmp_path / "out.db") as database:
        (total,) = database.execute("SELECT sum(total * n) FROM sums").fetchone()
    assert 10 * sum(range(100)) == total


def test_runs_of_what_is_available_go_on_from_each_other(connect_session: Any, tmp_path: pathlib.Path) -> None:
    """Each ends with its input, and the next has its state."""
    found = []
    for stop in (1, 2, 3):
        (tmp_path / f"{stop}.txt").write_text("a\nb\n" * stop)
        options = PipelineOptions(checkpoint_dir=str(tmp_path / "kept"), available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(connect_session), options)
        words = p | beam.io.ReadContinuouslyFromText(str(tmp_path / "?.txt"), poll_interval=0.1)
        counted = words | beam.Map(lambda word, run: (word, run), stop) | beam.ParDo(Running())
        # The timers are long past.
        counted = counted | beam.Filter(lambda row: row[1] != "end")
        _ = counted | beam.Map(repr) | beam.io.WriteToText(tmp_path / "lines")
        p.run().wait_until_finish()
        found.append(len(lines(tmp_path)))
    assert [2, 6, 12] == found
    assert sorted(repr((word, (1, 2, 2, 3, 3, 3)[i], i + 1)) for word in "ab" for i in range(6)) == lines(tmp_path)


def test_what_spark_connect_lacks_is_refused_by_name(connect_session: Any, tmp_path: pathlib.Path) -> None:
    """DataFrames, and state that nobody else can read."""
    p = beam.Pipeline(SparkMicroBatchRunner(connect_session))
    _ = p | "Numbers" >> beam.io.GenerateSequence(0, None, 1, 1)
    with pytest.raises(OptionsError, match="needs a --checkpoint_dir over Spark Connect"):
        p.run()
    p = beam.Pipeline(SparkMicroBatchRunner(connect_session), PipelineOptions(checkpoint_dir=str(tmp_path / "kept")))
    rows = p | "Table" >> beam.io.FromSpark(connect_session.createDataFrame([(1,)], "n bigint"))
    _ = rows | beam.Map(print)
    with pytest.raises(UnsupportedError, match="Table.*reads no DataFrames over Spark Connect"):
        p.run()
