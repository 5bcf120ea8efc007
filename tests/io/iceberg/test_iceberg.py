"""What Iceberg has of its own: snapshots, partition transforms, catalogs."""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import pickle
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from support.io.lakehouse_tables import WORDS, ApacheIcebergTable, stream_of
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.iceberg.catalog import Catalog, closed
from penstock.io.iceberg.data_files import files_of
from penstock.io.iceberg.splits import Split, split_of
from penstock.io.iceberg.table import IcebergTable
from penstock.io.lakehouse.commits import CommitName
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError, SourceError
from penstock.sdk.sink import LabelledSink
from penstock.testing import TestPipeline, assert_that, equal_to


@pytest.fixture
def table(tmp_path: pathlib.Path) -> ApacheIcebergTable:
    return ApacheIcebergTable(tmp_path)


def test_another_process_creates_the_table_at_the_same_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its namespace, and then the table, between the look of this one and its creation; both go on."""
    from pyiceberg.catalog.sql import SqlCatalog

    schema = pyarrow.schema([("n", pyarrow.int64())])
    catalog = Catalog(None, {"warehouse": str(tmp_path)})
    begin, exists = SqlCatalog.create_table_transaction, SqlCatalog.namespace_exists
    made: list[str] = []

    def made_by_another(self: Any, *given: Any, **options: Any) -> Any:
        creation = begin(self, *given, **options)
        if "table" not in made:
            made.append("table")
            IcebergTable(catalog, "shop.t", "Other").prepare(schema, (), (), True, False)
        return creation

    def made_after_the_look(self: Any, namespace: Any) -> bool:
        if "namespace" not in made:
            made.append("namespace")
            self.create_namespace(namespace)
            return False
        return bool(exists(self, namespace))

    monkeypatch.setattr(SqlCatalog, "create_table_transaction", made_by_another)
    monkeypatch.setattr(SqlCatalog, "namespace_exists", made_after_the_look)
    with TestPipeline() as p:
        rows = p | beam.Create([beam.Row(n=1)])
        _ = rows | beam.io.WriteToIceberg("shop.t", catalog_properties={"warehouse": str(tmp_path)}, schema=schema)
    assert {"namespace", "table"} == set(made)
    assert [{"n": 1}] == catalog.load("shop.t", "Test").scan().to_arrow().to_pylist()


def test_earlier_snapshots_are_read_by_id_and_time(table: ApacheIcebergTable) -> None:
    """Also one of an earlier schema."""
    for n in range(2):
        table.append({"n": [n]})
    entry = table.loaded().metadata.snapshot_log[1]
    with table.loaded().update_schema() as update:
        update.union_by_name(pyarrow.schema([("word", pyarrow.string())]))
    table.append({"n": [2], "word": ["a"]})
    moment = datetime.datetime.fromtimestamp(entry.timestamp_ms / 1000, datetime.UTC)
    for options in ({"snapshot_id": entry.snapshot_id}, {"timestamp": moment}):
        with TestPipeline() as p:
            assert_that(p | table.read(**options), equal_to([beam.Row(n=0), beam.Row(n=1)]))
    with pytest.raises(SourceError, match="there is no snapshot 7; the last ones are"):
        _ = TestPipeline() | table.read(snapshot_id=7)
    with pytest.raises(SourceError, match="had no snapshot at 1999"):
        _ = TestPipeline() | table.read(timestamp=datetime.datetime(1999, 1, 1, tzinfo=datetime.UTC))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"snapshot_id": 1, "timestamp": datetime.datetime.now(datetime.UTC)}, "snapshot_id and timestamp exclude"),
        ({"timestamp": datetime.datetime(2026, 1, 1)}, "a datetime with a time zone"),
        ({"keep": ["n"], "drop": ["n"]}, "keep and drop exclude each other"),
        ({"streaming": True, "snapshot_id": 1}, "give from_snapshot instead"),
        ({"from_snapshot": 1}, "from_snapshot needs streaming=True"),
        ({"filter": "n >"}, "filter='n >' can't be parsed"),
    ],
)
def test_mistaken_options_are_refused(table: ApacheIcebergTable, options: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        table.read(**options)
    with pytest.raises(ValueError, match="with its namespace, as 'shop.sales'; got 'sales'"):
        beam.io.WriteToIceberg("sales")
    with pytest.raises(ValueError, match=r"partition_fields must be names of columns, or .*; got 'bucket\(word\)'"):
        table.write(WORDS, partition_by=["bucket(word)"])


def test_filters_of_the_client_and_text_are_accepted(table: ApacheIcebergTable) -> None:
    table.append({"n": [1, 2, None], "word": ["a", "b", "c"]})
    n = beam.col("n")
    for given, expected in (
        ("n > 1", ["b"]),
        (n.is_null() | (n == 2), ["b", "c"]),
        (~(2 <= n) & n.isin([1, 2]), ["a"]),
    ):
        with TestPipeline() as p:
            assert_that(p | table.read(filter=given, drop=["n"]), equal_to([beam.Row(word=each) for each in expected]))


def test_tables_are_partitioned_by_transforms(table: ApacheIcebergTable) -> None:
    schema = WORDS.append(pyarrow.field("at", pyarrow.timestamp("us", "UTC")))
    day = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    rows = [beam.Row(word=str(n), n=n, at=day + datetime.timedelta(hours=20 * n)) for n in range(4)]
    with TestPipeline() as p:
        _ = p | beam.Create(rows) | table.write(schema, partition_by=["day(at)", "truncate(word, 1)"])
    spec = table.loaded().spec()
    assert ["at_day: day(3)", "word_truncate: truncate[1](1)"] == [str(each).split(": ", 1)[1] for each in spec.fields]
    assert list(range(4)) == table.values()
    assert 4 == len(table.data_files())


def test_a_stream_refuses_or_leaves_out_snapshots_that_change_rows(table: ApacheIcebergTable) -> None:
    for n in range(3):
        table.append({"n": [n]})
    second = table.loaded().metadata.snapshots[1].snapshot_id
    assert [1, 2] == stream_of(table.read(streaming=True, from_snapshot=second))
    table.loaded().delete("n = 2")
    table.append({"n": [3]})
    with pytest.raises(SourceError, match="is of the operation 'delete', .* leave such snapshots out by skip_change"):
        stream_of(table.read(streaming=True, from_snapshot=second))
    assert [1, 2, 3] == stream_of(table.read(streaming=True, from_snapshot=second, skip_change_snapshots=True))


def test_an_expired_snapshot_is_an_error_of_a_stream(table: ApacheIcebergTable) -> None:
    for n in range(3):
        table.append({"n": [n]})
    first, second, _ = [snapshot.snapshot_id for snapshot in table.loaded().metadata.snapshots]
    read = table.read(streaming=True, from_snapshot=second)
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    reader = source.open("table", (2, False, 0))
    table.loaded().maintenance.expire_snapshots().by_ids([first, second]).commit()
    with pytest.raises(SourceError, match="the snapshot with sequence number 2 .* has expired"):
        reader.poll(10, beam.utils.timestamp.Timestamp(0))


def test_a_compaction_gives_way_to_another_writer(table: ApacheIcebergTable) -> None:
    """Whose commit came first; no row is lost, and no file is left."""
    write = table.write(WORDS, compact_every=1)
    for n in range(2):
        table.append({"word": ["a"], "n": [n]})
    loaded = write.sink.table.load()
    table.append({"word": ["b"], "n": [2]})
    before = table.files()
    loaded.after_commit()
    assert before == table.files()
    with TestPipeline() as p:
        _ = p | beam.Create([beam.Row(word="c", n=3)]) | write
    assert [0, 1, 2, 3] == table.values()
    assert 1 == len(table.data_files())
    summary = table.loaded().current_snapshot().summary
    assert ("replace", "4", "1") == (summary.operation.value, summary["total-records"], summary["total-data-files"])


def test_workers_write_files_and_this_process_commits_once(make_pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Of all workers, in one snapshot; they need no catalog."""
    noted = tmp_path / "noted"
    catalog = {"py-catalog-impl": "support.io.iceberg_catalogs.NotedCommits", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    table = ApacheIcebergTable(tmp_path, properties=catalog | {"warehouse": str(tmp_path), "noted": str(noted)})
    table.create(WORDS)
    noted.unlink(missing_ok=True)
    with make_pipeline() as p:
        rows = p | beam.Create(range(10_000)) | beam.Map(lambda n: beam.Row(word="a", n=n))
        _ = rows | table.write(WORDS, target_file_size=20_000)
    assert list(range(10_000)) == table.values()
    assert [str(os.getpid())] == noted.read_text().split()
    assert 1 == len(table.versions())
    # What a commit writes itself is called so: at most one file, of the few rows that were left for it.
    by_commit = ["/joined-" in path for path in table.data_files()]
    assert by_commit.count(True) <= 1 <= by_commit.count(False)


def test_a_locked_catalog_is_waited_for(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """By a reader, and by a writer."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db?timeout=0.1", "warehouse": str(tmp_path)}
    table = ApacheIcebergTable(tmp_path, properties=catalog)
    table.append({"word": ["a"], "n": [1]})

    def write() -> None:
        with TestPipeline() as p:
            _ = p | table.read() | table.write(WORDS)

    writing = threading.Thread(target=write)
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        writing.start()
        wait_until(lambda: "database is locked" in caplog.text, "the reader says that it waits")
    writing.join()
    assert [1, 1] == table.values()
    assert "answers again" in caplog.text


def test_a_catalog_shows_no_secrets(tmp_path: pathlib.Path) -> None:
    """Neither by itself nor in errors."""
    secret = "drawn-from-the-well"
    properties = {"type": "rest", "uri": f"http://ann:{secret}@127.0.0.1:1", "token": secret}
    for transform in (
        beam.io.ReadFromIceberg("a.b", catalog_properties=properties),
        beam.io.WriteToIceberg("a.b", catalog_properties=properties, schema=WORDS),
    ):
        shown = f"{transform!r} {transform.display_data()} {getattr(transform, 'sink', None)!r}"
        assert secret not in shown
    unknown = Catalog(None, {"type": "sql", "uri": f"nosuch://ann:{secret}@h/db"})
    with pytest.raises(SourceError) as e:
        _ = TestPipeline() | beam.io.ReadFromIceberg("a.b", catalog_properties=unknown.properties)
    assert secret not in str(e.value) + repr(unknown)
    assert e.value.__cause__ is None or secret not in str(e.value.__cause__)


def test_a_missing_namespace_is_a_missing_table(table: ApacheIcebergTable) -> None:
    with pytest.raises(SourceError, match=r"there is no Iceberg table 'tests.table' in the catalog 'default'"):
        _ = TestPipeline() | table.read()
    with pytest.raises(SinkError, match="there is no Iceberg table .*; create it, or give create=True"):
        LabelledSink(table.write(WORDS, create=False).sink, "Write").prepare("run")


def test_a_new_catalog_is_opened_by_many_at_once(tmp_path: pathlib.Path) -> None:
    """The client makes its tables if they aren't there, and another one may have made them meanwhile."""
    for n in range(10):
        catalog = Catalog(None, {"warehouse": str(tmp_path / f"warehouse{n}")})
        together = threading.Barrier(4)

        def found(catalog: Catalog = catalog, together: threading.Barrier = together) -> list[Any]:
            together.wait()
            opened = catalog.opened("Test")
            try:
                return list(opened.list_namespaces())
            finally:
                closed(opened)

        with ThreadPoolExecutor(4) as threads:
            results = [threads.submit(found) for _ in range(4)]
            assert [[]] * 4 == [result.result() for result in results]


def test_a_token_has_no_objects_of_the_client(tmp_path: pathlib.Path) -> None:
    """A file is its fields, with a partition of values of any type; pickled files of earlier versions are read."""
    names = ("flag", "n", "price", "day", "at", "word", "data")
    values = (True, 7, Decimal("1.50"), datetime.date(2026, 5, 1), datetime.datetime(2026, 5, 1, 12), "a", b"\x00\x80")
    kinds = (pyarrow.bool_(), pyarrow.int64(), pyarrow.decimal128(10, 2), pyarrow.date32(), pyarrow.timestamp("us"))
    schema = pyarrow.schema(list(zip(names, (*kinds, pyarrow.string(), pyarrow.binary()), strict=True)))
    table = IcebergTable(Catalog(None, {"warehouse": str(tmp_path)}), "shop.t", "Write")
    files = table.data_files(table.prepare(schema, names, (), True, False))
    rows = pyarrow.Table.from_pylist([dict(zip(names, each, strict=True)) for each in (values, (None,) * 7)], schema)
    written = files.write(rows, str(tmp_path / "new"), "0")

    assert 2 == len(written)
    assert not any(b"pyiceberg" in file for file in written)
    before = files_of(written)
    for file, again in zip(before, files_of([pickle.dumps(file) for file in before]), strict=True):
        assert all(getattr(file, name) == getattr(again, name) for name in DATA_FILE_FIELDS)
    loaded = table.load()
    loaded.append(written, CommitName("writer", 1))
    assert rows.to_pylist() == table.catalog.load("shop.t", "Read").scan().to_arrow().to_pylist()
    partitions = [tuple(file.partition[i] for i in range(7)) for file in before]
    assert {Decimal, str, bytes, bool, int} == {type(value) for value in partitions[0]}
    assert (None,) * 7 == partitions[1]


DATA_FILE_FIELDS = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "column_sizes"),
    *("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata"),
    *("split_offsets", "equality_ids", "sort_order_id"),
)


