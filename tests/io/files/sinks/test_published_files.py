"""What transforms get that are applied to a write: names of files that exist, as in Beam."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.io import fileio
from penstock.sdk.errors import UnsupportedError
from penstock.testing import ScriptedSource, TestPipeline, TestStream
from penstock.testing.util import assert_that, equal_to, is_empty


def _fails(element: str) -> None:
    raise ValueError(f"no {element}")


def names_of(directory: pathlib.Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


WRITES: dict[str, Callable[[str], beam.PTransform]] = {
    "text": lambda path: beam.io.WriteToText(path),
    "json": lambda path: beam.io.WriteToJson(path),
    "shards": lambda path: beam.io.WriteToText(path, num_shards=1),
    "avro": lambda path: beam.io.WriteToAvro(
        path, {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    ),
    "sink": lambda path: beam.io.Write(beam.io.WriteToText(path).sink),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_transform_of_a_write_gets_the_paths_of_existing_files(tmp_path: pathlib.Path, write: str) -> None:
    """Of all formats, and with the same content as without the transform."""
    rows = [{"n": 1}, {"n": 2}]
    for name in ("used", "unused"):
        with TestPipeline() as p:
            written = p | beam.Create(rows) | WRITES[write](str(tmp_path / name))
            if name == "used":
                assert written.is_bounded
                found = written | beam.Map(lambda path: (path, os.path.exists(path)))
                assert_that(found, equal_to([(str(tmp_path / "used-00000-of-00001"), True)]))
    assert ["unused-00000-of-00001", "used-00000-of-00001"] == names_of(tmp_path)
    if write != "avro":  # a file's marker is random
        assert (tmp_path / "used-00000-of-00001").read_bytes() == (tmp_path / "unused-00000-of-00001").read_bytes()


@pytest.mark.parametrize("options", [{}, {"parallelism": 2}])
def test_the_output_is_read_within_the_pipeline(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    """As a main input of several transforms and as a side input; with workers there are as many files."""
    with TestPipeline(options=beam.options.PipelineOptions(**options)) as p:
        written = p | beam.Create(list("abcdef")) | beam.io.WriteToText(str(tmp_path / "out"))
        assert_that(written | beam.io.ReadAllFromText(), equal_to(list("abcdef")))
        count = p | "once" >> beam.Create([None]) | beam.Map(lambda _, paths: len(paths), beam.pvalue.AsList(written))
        assert_that(count, equal_to([options.get("parallelism", 1)]), label="count")
    assert options.get("parallelism", 1) == len(names_of(tmp_path))


def test_an_empty_write_tells_of_its_empty_file(tmp_path: pathlib.Path) -> None:
    """Or of none, with `skip_if_empty`."""
    with TestPipeline() as p:
        nothing = p | beam.Create([])
        written = nothing | beam.io.WriteToText(str(tmp_path / "a"), header="h")
        assert_that(written, equal_to([str(tmp_path / "a-00000-of-00001")]))
        skipped = nothing | "skipped" >> beam.io.WriteToText(str(tmp_path / "b"), skip_if_empty=True)
        assert_that(skipped, is_empty(), label="none")
    assert ["a-00000-of-00001"] == names_of(tmp_path)


def test_files_are_published_before_the_transforms_of_the_write_fail(tmp_path: pathlib.Path) -> None:
    """Those of another write are not: nothing is applied to it."""
    p = TestPipeline()
    words = p | beam.Create(["a"])
    _ = words | "other" >> beam.io.WriteToText(str(tmp_path / "other"))
    _ = words | beam.io.WriteToText(str(tmp_path / "out")) | beam.Map(_fails)
    with pytest.raises(ValueError, match="no "):
        p.run()
    assert ["out-00000-of-00001"] == names_of(tmp_path)


def test_a_composite_of_a_write_may_be_applied_to_and_labels_stay_unique(tmp_path: pathlib.Path) -> None:
    """The transforms that publish take the place of the write's, below its label."""

    class Save(beam.PTransform):
        def expand(self, words: Any) -> Any:
            return words | "w" >> beam.io.WriteToText(str(tmp_path / "out"), num_shards=2)

    p = TestPipeline()
    written = p | beam.Create(["a", "b"]) | Save()
    before = {label for label in p.applied_labels if label.startswith("Save")}
    read = written | beam.io.ReadAllFromText()
    labels = {label for label in p.applied_labels if label.startswith("Save")}
    assert_that(read, equal_to(["a", "b"]))
    p.run()
    assert {"Save", "Save/w", "Save/w/Write(FileSink)"} == before & labels
    assert "Save/w/Write(FileSink)/Publish/FinalizeWrite" in labels
    assert "Save/w/Write(FileSink)/Stage" in before - labels
    ids = [pcoll.id for pcoll in p.outline().pcollections.values()]
    assert sorted(set(ids)) == ids


