"""Files and checkpoints in Google Cloud Storage, on a server that fails, and loses answers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from servers.gcs_server import GcsServer
from support.programs.document_code import programs
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.files.filesystem import filesystem_for
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import SourceError
from penstock.testing import TestPipeline, assert_that, equal_to

FAULTS = {"throttled": 0.01, "failed": 0.01, "lost": 0.02}


@pytest.fixture
def on_spark(gcs: GcsServer, runner_name: str, request: pytest.FixtureRequest) -> None:
    """The server's address in the environment of Spark's workers that are started from now on."""
    if runner_name.startswith("spark"):
        request.getfixturevalue("spark").sparkContext.environment.update(gcs.environment)


def lines_of(pattern: str) -> list[str]:
    fs = filesystem_for(pattern)
    found: list[str] = []
    for file in fs.match(pattern):
        with fs.open(file.path) as opened:
            found += opened.read().decode().split()
    return found


def test_the_server_keeps_all_bytes(directory: str, gcs: GcsServer) -> None:
    """Line breaks of each kind, and what looks like the end of a part."""
    data = b"\r\n\r--==0==\n\x00\r" + bytes(range(256)) + b"\n--==0==--\r"
    fs = filesystem_for(directory)
    with fs.create(f"{directory}/bytes") as file:
        file.write(data)
    with fs.open(f"{directory}/bytes") as file:
        assert data == file.read()


def test_files_are_written_and_read_on_each_runner(
    directory: str, gcs: GcsServer, make_pipeline: Any, on_spark: Any
) -> None:
    """Although requests fail; nothing that was staged is left."""
    with gcs.faults(**FAULTS):
        with make_pipeline() as p:
            numbers = p | beam.Create(map(str, range(500)))
            _ = numbers | beam.io.WriteToText(f"{directory}/out", ".txt.gz", num_shards=3)
        with make_pipeline() as p:
            assert_that(p | beam.io.ReadFromText(f"{directory}/out*"), equal_to(list(map(str, range(500)))))
    assert 3 == len(filesystem_for(directory).match(f"{directory}/**"))


def test_a_stream_resumes_from_checkpoints_in_the_store(directory: str, gcs: GcsServer) -> None:
    """Each number is in the files once."""

    def run(end: int) -> None:
        options = PipelineOptions(checkpoint_dir=f"{directory}/kept", checkpoint_interval=0.2)
        with beam.Pipeline(options=options) as p:
            numbers = p | beam.io.GenerateSequence(0, end) | beam.Map(str)
            _ = numbers | beam.io.WriteToText(f"{directory}/out", ".txt")

    with gcs.faults(**FAULTS):
        run(300)
    assert list(range(300)) == sorted(map(int, lines_of(f"{directory}/out*")))
    assert filesystem_for(directory).match(f"{directory}/kept/**")


def test_a_store_that_stops_is_waited_for(directory: str, gcs: GcsServer) -> None:
    """While a stream writes."""
    options = PipelineOptions(checkpoint_dir=f"{directory}/kept", checkpoint_interval=0.2)
    p = beam.Pipeline(options=options)
    numbers = p | beam.io.GenerateSequence(0, elements_per_period=20, period=0.1) | beam.Map(str)
    _ = numbers | beam.io.WriteToText(f"{directory}/out", ".txt")
    result = p.run()
    wait_until(lambda: bool(lines_of(f"{directory}/out*")), "nothing was written")
    before = len(lines_of(f"{directory}/out*"))
    with gcs.stopped():
        time.sleep(float(os.environ.get("OUTAGE", "1")))
    wait_until(lambda: len(lines_of(f"{directory}/out*")) > before + 100, "the stream doesn't go on")
    result.drain()
    written = sorted(map(int, lines_of(f"{directory}/out*")))

    assert list(range(len(written))) == written


def test_a_long_wait_for_a_store_is_logged_once(
    directory: str, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And not by the client, each time that it gives up."""

    async def at_once(_: float) -> None:
        """Return."""

    # The client gives up after half a minute otherwise.
    monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=at_once))
    path = f"{directory}/words"
    fs = filesystem_for(path)
    with fs.create(path) as file:
        file.write(b"tea")
    found: list[bytes] = []

    def read() -> None:
        with fs.open(path) as opened:
            found.append(opened.read())

    reader = threading.Thread(target=read)
    with caplog.at_level(logging.INFO):
        with gcs.stopped():
            reader.start()
            wait_until(lambda: "doesn't answer" in caplog.text, "nothing is logged")
            time.sleep(3)
        reader.join(60)
    assert [b"tea"] == found
    logged = [each.getMessage() for each in caplog.records if each.name.startswith(("penstock", "gcsfs"))]
    waiting, over = logged
    assert waiting.startswith("object store: gs://lake doesn't answer (")
    assert over.startswith("object store: gs://lake answers again, after ")


