"""A killed driver leaves staged output, which the next run of the program removes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest
from support.programs.running_program import wait_until
from support.programs.spark_programs import environment

pytestmark = pytest.mark.spark

PROGRAM = """
import pathlib
import sys
import time

import penstock as beam

directory = pathlib.Path(sys.argv[1])


def slowly(n):
    while n == 900 and (directory / "slow").exists():
        time.sleep(0.1)
    return n


with beam.Pipeline(argv=sys.argv[2:]) as p:
    numbers = p | beam.Create(range(1000)) | beam.Map(slowly)
    numbers | beam.Map(str) | beam.io.WriteToText(str(directory / "out"))
    numbers | beam.Map(lambda n: {"n": n}) | beam.io.WriteToSQLite(str(directory / "out.db"), "numbers", ["n"], ["n"])
"""


def staged(directory: pathlib.Path) -> list[str]:
    """Return the names of staging directories and tables."""
    found = [path.name for path in directory.glob(".out.penstock-*")]
    if (directory / "out.db").exists():
        with contextlib.closing(sqlite3.connect(directory / "out.db")) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%penstock_staged%'")
            found += [name for (name,) in tables]
    return found


def test_the_next_run_removes_what_a_killed_driver_has_staged(tmp_path: pathlib.Path) -> None:
    """Directories and tables, while the run itself stages under other names."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, str(script), str(tmp_path), "--runner=spark-batch", "--spark_master=local[2]"]
    own = environment(XDG_STATE_HOME=str(tmp_path / "state"))
    (tmp_path / "slow").touch()
    with open(tmp_path / "log", "wb") as log:
        killed = subprocess.Popen(command, env=own, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: len(staged(tmp_path)) >= 2, "both sinks have staged")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
    left = staged(tmp_path)
    assert 2 <= len(left)

    (tmp_path / "slow").unlink()
    ran = subprocess.run(command, env=own, capture_output=True, text=True, timeout=300, check=False)

    assert ran.returncode == 0, ran.stderr
    assert [] == staged(tmp_path)
    assert sorted(map(str, range(1000))) == sorted(
        line for file in tmp_path.glob("out-*") for line in file.read_text().splitlines()
    )
    assert [] == [file.name for file in (tmp_path / "state" / "penstock" / "runs").iterdir()]
