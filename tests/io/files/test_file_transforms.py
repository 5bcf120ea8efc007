"""The transforms in pipelines: what Beam users write, and when errors show."""

import os
from collections import Counter

import pyarrow
import pytest

import penstock as beam
from penstock.io import fileio
from penstock.io.files.sinks.published_files import AssignShards
from penstock.sdk.errors import SinkError, SourceError
from penstock.testing import TestPipeline, assert_that, equal_to

PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Grace", "age": 85}]
PARQUET_SCHEMA = pyarrow.schema([("name", pyarrow.string()), ("age", pyarrow.int64())])
AVRO_SCHEMA = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "long"}],
}


def content(directory):
    """The files below a directory, hidden ones as well, by name."""
    return {
        str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def test_text_is_read_as_it_was_written(tmp_path):
    """Word for word, compressed or not."""
    for suffix in ("", ".gz"):
        with TestPipeline() as p:
            _ = p | beam.Create(["to be", "or not"]) | beam.io.WriteToText(str(tmp_path / "out"), suffix, header="h")
        with TestPipeline() as p:
            lines = p | beam.io.ReadFromText(str(tmp_path / f"out*{suffix}"), skip_header_lines=1)
            assert_that(lines, equal_to(["to be", "or not"]))
        for path in tmp_path.iterdir():
            path.unlink()


def test_lines_have_the_element_type_str(tmp_path):
    """The element type is known while the pipeline is built."""
    (tmp_path / "a").write_text("x\n")
    p = TestPipeline()
    assert str is (p | beam.io.ReadFromText(tmp_path / "a")).element_type
    coder = beam.coders.BytesCoder()
    assert bytes is (p | "bytes" >> beam.io.ReadFromText(tmp_path / "a", coder=coder)).element_type


def test_a_file_that_is_missing_fails_the_building_and_names_the_transform(tmp_path):
    """Unless it need not be there yet."""
    p = TestPipeline()
    with pytest.raises(SourceError, match=f"words/read: no file matches '{tmp_path}/gone': the directory"):
        p | "words/read" >> beam.io.ReadFromText(tmp_path / "gone")
    p | "later" >> beam.io.ReadFromText(tmp_path / "gone", validate=False)
    with pytest.raises(SourceError, match="later: no file matches"):
        p.run()


def test_an_output_that_cannot_be_written_fails_before_anything_runs(tmp_path):
    """The transform, the path, and what is in the way."""
    (tmp_path / "file").write_text("")
    ran = []
    p = TestPipeline()
    _ = p | beam.Create([1]) | beam.Map(ran.append) | "save" >> beam.io.WriteToText(tmp_path / "file" / "out")
    with pytest.raises(SinkError, match=r"save: '.*/file/out' can't be written to: Not a directory"):
        p.run()
    assert [] == ran


def test_a_pipeline_that_fails_leaves_nothing_of_any_output(tmp_path):
    """Neither files nor hidden ones."""
    p = TestPipeline()
    numbers = p | beam.Create(list(range(100)))
    _ = numbers | "one" >> beam.io.WriteToText(tmp_path / "one")
    _ = numbers | beam.Map(lambda n: 1 // (50 - n)) | "two" >> beam.io.WriteToText(tmp_path / "two", num_shards=3)
    with pytest.raises(ZeroDivisionError):
        p.run()
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_a_fixed_number_of_shards_is_what_there_is(tmp_path, shards):
    """All elements once, about as many in each."""
    numbers = [str(n) for n in range(1000)]
    with TestPipeline() as p:
        _ = p | beam.Create(numbers) | beam.io.WriteToText(tmp_path / "out", num_shards=shards, header="h")
    files = content(tmp_path)
    assert [f"out-{i:05d}-of-{shards:05d}" for i in range(shards)] == sorted(files)
    assert sorted(["h"] * shards + numbers) == sorted("".join(files.values()).split())
    assert max(len(f.split()) for f in files.values()) - min(len(f.split()) for f in files.values()) <= 1


def test_windows_do_not_make_more_shards(tmp_path):
    """All windows of a bounded input go into the same files."""
    with TestPipeline() as p:
        stamped = [beam.window.TimestampedValue(str(n), n) for n in range(10)]
        numbers = p | beam.Create(stamped) | beam.WindowInto(beam.window.FixedWindows(3))
        _ = numbers | beam.io.WriteToText(tmp_path / "out", num_shards=1, shard_name_template="")
    assert {"out": sorted(map(str, range(10)))} == {
        name: sorted(text.split()) for name, text in content(tmp_path).items()
    }


def test_nothing_to_write_is_one_file_with_its_header(tmp_path):
    """As Beam, unless it is to be skipped."""
    with TestPipeline() as p:
        nothing = p | beam.Create([])
        _ = nothing | "a" >> beam.io.WriteToText(tmp_path / "a", header="h")
        _ = nothing | "b" >> beam.io.WriteToText(tmp_path / "b", header="h", skip_if_empty=True)
        _ = nothing | "c" >> beam.io.WriteToText(tmp_path / "c", header="h", num_shards=2)
    assert {"a-00000-of-00001": "h\n", "c-00000-of-00002": "h\n", "c-00001-of-00002": "h\n"} == content(tmp_path)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (beam.io.WriteToJson, beam.io.ReadFromJson),
        (lambda path: beam.io.WriteToJson(path, lines=False), lambda path: beam.io.ReadFromJson(path, lines=False)),
        (beam.io.WriteToCsv, lambda path: beam.io.ReadFromCsv(path, converters={"age": int})),
        (lambda path: beam.io.WriteToParquet(path, PARQUET_SCHEMA), beam.io.ReadFromParquet),
        (lambda path: beam.io.WriteToAvro(path, AVRO_SCHEMA), beam.io.ReadFromAvro),
        (lambda path: beam.io.WriteToParquet(path, PARQUET_SCHEMA), lambda _: None),
    ],
)
def test_records_are_read_as_they_were_written(tmp_path, write, read):
    """In every format; and by patterns that are elements."""
    with TestPipeline() as p:
        _ = p | beam.Create(PEOPLE) | write(str(tmp_path / "out"))
    with TestPipeline() as p:
        pattern = str(tmp_path / "out*")
        people = p | (read(pattern) or beam.Create([pattern]) | beam.io.ReadAllFromParquet())
        assert_that(people, equal_to(PEOPLE))


