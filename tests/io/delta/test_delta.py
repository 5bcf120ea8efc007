"""What Delta Lake has of its own: versions, its log, its client."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import pathlib
from typing import Any

import deltalake
import pyarrow
import pytest
from support.io.lakehouse_tables import WORDS, DeltaLakeTable, stream_of

import penstock as beam
from penstock.io.delta.snapshot import snapshot_of
from penstock.io.delta.table import LoadedDelta
from penstock.sdk.errors import SinkError, SourceError, UnsupportedError
from penstock.sdk.sink import LabelledSink
from penstock.testing import TestPipeline, assert_that, equal_to


@pytest.fixture
def table(tmp_path: pathlib.Path) -> DeltaLakeTable:
    return DeltaLakeTable(tmp_path)


def test_earlier_versions_are_read_by_number_and_time(table: DeltaLakeTable) -> None:
    begin = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    for n in range(3):
        table.append({"n": [n]})
        # The client takes the time of a version from the file of its log.
        os.utime(f"{table.name}/_delta_log/{n:020}.json", times=(begin.timestamp() + 60 * n,) * 2)
    moment = begin + datetime.timedelta(seconds=90)
    for options in ({"version": 1}, {"timestamp": moment}, {"timestamp": moment.isoformat()}):
        with TestPipeline() as p:
            assert_that(p | table.read(**options) | beam.Map(lambda row: row.n), equal_to([0, 1]))
    with pytest.raises(SourceError, match="can't be read"):
        _ = TestPipeline() | table.read(version=7)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"version": 1, "timestamp": "2026-01-01T00:00:00Z"}, "version and timestamp exclude each other"),
        ({"timestamp": "2026-01-01"}, "a datetime with a time zone"),
        ({"version": -1}, "version must be a whole number, 0 or more"),
        ({"streaming": True, "version": 1}, "give starting_version instead"),
        ({"starting_version": 1}, "starting_version needs streaming=True"),
    ],
)
def test_mistaken_options_are_refused(table: DeltaLakeTable, options: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        table.read(**options)
    with pytest.raises(ValueError, match="has credentials in it; give them by environment variables"):
        beam.io.ReadFromDelta("s3://key:secret@bucket/table")


def test_a_stream_refuses_or_leaves_out_versions_that_change_rows(table: DeltaLakeTable) -> None:
    """Those that only move rows have none."""
    for n in range(3):
        table.append({"n": [n]})
    table.loaded().optimize.compact()
    table.append({"n": [3]})
    assert [1, 2, 3] == stream_of(table.read(streaming=True, starting_version=1))
    table.loaded().delete("n = 2")
    table.append({"n": [4]})
    with pytest.raises(SourceError, match="version 5 of Delta table .* deletes or changes rows.*skip_change_commits"):
        stream_of(table.read(streaming=True, starting_version=1))
    assert [1, 2, 3, 4] == stream_of(table.read(streaming=True, starting_version=1, skip_change_commits=True))


def test_a_version_that_left_the_log_is_an_error(table: DeltaLakeTable) -> None:
    for n in range(3):
        table.append({"n": [n]})
    table.loaded().create_checkpoint()
    for version in (0, 1):
        pathlib.Path(table.name, "_delta_log", f"{version:020}.json").unlink()
    with pytest.raises(SourceError, match="version 1 of .* is not in its log any more, and the last one is 2"):
        stream_of(table.read(streaming=True, starting_version=1))


def test_tables_for_other_readers_are_refused(table: DeltaLakeTable) -> None:
    deltalake.DeltaTable.create(
        table.name, deltalake.Schema.from_arrow(WORDS), configuration={"delta.enableDeletionVectors": "true"}
    )
    with pytest.raises(SourceError, match="needs readers with deletionVectors"):
        _ = TestPipeline() | table.read()


def test_rules_that_a_commit_would_break_are_refused_before_the_run(
    table: DeltaLakeTable, tmp_path: pathlib.Path
) -> None:
    """Constraints, which an append of files doesn't check and a merge does; and rows that can't be changed."""
    table.append({"word": ["a"], "n": [1]})
    table.loaded().alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(SinkError, match="has the constraint 'positive', which isn't checked when files are appended"):
        LabelledSink(table.write(WORDS).sink, "Write").prepare("run")
    with (
        pytest.raises(SinkError, match=r"can't be committed to: .*1 rows failed validation check"),
        TestPipeline() as p,
    ):
        _ = p | beam.Create([beam.Row(word="b", n=-1)]) | table.write(WORDS, key="word")
    other = DeltaLakeTable(tmp_path, "other", configuration={"delta.appendOnly": "true"})
    other.append({"word": ["a"], "n": [1]})
    with pytest.raises(SinkError, match=r"is only appended to \(delta.appendOnly\), so its rows can't be changed"):
        LabelledSink(other.write(WORDS, key="word").sink, "Write").prepare("run")
    mapped = DeltaLakeTable(tmp_path, "mapped", configuration={"delta.columnMapping.mode": "name"})
    mapped.create(WORDS)
    with pytest.raises(SinkError, match="has column mapping, with which it can't be written to"):
        LabelledSink(mapped.write(WORDS).sink, "Write").prepare("run")
    assert [("a", 1)] == table.rows() == other.rows()


def test_a_commit_that_fails_without_another_writer_is_an_error(table: DeltaLakeTable) -> None:
    """And isn't tried again and again."""
    table.append({"word": ["a"], "n": [1]})
    write = table.write(WORDS, key="word")
    with pytest.raises(SinkError, match="can't be committed to: .*append"), TestPipeline() as p:
        _ = p | beam.Create([beam.Row(word="a", n=5)]) | beam.Map(lambda row: _append_only(table, row)) | write


