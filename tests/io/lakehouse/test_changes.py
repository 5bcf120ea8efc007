"""Changes of tables of a lakehouse as rows that are added and retracted: a pipeline behind them maintains a view."""

from __future__ import annotations

import datetime
import json
import pathlib
import pickle
import random
from collections import Counter
from typing import Any

import pyarrow
import pytest
from support.io.lakehouse_tables import WORDS, ApacheIcebergTable, DeltaLakeTable, LakeTable
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.lakehouse import changed_rows
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.errors import SourceError, UnsupportedError
from penstock.sdk.runner import PipelineState
from penstock.testing import TestPipeline
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import Timestamp

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(params=["delta", "delta with a feed", "iceberg"])
def changing(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> LakeTable:
    """A table of each format, of Delta also with a change data feed."""
    if request.param == "iceberg":
        return ApacheIcebergTable(tmp_path)
    return DeltaLakeTable(tmp_path, configuration=FEED if "feed" in request.param else None)


def source_of(read: Any) -> Any:
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return pickle.loads(pickle.dumps(source))


def polled(reader: Any, most: int = 1000) -> list[tuple[int, Any, int]]:
    """All that a reader has: signs, rows and times."""
    found = []
    while (bundle := reader.poll(most, Timestamp(0))) is not None:
        found += [(change.sign, change.row, micros) for change, micros, *_ in bundle.rows()]
    return found


def changes_of(read: Any) -> list[tuple[int, Any, int]]:
    return polled(source_of(read).open("table", None))


def summed(changes: list[tuple[int, Any, int]]) -> dict[Any, int]:
    """The rows that are left, with their numbers."""
    left: Counter[Any] = Counter()
    for sign, row, _ in changes:
        left[tuple(row)] += sign
    return {row: count for row, count in left.items() if count}


def rows_at(table: LakeTable, version: Any) -> dict[Any, int]:
    return dict(Counter(tuple(row[name] for name in WORDS.names) for row in table.at(version).to_pylist()))


def change(table: LakeTable, choose: random.Random) -> None:
    words = choose.sample("abcdefgh", 3)
    match choose.randrange(3):
        case 0:
            table.append({"word": [f"{choose.random()}"], "n": [choose.randrange(9)]})
        case 1:
            table.upsert({"word": words, "n": [choose.randrange(9) for _ in words]}, "word")
        case 2:
            table.delete(f"word in ('{words[0]}', '{words[1]}')")


@pytest.mark.parametrize("partition_by", [None, "word"])
def test_the_sum_of_changes_is_the_table_at_each_version(changing: LakeTable, partition_by: str | None) -> None:
    """Rows that only moved are no changes; reading resumes at each offset, and has the same times."""
    choose = random.Random(3)
    changing.append({"word": ["a", "b"], "n": [1, 2]}, partition_by)
    for _ in range(12):
        change(changing, choose)
    first, *later = changing.versions()
    source = source_of(changing.read_changes(starting_version=first))
    reader = source.open("table", None)
    found: list[tuple[int, Any, int]] = []
    offsets = []
    sums = [{}]
    while (bundle := reader.poll(2, Timestamp(0))) is not None:
        found += [(change.sign, change.row, micros) for change, micros, *_ in bundle.rows()]
        offsets.append((reader.offset(), len(found)))
        sums.append(summed(found))
    assert rows_at(changing, later[-1]) == sums[-1]
    assert [] == [version for version in later if rows_at(changing, version) not in sums]
    assert sorted(micros for _, _, micros in found) == [micros for _, _, micros in found]
    for offset, count in offsets[:: len(offsets) // 5]:
        assert found[count:] == polled(source.open("table", offset), 3)
    cancelled = sum(1 for sign, _, _ in found if sign < 0)
    assert 0 < cancelled < len(found)


def test_rows_of_large_versions_are_retracted_and_added_again(
    changing: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without holding them in memory; the sum is the same."""
    changing.append({"word": ["a", "b", "c"], "n": [1, 2, 3]})
    changing.delete("word = 'b'")
    first, *_ = changing.versions()
    read = changing.read_changes(starting_version=first)
    few = changes_of(read)
    monkeypatch.setattr(changed_rows, "_COMPARED_BYTES", 0)
    assert summed(few) == summed(changes_of(read)) == {("a", 1): 1, ("c", 3): 1}
    assert 4 == len(few)


def test_the_rows_of_the_last_version_come_first(changing: LakeTable) -> None:
    """And then the changes of those columns and rows that are chosen: an update may take a row out of them."""
    changing.append({"word": ["a", "b", "c"], "n": [1, 2, 3]})
    changing.delete("word = 'a'")
    source = source_of(changing.read_changes(columns=["n"], filter=beam.col("n") > 2, poll_interval=0))
    reader = source.open("table", None)
    assert [(1, beam.Row(n=3))] == [each[:2] for each in polled(reader)]
    changing.upsert({"word": ["b", "c"], "n": [7, 1]}, "word")
    assert [(-1, beam.Row(n=3)), (1, beam.Row(n=7))] == sorted(each[:2] for each in polled(reader))


def test_changes_are_those_of_deltas_own_feed(tmp_path: pathlib.Path) -> None:
    """With the times of the commits, whatever wrote them."""
    table = DeltaLakeTable(tmp_path, configuration=FEED)
    choose = random.Random(5)
    table.append({"word": ["a", "b"], "n": [1, 2]})
    for _ in range(6):
        change(table, choose)
    with TestPipeline() as p:
        _ = p | beam.Create([beam.Row(word="b", n=7), beam.Row(word="k", n=8)]) | table.write(WORDS, key="word")
    table.loaded().optimize.compact()
    feed = pyarrow.table(table.loaded().load_cdf(starting_version=0)).to_pylist()
    signs = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}
    expected = Counter(
        (signs[row["_change_type"]], row["word"], row["n"], _micros(row["_commit_timestamp"])) for row in feed
    )
    found = changes_of(table.read_changes(starting_version=0))
    assert expected == Counter((sign, row.word, row.n, micros) for sign, row, micros in found)


def _micros(moment: datetime.datetime) -> int:
    return Timestamp.of(moment.replace(tzinfo=datetime.UTC)).micros


def view_of(p: Any, source: LakeTable, target: LakeTable) -> None:
    """Add a pipeline that maintains the sum of each word's first letter."""
    maintained = {"trigger": Repeatedly(AfterCount(1)), "accumulation_mode": AccumulationMode.RETRACTING}
    sums = (
        p
        | source.read_changes(poll_interval=0.05)
        | beam.Map(lambda row: (row.word[:1], row.n))
        | beam.WindowInto(beam.window.GlobalWindows(), **maintained)
        | beam.CombinePerKey(sum)
    )
    _ = sums | beam.MapTuple(lambda word, n: beam.Row(word=word, n=n)) | target.write(WORDS, key="word")


QUERY = "SELECT word[1:1] AS word, sum(n)::BIGINT AS n FROM lake GROUP BY ALL ORDER BY ALL"


def test_a_view_of_a_changing_table_is_maintained(changing: LakeTable, other_table: LakeTable, tmp_path: Any) -> None:
    """It follows each change, and goes on after a restart."""
    choose = random.Random(7)
    changing.append({"word": ["a", "b"], "n": [1, 2]})
    for _ in range(2):
        p = beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1, checkpoint_dir=str(tmp_path / "kept")))
        view_of(p, changing, other_table)
        result = p.run()
        for _ in range(3):
            change(changing, choose)
        wait_until(lambda: other_table.exists() and changing.rows(QUERY) == other_table.rows(), "the view follows")
        result.cancel()
        change(changing, choose)


def test_a_view_is_maintained_by_micro_batches(
    table: LakeTable, other_table: LakeTable, spark: Any, tmp_path: pathlib.Path
) -> None:
    """From where the batch before ended."""
    table.append({"word": ["a", "b", "c"], "n": [1, 2, 3]})
    for condition in ("word = 'zz'", "word = 'b'"):
        table.delete(condition)
        table.upsert({"word": ["a", "bb"], "n": [len(condition), 5]}, "word")
        options = PipelineOptions([], checkpoint_dir=str(tmp_path / "checkpoints"), available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=options)
        view_of(p, table, other_table)
        assert PipelineState.DONE == p.run().wait_until_finish()
        assert table.rows(QUERY) == other_table.rows()


def test_a_sink_that_only_appends_is_refused(table: LakeTable, other_table: LakeTable) -> None:
    """When the pipeline is built."""
    table.append({"word": ["a"], "n": [1]})
    with pytest.raises(UnsupportedError, match="only appends, but .* may retract"):
        _ = TestPipeline() | table.read_changes() | other_table.write(WORDS)


def test_missing_tables_and_columns_are_named(table: LakeTable) -> None:
    with pytest.raises(SourceError, match=r"^ReadFrom\w+Changes: there is no .*table"):
        _ = TestPipeline() | table.read_changes()
    table.append({"n": [1]})
    with pytest.raises(SourceError, match="has no column 'm'; it has n"):
        _ = TestPipeline() | table.read_changes(columns=["m"])
    with pytest.raises(ValueError, match=r"ReadFrom\w+Changes: with a timestamp_fn give a watermark_estimator too"):
        table.read_changes(timestamp_fn=lambda row: row.n)


def test_files_that_vacuum_has_removed_are_named(tmp_path: pathlib.Path) -> None:
    table = DeltaLakeTable(tmp_path)
    table.append({"word": ["a", "b"], "n": [1, 2]})
    table.delete("n = 1")
    removed = set(pathlib.Path(table.name).glob("*.parquet")) - {pathlib.Path(each) for each in table.data_files()}
    for path in removed:
        path.unlink()
    with pytest.raises(SourceError, match=r"No such file .*\.parquet.*; was the file removed by vacuum\?"):
        changes_of(table.read_changes(starting_version=1))


def test_a_removed_file_without_its_partition_is_an_error(tmp_path: pathlib.Path) -> None:
    """Some old writers don't log it."""
    table = DeltaLakeTable(tmp_path)
    table.append({"word": ["a", "b"], "n": [1, 2]}, "word")
    table.delete("n = 1")
    log = pathlib.Path(table.name, "_delta_log", f"{1:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "remove" in action:
            del action["remove"]["partitionValues"]
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(SourceError, match="version 1 of Delta table .* removes files without their partitions"):
        changes_of(table.read_changes(starting_version=1))


def test_a_table_that_was_rolled_back_is_an_error(tmp_path: pathlib.Path) -> None:
    """The changes that were read can't be taken back."""
    table = ApacheIcebergTable(tmp_path)
    for n in range(3):
        table.append({"n": [n]})
    first, second, _ = table.versions()
    reader = source_of(table.read_changes(starting_version=first, poll_interval=0)).open("table", None)
    assert 3 == len(polled(reader))
    table.loaded().manage_snapshots().rollback_to_snapshot(second).commit()
    table.append({"n": [3]})
    with pytest.raises(SourceError, match="was rolled back from snapshot"):
        polled(reader)


def test_changes_of_expired_snapshots_are_an_error(tmp_path: pathlib.Path) -> None:
    table = ApacheIcebergTable(tmp_path)
    table.append({"n": [1, 2]})
    table.delete("n = 1")
    first, second = table.versions()
    source = source_of(table.read_changes(starting_version=second))
    reader = source.open("table", None)
    table.loaded().maintenance.expire_snapshots().by_ids([first]).commit()
    with pytest.raises(SourceError, match=f"the parent of snapshot {second} of Iceberg table .* has expired"):
        polled(reader)
