"""Records in JSON, CSV, Parquet and Avro: what is written is what is read, and errors say where."""

import io
import json
import typing

import attrs
import fastavro
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.io.files.avro import AvroFormat, AvroSource
from penstock.io.files.csv import CsvFormat, CsvSource
from penstock.io.files.json import JsonFormat, JsonSource
from penstock.io.files.parquet import ParquetFormat
from penstock.io.files.parquet_source import ParquetSource
from penstock.io.files.write import FileSink
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import MissingExtraError, SinkError, SourceError
from penstock.sdk.sink import LabelledSink

AVRO_SCHEMA = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "long"]}],
}
PARQUET_SCHEMA = pyarrow.schema([("name", pyarrow.string()), ("age", pyarrow.int64())])
PEOPLE = [{"name": f"person {i}", "age": i if i % 7 else None} for i in range(5000)]


class Person(typing.NamedTuple):
    """A record of another kind."""

    name: str
    age: int


@attrs.frozen
class AttrsPerson:
    """And of yet another."""

    name: str
    age: int


def read(source, splits=1):
    """All values that a source has, split by split."""
    return [v for split in source.split(splits) for bundle in source.read_bundles(split) for v in bundle.values]


def written(path, file_format, values):
    """The bytes of the one file that values are written as."""
    sink = LabelledSink(FileSink(path, file_format, shard_name_template=""), "Write/people")
    sink.prepare("t")
    writer = sink.sink.open_writer(sink.context("t", "unit"))
    for start in range(0, len(values), 700):
        writer.write(Bundle(values[start : start + 700]))
    sink.commit("t", [writer.stage()])
    return path.read_bytes()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(values=st.lists(json_values, max_size=6), splits=st.integers(1, 20))
def test_json_lines_are_read_as_the_json_module_reads_them(tmp_path_factory, values, splits):
    """Types included, however large the numbers."""
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_text("\n".join(json.dumps(value) for value in values))
    source = JsonSource(path)
    source.min_bundle_size = 1
    assert repr(values) == repr(read(source, splits))


@settings(max_examples=200, deadline=None)
@given(values=st.lists(json_values, max_size=6), lines=st.booleans())
def test_json_is_read_as_it_was_written(tmp_path_factory, values, lines):
    """As lines, or as one array."""
    directory = tmp_path_factory.mktemp("json")
    written(directory / "a.json", JsonFormat(lines=lines), values)
    assert repr(values) == repr(read(JsonSource(directory / "a.json", lines=lines)))


def test_what_json_lacks_is_read_as_python_reads_it(tmp_path):
    """NaN, and a file that ends in blank lines."""
    (tmp_path / "a").write_text('{"a": NaN}\n\n  \n{"a": 123456789012345678901234567890}\n\n')
    assert "[{'a': nan}, {'a': 123456789012345678901234567890}]" == repr(read(JsonSource(tmp_path / "a")))


