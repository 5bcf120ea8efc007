"""Windows of side inputs that were freed, across restarts and with another number of subtasks."""

from __future__ import annotations

import pathlib
import sqlite3

import pytest
from support.runners import restartable_streams

import penstock as beam
from penstock.testing import ScriptedSource
from penstock.window import FixedWindows, TimestampedValue

WINDOWS = 80
MAIN = [TimestampedValue((f"key {i % 3}", i), i) for i in range(10 * WINDOWS)]
SIDE = [TimestampedValue(f"rate of {window}", 10 * window) for window in range(WINDOWS)]


def rated(stream: restartable_streams.Stream) -> beam.Pipeline:
    """Each number with the rate of its window, in a table."""
    p = beam.Pipeline()
    fixed = beam.WindowInto(FixedWindows(10))
    rates = p | "Rates" >> beam.io.Read(ScriptedSource([SIDE])) | "Of windows" >> fixed
    numbers = p | "Numbers" >> beam.io.Read(ScriptedSource([MAIN[::2], MAIN[1::2]])) | "Windows" >> fixed
    rows = (
        numbers
        | "Shuffle" >> beam.Reshuffle()
        | beam.Map(lambda pair, rate: {"number": pair[1], "rate": rate}, beam.pvalue.AsSingleton(rates, "none"))
    )
    _ = rows | "Write" >> beam.io.WriteToSQLite(
        stream.directory / "out.db", "rated", ["number"], columns=["number", "rate"]
    )
    return p


@pytest.mark.parametrize("parallelisms", [(1, 1, 1), (2, 2, 2), (2, 1, 2)])
def test_elements_find_the_windows_that_they_can_reach(tmp_path: pathlib.Path, parallelisms: tuple[int, ...]) -> None:
    """Killed twice; none is dropped as late, and none finds its window empty."""
    stream = restartable_streams.Stream(tmp_path)
    *killed, last = parallelisms
    for parallelism, checkpoints in zip(killed, (4, 1), strict=True):
        stream.crash_after(checkpoints, parallelism=parallelism, pipeline=rated(stream))
    stream.job(last, rated(stream)).run()
    connection = sqlite3.connect(tmp_path / "out.db")
    rows = connection.execute("SELECT number, rate FROM rated").fetchall()
    connection.close()
    assert [(i, f"rate of {i // 10}") for i in range(10 * WINDOWS)] == sorted(rows)
