"""A stream whose tables and checkpoints are in a store with the API of S3, which stops; its processes are killed.

`KILLS=20 pytest tests/io/s3/test_s3_kills.py` does so more often, and `SEED` chooses the moments.  With
`FORMAT=iceberg` the tables are of Iceberg instead of Delta Lake.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from kills.killed_program import KilledProgram
from kills.sessions import kill_session
from lakehouse_tables import table_of
from servers.s3_server import S3Server

PROGRAM = Path(__file__).parents[1] / "lakehouse" / "killed_copy.py"
KILLS = int(os.environ.get("KILLS", "2"))
FORMAT = os.environ.get("FORMAT", "delta")

# The rows that are added before each kill.
EACH = 50


def test_each_row_is_written_once(s3: S3Server, directory: str, tmp_path: Path) -> None:
    """And none is lost with the store's answers."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    copy = KilledProgram(tmp_path)
    catalog = str(tmp_path / "catalog.db")
    source, target = (table_of(FORMAT, directory, name, catalog) for name in ("in", "out"))
    written = 0

    def start() -> None:
        arguments = (FORMAT, directory, "", f"{directory}/kept", catalog)
        copy.launch(PROGRAM, *arguments, environment=os.environ | s3.environment)

    def add() -> None:
        nonlocal written
        numbers = range(written, written + EACH)
        source.append({"word": [str(n % 3) for n in numbers], "n": list(numbers)})
        written += EACH

    def is_copied() -> bool:
        time.sleep(0.1)
        return len(target.values()) >= written

    try:
        add()
        start()
        for number in range(KILLS):
            assert copy.wait_for(is_copied), copy.log
            add()
            time.sleep(choose.uniform(0, 1))
            if number % 2:
                with s3.stopped():
                    time.sleep(choose.uniform(0.5, 2))
            else:
                kill_session(copy.process.pid)
                copy.process.wait()
                start()
        add()
        with s3.faults(throttled=0.01, failed=0.01, lost=0.02):
            assert copy.wait_for(is_copied), copy.log
    finally:
        copy.clean_up()
    assert list(range(written)) == target.values()
