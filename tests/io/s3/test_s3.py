"""Files, tables and checkpoints in a store with the API of S3, whose requests fail, are slow, and are throttled."""

from __future__ import annotations

import logging
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import s3fs
from click.testing import CliRunner
from servers.s3_server import KEY, SECRET, S3Server
from support.io.lakehouse_tables import WORDS, ApacheIcebergTable, DeltaLakeTable, LakeTable, table_of
from support.programs.running_program import wait_until

import penstock as beam
from penstock.__main__ import main
from penstock.io.files.filesystem import filesystem_for
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.sdk.drawing.drawing import mime_bundle
from penstock.sdk.errors import SinkError, SourceError
from penstock.sdk.runner import PipelineState
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import Timestamp

# Seconds: `OUTAGE=60 pytest tests/io/s3 -k lost_store` loses the store for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "1"))

# The shares of requests that fail.
FAULTS = {"throttled": 0.01, "failed": 0.01, "lost": 0.02, "slow": 0.01}


@pytest.fixture
def on_spark(s3: S3Server, runner_name: str, request: pytest.FixtureRequest) -> None:
    """The credentials in the environment of Spark's workers that are started from now on."""
    if runner_name.startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(s3.environment)


def test_files_are_written_and_read_on_each_runner(
    directory: str, s3: S3Server, make_pipeline: Any, on_spark: Any
) -> None:
    """Although requests fail; nothing that was staged is left."""
    with s3.faults(**FAULTS):
        with make_pipeline() as p:
            _ = p | beam.Create(map(str, range(2000))) | beam.io.WriteToText(f"{directory}/out", ".txt.gz")
        with make_pipeline() as p:
            assert_that(p | beam.io.ReadFromText(f"{directory}/out*"), equal_to(list(map(str, range(2000)))))
    assert [] == [file.path for file in filesystem_for(directory).match(f"{directory}/**") if "penstock" in file.path]


@pytest.mark.parametrize(("format", "key"), [("delta", None), ("delta", "n"), ("iceberg", None)])
def test_tables_are_written_and_read_on_each_runner(
    directory: str,
    s3: S3Server,
    tmp_path: pathlib.Path,
    format: str,
    key: str | None,
    make_pipeline: Any,
    on_spark: Any,
) -> None:
    """Although requests fail, also after they took effect."""
    table = table_at(directory, tmp_path, format)
    with s3.faults(**FAULTS):
        for start in (0, 100):
            with make_pipeline() as p:
                rows = [beam.Row(word=str(n % 3), n=n) for n in range(start, start + 100)]
                _ = p | beam.Create(rows) | table.write(WORDS, key=key, target_file_size=1000)
        with make_pipeline() as p:
            found = p | table.read(filter=beam.col("n") >= 50) | beam.Map(lambda row: row.n)
            assert_that(found, equal_to(list(range(50, 200))))


def table_at(directory: str, tmp_path: pathlib.Path, format: str, name: str = "table") -> LakeTable:
    return table_of(format, directory, name, str(tmp_path / "catalog.db"))


@pytest.mark.parametrize("key", [None, "n"], ids=["append", "upsert"])
def test_a_commit_of_delta_whose_answer_is_lost_is_published_once(
    directory: str, s3: S3Server, key: str | None
) -> None:
    """The object of the log is there, and the client sees an error."""
    table = DeltaLakeTable(directory)
    with s3.losing("/_delta_log/00000000000000000001.json"), TestPipeline() as p:
        _ = p | beam.Create([beam.Row(word="a", n=n) for n in range(10)]) | table.write(WORDS, key=key)
    assert list(range(10)) == table.values()
    assert 1 == table.loaded().version()