def test_tables_are_read_and_written_whole(tmp_path):
    """The batched forms of Parquet."""
    table = pyarrow.Table.from_pylist(PEOPLE, schema=PARQUET_SCHEMA)
    with TestPipeline() as p:
        _ = p | beam.Create([table]) | beam.io.WriteToParquetBatched(str(tmp_path / "out"), PARQUET_SCHEMA)
    with TestPipeline() as p:
        tables = p | beam.io.ReadFromParquetBatched(str(tmp_path / "out*"), columns=["age"])
        assert_that(tables | beam.Map(lambda t: t.to_pylist()), equal_to([[{"age": 36}, {"age": 85}]]))


def test_patterns_can_be_elements(tmp_path):
    """With or without the name of the file; a pattern that matches nothing may be fine."""
    (tmp_path / "a.txt").write_text("a1\na2\n")
    (tmp_path / "b.txt").write_text("b1\n")
    with TestPipeline() as p:
        patterns = p | beam.Create([f"{tmp_path}/a*", f"{tmp_path}/b.txt", f"{tmp_path}/c*"])
        assert_that(patterns | beam.io.ReadAllFromText(), equal_to(["a1", "a2", "b1"]))
        named = patterns | "named" >> beam.io.ReadAllFromText(with_filename=True, desired_bundle_size=1)
        expected = [(f"{tmp_path}/{line[0]}.txt", line) for line in ("a1", "a2", "b1")]
        assert_that(named, equal_to(expected), label="named lines")
    with pytest.raises(SourceError, match="no file matches"), TestPipeline() as p:
        p | beam.Create([f"{tmp_path}/c.txt"]) | beam.io.ReadAllFromText()


def test_files_can_be_elements(tmp_path):
    """MatchFiles and ReadMatches."""
    (tmp_path / "a.txt").write_text("abc")
    (tmp_path / "directory").mkdir()
    with TestPipeline() as p:
        files = p | fileio.MatchFiles(f"{tmp_path}/*")
        assert_that(files | beam.Map(lambda f: (f.path, f.size_in_bytes)), equal_to([(f"{tmp_path}/a.txt", 3)]))
        paths = p | beam.Create([f"{tmp_path}/a.txt", f"{tmp_path}/directory"])
        texts = paths | fileio.ReadMatches() | beam.Map(lambda f: f.read_utf8())
        assert_that(texts, equal_to(["abc"]), label="texts")
    with pytest.raises(SourceError, match="directory' is a directory"), TestPipeline() as p:
        p | beam.Create([f"{tmp_path}/directory"]) | fileio.ReadMatches(skip_directories=False)
    with pytest.raises(SourceError, match="no file matches"), TestPipeline() as p:
        p | fileio.MatchFiles(f"{tmp_path}/none*", "DISALLOW")


