"""Writes into tables of a lakehouse: what their readers see, once and as a whole."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import pickle
import sys
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest
from support.io.lakehouse_tables import WORDS, LakeTable

import penstock as beam
from penstock.io.delta import table as delta_table
from penstock.io.lakehouse.sink import name_of
from penstock.io.lakehouse.staging import INLINE_BYTES, token_of
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import MissingExtraError, RejectedRecordError, SinkError
from penstock.sdk.sink import LabelledSink
from penstock.testing import TestPipeline, TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import Timestamp


def sink_of(table: LakeTable, schema: Any = WORDS, **options: Any) -> LabelledSink:
    """A sink as another process has it."""
    write = table.write(schema, **options)
    return LabelledSink(pickle.loads(pickle.dumps(write.sink)), type(write).__name__)


def rows(*pairs: tuple[str, int]) -> list[Row]:
    return [Row(word=word, n=n) for word, n in pairs]


def stage(sink: LabelledSink, transaction: str, values: Sequence[Any], signs: Any = 1) -> Any:
    sink.prepare(transaction)
    writer = sink.sink.open_writer(sink.context(transaction, uuid.uuid4().hex))
    writer.write(Bundle(list(values), signs=signs))
    return writer.stage()


def names(count: int) -> list[str]:
    """Names of transactions of a series of their own, as a stream has them."""
    series = uuid.uuid4().hex[:16]
    return [f"{number:08}-{series}" for number in range(1, count + 1)]


@pytest.mark.parametrize("key", [None, "n"], ids=["append", "upsert"])
def test_a_pipeline_on_each_runner_writes_each_row_once(table: LakeTable, key: Any, make_pipeline: Any) -> None:
    """More than a token has, so that workers write files; and reads them again."""
    options = {"target_file_size": 20_000}
    with make_pipeline() as p:
        numbers = p | beam.Create(range(10_000)) | beam.Map(lambda n: Row(word=str(n % 10), n=n))
        _ = numbers | table.write(WORDS, key=key, **options)
    assert [(10_000, 10_000, 49_995_000)] == table.rows("SELECT count(*), count(DISTINCT n), sum(n) FROM lake")
    assert [str(n % 10) for n in range(10_000)] == [word for word, _ in table.rows("SELECT * FROM lake ORDER BY n")]


ORDERS = pyarrow.schema(
    [("shop", pyarrow.int64()), ("day", pyarrow.date32()), ("word", pyarrow.string()), ("n", pyarrow.int64())]
)


@pytest.mark.parametrize("partition_by", [(), ("shop",)], ids=["plain", "partitioned"])
def test_a_key_may_have_several_columns_and_many_values(table: LakeTable, partition_by: Any) -> None:
    """Rows are updated and deleted, and all others stay; a few keys and many."""

    def orders(numbers: Sequence[int], version: int) -> list[Row]:
        start = datetime.date(2026, 1, 1)
        # No column alone is a key.
        return [
            Row(shop=n % 7, day=start + datetime.timedelta(n % 300), word=f"w{n // 100}", n=(n + 1) * version)
            for n in numbers
        ]

    count = 20_000
    sink = sink_of(table, ORDERS, key=("shop", "day", "word"), partition_by=partition_by)
    changes = [
        (orders(range(count), 1), 1),
        (orders(range(count // 2, count + 10), 2), 1),
        ([*orders(range(5), 3), *orders(range(count - 4, count), 2)], [1] * 5 + [-1] * 4),
        # The table has other values of them.
        (orders(range(100), 7), -1),
    ]
    for name, (values, signs) in zip(names(4), changes, strict=True):
        sink.commit(name, [stage(sink, name, values, signs)])
    versions = {n: 3 if n < 5 else 1 if n < count // 2 else 2 for n in range(count + 10)}
    expected = [(n + 1) * version for n, version in versions.items() if not count - 4 <= n < count]
    assert sorted(expected) == table.values()


def test_a_commit_is_published_once_and_by_whoever_comes_to_it(table: LakeTable) -> None:
    """The same transaction again, by a process that knows nothing of the first commit, changes nothing."""
    first, second = names(2)
    sink = sink_of(table)
    tokens = [stage(sink, first, rows(("a", 1), ("b", 2))), stage(sink, first, rows(("c", 3)))]
    assert [] == table.values()
    for each in (sink, sink, sink_of(table), sink_of(table)):
        each.commit(first, tokens)
        assert [1, 2, 3] == table.values()
    later = sink_of(table)
    later.commit(second, [stage(later, second, rows(("d", 4)))])
    later.commit(first, tokens)
    assert [1, 2, 3, 4] == table.values()
    # Delta has it as an application transaction, Iceberg in the properties of a snapshot.
    assert 2 == table.last_commit(name_of(later.context(second)).writer)


def test_a_missing_package_is_named_with_its_extra(
    table: LakeTable, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a transform is made."""
    monkeypatch.setitem(sys.modules, {"delta": "deltalake", "iceberg": "pyiceberg"}[format], None)
    for transform in (lambda: table.write(WORDS), table.read, table.read_changes):
        with pytest.raises(MissingExtraError, match=rf"needs the package .*: pip install 'penstock\[{format}\]'"):
            transform()


