"""All examples with one, two and four workers: the same output."""

from __future__ import annotations

import csv
import pathlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from penstock.examples import coauthors, commits, session_lengths, top_words_per_letter, wordcount

WORDS = ("to", "be", "or", "not", "that", "is", "the", "question", "whether", "nobler", "in", "mind", "suffer")


@pytest.fixture
def text(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of words."""
    path = tmp_path / "words.txt"
    path.write_text("\n".join(" ".join(WORDS[i % 7 :: 1 + i % 3]) for i in range(500)))
    return path


@pytest.fixture
def made(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of commits, in the order of arrival."""
    path = tmp_path / "commits.csv"
    noon = 1_441_368_000
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arrival_time", "event_time", "repository", "author", "parents"])
        for i in range(400):
            at = noon + i * 40_000
            writer.writerow([at + i % 5, at - i % 3 * 1000, f"r{i % 3}", f"author-{i * 7 % 11}", 1 + i % 2])
    return path


def lines(directory: pathlib.Path) -> list[str]:
    """Return the lines of all files, without the headers of tables."""
    found: list[str] = []
    for path in directory.iterdir():
        found += path.read_text().splitlines()[path.suffix == ".csv" :]
    return sorted(found)


@pytest.mark.parametrize(
    ("run", "of_text"),
    [(wordcount.run, True), (top_words_per_letter.run, True), (coauthors.run, False), (commits.run, False)],
    ids=["wordcount", "top words", "coauthors", "commits"],
)
def test_an_example_writes_the_same_lines_with_any_number_of_workers(
    run: Callable[[list[str]], Any], of_text: bool, text: pathlib.Path, made: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Lines of whole numbers, in files of any number."""
    written = []
    for workers in (1, 2, 4):
        output = tmp_path / str(workers)
        output.mkdir()
        run([f"--input={text if of_text else made}", f"--output={output}/out", f"--parallelism={workers}"])
        written.append(lines(output))
    assert written[0]
    assert [written[0]] * 3 == written


def test_the_example_of_corrected_sessions_writes_the_same_table_with_any_number_of_workers(
    made: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It is played as a stream."""
    tables = []
    for workers in (1, 2, 4):
        output = tmp_path / f"{workers}.db"
        session_lengths.run(
            [f"--input={made}", f"--output={output}", "--together_days=3650", f"--parallelism={workers}"]
        )
        with closing(sqlite3.connect(output)) as database:
            tables.append(sorted(database.execute("SELECT * FROM session_lengths")))
    assert tables[0]
    assert [tables[0]] * 3 == tables
