"""A record that a sink's target refuses wedges no stream: it is found before, or there is a way out of it."""

from __future__ import annotations

import logging
import pathlib
import sqlite3
from typing import Any

import pytest
from click.testing import CliRunner
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.__main__ import main
from penstock.io.sql.table_sink import TableSink
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import RejectedRecordError
from penstock.testing import ScriptedSource

BAD = 30
VALUES = [beam.window.TimestampedValue(n, n) for n in range(60)]


class Streams:
    """One stream, started again and again: numbers into a table that takes none twice, and into files.

    Args:
      way: what exactly once rests on: "barriers", "strong", or "batches".
    """

    def __init__(self, directory: pathlib.Path, way: str) -> None:
        self.directory = directory
        self.way = way
        self.kept = str(directory / "kept")

    def run(self, *flags: str, mended: bool = False, files: str = "") -> None:
        """Run it to its end; `files` is the label of the sink of files, which publish in the order of the labels."""
        options = PipelineOptions(["--on_commit_error=fail", *flags])
        runner: Any = None
        if self.way == "batches":
            store = SnapshotStore(disk_of(self.kept), self.kept)
            runner = RunnerInThisProcess(1, store=store)
        else:
            flags = (f"--checkpoint_dir={self.kept}", "--checkpoint_interval=0.02", f"--delivery={self.way}", *flags)
            options = PipelineOptions([*flags, "--max_restarts=0"])
        with beam.Pipeline(runner, options=options) as p:
            numbers = p | "Read" >> beam.io.Read(ScriptedSource([VALUES], at_a_time=20))
            if mended:
                rows = numbers | "Rows" >> beam.Map(lambda n: (n, n))
            else:
                rows = numbers | "Rows" >> beam.Map(lambda n: (n, BAD - 1 if n == BAD else n))
            if files:
                _ = numbers | files >> beam.io.WriteToText(str(self.directory / "out"))
            _ = rows | "Write" >> beam.io.WriteToSQLite(self.directory / "out.db", "numbers", "n", columns=["n", "m"])

    def rows(self) -> list[Any]:
        """The rows of the table."""
        return self.query("SELECT n, m FROM numbers ORDER BY n")

    def moved(self) -> list[Any]:
        """The dead letters."""
        return self.query("SELECT record FROM _penstock_dead_letters")

    def query(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self.directory / "out.db")
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def lines(self) -> list[int]:
        """The lines of all files."""
        return sorted(int(line) for path in self.directory.glob("out-*") for line in path.read_text().split())

    def rollback(self, *flags: str) -> tuple[int, str]:
        """`penstock checkpoints rollback`: its exit status, and what it says."""
        result = CliRunner().invoke(main, ["checkpoints", "rollback", self.kept, *flags])
        return result.exit_code, result.output


EVERYTHING = [(n, n) for n in range(60)]


