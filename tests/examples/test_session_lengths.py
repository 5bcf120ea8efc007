"""Session lengths, played as a stream and read as a whole, against a loop over each author's sorted commits."""

from __future__ import annotations

import csv
import pathlib
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy
from servers.postgresql import PostgreSQL
from support.programs.commit_records import commits

from penstock.examples import session_lengths

HOUR = 60 * 60
# A Friday noon.
NOON = 1_441_368_000


@pytest.fixture
def database_url(postgresql: PostgreSQL) -> str:
    """The URL of a database without tables."""
    with sqlalchemy.create_engine(postgresql.url).begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE IF EXISTS session_lengths, corrections"))
    return postgresql.url


def of_every(number: int) -> list[dict[str, str]]:
    """The commits of each tenth author, or so, in the order of arrival."""
    found = commits()
    chosen = set(sorted({commit["author"] for commit in found})[::number])
    return [commit for commit in found if commit["author"] in chosen]


def file_of(chosen: list[dict[str, str]], path: pathlib.Path) -> pathlib.Path:
    """A file with commits."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, chosen[0])
        writer.writeheader()
        writer.writerows(chosen)
    return path


@pytest.fixture(scope="module")
def tenth(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A file with the commits of every tenth author."""
    return file_of(of_every(10), tmp_path_factory.mktemp("commits") / "tenth.csv")


def expected_lengths(gap: int = HOUR, of: list[dict[str, str]] | None = None) -> list[tuple[int, int]]:
    """How many sessions there are of each length class, by hand."""
    times = defaultdict(list)
    for commit in of or commits():
        times[commit["author"]].append(int(commit["event_time"]))
    seconds = []
    for of_author in times.values():
        of_author.sort()
        cuts = [i for i in range(1, len(of_author)) if of_author[i] - of_author[i - 1] >= gap]
        for first, last in zip([0, *cuts], [*cuts, len(of_author)], strict=True):
            seconds.append(of_author[last - 1] - of_author[first])
    classes = [0, *(2**n for n in range(20))]
    return sorted(Counter(max(c for c in classes if c <= length // 60) for length in seconds).items())


def rows(path: pathlib.Path | str, table: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return sorted(database.execute(f"SELECT * FROM {table}").fetchall())


def written(path: pathlib.Path, arrivals: list[tuple[str, int, int]]) -> pathlib.Path:
    """A file of commits: author, and minutes after noon at which each was made and arrived."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arrival_time", "event_time", "repository", "author", "parents"])
        for author, made, arrived in arrivals:
            writer.writerow([NOON + 60 * arrived, NOON + 60 * made, "r", author, 1])
    return path


def rows_of_url(url: str, table: str) -> list[tuple[Any, ...]]:
    with sqlalchemy.create_engine(url).connect() as connection:
        return sorted(tuple(row) for row in connection.execute(sqlalchemy.text(f"SELECT * FROM {table}")))


@pytest.mark.parametrize(
    ("runner_name", "database"),
    [("local", "sqlite"), ("local", "postgresql"), ("spark-batch", "sqlite"), ("spark-microbatch", "postgresql")],
)
def test_one_file_gives_one_table_under_three_flags(
    runner_name: str, database: str, tenth: pathlib.Path, request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> None:
    """Every tenth author's commits: those of three years at once where the runner plays them; else all of them.

    Where they are played, sessions and rows of the table are corrected.
    """
    if runner_name != "local":
        request.getfixturevalue("spark")
    output = str(tmp_path / "lengths.db")
    if database == "postgresql":
        output = request.getfixturevalue("database_url")

    session_lengths.run(
        [f"--input={tenth}", f"--output={output}", f"--runner={runner_name}", f"--together_days={3 * 365}"]
    )

    read = rows_of_url if database == "postgresql" else rows
    assert expected_lengths(of=of_every(10)) == read(output, "session_lengths")
    assert (runner_name == "spark-batch") == (read(output, "corrections") == [])


def test_commits_that_are_played_one_by_one_are_corrected_hundreds_of_times(
    tenth: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """In the order of their arrival, and at its time."""
    path = tmp_path / "lengths.db"

    session_lengths.run([f"--output={path}", f"--input={tenth}"])

    assert expected_lengths(of=of_every(10)) == rows(path, "session_lengths")
    assert len(rows(path, "corrections")) > 500


def test_commits_read_as_a_whole_need_no_corrections(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the runner that could play them too; and `--gap_minutes` is heeded."""
    path = tmp_path / "lengths.db"

    session_lengths.show(session_lengths.run([f"--output={path}", "--arrivals=complete", "--gap_minutes=120"]))

    assert expected_lengths(2 * HOUR) == rows(path, "session_lengths")
    assert [] == rows(path, "corrections")
    assert "Nothing was corrected." in capsys.readouterr().out


def test_one_commit_in_eleven_comes_behind_the_watermark() -> None:
    """The lateness that the example plays is that of the data."""
    behind = [int(c["arrival_time"]) - int(c["event_time"]) > HOUR for c in commits()]

    assert 11 == round(len(behind) / sum(behind))


def test_what_is_corrected_and_when_is_shown(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Retractions, late results and the rows that were corrected, each on its day.

    Ann's session is said to last 0 minutes, then 20, then, the next day, 75.  Another session, of a commit that arrives
    a day after its time, is late from the first.  A year later a commit joins the two.  The table is brought up to date
    when the first commit after a midnight arrives, and at the end.
    """
    day, year = 24 * 60, 366 * 24 * 60
    file = written(
        tmp_path / "commits.csv",
        [
            ("ann", 0, 0),
            ("ann", 20, 20),
            ("ann", 75, 75),
            ("bob", day, day),
            ("ann", 150, 150 + day),
            ("bob", 3 * day, 3 * day),
            ("ann", 100, year),
            ("bob", year + 2 * day, year + 2 * day),
        ],
    )
    path = tmp_path / "lengths.db"

    session_lengths.show(session_lengths.run([f"--input={file}", f"--output={path}"]))

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = [["2015", "2", "1", "1"], ["2016", "2", "1", "3"], ["all", "4", "2", "4"]]
    assert expected == [line for line in lines if line and line[0] in ("2015", "2016", "all")]
    assert [(0, 3), (128, 1)] == rows(path, "session_lengths")
    assert [
        ("2015-09-04", "sessions retracted", 1),
        ("2015-09-05", "late results", 1),
        ("2015-09-05", "sessions retracted", 1),
        ("2015-09-07", "rows corrected", 1),
        ("2016-09-04", "late results", 1),
        ("2016-09-04", "sessions retracted", 2),
        ("2016-09-06", "rows corrected", 3),
    ] == rows(path, "corrections")
