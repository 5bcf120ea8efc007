"""Columns of Parquet files have the values of the rows that the files were written from, wherever reading begins."""

from __future__ import annotations

import datetime
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pipelines.arrow_tables import Table, same, tables

import penstock as beam
from penstock.io.files.parquet import ParquetFormat
from penstock.io.files.parquet_source import ParquetSource
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.streaming.sources import BoundedPartitions
from penstock.sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle
from penstock.sdk.combine_fn import MaxCombineFn
from penstock.sdk.elements.bundle import BUNDLE_SIZE
from penstock.sdk.errors import SourceError
from penstock.testing.util import assert_that, equal_to
from penstock.transforms.combiners import CountCombineFn
from penstock.windowing import Timestamp


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet") / "a.parquet"


@given(table=tables(max_rows=9), group=st.integers(1, 9), as_rows=st.booleans(), data=st.data())
def test_any_table_is_read_and_written_as_its_rows(
    path: Path, table: Table, group: int, as_rows: bool, data: st.DataObject
) -> None:
    """Also with text as a dictionary, in any number of splits, and from any offset of a split."""
    arrow = table.arrow
    for i, field in enumerate(arrow.schema):
        if pa.types.is_string(field.type) and data.draw(st.booleans()):
            arrow = arrow.set_column(i, field.name, arrow.column(i).dictionary_encode())
    pyarrow.parquet.write_table(arrow, path, row_group_size=group)
    source = ParquetSource(path, as_rows=as_rows, min_bundle_size=1)

    def records(bundles: Any) -> list[dict[str, Any]]:
        values = [value for bundle in bundles for value in bundle.values]
        return [value.as_dict() for value in values] if as_rows else values

    splits = source.split(data.draw(st.integers(1, 5)))
    whole = [list(source.read_bundles(split)) for split in splits]
    assert {ColumnBundle} >= {type(bundle) for bundles in whole for bundle in bundles}
    assert same(table.rows, [record for bundles in whole for record in records(bundles)])

    partitions = BoundedPartitions(source, 3)
    found = []
    for partition in partitions.partitions():
        reader, offset = partitions.open(partition, None), None
        while (bundle := reader.poll(data.draw(st.integers(1, 4)), Timestamp(0))) is not None:
            found += records([bundle])
            if data.draw(st.booleans()):
                offset = reader.offset()
                reader = partitions.open(partition, offset)
    assert same(table.rows, found)

    file = io.BytesIO()
    writer = ParquetFormat(table.arrow.schema).open(file)
    for bundles in whole:
        for bundle in bundles:
            write = data.draw(st.sampled_from([writer.write_columns, lambda bundle: writer.write(bundle.values)]))
            write(bundle)
    writer.close()
    assert same(table.rows, pyarrow.parquet.read_table(pa.py_buffer(file.getvalue())).to_pylist())


