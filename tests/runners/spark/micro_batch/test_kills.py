"""Micro-batches on clusters whose processes are killed have the results of runs without failures.

`make spark_kills` kills drivers at every point of a commit, and many at random moments.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from kills.killed_drivers import drivers_killed
from kills.killing import KilledRun
from support.programs.spark_programs import environment

pytestmark = pytest.mark.spark

UNLUCKY = pathlib.Path(__file__).parents[3] / "kills" / "unlucky_micro_batches.py"


def test_a_driver_is_killed_with_its_jvm_and_workers(spark: object, tmp_path: pathlib.Path) -> None:
    """The driver dies after writing a state file, and is started again."""
    assert 1 == drivers_killed(tmp_path, "", kills=0, points=("after-state",))


def test_a_client_of_spark_connect_is_killed(spark_connect: str, tmp_path: pathlib.Path) -> None:
    """Before it commits a batch, which is then run again as planned."""
    points, where = ("before-manifest",), f"--spark_remote={spark_connect}"
    assert 1 == drivers_killed(tmp_path, "", kills=0, points=points, where=where)


def test_tasks_fail_are_repeated_and_lose_their_executor(standalone_cluster: str, tmp_path: pathlib.Path) -> None:
    """Each executor dies after writing its state: another attempt's output counts, and nothing of the first."""
    run = KilledRun(tmp_path, seconds=1.5)
    run.start_time -= 60
    settings = [
        "spark.executor.memory=512m",
        "spark.task.maxFailures=4",
        "spark.speculation=true",
        "spark.speculation.interval=50ms",
        "spark.speculation.quantile=0.5",
        "spark.speculation.multiplier=1.1",
    ]
    command = [
        sys.executable,
        str(UNLUCKY),
        f"--start_time={run.start_time}",
        f"--numbers={run.numbers}",
        f"--rate={run.rate}",
        f"--checkpoint_dir={tmp_path / 'kept'}",
        "--max_records_per_batch=200",
        f"--spark_master={standalone_cluster}",
        *(f"--spark_conf={setting}" for setting in settings),
    ]
    with open(tmp_path / "log", "wb") as log:
        subprocess.run(command, cwd=tmp_path, env=environment(), stdout=log, stderr=log, timeout=600, check=False)

    run.check_end()
    assert {"failed", "slow", "lost"} <= {path.name for path in tmp_path.iterdir()}
    assert list(tmp_path.glob("second-attempt-*"))
