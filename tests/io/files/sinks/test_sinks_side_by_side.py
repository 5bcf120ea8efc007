"""Several sinks of files with one prefix, in one pipeline and in several runs: none loses or replaces another's."""

from __future__ import annotations

import pathlib
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

import penstock as beam
from penstock.io import fileio
from penstock.io.files.text import TextFormat
from penstock.io.files.write import FileSink
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import PipelineError, RejectedRecordError
from penstock.sdk.sink import LabelledSink
from penstock.testing import ScriptedSource, TestPipeline

# The transaction of an epoch, as a stream names it.
FIRST, SECOND = "00000001-5be1", "00000002-5be1"


def written(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(directory.iterdir())}


WRITES: dict[str, Callable[[str, str], Any]] = {
    "text": beam.io.WriteToText,
    "changelog": beam.io.WriteToChangelog,
    "json": lambda prefix, suffix: beam.io.WriteToJson(prefix, file_name_suffix=suffix),
    "files": lambda prefix, suffix: fileio.WriteToFiles(
        prefix.rpartition("/")[0], fileio.default_file_naming(prefix.rpartition("/")[2], suffix)
    ),
}


@pytest.mark.parametrize("kind", WRITES)
def test_sinks_with_other_suffixes_have_their_own_elements(
    tmp_path: pathlib.Path, make_pipeline: Any, kind: str
) -> None:
    """Also where an earlier run has left its output, and one of them has no suffix."""
    write = WRITES[kind]
    for run in ("first", "second"):
        with make_pipeline() as p:
            for suffix in (".a", ".b", ""):
                elements = p | f"Create {suffix}" >> beam.Create([{"from": f"{run}<{suffix}>"}])
                _ = elements | f"Write {suffix}" >> write(str(tmp_path / "out"), suffix)
    found = written(tmp_path)
    assert 3 == len(found)
    for name, text in found.items():
        assert f"second<{pathlib.Path(name).suffix}>" in text
        assert 1 == text.count("<")


def test_sinks_of_other_formats_have_their_own_elements(tmp_path: pathlib.Path, make_pipeline: Any) -> None:
    """Of rows: Parquet, Avro and CSV."""
    pytest.importorskip("pyarrow")
    with make_pipeline() as p:
        rows = [p | f"Create{n}" >> beam.Create([beam.Row(n=n)]) for n in range(3)]
        _ = rows[0] | beam.io.WriteToParquet(tmp_path / "out", file_name_suffix=".parquet")
        _ = rows[1] | beam.io.WriteToAvro(tmp_path / "out", file_name_suffix=".avro")
        _ = rows[2] | beam.io.WriteToCsv(tmp_path / "out.csv")
    with TestPipeline() as p:
        found = (
            p | "Parquet" >> beam.io.ReadFromParquet(str(tmp_path / "*.parquet")) | "P" >> beam.Map(lambda r: r["n"]),
            p | "Avro" >> beam.io.ReadFromAvro(str(tmp_path / "*.avro")) | "A" >> beam.Map(lambda r: r["n"]),
            p | "CSV" >> beam.io.ReadFromCsv(str(tmp_path / "out.csv*")) | "C" >> beam.Map(lambda r: int(r["n"])),
        )
        beam.testing.util.assert_that(found | beam.Flatten(), beam.testing.util.equal_to([0, 1, 2]))


