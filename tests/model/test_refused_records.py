"""A record that a table refuses, on every runner: nothing is published, or all but the record, which is counted."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import RejectedRecordError


def test_what_a_table_refuses_fails_the_run_before_any_sink_publishes_or_is_moved_aside(
    make_pipeline: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """Here another column of the table is unique, which only the database knows."""
    connection = sqlite3.connect(tmp_path / "out.db")
    connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY, m INTEGER UNIQUE)")

    def run(**options: Any) -> Any:
        with make_pipeline(**options) as p:
            rows = p | beam.Create([(1, 1), (2, 1), (3, 3)])
            _ = rows | "A" >> beam.io.WriteToText(str(tmp_path / "out"))
            _ = rows | "Write" >> beam.io.WriteToSQLite(tmp_path / "out.db", "numbers", "n", columns=["n", "m"])
        return p.result

    with pytest.raises(RejectedRecordError, match=r"Write: table .* it refuses {'n': \d, 'm': 1}: UNIQUE"):
        run()
    assert ([], []) == (list(tmp_path.glob("out-*")), connection.execute("SELECT * FROM numbers").fetchall())

    result = run(options=beam.options.PipelineOptions(["--on_commit_error=dead_letter"]))
    assert [(1,), (3,)] == connection.execute("SELECT m FROM numbers ORDER BY n").fetchall()
    [(moved,)] = connection.execute("SELECT record FROM _penstock_dead_letters").fetchall()
    assert moved in ('{"n":1,"m":1}', '{"n":2,"m":1}')
    counters = result.metrics().query()["counters"]
    [counted] = [each for each in counters if each.key.metric.name == "dead_letters"]
    assert (True, 1) == (counted.key.step.startswith("Write"), counted.result)
    assert 3 == sum(len(path.read_text().splitlines()) for path in tmp_path.glob("out-*"))
    connection.close()
