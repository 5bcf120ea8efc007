"""A stream whose tables and checkpoints are in a store with the API of S3, which stops; its processes are killed.

`KILLS=20 pytest tests/io/s3/test_s3_kills.py` does so more often, and `SEED` chooses the moments.  With
`FORMAT=iceberg` the tables are of Iceberg instead of Delta Lake, with `RUNNER=spark-microbatch` the runner is another.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path

from kills.killed_program import KilledProgram
from servers.s3_server import S3Server
from support.io.lakehouse_tables import table_of
from support.programs.polling import watched
from support.programs.spark_programs import environment

from penstock.io.files.filesystem import filesystem_for

PROGRAM = Path(__file__).parents[1] / "lakehouse" / "killed_copy.py"
KILLS = int(os.environ.get("KILLS", "1"))
FORMAT = os.environ.get("FORMAT", "delta")
RUNNER = os.environ.get("RUNNER", "local")

# The seconds between two looks of a reader.
PAUSE = 0.3

# The rows that are added before each kill.
EACH = 50


class Files:
    """Files of a pattern, as a reader sees them now; each of them is read once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._read: dict[str, list[int]] = {}

    def numbers(self) -> list[int] | None:
        """The lines of all files; None if there is none."""
        fs = filesystem_for(self._pattern)
        paths = [file.path for file in fs.match(self._pattern)]
        for path in paths:
            if path not in self._read:
                with fs.open(path) as opened:
                    self._read[path] = [int(line) for line in opened.read().split()]
        return [number for path in paths for number in self._read[path]] or None


def test_each_row_is_written_once(s3: S3Server, directory: str, tmp_path: Path) -> None:
    """Into a table, and into files; none is lost with the store's answers, and no reader ever sees one twice."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    copy = KilledProgram(tmp_path)
    catalog = str(tmp_path / "catalog.db")
    source, target = (table_of(FORMAT, directory, name, catalog) for name in ("in", "out"))
    files = f"{directory}/text/out"
    text, looked = Files(f"{files}*"), Files(f"{files}*")
    written = outages = 0

    def start() -> None:
        options = (f"--checkpoints={directory}/kept", f"--catalog={catalog}", f"--files={files}", f"--runner={RUNNER}")
        copy.launch(PROGRAM, FORMAT, directory, *options, environment=environment(**s3.environment))

    def add() -> None:
        nonlocal written
        numbers = range(written, written + EACH)
        written += EACH
        source.append({"word": [str(n % 3) for n in numbers], "n": list(numbers)})

    def is_copied() -> bool:
        return len(target.values()) >= written and len(text.numbers() or ()) >= written

    seen: dict[str, int] = {}

    def is_wrong(of: str, numbers: list[int]) -> bool:
        """Return whether there is a number twice, or fewer than before, or one that wasn't written."""
        before, seen[of] = seen.get(of, 0), len(numbers)
        return not before <= len(set(numbers)) == len(numbers) or not set(numbers) <= set(range(written))

    try:
        add()
        start()
        # The client of Delta doesn't tell a store that is stopped from another error.
        stopped = (Exception,)
        with (
            watched(lambda: target.values() or None, partial(is_wrong, "table"), stopped, PAUSE) as of_table,
            watched(looked.numbers, partial(is_wrong, "files"), stopped, PAUSE) as of_files,
        ):
            for number in range(KILLS):
                assert copy.wait_for(is_copied), copy.log
                add()
                time.sleep(choose.uniform(0, 1))
                if number % 2:
                    with s3.stopped():
                        time.sleep(choose.uniform(0.5, 2))
                    outages += 1
                else:
                    copy.kill_all()
                    start()
            add()
            with s3.faults(throttled=0.01, failed=0.01, lost=0.02):
                assert copy.wait_for(is_copied), copy.log
    finally:
        copy.clean_up()
    assert ([], []) == (of_table.wrong, of_files.wrong)
    assert of_table.looks
    assert of_files.looks
    assert list(range(written)) == target.values() == sorted(text.numbers() or ())
    assert KILLS == copy.kills + outages