def test_files_of_destinations_are_told_by_window_and_shard(tmp_path: pathlib.Path) -> None:
    """As `FileResult`s."""
    with TestPipeline() as p:
        words = p | beam.Create(["ant", "bee", "bat"])
        results = words | fileio.WriteToFiles(
            str(tmp_path), destination=lambda word: word[0], file_naming=fileio.destination_prefix_naming()
        )
        found = results | beam.Map(lambda r: (r.file_name, r.shard_index, r.total_shards, r.destination))
        assert_that(found, equal_to([("a-00000-of-00001", 0, 1, "a"), ("b-00000-of-00001", 0, 1, "b")]))
    assert "bee\nbat\n" == (tmp_path / "b-00000-of-00001").read_text()


def stream() -> TestStream:
    stream = TestStream().add_elements([beam.window.TimestampedValue(word, t) for t, word in enumerate("abcdef")])
    return (
        stream.advance_watermark_to(4)
        .add_elements([beam.window.TimestampedValue("g", 6)])
        .advance_watermark_to_infinity()
    )


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(
    ("windowed", "arguments", "expected"),
    [
        (True, {}, {"out-[0.0, 4.0)-00000-of-00001": "abcd", "out-[4.0, 8.0)-00000-of-00001": "efg"}),
        (False, {"triggering_frequency": 8}, {"out-[0.0, 8.0)-00000-of-00001": "abcdefg"}),
        (True, {"triggering_frequency": 8, "file_name_suffix": ".x"}, {"out-[0.0, 8.0)-00000-of-00001.x": "abcdefg"}),
        (
            True,
            {"shard_name_template": "_V_S", "header": "h"},
            {
                "out_[1970-01-01T00-00-00, 1970-01-01T00-00-04)_0": "habcd",
                "out_[1970-01-01T00-00-04, 1970-01-01T00-00-08)_0": "hefg",
            },
        ),
    ],
)
def test_an_unbounded_input_is_written_by_window(
    tmp_path: pathlib.Path, windowed: bool, arguments: Any, expected: dict[str, str], used: bool
) -> None:
    """Into files with the window in their names, whether or not their names are used."""
    with TestPipeline() as p:
        words = p | stream()
        if windowed:
            words = words | beam.WindowInto(beam.window.FixedWindows(4))
        written = words | beam.io.WriteToText(str(tmp_path / "out"), **arguments)
        if used:
            found = written | beam.Map(os.path.exists)
            assert_that(found, equal_to([True] * len(expected)))
    found_files = {path.name: "".join(sorted(path.read_text().split())) for path in tmp_path.iterdir()}
    assert {name: "".join(sorted(text)) for name, text in expected.items()} == found_files


def test_windows_have_the_given_number_of_shards(tmp_path: pathlib.Path) -> None:
    """Each has its number."""
    with TestPipeline() as p:
        _ = p | stream() | beam.io.WriteToText(str(tmp_path / "out"), num_shards=2, triggering_frequency=8)
    assert [f"out-[0.0, 8.0)-0000{shard}-of-00002" for shard in range(2)] == names_of(tmp_path)


