"""A stream into a table, whose processes are killed while the server stops now and then: each row once.

`KILLS=20 pytest tests/io/bigquery/test_bigquery_kills.py` does so more often, and `SEED` chooses the moments.  With
`RUNNER=spark-microbatch` it kills drivers of micro-batches with their JVM and workers.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from kills.killed_program import KilledProgram
from servers.bigquery_server import DATASET, BigQueryServer
from support.programs.spark_programs import environment

PROGRAM = Path(__file__).with_name("killed_numbers.py")
KILLS = int(os.environ.get("KILLS", "1"))
RUNNER = os.environ.get("RUNNER", "local")


@pytest.mark.parametrize("method", ["STORAGE_WRITE_API", "FILE_LOADS"])
def test_each_number_is_written_once(bigquery: BigQueryServer, name: str, method: str, tmp_path: Path) -> None:
    """None is lost, and none is there twice, at any look."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    program = KilledProgram(tmp_path)
    outages = 0

    def numbers() -> list[int]:
        found = sorted(row["n"] for row in bigquery.rows(name))
        assert len(set(found)) == len(found)
        return found

    def start() -> None:
        arguments = f"{DATASET}.{name}", method, RUNNER
        program.launch(PROGRAM, *arguments, environment={**environment(), **bigquery.environment})

    try:
        start()
        for number in range(KILLS):
            written = len(numbers())
            assert program.wait_for(lambda written=written: len(numbers()) > written), program.log
            time.sleep(choose.uniform(0, 1))
            if number % 3 == 1:
                with bigquery.stopped():
                    time.sleep(choose.uniform(0.5, 2))
                outages += 1
            elif number % 3 == 2 and RUNNER == "local":
                program.kill_worker(choose)
            else:
                program.kill_all()
                start()
        written = len(numbers())
        assert program.wait_for(lambda: len(numbers()) > written), program.log
        (tmp_path / "drain").touch()
        assert 0 == program.ended(), program.log
    finally:
        program.clean_up()
    found = numbers()
    assert list(range(len(found))) == found
    assert KILLS == program.kills + outages
