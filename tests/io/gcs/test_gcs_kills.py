"""A stream whose files and checkpoints are in Google Cloud Storage, which stops; its processes are killed.

`KILLS=20 pytest tests/io/gcs/test_gcs_kills.py` does so more often, and `SEED` chooses the moments.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

from kills.killed_program import KilledProgram
from servers.gcs_server import GcsServer

from penstock.io.files.filesystem import filesystem_for

PROGRAM = Path(__file__).with_name("killed_numbers.py")
KILLS = int(os.environ.get("KILLS", "1"))


def numbers_of(pattern: str) -> list[int]:
    """The lines of all files."""
    fs = filesystem_for(pattern)
    found: list[int] = []
    for file in fs.match(pattern):
        with fs.open(file.path) as opened:
            found += map(int, opened.read().split())
    return found


def test_each_number_is_written_once(gcs: GcsServer, directory: str, tmp_path: Path) -> None:
    """None is lost, and none is there twice, at any look."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    program = KilledProgram(tmp_path)
    outages = 0

    def goes_on(before: int) -> bool:
        found = sorted(numbers_of(f"{directory}/out*"))
        assert len(set(found)) == len(found)
        return len(found) > before

    def start() -> None:
        program.launch(PROGRAM, directory, environment={**os.environ, **gcs.environment})

    try:
        start()
        for number in range(KILLS):
            written = len(numbers_of(f"{directory}/out*"))
            assert program.wait_for(lambda written=written: goes_on(written)), program.log
            time.sleep(choose.uniform(0, 1))
            if number % 2:
                with gcs.stopped():
                    time.sleep(choose.uniform(0.5, 2))
                outages += 1
            else:
                program.kill_all()
                start()
        (tmp_path / "drain").touch()
        assert 0 == program.ended(), program.log
    finally:
        program.clean_up()
    found = sorted(numbers_of(f"{directory}/out*"))
    assert list(range(len(found))) == found
    assert KILLS == program.kills + outages