@pytest.mark.parametrize("write", [beam.io.WriteToText, fileio.WriteToFiles], ids=["text", "by destination"])
@pytest.mark.parametrize(("mode", "of_both"), [("DISCARDING", ["a", "b"]), ("ACCUMULATING", ["a", "ab"])])
def test_later_panes_have_files_of_their_own(tmp_path: pathlib.Path, write: Any, mode: str, of_both: list[str]) -> None:
    """The second pane doesn't replace the first one's file.  It has what the accumulation mode gives it."""
    late = TestStream().add_elements([beam.window.TimestampedValue("a", 1)]).advance_watermark_to(9)
    late = late.add_elements([beam.window.TimestampedValue("b", 2)]).advance_watermark_to_infinity()
    windows = beam.WindowInto(
        beam.window.FixedWindows(8),
        trigger=beam.trigger.AfterWatermark(late=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode[mode],
        allowed_lateness=100,
    )
    with TestPipeline() as p:
        _ = p | late | windows | write(str(tmp_path / "out"))
    files = sorted(path for path in tmp_path.rglob("out*") if path.is_file()) or sorted((tmp_path / "out").iterdir())
    assert of_both == ["".join(sorted(path.read_text().split())) for path in files]
    if write is beam.io.WriteToText:
        assert ["out-[0.0, 8.0)-00000-of-00001", "out-[0.0, 8.0)-1-00000-of-00001"] == [path.name for path in files]


@pytest.mark.parametrize("write", [beam.io.WriteToText, fileio.WriteToFiles], ids=["text", "by destination"])
def test_elements_in_retracting_windows_are_written_once(tmp_path: pathlib.Path, write: Any) -> None:
    """Nothing is retracted before a grouping.  Behind one the sink is refused."""
    stream = TestStream()
    for word in "ab":
        stream = stream.add_elements([beam.window.TimestampedValue(word, 1)])
    windows = beam.WindowInto(
        beam.window.FixedWindows(8),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    with TestPipeline() as p:
        words = p | stream.advance_watermark_to(9).advance_watermark_to_infinity() | windows
        _ = words | write(str(tmp_path / "out"))
        counts = words | beam.combiners.Count.PerElement()
        with pytest.raises(UnsupportedError, match="Counts.* only appends, but .* may retract its input"):
            counts | "Counts" >> write(str(tmp_path / "counts"))
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert ["a\n", "b\n"] == sorted(written)


def test_windows_of_a_stream_have_files_of_each_destination(tmp_path: pathlib.Path) -> None:
    """Without a number of shards, too."""
    with TestPipeline() as p:
        words = p | stream() | beam.WindowInto(beam.window.FixedWindows(4))
        results = words | fileio.WriteToFiles(str(tmp_path), fileio.default_file_naming("out"))
        assert_that(results | beam.Map(lambda r: (r.shard_index, r.total_shards)), equal_to([(0, 1), (0, 1)]))
    assert ["out-1970-01-01T00:00:00-1970-01-01T00:00:04-0-00000-of-00001"] == names_of(tmp_path)[:1]
    assert 2 == len(names_of(tmp_path))


def test_the_files_of_epochs_have_no_names_in_the_pipeline(tmp_path: pathlib.Path) -> None:
    """The error names what gives them some."""
    p = TestPipeline()
    written = (
        p
        | beam.io.Read(ScriptedSource([[beam.window.TimestampedValue("a", 1)]]))
        | beam.io.WriteToText(str(tmp_path / "out"))
    )
    with pytest.raises(UnsupportedError, match="give triggering_frequency"):
        _ = written | beam.Map(print)


def test_a_file_ends_when_it_has_enough_bytes(tmp_path: pathlib.Path) -> None:
    """Uncompressed ones, the header included."""
    with TestPipeline() as p:
        words = p | beam.Create(["aaa", "bbb", "ccc"])
        _ = words | beam.io.WriteToText(str(tmp_path / "out"), header="h", max_bytes_per_shard=7)
        _ = words | "gz" >> beam.io.WriteToText(str(tmp_path / "gz"), max_bytes_per_shard=4, file_name_suffix=".gz")
    assert {"out-00000-of-00002": "h\naaa\nbbb\n", "out-00001-of-00002": "h\nccc\n"} == {
        path.name: path.read_text() for path in tmp_path.glob("out*")
    }
    assert 3 == len(list(tmp_path.glob("gz*")))


def test_windows_of_a_bounded_input_have_files_of_their_own(tmp_path: pathlib.Path) -> None:
    """All of which are published, and told of."""
    with TestPipeline() as p:
        words = p | beam.Create([beam.window.TimestampedValue(word, t) for t, word in enumerate("ab")])
        words = words | beam.WindowInto(beam.window.FixedWindows(1))
        results = words | fileio.WriteToFiles(str(tmp_path), fileio.default_file_naming("out"), shards=1)
        assert_that(results | beam.Map(lambda r: r.window.start), equal_to([0, 1]))
    assert [f"out-1970-01-01T00:00:0{t}-1970-01-01T00:00:0{t + 1}-00000-of-00001" for t in (0, 1)] == names_of(tmp_path)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("limit", [{"max_records_per_shard": 2}, {"max_bytes_per_shard": 3}])
def test_windows_have_as_many_files_as_a_limit_asks_for(tmp_path: pathlib.Path, limit: Any, used: bool) -> None:
    """The number of a window's files is in their names, and a window with more files than may be open is whole."""
    words = [beam.window.TimestampedValue(f"{n}", 1) for n in range(7)]
    many = [beam.window.TimestampedValue(f"{n % 10}", 9) for n in range(50)]
    given = TestStream().add_elements(words + many).advance_watermark_to_infinity()
    with TestPipeline() as p:
        written = p | given | beam.io.WriteToText(str(tmp_path / "out"), triggering_frequency=8, **limit)
        if used:
            assert_that(written | beam.Map(os.path.exists), equal_to([True] * (4 + 25)))
    names = [f"out-[0.0, 8.0)-0000{shard}-of-00004" for shard in range(4)]
    assert names == [name for name in names_of(tmp_path) if name.startswith("out-[0.0")]
    assert [2, 2, 2, 1] == [len((tmp_path / name).read_text().split()) for name in names]
    lines = [line for path in tmp_path.glob("out-[[]8.0*") for line in path.read_text().split()]
    assert sorted(f"{n % 10}" for n in range(50)) == sorted(lines)
    assert [] == [name for name in names_of(tmp_path) if name.startswith(".")]