def test_small_outputs_of_many_workers_become_one_file(table: LakeTable) -> None:
    """The commit joins them."""
    (name,) = names(1)
    sink = sink_of(table)
    sink.commit(name, [stage(sink, name, rows((str(n), n))) for n in range(8)])
    assert list(range(8)) == table.values()
    assert 1 == len(table.data_files())


def test_files_of_attempts_that_are_not_accepted_are_removed(table: LakeTable) -> None:
    """By the commit, and all of them by an abort; but none that the table has."""
    first, second = names(2)
    sink = sink_of(table, target_file_size=1000)
    many = rows(*((str(n), n) for n in range(1000)))
    lost, kept = stage(sink, first, many), stage(sink, first, many)
    assert token_of(lost).files
    assert [] == table.values()
    sink.commit(first, [kept])
    assert list(range(1000)) == table.values()
    assert len(table.data_files()) == len([name for name in table.files() if name.endswith(".parquet")])
    before = table.files()
    stage(sink, second, many)
    assert before != table.files()
    sink.abort(second)
    sink.abort(first)
    assert before == table.files()
    assert list(range(1000)) == table.values()


@pytest.mark.parametrize("partition_by", [(), "word"], ids=["whole", "partitioned"])
def test_small_files_are_joined_every_few_commits(table: LakeTable, partition_by: Any) -> None:
    """Those of a partition into one, which changes no row for a reader, and none for a reader of changes."""
    counts = []
    for n in range(7):
        with TestPipeline() as p:
            words = p | beam.Create(rows(("a", n), ("b", n)))
            _ = words | table.write(WORDS, partition_by=partition_by, compact_every=3)
        counts.append(len(table.data_files()))
    partitions = 2 if partition_by else 1
    assert [n for n in range(7) for _ in "ab"] == table.values()
    assert partitions == min(counts[2:])
    assert max(counts) <= 3 * partitions
    p = beam.Pipeline()
    _ = p | table.read_changes(starting_version=table.versions()[0])
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    reader, found = source.open("table", None), []
    while (bundle := reader.poll(100, Timestamp(0))) is not None:
        found += [(each.sign, each.row.n) for each in bundle.values]
    assert [(1, n) for n in range(7) for _ in "ab"] == sorted(found)