def test_a_line_that_is_no_json_is_named(tmp_path):
    """By its number in the file, whatever split it is in."""
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n' * 30_000 + '{"a": \n' + '{"a": 1}\n')
    with pytest.raises(SourceError, match=r"ReadFromJson: '.*a\.jsonl', line 30001, is not JSON: .*: b'\{\"a\": '"):
        read(JsonSource(tmp_path / "a.jsonl"), 4)
    with pytest.raises(SourceError, match=r"a\.jsonl' is not JSON"):
        read(JsonSource(tmp_path / "a.jsonl", lines=False))


def test_a_value_that_is_no_json_is_named(tmp_path):
    """With the transform and the path."""
    with pytest.raises(SinkError, match=r"Write/people: '.*a': \{'a': <object object.* can't be written as JSON"):
        written(tmp_path / "a", JsonFormat(), [{"a": object()}])


@pytest.mark.parametrize("record", [Row(name="Ada", age=36), Person("Ada", 36), AttrsPerson("Ada", 36)])
def test_every_kind_of_record_can_be_written(tmp_path, record):
    """Rows, named tuples and classes are written as their fields."""
    assert b'{"name":"Ada","age":36}\n' == written(tmp_path / "a.json", JsonFormat(), [record])
    assert b"name,age\nAda,36\n" == written(tmp_path / "a.csv", CsvFormat(), [record])
    for form, source in ((ParquetFormat(PARQUET_SCHEMA), ParquetSource), (AvroFormat(AVRO_SCHEMA), AvroSource)):
        written(tmp_path / "a", form, [record])
        assert [{"name": "Ada", "age": 36}] == read(source(tmp_path / "a"))
        assert [Row(name="Ada", age=36)] == read(source(tmp_path / "a", as_rows=True))


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(
        st.fixed_dictionaries(
            {"a": st.text(st.characters(codec="utf-8", exclude_characters="\r")), "b": st.text("x,\"'\n")}
        ),
        max_size=6,
    ),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_csv_is_read_as_it_was_written(tmp_path_factory, values, delimiter):
    """With any values, newlines and quotes included."""
    directory = tmp_path_factory.mktemp("csv")
    written(directory / "a.csv", CsvFormat(["a", "b"], delimiter=delimiter), values)
    assert values == read(CsvSource(directory / "a.csv", delimiter=delimiter))


def test_csv_columns_can_be_named_chosen_and_converted(tmp_path):
    """And the file's path be one of them."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfname,age\r\nAda,36\r\n\r\nGrace,85\r\n")
    path = str(tmp_path / "a.csv")
    assert [{"name": "Ada", "age": "36"}, {"name": "Grace", "age": "85"}] == read(CsvSource(path))
    source = CsvSource(path, usecols=["age"], converters={"age": int}, filename_column="file", as_rows=True)
    assert [Row(age=36, file=path), Row(age=85, file=path)] == read(source)
    (tmp_path / "b.csv").write_text("Ada,36\n")
    assert [{"x": "Ada", "y": "36"}] == read(CsvSource(tmp_path / "b.csv", names=["x", "y"]))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n1,2\n3\n4,5\n", {}, r"a\.csv', line 3: expected 2 values \(a, b\), got 1: \['3'\]"),
        ('a,b\n1,"2\n', {}, r"a\.csv', line 2, is not CSV: unexpected end of data"),
        ("a,a\n1,2\n", {}, r"a\.csv' has more than one column named 'a'"),
        (
            "a,b\n1,x\n",
            {"converters": {"b": int}},
            r"line 2: 'x' in the column 'b' can't be converted: invalid literal",
        ),
        ("a,b\n", {"usecols": ["c"]}, r"a\.csv' has no column 'c'; it has 'a', 'b'"),
    ],
)
def test_a_malformed_csv_file_is_named_with_the_line(tmp_path, content, options, message):
    """And with what was expected."""
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SourceError, match="ReadFromCsv: .*" + message):
        read(CsvSource(tmp_path / "a.csv", **options))


def test_wrong_csv_options_are_refused_when_the_source_is_made(tmp_path):
    """By the csv module itself."""
    with pytest.raises(TypeError, match="nosuch"):
        CsvSource(tmp_path / "a.csv", nosuch=1)
    with pytest.raises(TypeError, match="delimiter"):
        CsvFormat(delimiter="ab")


def test_a_record_with_other_fields_is_no_line_of_the_same_csv(tmp_path):
    """Rather than a shifted column."""
    with pytest.raises(SinkError, match="Write/people: .*with the columns a, b can't take the record {'a': 3}"):
        written(tmp_path / "a", CsvFormat(), [{"a": 1, "b": 2}, {"a": 3}])
    with pytest.raises(SinkError, match="expected a record .*got 5"):
        written(tmp_path / "a", CsvFormat(), [5])


@pytest.mark.parametrize("splits", [1, 2, 7, 100])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
def test_parquet_row_groups_are_read_exactly_once(tmp_path, codec, splits):
    """With any number of splits."""
    form = ParquetFormat(PARQUET_SCHEMA, codec=codec, row_group_buffer_size=8_000, record_batch_size=100)
    written(tmp_path / "a.parquet", form, PEOPLE)
    assert pyarrow.parquet.read_metadata(tmp_path / "a.parquet").num_row_groups > 10
    source = ParquetSource(tmp_path / "a.parquet", min_bundle_size=1)
    assert PEOPLE == read(source, splits)
    assert [person["age"] for person in PEOPLE] == [
        r["age"] for r in read(ParquetSource(source.pattern, columns=["age"]))
    ]
    tables = read(ParquetSource(source.pattern, batched=True, min_bundle_size=1), splits)
    assert PEOPLE == pyarrow.concat_tables(tables).to_pylist()


def test_parquet_tables_are_written_as_they_are(tmp_path):
    """One or more row groups each."""
    table = pyarrow.Table.from_pylist(PEOPLE, schema=PARQUET_SCHEMA)
    written(tmp_path / "a", ParquetFormat(PARQUET_SCHEMA, batched=True), [table, table])
    assert PEOPLE + PEOPLE == read(ParquetSource(tmp_path / "a"))
    with pytest.raises(SinkError, match=r"expected a pyarrow\.Table, got 3"):
        written(tmp_path / "a", ParquetFormat(PARQUET_SCHEMA, batched=True), [3])


def test_an_empty_parquet_or_avro_file_has_its_schema(tmp_path):
    """And no records."""
    for form, source in ((ParquetFormat(PARQUET_SCHEMA), ParquetSource), (AvroFormat(AVRO_SCHEMA), AvroSource)):
        sink = LabelledSink(FileSink(tmp_path / "a", form, shard_name_template=""), "Write")
        sink.prepare("t")
        sink.commit("t", [])
        assert [] == read(source(tmp_path / "a"))


def test_a_record_that_does_not_fit_the_schema_is_an_error(tmp_path):
    """Naming the transform, the path and the field or the record."""
    with pytest.raises(
        SinkError, match=r"Write/people: '.*a': the field 'nmae' is not in the Parquet schema \(name, age"
    ):
        written(tmp_path / "a", ParquetFormat(PARQUET_SCHEMA), [{"nmae": "Ada"}])
    with pytest.raises(SinkError, match="Write/people: .*a record doesn't fit the Parquet schema"):
        written(tmp_path / "a", ParquetFormat(PARQUET_SCHEMA), [{"name": 3, "age": "x"}])
    with pytest.raises(SinkError, match="Write/people: .*{'name': 3, 'age': 4} doesn't fit the Avro schema"):
        written(tmp_path / "a", AvroFormat(AVRO_SCHEMA), [{"name": 3, "age": 4}])


@pytest.mark.parametrize("splits", [1, 2, 7, 100])
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_avro_blocks_are_read_exactly_once(tmp_path, codec, splits):
    """With any number of splits."""
    written(tmp_path / "a.avro", AvroFormat(AVRO_SCHEMA, codec=codec), PEOPLE)
    assert PEOPLE == read(AvroSource(tmp_path / "a.avro", min_bundle_size=1), splits)


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=8), splits=st.integers(1, 200))
def test_avro_blocks_of_any_size_are_read_exactly_once(tmp_path_factory, sizes, splits):
    """Also where a split has none, or ends within the header."""
    path = tmp_path_factory.mktemp("avro") / "a.avro"
    values = [{"name": "x" * size, "age": size} for size in sizes]
    with open(path, "wb") as file:
        fastavro.writer(file, AVRO_SCHEMA, values, sync_interval=20)
    assert values == read(AvroSource(path, min_bundle_size=1), splits)


def test_a_file_of_another_format_is_an_error_that_names_it(tmp_path):
    """Not a Parquet file, not an Avro file, or one cut off."""
    (tmp_path / "a").write_text("plain text")
    with pytest.raises(SourceError, match=r"ReadFromParquet: '.*a' is not a Parquet file"):
        read(ParquetSource(tmp_path / "a"))
    with pytest.raises(
        SourceError, match=r"ReadFromAvro: '.*a' can't be read as Avro: it doesn't begin as an Avro file"
    ):
        read(AvroSource(tmp_path / "a"))
    content = written(tmp_path / "b", AvroFormat(AVRO_SCHEMA, codec="null"), PEOPLE)
    for size in (10, len(content) // 2, len(content) - 3):
        (tmp_path / "b").write_bytes(content[:size])
        with pytest.raises(SourceError, match=r"'.*b' can't be read"):
            read(AvroSource(tmp_path / "b"))


def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(tmp_path):
    """Instead of records without it."""
    written(tmp_path / "a", ParquetFormat(PARQUET_SCHEMA), PEOPLE)
    with pytest.raises(SourceError, match="has no column 'nmae'; it has name, age"):
        read(ParquetSource(tmp_path / "a", columns=["nmae"]))


def test_wrong_schemas_and_codecs_are_refused_when_the_format_is_made():
    """Before anything runs."""
    with pytest.raises(TypeError, match="WriteToParquet: schema must be a pyarrow.Schema, got None"):
        ParquetFormat(None)
    with pytest.raises(ValueError, match="codec must be one of none, snappy.*got 'zip'"):
        ParquetFormat(PARQUET_SCHEMA, codec="zip")
    with pytest.raises(TypeError, match="WriteToAvro: needs a schema"):
        AvroFormat(None)
    with pytest.raises(ValueError, match="codec must be one of null, deflate"):
        AvroFormat(AVRO_SCHEMA, codec="zip")
    with pytest.raises(ValueError, match="the schema is not Avro's"):
        AvroFormat('{"type": "nosuch"}')


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, tmp_path):
    """When the pipeline is built."""
    for package in ("pyarrow", "pyarrow.parquet", "fastavro", "zstandard"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=r"ReadFromParquet needs the package 'pyarrow'.*penstock\[parquet\]"):
        ParquetSource(tmp_path / "a")
    with pytest.raises(MissingExtraError, match=r"WriteToAvro needs the package 'fastavro'.*penstock\[avro\]"):
        AvroFormat(AVRO_SCHEMA)
    (tmp_path / "a.jsonl.zst").write_text("")
    with pytest.raises(MissingExtraError, match=r"a\.jsonl\.zst' needs the package 'zstandard'.*penstock\[zstd\]"):
        read(JsonSource(tmp_path / "a.jsonl.zst"))


def test_text_below_a_format_is_not_closed_by_it():
    """The caller closes the file, after the compression has written its trailer."""
    for form in (JsonFormat(), CsvFormat(), ParquetFormat(PARQUET_SCHEMA), AvroFormat(AVRO_SCHEMA)):
        file = io.BytesIO()
        form.open(file).close()
        assert not file.closed


def test_short_records_of_csv_are_padded_with_the_given_value(tmp_path):
    """And lines of spaces skipped; a record that is too long is refused all the same."""
    (tmp_path / "a.csv").write_text("a,b\n1\n  \n2,x\n")
    assert [{"a": "1", "b": "?"}, {"a": "2", "b": "x"}] == read(CsvSource(tmp_path / "a.csv", restval="?"))
    (tmp_path / "b.csv").write_text("a,b\n1\n1,2,3\n")
    with pytest.raises(SourceError, match=r"line 3: expected 2 values \(a, b\), got 3"):
        read(CsvSource(tmp_path / "b.csv", restval=""))
