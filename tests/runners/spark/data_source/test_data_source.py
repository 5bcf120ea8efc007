"""The data source `penstock`: sources and sinks in programs of DataFrames, on classic Spark and over Spark Connect."""

from __future__ import annotations

import os
import pathlib
import uuid
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest

import penstock as beam
from penstock.io import UnboundedReader, UnboundedSource
from penstock.runners.spark import register_data_source
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import UnsupportedError
from penstock.windowing import Timestamp

# The fixture that is asked for by name isn't seen in the arguments.
pytestmark = pytest.mark.spark


class Word(NamedTuple):
    """A row."""

    word: str
    letters: list[str]


def word(text: str) -> Word:
    """The row of a word."""
    return Word(text, sorted(set(text)))


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Any:
    """A session of each kind."""
    return request.getfixturevalue("spark" if request.param == "classic" else "connect_session")


class Lines(UnboundedSource[str]):
    """The lines of a file that grows; a line at a time is an offset."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def partitions(self) -> Sequence[Any]:
        return ["even", "odd"]

    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[str]:
        return LinesReader(self.path, partition, offset or 0)


class LinesReader(UnboundedReader[str]):
    """Reads the even or the odd lines."""

    def __init__(self, path: pathlib.Path, partition: str, line: int) -> None:
        self.path, self.odd, self.line = path, partition == "odd", line

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        own = self.path.read_text().splitlines()[int(self.odd) :: 2][self.line :][:max_elements]
        self.line += len(own)
        return Bundle(own, now.micros) if own else None

    def offset(self) -> int:
        return self.line

    def watermark(self, now: Timestamp) -> int:
        return now.micros


def published(directory: pathlib.Path, name: str) -> list[str]:
    """The lines that a sink has published."""
    return sorted(line for file in directory.glob(f"{name}*") for line in file.read_text().splitlines())


def test_a_bounded_source_is_a_dataframe_with_the_columns_of_its_elements(session: Any, tmp_path: pathlib.Path) -> None:
    """The type hint of the elements says which columns there are."""
    (tmp_path / "in").write_text("to\nbe\nor\nnot\n")
    words = beam.io.ReadFromText(tmp_path / "in") | beam.Map(word)
    register_data_source(session, sources={"words": words})
    rows = session.read.format("penstock").load("words")
    found = rows.where("word != 'or'").orderBy("word").toArrow().to_pylist()
    assert [
        {"word": "be", "letters": ["b", "e"]},
        {"word": "not", "letters": ["n", "o", "t"]},
        {"word": "to", "letters": ["o", "t"]},
    ] == found


def test_a_sink_publishes_a_dataframe_once_all_tasks_have_staged_it(session: Any, tmp_path: pathlib.Path) -> None:
    """The rows are elements with fields."""
    sink = beam.Map(lambda row: f"{row.word}: {row.n}") | beam.io.WriteToText(tmp_path / "out")
    register_data_source(session, sinks={"lines": sink})
    rows = session.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "word string, n bigint").repartition(3)
    rows.write.format("penstock").mode("append").save("lines")
    assert ["a: 1", "b: 2", "c: 3"] == published(tmp_path, "out")


def test_a_failed_write_publishes_nothing(session: Any, tmp_path: pathlib.Path) -> None:
    """The error names the transform."""

    def refused(row: Any) -> str:
        if row.n == 3:
            raise ValueError("three is refused")
        return str(row.n)

    sink = "Refuse" >> beam.Map(refused) | beam.io.WriteToText(tmp_path / "out")
    register_data_source(session, sinks={"lines": sink})
    rows = session.range(5).withColumnRenamed("id", "n")
    with pytest.raises(Exception, match=r"three is refused[\s\S]*lines/Refuse"):
        rows.write.format("penstock").mode("append").save("lines")
    assert [] == list(tmp_path.iterdir())


class Tokens(beam.io.Sink[Any]):
    """A file for each token: a token that was staged again is another one, and its lines are published twice.

    Args:
      dies_in: the method that fails once.
    """

    def __init__(self, directory: pathlib.Path, dies_in: str = "") -> None:
        self.directory, self.dies_in = directory, dies_in

    def prepare(self, context: Any) -> None:
        self.directory.mkdir(exist_ok=True)

    def open_writer(self, context: Any) -> Any:
        return TokensWriter()

    def precommit(self, staged: Any) -> None:
        self.die("precommit")

    def commit(self, context: Any, staged: Any) -> None:
        self.die("commit")
        for name, lines in staged:
            (self.directory / f"lines-{name}").write_text("".join(f"{line}\n" for line in lines))

    def abort(self, context: Any) -> None:
        """Leave all, as a killed driver does."""

    def die(self, method: str) -> None:
        """Fail, the first time."""
        if self.dies_in == method and not (self.directory / "died").exists():
            (self.directory / "died").touch()
            raise OSError("killed")


class TokensWriter(beam.io.SinkWriter[Any]):
    """Its tokens have the lines, and a name that no other has."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, bundle: Bundle) -> None:
        self.lines.extend(bundle.values)

    def stage(self) -> Any:
        return uuid.uuid4().hex, self.lines

    def discard(self) -> None:
        self.lines.clear()