def only_source(read: Any) -> Any:
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def rows_of_split(source: Any, split: Any) -> list[int]:
    return [row.n for bundle in source.read_bundles(split) for row in bundle.values]


def test_a_split_has_no_objects_of_the_client(table: ApacheIcebergTable) -> None:
    """Of partitions before and after their fields changed; pickled splits of earlier versions are read."""
    table.append({"word": ["a", "b"], "n": [1, 2]}, partition_by="word")
    with table.loaded().update_spec() as update:
        update.remove_field("word")
        update.add_identity("n")
    table.append({"word": ["a"], "n": [3]})
    source = only_source(table.read())
    splits = source.split(1)
    assert all(type(split) is bytes and b"pyiceberg" not in split for split in splits)
    assert [1, 2, 3] == sorted(n for split in splits for n in rows_of_split(source, split))
    loaded = table.loaded()
    snapshot, tasks = loaded.current_snapshot().snapshot_id, loaded.scan().plan_files()
    earlier = [(loaded.metadata_location, snapshot, pickle.dumps(task)) for task in tasks]
    assert [1, 2, 3] == sorted(n for split in earlier for n in rows_of_split(source, split))
    with pytest.raises(SourceError, match="a file of snapshot 7 as another version of pyiceberg has pickled it"):
        rows_of_split(source, (loaded.metadata_location, 7, b"cpyiceberg.table\nFormerTask\n."))


