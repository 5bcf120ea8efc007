"""Commits by month and by session, against loops over the sorted records."""

from __future__ import annotations

import csv
import pathlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from support.programs.commit_records import commits as all_commits
from support.programs.commit_records import month, written_records

from penstock.examples import commits


def sessions(times: list[int], gap: int) -> Iterator[list[int]]:
    """The times, cut where at least a gap passes between two of them."""
    session: list[int] = []
    for time in sorted(times):
        if session and time - session[-1] >= gap:
            yield session
            session = []
        session.append(time)
    yield session


def expected_sessions(gap: int) -> list[tuple[str, ...]]:
    times = defaultdict(list)
    for commit in all_commits():
        times[commit["author"]].append(int(commit["event_time"]))
    return sorted(
        (
            author,
            f"{datetime.fromtimestamp(session[0], UTC):%Y-%m-%dT%H:%M:%SZ}",
            str(session[-1] - session[0]),
            str(len(session)),
        )
        for author, of_author in times.items()
        for session in sessions(of_author, gap)
    )


def test_commits_are_counted_by_repository_and_month_and_by_session(runner_name: str, tmp_path: pathlib.Path) -> None:
    """All 74,826 of them."""
    of_month = Counter((commit["repository"], month(commit)) for commit in all_commits())

    commits.run([f"--output={tmp_path}/out", f"--runner={runner_name}"])

    expected = sorted((repository, when, str(n)) for (repository, when), n in of_month.items())
    assert expected == written_records(f"{tmp_path}/out-per-month-*.csv")
    assert expected_sessions(2 * 60 * 60) == written_records(f"{tmp_path}/out-sessions-*.csv")


def test_a_longer_gap_makes_fewer_and_longer_sessions(tmp_path: pathlib.Path) -> None:
    """`--gap_hours` is heeded."""
    commits.run([f"--output={tmp_path}/out", "--gap_hours=24"])

    assert expected_sessions(24 * 60 * 60) == written_records(f"{tmp_path}/out-sessions-*.csv")


@pytest.mark.parametrize(("pause", "expected"), [(7199, [("ann", "7199", "2")]), (7200, [("ann", "0", "1")] * 2)])
def test_a_pause_of_exactly_the_gap_ends_a_session(
    pause: int, expected: list[tuple[str, ...]], tmp_path: pathlib.Path
) -> None:
    """The gap belongs to neither session, as in Beam."""
    with open(tmp_path / "in.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["event_time", "repository", "author", "parents"])
        writer.writerows([[1_000_000 + pause, "r", "ann", 1], [1_000_000, "r", "ann", 1]])

    commits.run([f"--input={tmp_path}/in.csv", f"--output={tmp_path}/out"])

    found = written_records(f"{tmp_path}/out-sessions-*.csv")
    assert expected == [(author, seconds, n) for author, _, seconds, n in found]