def stream(session: Any, tmp_path: pathlib.Path, **options: Any) -> None:
    """Run a query from the registered source to the registered sink to the end of what is there."""
    rows = session.readStream.format("penstock").schema("line string").options(**options).load("lines")
    writing = rows.selectExpr("upper(line) AS line").writeStream.format("penstock")
    writing = writing.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    # Before PySpark 4.2 a start with this trigger runs one batch.
    for _ in range(1 if find_spec("pyspark.sql.streaming.datasource") else 3):
        writing.start("out").awaitTermination()


def register_stream(session: Any, tmp_path: pathlib.Path, dies_in: str = "") -> None:
    """Register a source of lines that grow, and a sink of lines."""
    sink = beam.Map(lambda row: row.line) | beam.io.Write(Tokens(tmp_path / "out", dies_in))
    register_data_source(session, sources={"lines": beam.io.Read(Lines(tmp_path / "in"))}, sinks={"out": sink})


def test_a_stream_continues_at_its_offsets_and_publishes_each_line_once(session: Any, tmp_path: pathlib.Path) -> None:
    """Spark's checkpoint has the offsets of all partitions."""
    register_stream(session, tmp_path)
    (tmp_path / "in").write_text("a\nb\nc\n")
    stream(session, tmp_path)
    assert ["A", "B", "C"] == published(tmp_path / "out", "lines")
    (tmp_path / "in").write_text("a\nb\nc\nd\ne\n")
    stream(session, tmp_path, maxRowsPerBatch=1)
    assert ["A", "B", "C", "D", "E"] == published(tmp_path / "out", "lines")


def test_a_batch_that_was_published_before_a_crash_is_not_published_again(spark: Any, tmp_path: pathlib.Path) -> None:
    """Spark repeats it, since its own log doesn't have it; its tasks stage nothing."""
    register_stream(spark, tmp_path)
    (tmp_path / "in").write_text("a\nb\n")
    stream(spark, tmp_path)
    for name in ("0", ".0.crc"):
        # As if the driver had died before it wrote them.
        (tmp_path / "state" / "commits" / name).unlink(missing_ok=True)
    (tmp_path / "in").write_text("a\nb\nc\n")
    stream(spark, tmp_path)
    assert ["A", "B", "C"] == published(tmp_path / "out", "lines")


@pytest.mark.parametrize("dies_in", ["precommit", "commit"])
def test_a_crash_between_staging_and_publishing_loses_and_repeats_nothing(
    spark: Any, tmp_path: pathlib.Path, dies_in: str
) -> None:
    """Before the decision the batch is staged anew, and behind it what was decided is published."""
    register_stream(spark, tmp_path, dies_in)
    (tmp_path / "in").write_text("a\nb\n")
    with pytest.raises(Exception, match="killed"):
        stream(spark, tmp_path)
    assert [] == published(tmp_path / "out", "lines")
    (tmp_path / "in").write_text("a\nb\nc\n")
    stream(spark, tmp_path)
    assert ["A", "B", "C"] == published(tmp_path / "out", "lines")


def test_a_stream_into_files_leaves_nothing_else_beside_them(spark: Any, tmp_path: pathlib.Path) -> None:
    """Staging directories are removed with each batch."""
    sink = beam.Map(lambda row: row.line) | beam.io.WriteToText(tmp_path / "files" / "lines")
    (tmp_path / "files").mkdir()
    register_data_source(spark, sources={"lines": beam.io.Read(Lines(tmp_path / "in"))}, sinks={"out": sink})
    (tmp_path / "in").write_text("a\nb\n")
    stream(spark, tmp_path)
    assert ["A", "B"] == published(tmp_path / "files", "lines")
    assert [] == [name for name in os.listdir(tmp_path / "files") if not name.startswith("lines")]


def test_what_spark_cannot_run_so_is_refused_by_name(session: Any, tmp_path: pathlib.Path) -> None:
    """When it is registered, or when it is read or written."""
    grouping = beam.Create([("a", 1)]) | "Sum" >> beam.CombinePerKey(sum)
    with pytest.raises(UnsupportedError, match=r"sums/Sum.*needs a shuffle"):
        register_data_source(session, sources={"sums": grouping})
    register_data_source(
        session,
        sources={"lines": beam.io.Read(Lines(tmp_path / "in")), "words": beam.Create(["a"])},
        sinks={"out": beam.io.WriteToText(tmp_path / "out")},
    )
    with pytest.raises(Exception, match=r"lines.* its source is unbounded; read it by spark.readStream"):
        session.read.format("penstock").schema("line string").load("lines").collect()
    with pytest.raises(Exception, match="expected the name of a registered source, got 'wods'"):
        _ = session.read.format("penstock").load("wods").columns
    rows = session.read.format("penstock").load("words")
    with pytest.raises(Exception, match="out: a sink doesn't remove what it has published before"):
        rows.write.format("penstock").mode("overwrite").save("out")