def test_a_split_has_the_deletes_of_its_file(table: ApacheIcebergTable, tmp_path: pathlib.Path) -> None:
    """Two files of positions, one of which has those of another file, too."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import FileScanTask
    from pyiceberg.typedef import Record

    table.append({"word": ["a"] * 6, "n": list(range(6))})
    loaded = table.loaded()
    (task,) = loaded.scan().plan_files()
    deletes = set()
    for name, found in (("1", [(task.file.file_path, 1), ("other", 2)]), ("2", [(task.file.file_path, 4)])):
        path = f"{tmp_path}/{name}.parquet"
        rows = [{"file_path": each, "pos": pos} for each, pos in found]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        kind = {"content": DataFileContent.POSITION_DELETES, "file_format": FileFormat.PARQUET, "partition": Record()}
        file = DataFile.from_args(**kind, file_path=path, record_count=len(rows), file_size_in_bytes=1)
        file.spec_id = 0
        deletes.add(file)
    snapshot = loaded.current_snapshot().snapshot_id
    split = Split.of(loaded.metadata_location, snapshot, FileScanTask(task.file, deletes)).encoded()
    assert [0, 2, 3, 5] == rows_of_split(only_source(table.read()), split)


def test_a_split_of_the_first_version_is_read() -> None:
    """As it is in checkpoints: its fields never change."""
    split = split_of(FIRST_SPLIT, "Read")
    assert ("file:///lake/1.json", 77, 1) == (split.metadata, split.snapshot_id, len(split.deletes))
    task = split.task()
    (deletes,) = task.delete_files
    assert ("file:///lake/a.parquet", "PARQUET", 0, 3, 2) == read_fields(task.file)
    assert [19_000, "a", None] == [task.file.partition[i] for i in range(3)]
    assert ("file:///lake/b.parquet", "PARQUET", 1, 1, 2) == read_fields(deletes)


def read_fields(file: Any) -> tuple[Any, ...]:
    return file.file_path, file.file_format.value, int(file.content), file.record_count, file.spec_id


FIRST_SPLIT = (
    b"\x94\xb3file:///lake/1.jsonM\xc4}"
    b"\x87\xa9file_path\xb6file:///lake/a.parquet\xacrecord_count\x03\xb2file_size_in_bytes\xcd\x03\x84"
    b"\xa7content\x00\xabfile_format\xa7PARQUET\xa7spec_id\x02\xa9partition\x93\xcdJ8\xa1a\xc0\x91\xc4}"
    b"\x87\xa9file_path\xb6file:///lake/b.parquet\xacrecord_count\x01\xb2file_size_in_bytes\xcd\x03\x84"
    b"\xa7content\x01\xabfile_format\xa7PARQUET\xa7spec_id\x02\xa9partition\x93\xcdJ8\xa1a\xc0"
)


@pytest.mark.parametrize("key", [None, "word"])
def test_rows_that_were_staged_before_the_partitions_changed_are_found(table: ApacheIcebergTable, key: Any) -> None:
    """By a filter, too, which leaves out files by their partitions."""
    table.append({"word": ["a"], "n": [0]}, partition_by="word")
    sink = LabelledSink(table.write(WORDS, key=key, target_file_size=1).sink, "Write")
    sink.prepare("run")
    writer = sink.sink.open_writer(sink.context("run", "unit"))
    writer.write(Bundle([{"word": f"w{n}", "n": n} for n in range(1, 5)]))
    with table.loaded().update_spec() as update:
        update.remove_field("word")
        update.add_identity("n")
    token = writer.stage()
    for _ in range(2):
        sink.commit("run", [token])
    assert list(range(5)) == table.values()
    for n in range(5):
        assert [n] == table.loaded().scan(row_filter=f"n = {n}").to_arrow().column("n").to_pylist()
    before = sorted(table.files())
    assert len(before) == len(table.data_files())
