"""A stream from table to table whose processes are killed again and again: each row once.

`KILLS=20 pytest tests/io/lakehouse/test_kills.py` kills more often, and `SEED` chooses the moments.  With
`RUNNER=spark-microbatch` it kills drivers of micro-batches with their JVM and workers.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from kills.killed_program import KilledProgram
from support.io.lakehouse_tables import WORDS, table_of
from support.programs.polling import watched
from support.programs.spark_programs import environment

PROGRAM = Path(__file__).with_name("killed_copy.py")
KILLS = int(os.environ.get("KILLS", "1"))
RUNNER = os.environ.get("RUNNER", "local")

# The rows that are added before each kill.
EACH = 100

# The seconds between two looks of a reader, which take time from the program.
PAUSE = 0.2

# The words, of which each n has one by its remainder.
COUNT = "SELECT word, count(*) AS n FROM lake GROUP BY ALL ORDER BY ALL"


class KilledCopy(KilledProgram):
    """The program, and the tables that it copies from and to."""

    def __init__(self, directory: Path, format: str, key: str) -> None:
        super().__init__(directory)
        self._options = (format, str(directory), f"--runner={RUNNER}", *([f"--key={key}"] if key else []))
        self.source = table_of(format, directory, "in")
        self.target = table_of(format, directory, "out")

    def start(self) -> None:
        """Start the program, or start it again."""
        self.launch(PROGRAM, *self._options, environment=environment())

    def kill(self, worker_of: random.Random | None) -> None:
        """Kill one of the worker processes; or all processes of the program, and start it again."""
        if worker_of is not None and RUNNER == "local":
            self.kill_worker(worker_of)
        else:
            self.kill_all()
            self.start()


# Each format appends and changes rows, if there is time for it.
CASES = [("delta", ""), ("iceberg", "word"), ("delta", "word"), ("iceberg", "")][: None if "KILLS" in os.environ else 2]


@pytest.mark.parametrize(("format", "key"), CASES)
def test_each_row_is_written_once(format: str, key: str, tmp_path: Path) -> None:
    """And a reader, at any time, sees none twice, none disappear, and none that wasn't there.

    With a key, rows are deleted and changed as well, and the table follows.
    """
    choose = random.Random(int(os.environ.get("SEED", "1")))
    copy = KilledCopy(tmp_path, format, key)
    written = 0

    def add() -> None:
        nonlocal written
        numbers = range(written, written + EACH)
        written += EACH
        copy.source.append({"word": [str(n % 3) for n in numbers], "n": list(numbers)})
        if key:
            copy.source.delete(f"n < {written - EACH} and n >= {written - EACH - choose.randrange(50)}")
            copy.source.upsert({"word": ["moved"], "n": [choose.randrange(written - EACH, written)]}, "n")

    def is_copied(count: int) -> bool:
        if key:
            return copy.target.exists() and copy.source.rows(COUNT) == copy.target.rows()
        return len(copy.target.values()) >= count

    seen = 0

    def is_wrong(rows: list[tuple[str, int]]) -> bool:
        nonlocal seen
        before, seen = seen, len(rows)
        distinct = {word for word, _ in rows} if key else set(rows)
        possible = all(0 < n <= written for _, n in rows) if key else len(rows) >= before
        return len(distinct) < len(rows) or not possible

    try:
        add()
        if key:
            # The class of its elements isn't declared.
            copy.target.create(WORDS)
        copy.start()
        with watched(lambda: copy.target.rows() if copy.target.exists() else None, is_wrong, pause=PAUSE) as watch:
            for number in range(KILLS):
                # All that was there before, and a part of what comes now.
                assert copy.wait_for(lambda before=written: is_copied(before)), copy.log
                add()
                time.sleep(choose.uniform(0, 0.5))
                copy.kill(choose if number % 2 else None)
            add()
            assert copy.wait_for(lambda: is_copied(written)), copy.log
            if not key:
                (tmp_path / "drain").touch()
                assert 0 == copy.ended(), copy.log
    finally:
        copy.clean_up()

    assert [] == watch.wrong
    assert watch.looks
    if key:
        assert copy.source.rows(COUNT) == copy.target.rows()
    else:
        assert [(str(n % 3), n) for n in range(written)] == copy.target.rows("SELECT * FROM lake ORDER BY n")
    assert KILLS == copy.kills