@pytest.mark.parametrize("shards", [None, 1, 2])
@pytest.mark.parametrize("open_at_once", [1, 20])
def test_elements_go_to_their_destinations(tmp_path, shards, open_at_once):
    """With any number of open files."""
    words = ["ant", "bee", "bat", "cat", "ape", "cow"]
    with TestPipeline() as p:
        _ = (
            p
            | beam.Create(words)
            | fileio.WriteToFiles(
                path=str(tmp_path),
                destination=lambda word: word[0],
                file_naming=fileio.destination_prefix_naming(".txt"),
                sink=lambda destination: fileio.TextSink(),
                shards=shards,
                max_writers_per_bundle=open_at_once,
            )
        )
    found = {}
    for name, text in content(tmp_path).items():
        found.setdefault(name[0], []).extend(text.split())
        assert name.endswith(".txt")
    assert {"a": ["ant", "ape"], "b": ["bat", "bee"], "c": ["cat", "cow"]} == {k: sorted(v) for k, v in found.items()}
    if shards == 1:
        assert 3 == len(content(tmp_path))


def test_every_window_has_its_own_files(tmp_path):
    """default_file_naming has the window in the name."""
    with TestPipeline() as p:
        stamped = [beam.window.TimestampedValue(word, i * 60) for i, word in enumerate(["a", "b"])]
        words = p | beam.Create(stamped) | beam.WindowInto(beam.window.FixedWindows(60))
        _ = words | fileio.WriteToFiles(tmp_path, fileio.default_file_naming("out", ".txt"))
    expected = {
        "out-1970-01-01T00:00:00-1970-01-01T00:01:00-00000-of-00001.txt": "a\n",
        "out-1970-01-01T00:01:00-1970-01-01T00:02:00-00000-of-00001.txt": "b\n",
    }
    assert expected == content(tmp_path)


def test_a_naming_that_names_two_files_alike_is_an_error(tmp_path):
    """Rather than one file that replaced the other."""
    with pytest.raises(SinkError, match="gives 'out' to more than one file"), TestPipeline() as p:
        _ = (
            p
            | beam.Create(["a", "b"])
            | fileio.WriteToFiles(tmp_path, lambda *args: "out", destination=lambda word: word)
        )
    assert [] == os.listdir(tmp_path)


def test_every_form_of_sink_can_be_given(tmp_path):
    """A class, an instance, a function, or none."""
    for sink in (None, fileio.TextSink, fileio.TextSink(), lambda destination: fileio.TextSink()):
        with TestPipeline() as p:
            _ = p | beam.Create(["a"]) | fileio.WriteToFiles(tmp_path, sink=sink)
        assert {"output-00000-of-00001": "a\n"} == content(tmp_path)
    with pytest.raises(TypeError, match="sink must be a RecordSink"):
        fileio.WriteToFiles(tmp_path, sink=3)


def test_a_pattern_that_isnt_validated_may_match_nothing(tmp_path):
    """As in Beam; a path without wildcards may not."""
    with TestPipeline() as p:
        lines = [
            p | "text" >> beam.io.ReadFromText(f"{tmp_path}/*", validate=False),
            p | "csv" >> beam.io.ReadFromCsv(f"{tmp_path}/*", validate=False),
            p | "parquet" >> beam.io.ReadFromParquet(f"{tmp_path}/*", validate=False),
            p | "avro" >> beam.io.ReadFromAvro(f"{tmp_path}/*", validate=False),
        ]
        assert_that(lines | beam.Flatten(), equal_to([]))


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_elements_have_the_same_shards_however_they_are_cut_into_bundles(cut):
    """As even as one bundle: a slow machine has other bundles."""
    dofn = AssignShards(3)

    def assigned(size):
        dofn.setup()
        found = []
        for begin in range(0, 100, size):
            dofn.start_bundle()
            found += [shard for n in range(begin, min(begin + size, 100)) for shard, _ in dofn.process(str(n))]
            dofn.finish_bundle()
        return found

    assert assigned(100) == assigned(cut)
    assert [33, 33, 34] == sorted(Counter(assigned(cut)).values())
