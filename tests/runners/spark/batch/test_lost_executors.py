"""A batch on a real cluster that loses an executor while a stage runs has the results of one without.

`make executor_kills` loses many, and more than executors.
"""

from __future__ import annotations

import pathlib

import pytest
from kills.killed_executors import SETTINGS, LossyRun
from servers.spark_connect import running_connect_server

pytestmark = pytest.mark.spark

SIZE = 5_000

# Tasks begin when both executors are there, so that each has some of the first stage's output.
BOTH = SETTINGS | {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


def test_ids_are_the_same_in_two_sinks_if_an_executor_dies_between_them(
    standalone_cluster: str, tmp_path: pathlib.Path
) -> None:
    """The ids are random, and the blocks that the executor has kept for the second sink are computed again."""
    run = LossyRun(tmp_path / "run", "ids", SIZE, [(13, "executor")], BOTH)
    run.run([f"--spark_master={standalone_cluster}"])

    assert ["13-executor"] == run.losses
    assert 1 <= run.repetitions


def test_a_reshuffle_neither_loses_nor_doubles_elements_if_an_executor_dies_behind_it(
    standalone_cluster: str, tmp_path: pathlib.Path
) -> None:
    """Half of the tasks behind it have read the first attempts.  They are deterministic, so nothing runs again."""
    run = LossyRun(tmp_path / "run", "reshuffled", SIZE, [(13, "executor")], BOTH)
    run.run([f"--spark_master={standalone_cluster}"])

    assert ["13-executor"] == run.losses
    assert 0 == run.repetitions


def test_ids_are_the_same_in_two_sinks_over_spark_connect(standalone_cluster: str, tmp_path: pathlib.Path) -> None:
    """The server is a driver of the cluster."""
    options = [part for name, value in BOTH.items() for part in ("--conf", f"{name}={value}")]
    run = LossyRun(tmp_path / "run", "ids", SIZE, [(13, "executor")], {})
    with running_connect_server(tmp_path, *options, master=standalone_cluster) as url:
        run.run([f"--spark_remote={url}"])

    assert ["13-executor"] == run.losses
    assert 1 <= run.repetitions
