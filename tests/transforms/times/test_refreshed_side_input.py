"""RefreshedSideInput: contents that are loaded again, as a whole, in all views."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
import time
from typing import Any

import pytest
from support.pipelines.recording import Recording
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.errors import SideInputError
from penstock.sdk.side_inputs import AsDict, AsIter, AsList, AsMultiMap, AsSingleton


def loading(path: pathlib.Path) -> Any:
    """Return a function that loads what a file has."""
    return lambda: json.loads(path.read_text())


def look_up(p: Any, load: Any, *views: Any) -> Recording:
    """Record what the elements of a stream see."""
    table = p | "Table" >> beam.RefreshedSideInput(load, every=0.05)
    numbers = p | beam.io.GenerateSequence(0, None, 100, 1)

    def seen(number: int, *sides: Any) -> list[Any]:
        return [dict(side) if isinstance(side, dict) else side if type(side) is int else list(side) for side in sides]

    recording = Recording()
    _ = numbers | "Look up" >> beam.Map(seen, *(view(table) for view in views)) | beam.io.Write(recording)
    return recording


@pytest.fixture(params=[1, 2])
def options(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> PipelineOptions:
    """A stream with checkpoints, on one worker and on two."""
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.05, "max_restarts": 0}
    return PipelineOptions([], parallelism=request.param, **flags)


def last(recording: Recording) -> Any:
    changes = recording.changes
    return changes[-1].value if changes else None


def test_each_view_shows_the_newest_content(options: PipelineOptions, tmp_path: pathlib.Path) -> None:
    """As a whole, also if nothing is left of it; and the former one, while the load fails."""
    file = tmp_path / "table.json"
    file.write_text('{"tea": 3, "jam": 1}')
    p = beam.Pipeline("local", options=options)
    recording = look_up(p, loading(file), AsSingleton, AsDict, AsList, AsIter, AsMultiMap)
    result = p.run()

    def contents(table: dict[str, int]) -> list[Any]:
        items = list(table.items())
        return [table, table, items, items, {key: [value] for key, value in items}]

    def failed() -> int:
        counters = result.metrics().query(beam.metrics.MetricsFilter().with_name("failed_loads"))["counters"]
        return sum(counter.attempted or 0 for counter in counters)

    try:
        wait_until(lambda: last(recording) == contents({"tea": 3, "jam": 1}), "the first content")
        file.write_text("{}")
        wait_until(lambda: last(recording) == contents({}), "no content")
        file.write_text('{"milk": 2}')
        wait_until(lambda: last(recording) == contents({"milk": 2}), "another content")
        file.write_text("no JSON")
        wait_until(lambda: failed() > 1, "failures")
        seen = len(recording.changes)
        wait_until(lambda: len(recording.changes) > seen, "more elements")
        assert contents({"milk": 2}) == last(recording)
    finally:
        result.cancel()
    # No content was mixed with another one.
    wanted = [contents({"tea": 3, "jam": 1}), contents({}), contents({"milk": 2})]
    assert [] == [change.value for change in recording.changes if change.value not in wanted]


@pytest.mark.spark
def test_micro_batches_see_the_newest_content(spark: Any, tmp_path: pathlib.Path) -> None:
    """Each batch sees one, in the view that it asks for."""
    file, database = tmp_path / "table.json", tmp_path / "seen.db"
    file.write_text('{"tea": 3}')
    options = PipelineOptions([], checkpoint_dir=str(tmp_path / "kept"))
    p = beam.Pipeline(SparkMicroBatchRunner(spark_session=spark), options)
    table = p | "Table" >> beam.RefreshedSideInput(loading(file), every=0.2)
    numbers = p | beam.io.GenerateSequence(0, None, 20, 1)
    rows = numbers | "Look up" >> beam.Map(lambda n, prices: {"number": n, "seen": str(prices)}, AsDict(table))
    _ = rows | beam.io.WriteToSQLite(database, "seen", ["number"], columns=["number", "seen"])
    result = p.run()

    def seen() -> list[str]:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            try:
                return [text for (text,) in connection.execute("SELECT DISTINCT seen FROM seen ORDER BY number")]
            except sqlite3.OperationalError:
                return []

    try:
        wait_until(lambda: seen() == ["{'tea': 3}"], "the first content")
        file.write_text('{"milk": 2}')
        wait_until(lambda: seen() == ["{'tea': 3}", "{'milk': 2}"], "another content")
    finally:
        result.cancel()


def test_a_first_load_that_fails_is_an_error(options: PipelineOptions, tmp_path: pathlib.Path) -> None:
    """It names the transform."""
    p = beam.Pipeline("local", options=options)
    look_up(p, loading(tmp_path / "missing.json"), AsDict)
    with pytest.raises(FileNotFoundError, match=r"missing.json") as raised:
        p.run().wait_until_finish()
    assert any("Table" in note for note in [str(raised.value), *getattr(raised.value, "__notes__", [])])


def test_a_restart_goes_on_with_the_last_content(options: PipelineOptions, tmp_path: pathlib.Path) -> None:
    """Also if nothing can be loaded then."""
    file = tmp_path / "table.json"
    file.write_text("[1, 2]")
    for _ in range(2):
        p = beam.Pipeline("local", options=options)
        recording = look_up(p, loading(file), AsList)
        result = p.run()
        try:
            wait_until(lambda recording=recording: last(recording) == [[1, 2]], "the content")
        finally:
            result.cancel()
        file.unlink(missing_ok=True)


def loading_slowly(path: pathlib.Path, seconds: float) -> Any:
    """Return a function that loads the number of its calls, which a file counts, and takes longer than the interval."""

    def load() -> int:
        with path.open("a") as calls:
            calls.write("called\n")
        time.sleep(seconds)
        return len(path.read_text().splitlines())

    return load


def test_a_load_that_takes_longer_than_the_interval_does_not_hold_checkpoints_back(
    options: PipelineOptions, tmp_path: pathlib.Path
) -> None:
    """Loads that have become due meanwhile are left out, so that the barriers don't wait behind ever more of them."""
    file = tmp_path / "calls"
    p = beam.Pipeline("local", options=options)
    recording = look_up(p, loading_slowly(file, 0.5), AsSingleton)
    result = p.run()
    try:
        wait_until(lambda: recording.changes, "an element that is committed")
        wait_until(lambda: (last(recording) or [0])[0] > 3, "another content")
    finally:
        result.cancel()


def test_a_content_that_is_no_table_is_an_error(options: PipelineOptions) -> None:
    """It names the view, and what was loaded."""
    p = beam.Pipeline("local", options=options)
    look_up(p, lambda: 7, AsDict)
    with pytest.raises(SideInputError, match="AsDict: expected an iterable or a dictionary, got 7"):
        p.run().wait_until_finish()


@pytest.mark.parametrize("every", [0, -1])
def test_an_interval_of_nothing_is_refused(every: int) -> None:
    """When the transform is made."""
    with pytest.raises(ValueError, match=r"RefreshedSideInput: every must be more than 0 seconds, got"):
        beam.RefreshedSideInput(dict, every)
