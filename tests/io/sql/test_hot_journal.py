"""A reader of SQLite after a commit whose process was killed, as described in docs/exactly_once.md."""

from __future__ import annotations

import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

# So large a change that SQLite writes pages of it into the database before it commits.
WRITER = """
import sqlite3
connection = sqlite3.connect("out.db", isolation_level=None)
connection.execute("PRAGMA cache_size = 10")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE sums SET text = 'new' || text")
print("written", flush=True)
input()
"""


def count(directory: pathlib.Path, mode: str) -> list[tuple[int, int]]:
    """How many rows a reader sees, and how many of them are of the commit that failed."""
    connection = sqlite3.connect(f"file:{directory}/out.db?{mode}", uri=True)
    try:
        return connection.execute("SELECT COUNT(*), SUM(text LIKE 'new%') FROM sums").fetchall()
    finally:
        connection.close()


def test_a_reader_that_may_write_rolls_a_hot_journal_back_and_one_that_may_not_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """With `immutable=1` it would see what was never committed."""
    connection = sqlite3.connect(tmp_path / "out.db")
    connection.execute("CREATE TABLE sums (n INTEGER PRIMARY KEY, text)")
    connection.executemany("INSERT INTO sums VALUES (?, ?)", [(n, "x" * 500) for n in range(2000)])
    connection.commit()
    connection.close()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with writer:
        assert writer.stdout is not None
        assert "written\n" == writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    assert (tmp_path / "out.db-journal").exists()

    with pytest.raises(sqlite3.OperationalError, match="attempt to write a readonly database"):
        count(tmp_path, "mode=ro")
    [(_, uncommitted)] = count(tmp_path, "immutable=1")
    assert uncommitted > 0
    assert [(2000, 0)] == count(tmp_path, "mode=rw")
    assert not (tmp_path / "out.db-journal").exists()
    assert [(2000, 0)] == count(tmp_path, "mode=ro")
