"""Executors that come and go with dynamic allocation, and die in each phase: the sums are those of plain Python."""

from __future__ import annotations

import pathlib
import sqlite3
import sys

import pytest
from deployments.lost_executors import PHASES, expected
from deployments.programs import run

pytestmark = pytest.mark.spark

PROGRAM = pathlib.Path(__file__).with_name("lost_executors.py")

# Executors end when they have been idle for a second, and start when a task waits.
DYNAMIC_ALLOCATION = {
    "dynamicAllocation.enabled": "true",
    "dynamicAllocation.shuffleTracking.enabled": "true",
    "dynamicAllocation.shuffleTracking.timeout": "1s",
    "dynamicAllocation.executorIdleTimeout": "1s",
    "dynamicAllocation.cachedExecutorIdleTimeout": "1s",
    "dynamicAllocation.schedulerBacklogTimeout": "1s",
    "dynamicAllocation.minExecutors": "0",
    "dynamicAllocation.maxExecutors": "2",
    "executor.cores": "1",
    "executor.memory": "512m",
    "ui.enabled": "false",
}

NUMBERS = 40_000


@pytest.mark.parametrize("runner", ["spark-batch", "spark-microbatch"])
def test_executors_die_in_each_phase_and_come_and_go(
    runner: str, standalone_cluster: str, tmp_path: pathlib.Path
) -> None:
    """Each sum is in the table once, with its last value."""
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    flags = [f"--numbers={NUMBERS}", f"--directory={tmp_path}"]
    flags += [f"--runner={runner}", f"--spark_master={standalone_cluster}"]
    if runner == "spark-microbatch":
        flags.append(f"--checkpoint_dir={tmp_path / 'kept'}")
    flags += [f"--spark_conf=spark.{key}={value}" for key, value in DYNAMIC_ALLOCATION.items()]
    run([sys.executable, "program.py", *flags], tmp_path)

    connection = sqlite3.connect(tmp_path / "out.db")
    rows = connection.execute('SELECT "key", part, "sum" FROM sums ORDER BY 1, 2').fetchall()
    connection.close()
    assert list(expected(NUMBERS)) == rows
    assert sorted(PHASES) == sorted(file.name for file in (tmp_path / "deaths").iterdir())
    # One for each that died in a phase, and another at the end.
    assert len(list((tmp_path / "executors").iterdir())) > len(PHASES) - 1