@pytest.fixture(params=["barriers", "strong", "batches"])
def streams(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Streams:
    """A stream for each way, whose table knows something that no pipeline does."""
    made = Streams(tmp_path, request.param)
    made.query("CREATE TABLE numbers (n INTEGER PRIMARY KEY, m INTEGER UNIQUE)")
    return made


WITH_CHECKPOINTS = pytest.mark.parametrize("streams", ["barriers", "batches"], indirect=True)


@pytest.fixture
def unnoticed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Records are refused only by the commit, as when a table changes just then."""
    monkeypatch.setattr(TableSink, "precommit", lambda self, transactions: None)
    return monkeypatch


def test_a_mended_pipeline_goes_on_where_a_record_was_refused(streams: Streams) -> None:
    """Nothing is written that the record would be in: not the manifest, not the production, not the batch."""
    with pytest.raises(RejectedRecordError) as error:
        streams.run()
    told = str(error.value)
    assert "it refuses {'n': 30, 'm': 29}: UNIQUE constraint failed: numbers.m. Fix the pipeline and start it" in told
    assert "--on_commit_error=dead_letter" in told

    streams.run(mended=True)
    assert EVERYTHING == streams.rows()


def test_with_dead_letters_all_but_the_record_is_published(streams: Streams) -> None:
    """The record is in a table beside, once."""
    with pytest.raises(RejectedRecordError):
        streams.run()
    streams.run("--on_commit_error=dead_letter")

    assert [row for row in EVERYTHING if row[0] != BAD] == streams.rows()
    assert [('{"n":30,"m":29}',)] == streams.moved()


def test_a_commit_that_fails_when_it_is_decided_names_the_way_out(
    streams: Streams, unnoticed: pytest.MonkeyPatch
) -> None:
    """The error suggests a start with dead letters, with each kind of delivery."""
    for mended in (False, True):
        with pytest.raises(
            RejectedRecordError, match=r"Write: table 'numbers' in .* it refuses {'n': 30, 'm'"
        ) as error:
            streams.run(mended=mended)
        told = str(error.value)
        assert "Every start tries this again" in told
        assert "--on_commit_error=dead_letter" in told
        assert ("complete, and can't be published" in told) == (streams.way != "strong")
        assert (f"penstock checkpoints rollback {streams.kept}" in told) == (streams.way != "strong")

    streams.run("--on_commit_error=dead_letter", mended=True)
    assert [row for row in EVERYTHING if row[0] != BAD] == streams.rows()
    assert [('{"n":30,"m":29}',)] == streams.moved()


def test_a_rollback_goes_back_to_the_checkpoint_before_and_loses_nothing(
    streams: Streams, unnoticed: pytest.MonkeyPatch
) -> None:
    """With logs of productions there is none to go back to, and the command says what to do instead."""
    with pytest.raises(RejectedRecordError):
        streams.run()
    status, said = streams.rollback()
    if streams.way == "strong":
        assert (1, True) == (status, "--on_commit_error=dead_letter" in said)
        return
    assert (0, True) == (status, " was removed; the next start resumes from " in said)
    status, said = streams.rollback()
    assert (1, True) == (status, "no c" in said)

    streams.run(mended=True)
    assert EVERYTHING == streams.rows()


@WITH_CHECKPOINTS
def test_a_rollback_is_refused_where_results_would_come_twice(streams: Streams, unnoticed: pytest.MonkeyPatch) -> None:
    """Files that were published can't be called back; unless that is wanted.  A batch has the same names again."""
    with pytest.raises(RejectedRecordError):
        streams.run(files="A")
    status, said = streams.rollback()
    assert (1, True) == (status, "A/Write(FileSink)/Stage has published checkpoint" in said)
    lines = streams.lines()
    status, said = streams.rollback("--allow_repeated_results")
    assert 0 == status

    streams.run(files="A", mended=True)
    assert EVERYTHING == streams.rows()
    assert (set(range(60)), streams.way == "barriers") == (set(streams.lines()), len(streams.lines()) > 60)
    assert lines


@WITH_CHECKPOINTS
def test_a_checkpoint_that_is_published_is_not_rolled_back(streams: Streams, unnoticed: pytest.MonkeyPatch) -> None:
    """Also not because an earlier start couldn't publish it."""
    with pytest.raises(RejectedRecordError):
        streams.run()
    streams.run("--on_commit_error=dead_letter", mended=True)

    status, said = streams.rollback()
    assert (1, True) == (status, "is known to have failed, so its results may be published" in said)


def test_a_bounded_pipeline_publishes_nothing_or_all_but_the_record(tmp_path: pathlib.Path) -> None:
    """At its end, of which it is all the same to the record how many checkpoints came before."""
    table = Streams(tmp_path, "")
    table.query("CREATE TABLE numbers (n INTEGER PRIMARY KEY, m INTEGER UNIQUE)")

    def run(*flags: str) -> None:
        with beam.Pipeline(options=PipelineOptions(flags)) as p:
            rows = p | beam.Create([(1, 1), (2, 1), (3, 3)])
            _ = rows | "A" >> beam.io.WriteToText(str(tmp_path / "out"))
            _ = rows | "Write" >> beam.io.WriteToSQLite(tmp_path / "out.db", "numbers", "n", columns=["n", "m"])

    for flags in ([], [f"--checkpoint_dir={table.kept}", "--max_restarts=0"]):
        with pytest.raises(RejectedRecordError, match=r"it refuses {'n': \d, 'm': 1}: UNIQUE .*another --check|run it"):
            run(*flags)
        assert ([], []) == (table.rows(), list(tmp_path.glob("out-*")))
    run(f"--checkpoint_dir={table.kept}", "--on_commit_error=dead_letter")
    assert [(1, 1), (3, 3)] == table.rows()
    assert [('{"n":2,"m":1}',)] == table.moved()


def test_a_sink_without_a_place_for_dead_letters_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """A sink of the user's own has none, unless it says so."""

    class Own(beam.io.Sink):
        def prepare(self, context: beam.io.SinkContext) -> None: ...

        def open_writer(self, context: beam.io.SinkContext) -> Any: ...

        def commit(self, context: beam.io.SinkContext, staged: Any) -> None: ...

        def abort(self, context: beam.io.SinkContext) -> None: ...

    with (
        caplog.at_level(logging.WARNING),
        beam.Pipeline(options=PipelineOptions(["--on_commit_error=dead_letter"])) as p,
    ):
        _ = p | beam.Create([]) | "Own" >> beam.io.Write(Own())
    assert "Own: --on_commit_error=dead_letter: its sink has no place for dead letters" in caplog.text