def _append_only(table: DeltaLakeTable, row: Any) -> Any:
    table.loaded().alter.set_table_properties({"delta.appendOnly": "true"})
    return row


def test_the_client_is_refused_in_a_process_that_was_forked_from_one_that_has_used_it(table: DeltaLakeTable) -> None:
    """It would hang there."""
    table.append({"n": [1], "word": ["a"]}, "word")
    assert 0 == snapshot_of(table.name, "Read").version

    def look(queue: Any) -> None:
        try:
            snapshot_of(table.name, "Read")
        except UnsupportedError as error:
            queue.put(str(error))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=look, args=(queue,))
    child.start()
    assert "Read: this process was forked from one that has used Delta's client" in queue.get(timeout=120)
    child.join()


def test_statistics_let_readers_leave_files_out(table: DeltaLakeTable) -> None:
    with TestPipeline() as p:
        _ = p | beam.Create([beam.Row(word="a", n=n) for n in range(5)]) | table.write(WORDS)
    (stats,) = pyarrow.table(table.loaded().get_add_actions(flatten=True)).to_pylist()
    assert [5, 0, 4, 0] == [stats[name] for name in ("num_records", "min.n", "max.n", "null_count.n")]


def test_workers_write_files_and_this_process_commits_once(
    make_pipeline: Any, table: DeltaLakeTable, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all workers, in one version."""
    noted = tmp_path / "noted"
    append = LoadedDelta.append

    def append_and_note(self: LoadedDelta, *arguments: Any) -> list[str]:
        with noted.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        return append(self, *arguments)

    # Workers that are forked would have it, too.
    monkeypatch.setattr(LoadedDelta, "append", append_and_note)
    table.create(WORDS)
    before = len(table.versions())
    with make_pipeline() as p:
        rows = p | beam.Create(range(40_000)) | beam.Map(lambda n: beam.Row(word="a", n=n))
        _ = rows | table.write(WORDS, target_file_size=20_000)
    assert list(range(40_000)) == table.values()
    assert [str(os.getpid())] == noted.read_text(encoding="utf-8").split()
    assert (1, True) == (len(table.versions()) - before, len(table.data_files()) > 1)