ALIKE = [
    (pa.array([1], "int8"), pa.array([2], "int64")),
    (pa.array([1.0], "float"), pa.array([2.0])),
    (pa.array(["a"]), pa.array(["b"], "large_string")),
    (pa.array(["a"]), pa.array(["b"]).dictionary_encode()),
    (pa.nulls(1), pa.array([[1]])),
    (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ms"))),
]


@pytest.mark.parametrize(("first", "second"), ALIKE, ids=lambda column: str(column.type))
def test_rows_of_files_have_the_fields_of_the_first_in_its_order(tmp_path: Path, first: Any, second: Any) -> None:
    """Of Arrow types with the same type in Python."""
    pyarrow.parquet.write_table(pa.table({"n": [1], "v": first}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table({"v": second, "n": [2]}), tmp_path / "b.parquet")
    source = ParquetSource(tmp_path / "*.parquet", as_rows=True, min_bundle_size=1)
    rows = [row for split in source.split(2) for bundle in source.read_bundles(split) for row in bundle.values]
    assert [list(row.as_dict().items()) for row in rows] == [
        [("n", i), ("v", column.to_pylist()[0])] for i, column in ((1, first), (2, second))
    ]


OTHERS = {
    "text": ({"n": ["x"], "v": [1.5]}, "the field 'n' is of the type string, expected it to be of the type int64"),
    "missing": ({"v": [1.5]}, "the field 'n' is missing, expected it to be of the type int64"),
    "more": ({"n": [1], "v": [1.5], "w": [2]}, "the field 'w' is of the type int64, expected it to be missing"),
    "zone": (
        {"n": [1], "v": pa.array([1], pa.timestamp("us"))},
        "the field 'v' is of the type timestamp\\[us\\], expected it to be of the type double",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_schema_in_a_later_file_is_named(tmp_path: Path, kind: str) -> None:
    """Wherever reading begins; dicts have the fields of their file."""
    other, expected = OTHERS[kind]
    pyarrow.parquet.write_table(pa.table({"n": [1], "v": [0.5]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table(other), tmp_path / "b.parquet")
    source = ParquetSource(tmp_path / "*.parquet", as_rows=True, min_bundle_size=1)
    split = source.split(2)[-1]
    with pytest.raises(SourceError, match=rf"ReadFromParquet: '.*b\.parquet' .* than '.*a\.parquet': {expected}"):
        list(source.read_bundles(split))
    dicts = ParquetSource(tmp_path / "*.parquet")
    values = [value for split in dicts.split(1) for bundle in dicts.read_bundles(split) for value in bundle.values]
    assert [{"n": 1, "v": 0.5}, *pa.table(other).to_pylist()] == values
    chosen = ParquetSource(tmp_path / "*.parquet", as_rows=True, columns=["v"])
    if kind != "zone":
        assert 2 == sum(len(bundle) for split in chosen.split(1) for bundle in chosen.read_bundles(split))


@pytest.mark.parametrize("as_rows", [False, True])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, as_rows: bool) -> None:
    """A dictionary would have the last of them."""
    pyarrow.parquet.write_table(pa.table([[1], [2]], names=["c", "c"]), tmp_path / "a.parquet")
    source = ParquetSource(tmp_path / "a.parquet", as_rows=as_rows)
    with pytest.raises(SourceError, match=r"ReadFromParquet: '.*a\.parquet' has more than one column named 'c'"):
        list(source.read_bundles(source.split(1)[0]))


def test_bundles_of_narrow_records_are_larger(tmp_path: Path) -> None:
    """And portions of them have no more elements than other bundles."""

    def bundles(name: str) -> list[Any]:
        source = ParquetSource(tmp_path / name, as_rows=True)
        return [bundle for split in source.split(1) for bundle in source.read_bundles(split)]

    pyarrow.parquet.write_table(pa.table({"n": range(COLUMN_BUNDLE_SIZE + 1)}), tmp_path / "narrow")
    texts = [f"{number:0>600}" for number in range(BUNDLE_SIZE + 1)]
    pyarrow.parquet.write_table(pa.table({"text": texts}), tmp_path / "wide")
    first, second = bundles("narrow")
    assert [BUNDLE_SIZE, 1] == list(map(len, bundles("wide")))
    assert [1] == [len(part) for part in second.portions()]
    parts = list(first.portions())
    assert [BUNDLE_SIZE] * (COLUMN_BUNDLE_SIZE // BUNDLE_SIZE) == list(map(len, parts))
    assert list(range(COLUMN_BUNDLE_SIZE)) == [row.n for part in parts for row in part.values]


def test_times_of_nanoseconds_are_pythons(tmp_path: Path) -> None:
    """Also within lists, structs and maps; and as columns."""
    at, span = datetime.datetime(2020, 1, 1, 12, 0, 0, 5), datetime.timedelta(microseconds=7)
    ns = pa.timestamp("ns")
    values = {
        "at": pa.array([at], ns),
        "utc": pa.array([at], pa.timestamp("ns", "UTC")),
        "time": pa.array([at.time()], pa.time64("ns")),
        "span": pa.array([span], pa.duration("ns")),
        "list": pa.array([[at]], pa.large_list(ns)),
        "pair": pa.array([[at, at]], pa.list_(ns, 2)),
        "struct": pa.array([{"n": 1, "at": [at]}], pa.struct([("n", "int64"), ("at", pa.list_(ns))])),
        "map": pa.array([[("a", at)]], pa.map_("string", ns)),
    }
    pyarrow.parquet.write_table(pa.table(values), tmp_path / "a.parquet")
    (bundle,) = bundles_of(ParquetSource(tmp_path / "a.parquet"))
    assert bundle.values == [
        {
            "at": at,
            "utc": at.replace(tzinfo=datetime.UTC),
            "time": at.time(),
            "span": span,
            "list": [at],
            "pair": [at, at],
            "struct": {"n": 1, "at": [at]},
            "map": [("a", at)],
        }
    ]
    assert type(bundle.values[0]["at"]) is datetime.datetime


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.time64("ns"), pa.duration("ns")])
def test_nanoseconds_are_not_lost_silently(tmp_path: Path, kind: pa.DataType) -> None:
    """As rows and as dicts."""
    pyarrow.parquet.write_table(pa.table({"at": pa.array([1001], kind)}), tmp_path / "a.parquet")
    for as_rows in (True, False):
        with pytest.raises(SourceError, match="column 'at' has times with nanoseconds.* or use ReadFromParquetBatched"):
            bundles_of(ParquetSource(tmp_path / "a.parquet", as_rows=as_rows))


def bundles_of(source: ParquetSource) -> list[Any]:
    return [bundle for split in source.split(1 << 30) for bundle in source.read_bundles(split)]


@pytest.fixture(scope="module", params=["text", "nulls"])
def texts(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of two row groups with other dictionaries of text, "b" in other places."""
    file = tmp_path_factory.mktemp("texts") / "a.parquet"
    nothing = None if request.param == "nulls" else "b"
    words = [["a", nothing, "c"][n % 3] for n in range(BUNDLE_SIZE)] + [["b", "d"][n % 2] for n in range(BUNDLE_SIZE)]
    table = pa.table({"word": words, "long": [f"{n}" for n in range(len(words))], "n": range(len(words))})
    pyarrow.parquet.write_table(table, file, row_group_size=BUNDLE_SIZE)
    return file


def test_text_of_few_values_is_read_with_its_dictionary(texts: Path) -> None:
    """The elements are the same."""
    source = ParquetSource(texts, as_rows=True)
    found = [bundle for split in source.split(1) for bundle in source.using(("word", "long")).read_bundles(split)]
    kinds = [bundle.batch.schema.field("word").type for bundle in found if isinstance(bundle, ColumnBundle)]
    assert {pa.dictionary(pa.int32(), pa.string())} == {*kinds}
    assert {pa.string()} == {b.batch.schema.field("long").type for b in found if isinstance(b, ColumnBundle)}
    expected = pyarrow.parquet.read_table(texts, columns=["word", "long"]).to_pylist()
    assert expected == [{"word": row.word, "long": row.long} for bundle in found for row in bundle.values]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("fold", [CountCombineFn(), MaxCombineFn()], ids=lambda fold: type(fold).__name__)
def test_keys_with_dictionaries_are_grouped_as_elements(texts: Path, parallelism: int, fold: Any) -> None:
    """Sums and counts for each window, behind a filter, in one process and through a shuffle."""
    rows = pyarrow.parquet.read_table(texts).to_pylist()
    kept = [(row["word"], row["n"]) for row in rows if row["word"] != "d" and row["word"] is not None]
    groups: dict[Any, list[int]] = {}
    for word, n in kept:
        groups.setdefault((word, n // 20_000), []).append(n)
    expected = [(word, len(own) if isinstance(fold, CountCombineFn) else own[-1]) for (word, _), own in groups.items()]
    with beam.Pipeline(options=PipelineOptions([], parallelism=parallelism)) as p:
        words = (
            p
            | beam.io.ReadFromParquet(texts, as_rows=True)
            | beam.WithTimestamps("n")
            | beam.Filter(beam.col("word") != "d")
            | beam.WindowInto(beam.window.FixedWindows(20_000))
        )
        grouped = words | beam.GroupBy("word").aggregate_field("n", fold, "found")
        assert_that(grouped | beam.Map(tuple), equal_to(expected))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_keys_with_dictionaries_are_joined_as_elements(texts: Path, parallelism: int) -> None:
    """With other dictionaries in each input."""
    words = [row["word"] for row in pyarrow.parquet.read_table(texts).to_pylist()]
    pair = (beam.col("word"), beam.col("n"))
    with beam.Pipeline(options=PipelineOptions([], parallelism=parallelism)) as p:
        left = p | "Left" >> beam.io.ReadFromParquet(texts, as_rows=True) | beam.Filter(beam.col("word") > "a")
        right = p | "Right" >> beam.io.ReadFromParquet(texts, as_rows=True) | "Pairs" >> beam.Map(pair)
        joined = {"left": left | beam.Map(pair), "right": right} | beam.CoGroupByKey()
        found = joined | "Count" >> beam.Map(
            lambda kv: (kv[0], *(len(list(kv[1][name])) for name in ("left", "right")))
        )
        expected = [(word, n if word and word > "a" else 0, n) for word, n in Counter(words).items()]
        assert_that(found, equal_to(expected))


def test_expressions_take_text_with_a_dictionary(texts: Path) -> None:
    """And give text."""
    rows = pyarrow.parquet.read_table(texts).to_pylist()
    with beam.Pipeline() as p:
        lines = p | beam.io.ReadFromParquet(texts, as_rows=True)
        found = lines | beam.Select("word", upper=beam.col("word").apply(pa.compute.utf8_upper))
        expected = [(word, word and word.upper()) for word in (row["word"] for row in rows)]
        assert_that(found | beam.Map(tuple), equal_to(expected))