@pytest.mark.parametrize("kind", WRITES)
def test_two_sinks_of_the_same_files_are_refused_when_the_pipeline_is_built(tmp_path: pathlib.Path, kind: str) -> None:
    """By both labels; also if a transform is applied to one of them, which then is another part of the pipeline."""
    p, write = TestPipeline(), WRITES[kind]
    first = p | beam.Create([{"n": 1}]) | "First" >> write(str(tmp_path / "out"), ".x")
    _ = first | beam.Map(str)
    with pytest.raises(PipelineError, match=r"^Second/.*: it writes the files '.*out-.*', and so on, as First/.* does"):
        _ = p | "Create2" >> beam.Create([{"n": 2}]) | "Second" >> write(str(tmp_path / "out"), ".x")
    _ = p | "Create3" >> beam.Create([{"n": 3}]) | "Third" >> write(str(tmp_path / "out"), ".y")
    p.run()
    assert 2 == len(written(tmp_path))


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("other", ["{}/./out", "{}//out", "{}/x/../out", "file://{}/out", "{}-link/out"])
def test_two_names_of_the_same_files_are_refused(tmp_path: pathlib.Path, kind: str, other: str) -> None:
    """One output would replace the other at the commit."""
    pathlib.Path(f"{tmp_path}-link").symlink_to(tmp_path)
    p, write = TestPipeline(), WRITES[kind]
    _ = p | beam.Create([{"n": 1}]) | "First" >> write(str(tmp_path / "out"), ".x")
    with pytest.raises(PipelineError, match=r"^Second/.*: it writes the files '.*out-.*', and so on, as First/.* does"):
        _ = p | "Create2" >> beam.Create([{"n": 2}]) | "Second" >> write(other.format(tmp_path), ".x")


def test_one_write_applied_twice_is_refused(tmp_path: pathlib.Path) -> None:
    """The same object under two labels; and under one prefix names that another prefix and suffix make up, too."""
    write = beam.io.WriteToText(tmp_path / "out", shard_name_template="")
    p = TestPipeline()
    lines = p | beam.Create(["a"])
    _ = lines | "First" >> write
    for second in (write, beam.io.WriteToText(tmp_path / "o", "ut", shard_name_template="")):
        with pytest.raises(PipelineError, match=r"Second/.* as First/.* does already"):
            _ = lines | "Second" >> second


def test_sinks_with_other_numbers_of_files_are_accepted(tmp_path: pathlib.Path) -> None:
    """Their names differ."""
    with TestPipeline() as p:
        lines = p | beam.Create(["a", "b"])
        _ = lines | "Two" >> beam.io.WriteToText(tmp_path / "out", num_shards=2)
        _ = lines | "Three" >> beam.io.WriteToText(tmp_path / "out", num_shards=3)
    assert 5 == len(written(tmp_path))


def test_destinations_that_two_sinks_share_are_found_before_the_commit(
    tmp_path: pathlib.Path, make_pipeline: Any
) -> None:
    """Functions give them, so the run finds them; nothing is published."""
    p = make_pipeline()
    for label, words in (("First", ["ant", "bee"]), ("Second", ["bat", "cow"])):
        write = fileio.WriteToFiles(str(tmp_path), fileio.destination_prefix_naming(), destination=_first_letter)
        _ = p | f"Create{label}" >> beam.Create(words) | label >> write
    with pytest.raises(RejectedRecordError, match=r"'.*/b-.*' can't be published, since First/.* publishes"):
        p.run()
    assert [] == [name for name in written_names(tmp_path) if not name.startswith(".")]


def _first_letter(word: str) -> str:
    return word[0]


def written_names(directory: pathlib.Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def windows_of_a_stream(
    directory: pathlib.Path, words: list[str], used: bool, write: Callable[[pathlib.Path], Any], **options: Any
) -> None:
    elements = [[beam.window.TimestampedValue(word, n) for n, word in enumerate(words)]]
    with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1, **options)) as p:
        lines = p | beam.io.Read(ScriptedSource(elements)) | beam.WindowInto(beam.window.FixedWindows(2))
        files = lines | write(directory)
        if used:
            _ = files | beam.Map(str)


WINDOWED: dict[str, Callable[[pathlib.Path], Any]] = {
    "text": lambda directory: beam.io.WriteToText(directory / "out", ".txt"),
    "files": lambda directory: fileio.WriteToFiles(str(directory), fileio.default_file_naming("out", ".txt")),
}


