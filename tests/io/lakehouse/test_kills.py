"""A stream from table to table whose processes are killed again and again: each row once.

`KILLS=20 pytest tests/io/lakehouse/test_kills.py` kills more often, and `SEED` chooses the moments.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from kills.killed_program import KilledProgram
from kills.sessions import kill_session, session_of
from lakehouse_tables import WORDS, LakeTable, table_of

PROGRAM = Path(__file__).with_name("killed_copy.py")
KILLS = int(os.environ.get("KILLS", "2"))

# The rows that are added before each kill.
EACH = 100


class KilledCopy(KilledProgram):
    """The program, and the tables that it copies from and to."""

    def __init__(self, directory: Path, format: str, key: str) -> None:
        super().__init__(directory)
        self._options = (format, str(directory), key)
        self.source = table_of(format, directory, "in")
        self.target = table_of(format, directory, "out")

    def start(self) -> None:
        """Start the program, or start it again."""
        self.launch(PROGRAM, *self._options)

    def kill(self, worker_of: random.Random | None) -> None:
        """Kill one of the worker processes; or all processes of the program, and start it again."""
        if worker_of is not None:
            workers = [pid for pid in session_of(self.process.pid) if pid != self.process.pid]
            if workers:
                os.kill(worker_of.choice(workers), signal.SIGKILL)
                self.kills += 1
            return
        kill_session(self.process.pid)
        self.process.wait()
        self.kills += 1
        self.start()


def counts(numbers: range) -> list[tuple[str, int]]:
    """How many of the numbers there are of each remainder."""
    return [(str(rest), sum(n % 3 == rest for n in numbers)) for rest in range(3)]


def look(table: LakeTable, key: str, wrong: list[object], is_over: threading.Event) -> None:
    """Read the table again and again; note what no reader may see."""
    seen = 0
    while not is_over.wait(0.05):
        if not table.exists():
            continue
        rows = table.rows()
        distinct = {row[0] if key else row for row in rows}
        total = sum(n for _, n in rows) if key else len(rows)
        # Neither a row twice, nor fewer than before.
        if len(distinct) < len(rows) or total < seen:
            wrong.append((seen, rows))
        seen = total


# Each format appends and changes rows, if there is time for it.
CASES = [("delta", ""), ("iceberg", "word"), ("delta", "word"), ("iceberg", "")][: None if "KILLS" in os.environ else 2]


@pytest.mark.parametrize(("format", "key"), CASES)
def test_each_row_is_written_once(format: str, key: str, tmp_path: Path) -> None:
    """And a reader, at any time, sees none twice, and none disappear."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    copy = KilledCopy(tmp_path, format, key)
    wrong: list[object] = []
    is_over = threading.Event()
    looking = threading.Thread(target=look, args=(copy.target, key, wrong, is_over))
    written = 0

    def add() -> None:
        nonlocal written
        numbers = range(written, written + EACH)
        copy.source.append({"word": [str(n % 3) for n in numbers], "n": list(numbers)})
        written += EACH

    def is_copied(count: int) -> bool:
        if key:
            return copy.target.exists() and counts(range(count)) == copy.target.rows()
        return len(copy.target.values()) >= count

    try:
        add()
        if key:
            # The class of its elements isn't declared.
            copy.target.create(WORDS)
        copy.start()
        looking.start()
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
        is_over.set()
        looking.join()
        copy.clean_up()

    assert [] == wrong
    expected = counts(range(written)) if key else [(str(n % 3), n) for n in range(written)]
    assert expected == copy.target.rows(
        "SELECT word, n FROM lake ORDER BY ALL" if key else "SELECT * FROM lake ORDER BY n"
    )
    assert copy.kills
