"""What a killed run has staged is removed by a later one, and nothing of a run that lives."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.runners.segments import spark_plan

import penstock as beam
from penstock.runners.execution.plan.fusion import Plan
from penstock.runners.execution.sinks.run_records import RunRecord, remove_abandoned

HOLDER = """
import pathlib, sys
from penstock.runners.execution.sinks.run_records import RunRecord

record = RunRecord({"Write": "the table"}, pathlib.Path(sys.argv[1]))
record.write(["theirs"])
print("begun", flush=True)
sys.stdin.read()
"""


class NotedSink(beam.io.Sink):
    """Notes the transactions that are aborted; an abort fails while `fails` is true."""

    def __init__(self) -> None:
        self.aborted: list[str] = []
        self.fails = False
        self.table: str | None = None

    def target(self) -> str | None:
        return self.table

    def prepare(self, context: beam.io.SinkContext) -> None:
        pass

    def open_writer(self, context: beam.io.SinkContext) -> Any:
        raise NotImplementedError

    def commit(self, context: beam.io.SinkContext, staged: Any) -> None:
        pass

    def abort(self, context: beam.io.SinkContext) -> None:
        if self.fails:
            raise ConnectionError("no answer")
        self.aborted.append(context.transaction)


@pytest.fixture
def sink() -> NotedSink:
    return NotedSink()


@pytest.fixture
def plan(sink: NotedSink) -> Plan:
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | "Write" >> beam.io.Write(sink)
    return spark_plan(p)


@contextmanager
def another_run(directory: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    """A process with an open transaction."""
    arguments = [sys.executable, "-c", HOLDER, str(directory)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_the_transaction_of_a_killed_process_is_aborted(plan: Plan, sink: NotedSink, tmp_path: pathlib.Path) -> None:
    """By the next run that has its sink."""
    with another_run(tmp_path) as process:
        kill(process)
    remove_abandoned(plan, tmp_path)

    assert ["theirs"] == sink.aborted


def test_the_transaction_of_a_living_process_is_not_touched(
    plan: Plan, sink: NotedSink, tmp_path: pathlib.Path
) -> None:
    """Until that process is gone."""
    with another_run(tmp_path) as process:
        remove_abandoned(plan, tmp_path)
        assert [] == sink.aborted
        kill(process)
        remove_abandoned(plan, tmp_path)
        assert ["theirs"] == sink.aborted


def test_a_record_stays_until_its_own_program_has_aborted_the_transaction(
    plan: Plan, sink: NotedSink, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program may have other sinks, and a sink may not answer."""
    with another_run(tmp_path) as process:
        kill(process)
    remove_abandoned(plan, tmp_path)
    assert 1 == len(list(tmp_path.glob("*.json")))

    monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path)])
    sink.fails = True
    remove_abandoned(plan, tmp_path)
    assert 1 == len(list(tmp_path.glob("*.json")))

    sink.fails = False
    remove_abandoned(plan, tmp_path)
    assert [] == list(tmp_path.iterdir())
    assert ["theirs", "theirs"] == sink.aborted


def test_a_pipeline_with_other_sinks_leaves_a_record_alone(sink: NotedSink, tmp_path: pathlib.Path) -> None:
    """A sink of a user may take every transaction for its own."""
    with another_run(tmp_path) as process:
        kill(process)
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | "Write elsewhere" >> beam.io.Write(sink)
    remove_abandoned(spark_plan(p), tmp_path)

    assert [] == sink.aborted
    assert 1 == len(list(tmp_path.glob("*.json")))


@pytest.mark.parametrize(("table", "aborted"), [("the table", ["theirs"]), (None, ["theirs"]), ("another", [])])
def test_a_sink_with_another_target_leaves_a_record_alone(
    plan: Plan, sink: NotedSink, tmp_path: pathlib.Path, table: str | None, aborted: list[str]
) -> None:
    """Else each run would ask an object store for what each killed one with the same labels has staged elsewhere."""
    with another_run(tmp_path) as process:
        kill(process)
    sink.table = table
    remove_abandoned(plan, tmp_path)

    assert aborted == sink.aborted


def test_a_run_that_has_ended_leaves_no_record(tmp_path: pathlib.Path) -> None:
    """Its record is there, and locked, before."""
    record = RunRecord({}, tmp_path)
    record.write([])
    assert [] == list(tmp_path.iterdir())
    record.write(["ours"])
    assert [f"{os.getpid()}-ours.json"] == [file.name for file in tmp_path.iterdir()]
    record.remove()
    record.write(["ours"])
    assert [] == list(tmp_path.iterdir())


def test_a_directory_that_cant_be_written_to_is_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on."""
    (tmp_path / "file").touch()
    RunRecord({}, tmp_path / "file").write(["ours"])
    assert "Name a directory by XDG_STATE_HOME" in caplog.text