def test_a_stream_resumes_from_checkpoints_in_the_store(directory: str, s3: S3Server) -> None:
    """Of a run that was cancelled, and of one that was stopped with a savepoint while requests failed.

    A crash of all processes in between is tested by test_s3_kills.py.
    """
    kinds = []
    for stop, faults in (("cancel", {}), ("stop_with_savepoint", FAULTS), ("cancel", {})):
        flags = {"checkpoint_dir": f"{directory}/kept", "checkpoint_interval": 0.2}
        p = beam.Pipeline(options=PipelineOptions([], **flags))
        numbers = p | beam.io.GenerateSequence(0, elements_per_period=20, period=0.1)
        _ = numbers | beam.Map(str) | beam.io.WriteToText(f"{directory}/out", ".txt")
        before = published(directory)
        with s3.faults(**faults):
            result = p.run()
            wait_until(lambda before=before: published(directory) > before, "lines were published")
            getattr(result, stop)()
        listed = CliRunner().invoke(main, ["checkpoints", "list", f"{directory}/kept"]).output
        kinds.append("savepoint" in listed)
    assert [False, True, True] == kinds
    found = written(directory)
    assert list(range(len(found))) == sorted(found)


def published(directory: str) -> int:
    """The number of files of the output, by few requests, which fail as those of the stream do."""
    time.sleep(0.1)
    return len(filesystem_for(directory).match(f"{directory}/out*"))


def written(directory: str) -> list[int]:
    fs = filesystem_for(directory)
    found = []
    for file in fs.match(f"{directory}/out*"):
        with fs.open(file.path) as opened:
            found += [int(line) for line in opened.read().split()]
    return found


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_micro_batches_resume_from_checkpoints_in_the_store(
    format: str, directory: str, s3: S3Server, tmp_path: pathlib.Path, spark: Any
) -> None:
    """From table to table, though requests fail."""
    spark.sparkContext.environment.update(s3.environment)
    source, target = (table_at(directory, tmp_path, format, name) for name in ("source", "target"))
    for start in (0, 50):
        source.append({"word": ["a"] * 50, "n": list(range(start, start + 50))})
        options = PipelineOptions([], checkpoint_dir=f"{directory}/kept", available_now=True)
        p = beam.Pipeline(SparkMicroBatchRunner(spark), options=options)
        _ = p | source.read(streaming=True, poll_interval=0.01) | target.write(WORDS)
        with s3.faults(**FAULTS):
            assert PipelineState.DONE == p.run().wait_until_finish()
        assert list(range(start + 50)) == target.values()