@pytest.mark.parametrize("what", ["read", "write", "list"])
def test_a_store_that_keeps_connections_and_answers_nothing_is_logged_once(
    directory: str, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """While its client still waits for an answer."""
    monkeypatch.setattr("penstock.io.files.object_store._SILENT", 0.5)
    monkeypatch.setattr("penstock.io.files.object_store._SILENT_IN_MANY", 0.5)
    path = f"{directory}/words"
    fs = filesystem_for(path)
    with fs.create(path) as file:
        file.write(b"tea")
    found: list[Any] = []

    def use() -> None:
        if what == "list":
            found.append(fs.list_files(directory))
            return
        with fs.open(path) if what == "read" else fs.create(path) as file:
            found.append(file.read() if what == "read" else file.write(b"milk"))

    user = threading.Thread(target=use)
    with caplog.at_level(logging.INFO):
        with gcs.hanging():
            user.start()
            wait_until(lambda: "doesn't answer" in caplog.text, "nothing is logged")
        user.join(60)
    assert [{"read": b"tea", "write": 4, "list": ["words"]}[what]] == found
    waiting, over = (each.getMessage() for each in caplog.records if each.name.startswith("penstock"))
    assert waiting == "object store: gs://lake doesn't answer (no answer within 0.5 s); waiting for it"
    assert over.startswith("object store: gs://lake answers again, after ")


def test_a_connection_that_is_never_answered_is_made_again(
    directory: str, gcs: GcsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Within a minute."""
    monkeypatch.setattr("penstock.io.files.object_store._READ_TIMEOUT", 0.5)
    path = f"{directory}/words"
    with filesystem_for(path).create(path) as file:
        file.write(b"tea")
    found: list[bytes] = []

    def read() -> None:
        with filesystem_for(path).open(path) as opened:
            found.append(opened.read())

    reader = threading.Thread(target=read)
    with gcs.hanging(), caplog.at_level(logging.DEBUG, "gcsfs"):
        reader.start()
        wait_until(lambda: "retrying after exception: Timeout on reading" in caplog.text, "the client waits")
    reader.join(60)
    assert [b"tea"] == found


def test_a_missing_bucket_is_named(gcs: GcsServer) -> None:
    with (
        pytest.raises(SourceError, match="gs://nothing-here/words.*is there a bucket gs://nothing-here"),
        TestPipeline() as p,
    ):
        _ = p | beam.io.ReadFromText("gs://nothing-here/words*")


def test_a_missing_package_is_named_with_its_extra() -> None:
    program = """
import sys
sys.modules["gcsfs"] = None
import penstock as beam
try:
    beam.Pipeline() | beam.io.ReadFromText("gs://lake/words")
except beam.error.PenstockError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout

    assert "pip install 'penstock[gcs]'" in shown


def test_the_program_of_the_page_writes_numbers(gcs: GcsServer) -> None:
    (program,) = programs("docs/connectors/object_stores.md", __file__)
    exec(program, {})

    assert list(range(1000)) == sorted(map(int, lines_of("gs://lake/numbers*")))
