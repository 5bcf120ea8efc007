"""Spilled entries: they are there until they are taken, in the order of their times, and nowhere afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs.running_program import wait_until

from penstock.runners.execution.spilling.rocksdb import EVENT_TIME, SpillDatabase, SpilledEntries
from penstock.sdk.errors import MissingExtraError

IDS = st.binary(min_size=1, max_size=3)
TIME = st.none() | st.integers(-5, 5)
ENTRY = st.tuples(IDS, st.tuples(TIME, TIME, TIME), st.binary(max_size=5))
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(ENTRY, max_size=5, unique_by=lambda entry: entry[0])),
    st.tuples(st.just("take"), st.lists(IDS, max_size=3, unique=True)),
    st.tuples(st.just("due"), st.tuples(st.integers(0, 2), st.integers(-6, 6), st.integers(0, 3))),
)


@given(st.lists(STEP, max_size=25))
@settings(max_examples=150, deadline=None)
def test_entries_are_as_in_a_dictionary_that_is_sorted_by_time(database: SpillDatabase, steps: list[Any]) -> None:
    """After any sequence of insertions, removals by id and removals by time."""
    entries = SpilledEntries(database, 0)
    try:
        _check(entries, steps)
    finally:
        entries.take([id for id, _ in entries.all()])


def _check(entries: SpilledEntries, steps: list[Any]) -> None:
    known: dict[bytes, tuple[Any, bytes]] = {}
    for what, of in steps:
        if what == "put":
            new = [entry for entry in of if entry[0] not in known]
            entries.put(new)
            known.update((id, (times, data)) for id, times, data in new)
        elif what == "take":
            assert [known.pop(id, (None, None))[1] for id in of] == entries.take(of)
        else:
            order, until, most = of
            due = sorted((times[order], id) for id, (times, _) in known.items() if times[order] is not None)
            due = [(time, id) for time, id in due if time <= until][:most]
            assert [(id, known.pop(id)[1]) for _, id in due] == entries.due(order, until, most)
        for order in range(3):
            least = min((t[order] for t, _ in known.values() if t[order] is not None), default=None)
            assert least == entries.least(order)
    assert len(known) == len(entries)
    assert [(id, data) for id, (_, data) in sorted(known.items())] == list(entries.all())
    view = entries.by_group()
    # What changes afterwards isn't seen.
    entries.take(list(known))
    assert [(id, known[id][1]) for id in sorted(known)] == [entry for _, own in view for entry in own]
    entries.put((id, *entry) for id, entry in known.items())


def test_operators_do_not_see_each_others_entries(database: SpillDatabase) -> None:
    """They share a database."""
    one, other = SpilledEntries(database, 1), SpilledEntries(database, 2)
    one.put([(b"a", (1, None, None), b"one")])
    other.put([(b"a", (2, None, None), b"other")])
    assert [[(b"a", b"one")], [(b"a", b"other")]] == [list(one.all()), list(other.all())]
    assert [b"one"] == one.take([b"a"])
    assert (None, 2) == (one.least(0), other.least(0))
    other.take([b"a"])


def test_other_users_may_not_enter_the_directory_and_it_is_removed_with_the_database(tmp_path: Path) -> None:
    """The database contains pickles."""
    database = SpillDatabase(str(tmp_path))
    assert [] == list(tmp_path.iterdir())
    SpilledEntries(database, 0).put([(b"a", (None, None, None), b"data")])
    (directory,) = tmp_path.iterdir()
    assert 0o700 == S_IMODE(directory.stat().st_mode)
    database.close()
    database.close()
    assert [] == list(tmp_path.iterdir())


def test_databases_have_one_shell_that_removes_them(tmp_path: Path) -> None:
    """It ends with the last one."""
    program = """
import os, sys
from penstock.runners.execution.spilling.rocksdb import SpilledEntries, SpillDatabase
children = lambda: open("/proc/self/task/%d/children" % os.getpid()).read().split()
databases = [SpillDatabase(sys.argv[1]) for _ in range(3)]
for database in databases:
    SpilledEntries(database, 0).put([(b"a", (None, None, None), b"data")])
for database in databases:
    print(len(children()), len(os.listdir(sys.argv[1])))
    database.close()
print(len(children()), len(os.listdir(sys.argv[1])))
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert "1 3\n1 2\n1 1\n0 0\n" == ended.stdout, ended.stderr


LEAVING = {
    "without a word": "os._exit(0)",
    "killed": "os.kill(os.getpid(), 9)",
    "as usual": "",
}


@pytest.mark.parametrize("way", LEAVING)
def test_the_directory_goes_with_the_process_however_that_ends(tmp_path: Path, way: str) -> None:
    """As workers of Spark do: they are told to leave by the end of a socket, or are killed."""
    program = f"""
import os, sys
from penstock.runners.execution.spilling.rocksdb import SpilledEntries, SpillDatabase
databases = [SpillDatabase(sys.argv[1]), SpillDatabase(sys.argv[1])]
for database in databases:
    SpilledEntries(database, 0).put([(b"a", (None, None, None), b"data")])
print(len(os.listdir(sys.argv[1])), flush=True)
{LEAVING[way]}
"""
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert "2\n" == ended.stdout, ended.stderr
    wait_until(lambda: os.listdir(tmp_path) == [], "the directory is gone")


def test_without_rocksdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not when memory runs out."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'rocksdict': pip install 'penstock\[rocksdb\]'"):
        SpillDatabase()


def test_entries_are_removed_by_the_beginnings_of_their_ids(database: SpillDatabase) -> None:
    """Their times mean nothing then, and later entries have theirs."""
    entries = SpilledEntries(database, 3)
    entries.put([(bytes([group, 255]) + id, (5, None, None), id) for group in (1, 255) for id in (b"a", b"\xff")])
    entries.put([(b"\x02b", (7, None, None), b"kept")])
    entries.remove([b"\x01\xff", b"\xff\xff"], 4)
    assert [(b"\x02b", b"kept")] == list(entries.all())
    assert [(b"\x02b", b"kept")] == entries.due(EVENT_TIME, 10, 10) + entries.due(EVENT_TIME, 10, 10)
    assert ([], None) == (entries.due(EVENT_TIME, 10, 10), entries.least(EVENT_TIME))
    entries.put([(b"\x02c", (3, None, None), b"other")])
    entries.remove([b"\x02c"], 1)
    assert ([], None) == (entries.due(EVENT_TIME, 10, 10), entries.least(EVENT_TIME))
    entries.put([(b"\x02d", (9, None, None), b"last")])
    assert [(b"\x02d", b"last")] == entries.due(EVENT_TIME, 10, 10)
    assert [] == list(database.rocksdb.keys(from_key=bytes([3]))), "times of entries that are gone"
