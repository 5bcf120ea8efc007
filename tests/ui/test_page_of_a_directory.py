"""`penstock ui DIR`: the page of a job that has ended, and of one in another process."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.programs.running_program import wait_until
from support.runners.micro_batches import RunnerInThisProcess
from support.runners.running_pages import ask, document, post, retracting_sums, running

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore


class Served:
    """The page of a directory, for `document` and `post`."""

    def __init__(self, url: str, token: str) -> None:
        self.ui_url, self.ui_token = url, token


@contextmanager
def served(directory: pathlib.Path) -> Iterator[Served]:
    """Run the command."""
    command = [sys.executable, "-m", "penstock", "ui", str(directory), "--port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url, token = process.stderr.readline(), process.stderr.readline()
        try:
            yield Served(url.split()[-1], token.split()[-1])
        finally:
            process.terminate()


def test_a_finished_job_is_shown_from_its_log(tmp_path: pathlib.Path) -> None:
    """Graph, last status, checkpoints, the error that ended it, and the timeline."""
    kept = str(tmp_path / "kept")

    def fail(n: int) -> int:
        if n == 120:
            raise ValueError("a hundred and twenty")
        return n

    options = PipelineOptions(checkpoint_dir=kept, checkpoint_interval=0.1, max_restarts=1, restart_delay=0)
    p = beam.Pipeline(options=options)
    _ = p | "Read" >> beam.io.GenerateSequence(0, None, 200, 1) | "Fail" >> beam.Map(fail)
    with pytest.raises(ValueError, match="a hundred and twenty"):
        p.run().wait_until_finish()

    with served(tmp_path / "kept") as page:
        wait_until(lambda: document(page, "run")["state"] == "FAILED", "the state")
        assert ["Read/Read(SequenceSource)", "Fail"] == [t["label"] for t in document(page, "graph")["transforms"]]
        errors = document(page, "errors")
        assert [False, True] == [each["is_final"] for each in errors["errors"]]
        assert {("Fail", "120")} == {(each["transform"], each["element"]) for each in errors["errors"]}
        assert ["started", "restart", "failed", "ended"] == [each["kind"] for each in errors["timeline"]]
        assert document(page, "checkpoints")["checkpoints"]
        assert document(page, "status")["read"]["Fail"] >= 0
        assert 401 == ask(page.ui_url, "/api/requests/cancel", "POST", b"{}").status
        assert 409 == post(page, "/api/profiles").status
        assert "restart" not in document(page, "run")["requests"]


def test_a_job_in_another_process_is_followed_and_takes_requests(tmp_path: pathlib.Path) -> None:
    """Through its directory."""
    with running(tmp_path, retracting_sums) as result, served(tmp_path / "kept") as page:
        before = len(document(page, "checkpoints")["checkpoints"])
        wait_until(lambda: len(document(page, "checkpoints")["checkpoints"]) > before, "a new checkpoint")
        answer = post(page, "/api/requests/savepoint").json
        assert answer["is_done"], answer
        assert re.match(r"savepoint of epoch \d+", answer["text"])
        assert "RUNNING" == result.state


def shows_batches(page: Served, run_state: str) -> None:
    """Expect the graph, the counts, the batches with their parts, and no requests."""
    assert (run_state, []) == (document(page, "run")["state"], document(page, "run")["requests"])
    assert "Sum" in [t["label"] for t in document(page, "graph")["transforms"]]
    wait_until(lambda: document(page, "status").get("read", {}).get("Out", 0) > 0, "counts")
    status = document(page, "status")
    assert (2, {2}) == (len(status["subtasks"]), {len(own) for own in status["subtasks"]})
    assert any(size > 0 for size in status["state_size"].values())
    assert {"backlogs", "hot_keys", "kept", "overdue", "traffic"} == set(status["unmeasured"])
    (*_, last) = document(page, "checkpoints")["checkpoints"]
    assert ("batch", 4) == (last["checkpoint"], len(last["parts"]))
    assert 409 == post(page, "/api/requests/drain").status
    assert 409 == post(page, "/api/profiles").status


def test_a_finished_run_of_micro_batches_is_shown_from_its_log(tmp_path: pathlib.Path) -> None:
    """Its batches are the checkpoints."""
    kept = str(tmp_path / "kept")
    runner: Any = RunnerInThisProcess(store=SnapshotStore(disk_of(kept), kept))
    p = beam.Pipeline(runner=runner, options=PipelineOptions(checkpoint_dir=kept))
    retracting_sums(p, 200, 600)
    p.run()

    with served(tmp_path / "kept") as page:
        wait_until(lambda: document(page, "run")["state"] == "DONE", "the end")
        shows_batches(page, "DONE")
        assert ["started", "ended"] == [each["kind"] for each in document(page, "errors")["timeline"]]


@pytest.mark.spark
def test_micro_batches_on_spark_are_followed_from_another_process(spark: Any, tmp_path: pathlib.Path) -> None:
    """While they run, and to their end."""
    flags = {"checkpoint_dir": str(tmp_path / "kept"), "spark_shuffle_partitions": 2}
    p = beam.Pipeline(runner="spark-microbatch", options=PipelineOptions(**flags))
    retracting_sums(p)
    result: Any = p.run()
    try:
        wait_until((tmp_path / "kept" / "events.jsonl").exists, "the log")
        with served(tmp_path / "kept") as page:
            wait_until(lambda: len(document(page, "checkpoints")["checkpoints"]) > 2, "batches")
            shows_batches(page, "RUNNING")
            assert "DRAINED" == result.drain()
            wait_until(lambda: document(page, "run")["state"] == "DRAINED", "the end")
    finally:
        if result.state == "RUNNING":
            result.cancel()


def test_a_directory_without_a_log_is_an_error(tmp_path: pathlib.Path) -> None:
    """That says what was expected."""
    command = [sys.executable, "-m", "penstock", "ui", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    expected = f"{tmp_path}: no run has logged its events there; expected the --checkpoint_dir of a run"
    assert (1, f"PenstockError: {expected}\n") == (ran.returncode, ran.stderr)