@pytest.mark.parametrize("used", [False, True], ids=["at checkpoints", "at once"])
@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_of_another_run_never_replace_files(tmp_path: pathlib.Path, kind: str, used: bool) -> None:
    """Streams have the run in the names of their files, and the window as before."""
    for words in (["a", "b", "c"], ["d", "e", "f"]):
        windows_of_a_stream(tmp_path, words, used, WINDOWED[kind])
    found = written(tmp_path)
    assert sorted("abcdef") == sorted("".join(found.values()).split())
    assert 4 == len(found)
    runs = {re.search(r"[0-9a-f]{16}", name)[0] for name in found}  # type: ignore[index]
    assert len(runs) >= 2


@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_of_another_run_of_micro_batches_never_replace_files(
    tmp_path: pathlib.Path, kind: str, spark: Any
) -> None:
    """As of a stream on the local runner."""
    for _ in range(2):
        with beam.Pipeline(SparkMicroBatchRunner(spark), options=PipelineOptions([])) as p:
            numbers = p | beam.io.GenerateSequence(0, 4, 100, 1, start_time=1_700_000_000)
            lines = numbers | beam.Map(str) | beam.WindowInto(beam.window.FixedWindows(2))
            _ = lines | WINDOWED[kind](tmp_path)
    assert sorted("01230123") == sorted("".join(written(tmp_path).values()).split())


def test_a_continued_run_names_a_file_again_as_before(tmp_path: pathlib.Path) -> None:
    """A file that is published at once, and again after a failure, must not be there twice."""
    out = tmp_path / "out"
    for name in ("kept", "kept", "other"):
        options = {"checkpoint_dir": str(tmp_path / name)}
        windows_of_a_stream(out, ["a", "b"], True, WINDOWED["text"], **options)
    assert 2 == len(written(out))


# Two phases


def sink_of(prefix: pathlib.Path, label: str, suffix: str) -> LabelledSink:
    return LabelledSink(FileSink(prefix, TextFormat(), file_name_suffix=suffix), label, many_transactions=True)


def stage(sink: LabelledSink, transaction: str, *lines: str) -> Any:
    sink.prepare(transaction)
    writer = pickle.loads(pickle.dumps(sink.sink)).open_writer(sink.context(transaction, "0-1"))
    writer.write(Bundle(list(lines)))
    return writer.stage()


def test_sinks_of_a_stream_commit_and_abort_by_themselves(tmp_path: pathlib.Path) -> None:
    """One of them may publish, and another fail, or abort a transaction that the first one has published."""
    text, csv = (sink_of(tmp_path / "out", label, suffix) for label, suffix in (("Text", ".txt"), ("Csv", ".csv")))
    tokens = {sink: [stage(sink, transaction, transaction) for transaction in (FIRST, SECOND)] for sink in (text, csv)}
    text.commit(FIRST, tokens[text][:1])
    csv.commit(FIRST, tokens[csv][:1])
    csv.abort(SECOND)
    text.commit(SECOND, tokens[text][1:])
    assert {
        "out-00000001-5be1-00000-of-00001.csv": f"{FIRST}\n",
        "out-00000001-5be1-00000-of-00001.txt": f"{FIRST}\n",
        "out-00000002-5be1-00000-of-00001.txt": f"{SECOND}\n",
    } == written(tmp_path)


def test_a_transaction_of_an_earlier_version_is_continued_and_committed(tmp_path: pathlib.Path) -> None:
    """That version staged the files of all sinks with a prefix in one directory."""
    (tmp_path / f".out.penstock-{FIRST}").mkdir()
    (tmp_path / f".out.penstock-{SECOND}").mkdir()
    sink = sink_of(tmp_path / "out", "Text", "")
    token = stage(sink, FIRST, "a")
    assert [f".out.penstock-{FIRST}", f".out.penstock-{SECOND}"] == written_names(tmp_path)
    sink.commit(FIRST, [token])
    sink.abort(SECOND)
    assert {"out-00000001-5be1-00000-of-00001": "a\n"} == written(tmp_path)