def test_a_lost_connection_is_waited_for(directory: str, s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """With one line in the log, and one when it is over."""
    disk = disk_of(directory)
    disk.write_atomically(f"{directory}/a", b"one")
    found: list[Any] = []
    with s3.stopped():
        reading = threading.Thread(target=lambda: found.append(disk.read(f"{directory}/a")))
        reading.start()
        wait_until(lambda: "doesn't answer" in caplog.text, "the loss was logged")
        time.sleep(0.5)
    reading.join()
    assert [b"one"] == found
    lines = [message for message in caplog.messages if "object store: s3://lake" in message]
    assert ["doesn't answer", "answers again"] == [
        words for line in lines for words in ("doesn't answer", "answers again") if words in line
    ]


@pytest.mark.parametrize(
    ("lost", "format"),
    [("made", "iceberg"), ("kept", "delta")],
    ids=["with its tables only-iceberg", "with its checkpoints-delta"],
)
def test_a_stream_waits_for_a_lost_store(
    lost: str, format: str, directory: str, s3: S3Server, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That it reads or writes; it goes on without a restart, and no row is lost or doubled."""
    source, made, copied = (table_at(directory, tmp_path, format, name) for name in ("source", "made", "copied"))
    source.append({"word": ["a"], "n": [0]})

    def pipeline(name: str) -> Any:
        kept = f"{directory if lost == 'kept' else tmp_path}/kept-{name}"
        flags = {"checkpoint_dir": kept, "checkpoint_interval": 0.2, "max_restarts": 0}
        return beam.Pipeline(options=PipelineOptions([], **flags))

    making, copying = pipeline("making"), pipeline("copying")
    numbers = making | beam.io.GenerateSequence(0, elements_per_period=5, period=0.1)
    _ = numbers | beam.Map(lambda n: beam.Row(word="a", n=n)) | made.write(WORDS)
    _ = copying | source.read(streaming=True, poll_interval=0.05) | copied.write(WORDS)
    with ExitStack() as stack:
        results = [making.run(), copying.run()]
        for result in results:
            stack.callback(result.cancel)
        wait_until(lambda: made.values() and copied.values(), "rows were committed")
        with s3.stopped():
            wait_until(lambda: 2 == len(waiting_jobs(caplog)), "both jobs say it")
            time.sleep(OUTAGE)
        before = len(made.values())
        source.append({"word": ["a"] * 9, "n": list(range(1, 10))})
        wait_until(lambda: len(made.values()) > before + 20 and len(copied.values()) == 10, "more rows were committed")
        for result in results:
            result.stop_with_savepoint()
    found = made.values()
    assert list(range(len(found))) == found
    assert list(range(10)) == copied.values()
    # One line for each thread that waits, such as a job's and its page's.
    waited = [record.thread for record in losses(caplog)]
    assert sorted(set(waited)) == sorted(waited)
    wait_until(lambda: caplog.text.count("answers again") == len(waited), "each says that the store answers again")


def waiting_jobs(caplog: pytest.LogCaptureFixture) -> set[int | None]:
    """The threads of the jobs that have said that something doesn't answer; what a job is at varies."""
    return {record.thread for record in losses(caplog) if record.threadName == "penstock job"}


def losses(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The records that say that something doesn't answer."""
    return [record for record in caplog.records if "doesn't answer" in record.message]


@pytest.mark.parametrize(("streaming", "format"), [(False, "iceberg"), (True, "delta")])
def test_a_store_that_is_lost_between_two_files_is_waited_for(
    streaming: bool, format: str, directory: str, s3: S3Server, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the reader of a snapshot, and by that of a stream; each row is read once."""
    table = table_at(directory, tmp_path, format)
    for n in range(3):
        table.append({"word": ["a"], "n": [n]})
    source = source_of(table.read(streaming=streaming))
    bundles = polled(source.open("table", None)) if streaming else split(source)
    found = next(bundles)
    rest: list[Any] = []
    reading = threading.Thread(target=lambda: rest.extend(row for rows in bundles for row in rows))
    with s3.stopped():
        reading.start()
        wait_until(lambda: "doesn't answer" in caplog.text, "the loss was logged")
        time.sleep(0.3)
        assert (1, []) == (len(found), rest)
    reading.join()
    assert [0, 1, 2] == sorted(row.n for row in [*found, *rest])
    assert 1 == len([line for line in caplog.messages if "doesn't answer" in line])


def source_of(read: Any) -> Any:
    p = beam.Pipeline()
    _ = p | read
    (source,) = (t.primitive.source for t in p.graph().transforms if hasattr(t.primitive, "source"))
    return source


def polled(reader: Any) -> Iterator[list[Any]]:
    """Yield the elements that a reader has."""
    while (bundle := reader.poll(1, Timestamp(0))) is not None:
        yield bundle.values


def split(source: Any) -> Iterator[list[Any]]:
    """Yield the elements of the bundles of a source's splits."""
    for each in source.split(1):
        for bundle in source.read_bundles(each):
            yield bundle.values


def test_wrong_or_missing_credentials_are_an_error_at_once(
    directory: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That shows none of them."""
    tables = [table_at(directory, tmp_path, format) for format in ("delta", "iceberg")]
    for table in tables:
        table.append({"word": ["a"], "n": [0]})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "guessed")
    # A process asks the environment once.
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(SinkError, match=r"Forbidden|InvalidAccessKeyId") as e, TestPipeline() as p:
        _ = p | "Other" >> beam.Create(["a"]) | beam.io.WriteToText(f"{directory}/guessed/out")
    assert SECRET not in str(e.value)
    for read in (lambda: beam.io.ReadFromText(f"{directory}/*"), *(table.read for table in tables)):
        with pytest.raises(SourceError, match="Forbidden|InvalidAccessKeyId|credentials") as e:
            _ = TestPipeline() | read()
        assert SECRET not in str(e.value)
    for table in tables:
        with (
            pytest.raises(SinkError, match=r"are the credentials (in the environment )?right\?") as e,
            TestPipeline() as p,
        ):
            _ = p | beam.Create([beam.Row(word="a", n=1)]) | table.write(WORDS)
        assert SECRET not in str(e.value)


WITHOUT_A_PACKAGE = """
import sys
import penstock as beam

sys.modules["s3fs"] = None
beam.Pipeline() | beam.io.ReadFromText("s3://lake/a")
"""


def test_a_missing_package_is_named_with_its_extra() -> None:
    """When the pipeline is built."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT_A_PACKAGE], capture_output=True, text=True, check=False)
    assert 1 == ran.returncode
    assert "needs the package 's3fs': pip install 'penstock[s3]'" in ran.stderr


def test_objects_of_other_processes_are_seen_at_once(directory: str, s3: S3Server) -> None:
    """No listing is kept."""
    import boto3

    fs, client = filesystem_for(directory), boto3.client("s3")
    fs.create(f"{directory}/a").close()
    assert ["a"] == fs.list_files(directory)
    bucket, _, key = directory.removeprefix("s3://").partition("/")
    client.put_object(Bucket=bucket, Key=f"{key}/b", Body=b"b")
    assert fs.exists(f"{directory}/b")
    assert ["a", "b"] == [file.path.rpartition("/")[2] for file in fs.match(f"{directory}/*")]
    client.delete_object(Bucket=bucket, Key=f"{key}/a")
    assert not fs.exists(f"{directory}/a")


def test_an_object_is_put_whole_or_not_at_all(directory: str, s3: S3Server) -> None:
    """An error, or a writer that is dropped, leaves none."""
    fs = filesystem_for(directory)

    def fail() -> None:
        with fs.create(f"{directory}/a") as file:
            file.write(b"a")
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fail()
    dropped = fs.create(f"{directory}/b")
    dropped.write(b"b")
    del dropped
    assert [] == fs.list_files(directory)


def test_secrets_are_in_no_checkpoint_no_log_and_no_metric(
    directory: str, s3: S3Server, caplog: pytest.LogCaptureFixture, tmp_path: pathlib.Path
) -> None:
    """Of files and of tables, whether they are in the environment or in a catalog's properties; nor in a listing."""
    # Those of the clients, which this test isn't about, log each request.
    caplog.set_level(logging.DEBUG, "penstock")
    flags: dict[str, Any] = {"checkpoint_dir": f"{directory}/kept", "checkpoint_interval": 0.3, "metrics_port": 0}
    p = beam.Pipeline(options=PipelineOptions([], **flags))
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=20, period=0.1)
    _ = numbers | beam.Map(str) | beam.io.WriteToText(f"{directory}/out", ".txt")
    rows = numbers | beam.Map(lambda n: beam.Row(word="a", n=n))
    delta = DeltaLakeTable(directory)
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.endpoint": s3.url, "s3.region": "us-east-1"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": directory} | keys
    iceberg = ApacheIcebergTable(directory, properties=catalog)
    for table in (delta, iceberg):
        table.append({"word": ["a"], "n": [-1]})
        _ = rows | f"To {table.name}" >> table.write(WORDS)
        _ = p | f"From {table.name}" >> table.read(streaming=True, poll_interval=0.1)
    result = p.run()
    wait_until(lambda: written(directory) and all(len(each.values()) > 1 for each in (delta, iceberg)), "commits")
    with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
        page = answer.read().decode()
    shown = [page, repr(p), str(p.graph()), *mime_bundle(p.graph()).values(), repr(result)]
    shown.append(str(result.metrics().query()))
    result.cancel()
    listed = CliRunner().invoke(main, ["checkpoints", "list", f"{directory}/kept"])
    assert 0 == listed.exit_code
    fs = filesystem_for(directory)
    for file in fs.match(f"{directory}/kept/**"):
        with fs.open(file.path) as opened:
            shown.append(str(opened.read()))
    shown += [listed.output, *caplog.messages]
    assert "checkpoint" in listed.output
    assert "penstock_" in page
    assert SECRET not in "".join(shown)
