"""The log of events beside the checkpoints."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from penstock.runners.execution.checkpoints.storage import LocalDisk, disk_of
from penstock.runners.execution.page import event_log
from penstock.runners.execution.page.event_log import EventLog, Events, read_events


def logged(directory: Any) -> list[Any]:
    """Return the numbers of the logged events."""
    return [event["number"] for event in read_events(disk_of(str(directory)), str(directory))]


def events_of(directory: Any) -> Events:
    """Return events that are logged there."""
    events = Events(EventLog(disk_of(str(directory)), str(directory)))
    events.open_log()
    return events


def test_events_are_logged_once_the_run_owns_the_directory(tmp_path: pathlib.Path) -> None:
    """Those from before are logged then."""
    events = Events(EventLog(LocalDisk(), str(tmp_path)))
    events.add("restart", number=1)
    assert [] == logged(tmp_path)
    events.open_log()
    events.add("restart", number=2)
    assert [1, 2] == logged(tmp_path)


def test_a_run_that_has_lost_the_directory_logs_nothing_more(tmp_path: pathlib.Path) -> None:
    """The next owner writes there."""
    first, second = events_of(tmp_path), events_of(tmp_path)
    first.add("restart", number=1)
    first.close_log()
    second.add("restart", number=2)
    first.add("restart", number=3)
    assert [1, 2] == logged(tmp_path)


def test_a_later_run_continues_the_log_after_a_torn_line(tmp_path: pathlib.Path) -> None:
    """Of a run that was killed while it wrote."""
    events_of(tmp_path).add("restart", number=1)
    with open(tmp_path / "events.jsonl", "a") as file:
        file.write('{"kind":"restart","number":')
    assert [1] == logged(tmp_path)
    events_of(tmp_path).add("restart", number=2)
    assert [1, 2] == logged(tmp_path)


def test_a_long_log_is_followed_by_another(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before is kept."""
    monkeypatch.setattr(event_log, "_LONGEST", 200)
    events = events_of(tmp_path)
    for number in range(20):
        events.add("restart", number=number)
    found = logged(tmp_path)
    assert 19 == found[-1]
    assert list(range(found[0], 20)) == found
    assert (tmp_path / "events-old.jsonl").stat().st_size < 300


def test_where_files_are_written_whole_the_end_is_written_at_once() -> None:
    """And the events in between seldom."""
    directory = "memory://events-of-a-bucket"
    events = events_of(directory)
    for number in range(3):
        events.add("restart", number=number)
    assert [0] == logged(directory)
    events.add("ended", number=3)
    assert [0, 1, 2, 3] == logged(directory)


def test_a_disk_that_fails_is_logged_once_and_never_touches_the_run(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page still has the events."""

    class Full(LocalDisk):
        def write_soon(self, path: str, place: int, content: bytes) -> None:
            raise OSError(28, "No space left on device")

    events = Events(EventLog(Full(), str(tmp_path)))
    events.keep(True)
    events.open_log()
    events.add("restart", number=1)
    events.add("restart", number=2)
    assert [1, 2] == [event["number"] for event in events.taken()]
    assert 1 == caplog.text.count("events can't be logged there")


def test_without_a_page_no_events_are_kept(tmp_path: pathlib.Path) -> None:
    """A job may run for months."""
    events = events_of(tmp_path)
    events.add("restart", number=1)
    assert [] == events.taken()
    events.keep(True)
    events.add("restart", number=2)
    events.keep(False)
    assert [] == events.taken()
    assert [1, 2] == logged(tmp_path)
