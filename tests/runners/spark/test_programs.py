"""Whole programs: on a cluster, and interrupted."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.programs.spark_programs import run_program, start_program

from penstock.sdk.errors import UserCodeError

pytestmark = pytest.mark.spark


def lines(directory: Path, pattern: str) -> list[str]:
    """Return the sorted lines of all files that match."""
    return sorted(line for path in directory.glob(pattern) for line in path.read_text().splitlines())


def test_a_script_with_a_module_beside_it_is_submitted_to_a_cluster(standalone_cluster: str, tmp_path: Path) -> None:
    """With spark-submit; the workers have neither the module nor the script.

    There are shuffles, side inputs, two sinks, metrics, and instances of a user's class as keys and values.
    """
    output = tmp_path / "output"
    output.mkdir()
    flags = [f"--output={output / 'words'}", "--runner=spark-batch"]
    run_program(tmp_path, "count_words.py", *flags, submit=["--master", standalone_cluster])
    assert ["and 50", "bird 25", "birds 25 *", "cat 50", "cats 25", "dog 50", "no 25"] == lines(output, "words-counts*")
    assert ["2 no", "3 and,cat,dog", "4 bird,cats", "5 birds"] == lines(output, "words-lengths*")
    assert {"seen": 375} == json.loads((output / "words-metrics.json").read_text())
    assert [] == list(output.glob(".*"))


@pytest.fixture(scope="module")
def failures(standalone_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of a run of `failing_tasks.py`."""
    directory = tmp_path_factory.mktemp("failures")
    run_program(directory, "failing_tasks.py", f"--directory={directory}", f"--master={standalone_cluster}")
    return directory


@pytest.mark.parametrize("how", ["raises", "exits"])
def test_a_task_that_is_tried_again_leaves_no_trace(failures: Path, how: str) -> None:
    """Every line is written and counted once, although it was processed twice."""
    assert 2 == len(list((failures / how).glob("attempt-*")))
    assert sorted(f"{key} {value}" for key in range(8) for value in range(50)) == lines(failures / how, "lines*")
    assert [f"{key} 50" for key in range(8)] == lines(failures / how, "counts*")
    assert {"values": 400} == json.loads((failures / f"{how}.json").read_text())
    assert [] == list((failures / how).glob(".*"))


def test_a_run_that_fails_leaves_nothing(failures: Path) -> None:
    """No file and no staging directory, neither when `run` raises nor when other tasks have ended."""
    report: dict[str, Any] = json.loads((failures / "for good.json").read_text())
    assert 4 == len(list((failures / "for good").glob("attempt-*")))
    assert ([], []) == (report["left"], report["left later"])


def test_an_error_in_a_worker_is_raised_unchanged(failures: Path) -> None:
    """The error has its class, the transform, the element and the user's line, and the user's frames as its cause."""
    report: dict[str, Any] = json.loads((failures / "for good.json").read_text())
    assert {"ConnectionResetError", UserCodeError.__name__} <= set(report["kinds"])
    assert report["error"].startswith(
        "ConnectionResetError: it can't be reached [while running 'ParDo(Fail)' on element (3, ["
    )
    assert "failing_tasks.py:" in report["error"]
    assert "in process" in report["cause"]
    assert 'raise ConnectionResetError("it can\'t be reached")' in report["cause"]
    assert "penstock/" not in report["cause"]
    assert "pyspark" not in report["cause"]


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    """Its jobs are cancelled, its tasks have ended, and the session can still be used."""
    pytest.importorskip("pyspark")
    program = start_program(tmp_path, "interrupted.py", str(tmp_path))
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("begun-*"))) < 2 and program.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    # A terminal sends it to all processes of the group.
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=120)
    assert 0 == program.returncode, errors
    report = json.loads((tmp_path / "report.json").read_text())
    assert {"active": 0, "left": [], "left later": [], "next": ["3"]} == report
