"""The cluster that other tests rely on runs jobs, and leaves nothing behind."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from servers.spark_standalone import Daemon

JOB = """
import os, sys
from pyspark.sql import SparkSession

session = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.executor.memory", "512m")
    .getOrCreate()
)
interpreters = session.sparkContext.parallelize(range(100), 4).map(lambda n: (sys.executable, n)).collect()
assert {interpreter for interpreter, _ in interpreters} == {sys.executable}
print("sum", sum(n for _, n in interpreters))
session.stop()
"""


def test_a_job_runs_on_the_cluster_with_this_interpreter(standalone_cluster: str, tmp_path: pathlib.Path) -> None:
    """The workers start the Python that runs the tests, and their results come back."""
    ran = subprocess.run(
        [sys.executable, "-c", JOB, standalone_cluster],
        cwd=tmp_path,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "sum 4950"


def test_a_daemon_that_does_not_start_is_an_error_showing_its_log(
    standalone_cluster: str, tmp_path: pathlib.Path
) -> None:
    """Waiting ends when the process does, not when the time is up."""
    daemon = Daemon("nothing", ["org.example.NoSuchClass"], tmp_path)
    try:
        with pytest.raises(RuntimeError, match="NoSuchClass"):
            daemon.wait_for("never printed")
    finally:
        daemon.stop()