def test_large_files_are_not_joined(table: LakeTable) -> None:
    """Nor several to a larger one than the target."""
    for n in range(4):
        table.append({"word": [f"{n}{i}" for i in range(20_000)], "n": [n] * 20_000})
    size = max(pathlib.Path(path.removeprefix("file://")).stat().st_size for path in table.data_files())
    for target, expected in ((size // 2, 5), (2 * size + 5000, 2)):
        with TestPipeline() as p:
            _ = p | beam.Create(rows(("a", 9))) | table.write(WORDS, compact_every=1, target_file_size=target)
        assert expected == len(table.data_files())
    assert 80_002 == len(table.values())


@pytest.mark.parametrize("option", ["compact_every", "target_file_size"])
def test_sizes_and_numbers_of_commits_are_positive(table: LakeTable, option: str) -> None:
    with pytest.raises(ValueError, match=f"^WriteTo\\w+: {option} must be 1"):
        table.write(WORDS, **{option: 0})


def test_rows_beyond_the_size_of_a_token_are_written_by_the_worker(table: LakeTable) -> None:
    """To one file; fewer are part of the token."""
    (name,) = names(1)
    sink = sink_of(table)
    much, little = rows(("x" * 2 * INLINE_BYTES, 1)), rows(("a", 2))
    tokens = [token_of(stage(sink, name, much)), token_of(stage(sink, name, little))]
    assert [(1, False), (0, True)] == [(len(token.files), bool(token.rest)) for token in tokens]


def test_writers_at_the_same_time_all_commit(table: LakeTable) -> None:
    """A conflict is tried again, and another process that commits the same has it once."""
    sinks = [sink_of(table) for _ in range(3)]
    series = [names(4), names(4)]
    series.append(series[1])
    staged = {}
    for number, own in enumerate(series[:2]):
        for n, name in enumerate(own):
            staged[name] = [stage(sinks[number], name, rows(("a", 100 * number + n)))]
    failed: list[BaseException] = []

    def commit(number: int) -> None:
        try:
            for name in series[number]:
                sinks[number].commit(name, staged[name])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failed
    assert [0, 1, 2, 3, 100, 101, 102, 103] == table.values()


def test_a_commit_ends_well_whose_files_another_process_has_removed(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has committed the same, after this process has looked whether that was done."""
    (name,) = names(1)
    sink = sink_of(table, key="word", target_file_size=1)
    token = stage(sink, name, rows(("a", 1), ("b", 2)))
    assert token_of(token).files
    opened = sink.sink.opened(sink.context(name))
    load = opened.load

    def load_before_the_other_commits() -> Any:
        loaded = load()
        if not table.values():
            sink_of(table, key="word").commit(name, [token])
        return loaded

    monkeypatch.setattr(opened, "load", load_before_the_other_commits)
    sink.commit(name, [token])

    assert [("a", 1), ("b", 2)] == table.rows()
    assert 1 == table.last_commit(name_of(sink.context(name)).writer)


def test_a_commit_fails_whose_files_are_lost(table: LakeTable) -> None:
    """The table stays as it was."""
    (name,) = names(1)
    sink = sink_of(table, key="word", target_file_size=1)
    token = stage(sink, name, rows(("a", 1)))
    for path in token_of(token).files:
        pathlib.Path(path.removeprefix("file://")).unlink()

    with pytest.raises(SinkError, match="can't be published"):
        sink.commit(name, [token])
    assert [] == table.values()


def test_a_stream_of_retractions_leaves_the_rows_of_a_batch(table: LakeTable) -> None:
    """A row is replaced by its key; one without a successor is deleted."""
    trigger = {"trigger": AfterWatermark(early=AfterCount(1)), "accumulation_mode": AccumulationMode.RETRACTING}
    stream = TestStream()
    for number in range(12):
        stream = stream.add_elements([beam.window.TimestampedValue(number, 0)])
    with TestPipeline() as p:
        sums = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.Map(lambda n: (n % 3, n))
            | beam.WindowInto(beam.window.FixedWindows(10), **trigger)
            | beam.CombinePerKey(sum)
        )
        named = sums | beam.MapTuple(lambda key, n: Row(word=f"{key} {n % 2}", n=n))
        _ = named | table.write(WORDS, key="word")
    assert [("0 0", 18), ("1 0", 22), ("2 0", 26)] == table.rows()


@pytest.fixture(params=[False, True], ids=["collected", "streamed"])
def streaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Delta's client take the rows of a commit as a stream, as it does those of a large one."""
    if request.param:
        monkeypatch.setattr(delta_table, "_COLLECTED_BYTES", 0)


@pytest.mark.usefixtures("streaming")
def test_changes_by_key_are_netted_in_any_order(table: LakeTable) -> None:
    """A retraction deletes its own row only, and is cancelled by a later addition of the same."""
    first, second, third = names(3)
    sink = sink_of(table, key="word")
    sink.commit(first, [stage(sink, first, rows(("a", 1), ("b", 2), ("c", 3)))])
    signed = rows(("a", 5), ("a", 1), ("b", 7), ("c", 3), ("d", 4), ("d", 4))
    sink.commit(second, [stage(sink, second, signed, [1, -1, -1, -1, -1, 1])])
    assert [("a", 5), ("b", 2)] == table.rows()
    tokens = [stage(sink, third, rows(("b", 2)), [-1]), stage(sink, third, rows(("e", 6)))]
    for _ in range(2):
        sink_of(table, key="word").commit(third, tokens)
        assert [("a", 5), ("e", 6)] == table.rows()
    assert [] == [name for name in table.files() if not name.endswith((".parquet", ".json", ".avro", ".crc"))]


def test_two_rows_of_a_key_are_refused_before_the_commit(table: LakeTable) -> None:
    (name,) = names(1)
    sink = sink_of(table, key="word")
    token = stage(sink, name, rows(("a", 1), ("a", 2)))
    with pytest.raises(RejectedRecordError, match=r"the key is not unique: 2 rows are left for \{'word': 'a'\}"):
        sink.precommit({name: [token]})
    with pytest.raises(SinkError, match="'word' is part of the key of table .* and can't be None"):
        stage(sink, name, [Row(word=None, n=1)])


def test_the_schema_comes_from_the_class_of_the_elements(table: LakeTable) -> None:
    class Word(beam.typing.NamedTuple if hasattr(beam, "typing") else __import__("typing").NamedTuple):  # type: ignore[misc]
        word: str
        n: int

    with TestPipeline() as p:
        _ = p | beam.Create([Word("a", 1)]).with_output_types(Word) | table.write()
    assert [("a", 1)] == table.rows()


def test_columns_are_written_as_they_are(table: LakeTable, other_table: LakeTable) -> None:
    """From table to table, without elements in between, partitioned by a column."""
    table.append({"word": ["a", "b", "a"], "n": [1, 2, 3]})
    with TestPipeline() as p:
        _ = p | table.read() | beam.Filter(beam.col("n") < 3) | other_table.write(partition_by="word")
    assert [("a", 1), ("b", 2)] == other_table.rows("SELECT word, n FROM lake ORDER BY ALL")
    assert 2 == len(other_table.data_files())


def test_new_columns_are_added_on_request(table: LakeTable) -> None:
    """Otherwise the error names them; rows before have nulls."""
    table.append({"word": ["a"], "n": [1]})
    wider = WORDS.append(pyarrow.field("at", pyarrow.string()))
    with pytest.raises(SinkError, match=r"doesn't fit table .*: it has no 'at' \(string\); merge_schema=True adds"):
        sink_of(table, wider).prepare("run")
    with TestPipeline() as p:
        _ = p | beam.Create([Row(word="b", n=2, at="now")]) | table.write(wider, merge_schema=True)
    assert [("a", 1, None), ("b", 2, "now")] == table.rows()
    with TestPipeline() as p:
        _ = p | beam.Create([Row(word="c", n=3)]) | table.write(WORDS)
    assert [("a", 1, None), ("b", 2, "now"), ("c", 3, None)] == table.rows()


@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        (WORDS, [Row(word="b", n="two")], "column 'n' of table .* is of int64, got two|'two'"),
        (WORDS, [Row(word="b", m=2)], "the elements have 'm', which table .* doesn't have; its columns are word, n"),
        (WORDS, ["b"], "expected a record"),
        (pyarrow.schema([("word", pyarrow.int64())]), [], "'word' is of .*string, expected int64"),
    ],
    ids=["value", "name", "no record", "schema"],
)
def test_what_does_not_fit_is_named(table: LakeTable, schema: Any, values: list[Any], expected: str) -> None:
    table.append({"word": ["a"], "n": [1]})
    with pytest.raises(SinkError, match=expected) as e:
        stage(sink_of(table, schema), "run", values)
    assert table.name.rpartition("/")[2] in str(e.value) or "record" in expected
    assert [("a", 1)] == table.rows()


def test_a_missing_table_is_not_created_against_ones_will(table: LakeTable) -> None:
    """Nor without a schema."""
    with pytest.raises(SinkError, match="there is no .*create=True"):
        sink_of(table, create=False).prepare("run")
    with pytest.raises(SinkError, match="there is no .*, and no schema to create one; give schema="):
        sink_of(table, None).prepare("run")
    with pytest.raises(ValueError, match="key has 'm', which isn't a column of the schema"):
        table.write(WORDS, key="m")


OF_ALL_TYPES = pyarrow.schema(
    [
        ("word", pyarrow.string()),
        ("n", pyarrow.int64()),
        ("price", pyarrow.decimal128(10, 2)),
        ("parts", pyarrow.list_(pyarrow.int64())),
        ("place", pyarrow.struct([("street", pyarrow.string())])),
        ("raw", pyarrow.binary()),
        ("share", pyarrow.float64()),
        ("day", pyarrow.date32()),
        ("moment", pyarrow.timestamp("us", "UTC")),
    ]
)


@pytest.mark.usefixtures("streaming")
def test_rows_of_all_types_are_retracted_by_a_key_of_two_columns(table: LakeTable) -> None:
    """A row with another value stays; nulls and NaN are equal to themselves."""
    first, second = names(2)
    noon = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
    values = {
        "price": decimal.Decimal("1.50"),
        "parts": [1, 2],
        "place": {"street": "x"},
        "raw": b"\0\xff",
        "share": float("nan"),
        "day": noon.date(),
        "moment": noon,
    }
    full = [Row(word="a", n=n, **values) for n in range(2)]
    empty = Row(word="b", n=0, **dict.fromkeys(values))
    sink = sink_of(table, OF_ALL_TYPES, key=("word", "n"), partition_by="day")
    sink.commit(first, [stage(sink, first, [*full, empty])])
    assert [("a", 0), ("a", 1), ("b", 0)] == table.rows("SELECT word, n FROM lake ORDER BY ALL")
    other = Row(word="a", n=1, **values | {"share": 0.5})
    sink.commit(second, [stage(sink, second, [full[0], other, empty], -1)])
    assert [("a", 1)] == table.rows("SELECT word, n FROM lake ORDER BY ALL")
