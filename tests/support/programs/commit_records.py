"""The commits of the examples' data, read without penstock; and the CSV files that examples write."""

from __future__ import annotations

import csv
import glob
import gzip
from datetime import UTC, datetime

from penstock.examples.commits import COMMITS


def commits() -> list[dict[str, str]]:
    """Return all commits in the order of the file."""
    with gzip.open(COMMITS, "rt", newline="") as file:
        return list(csv.DictReader(file))


def month(commit: dict[str, str]) -> str:
    """Return the month of a commit, such as "2024-02"."""
    return f"{datetime.fromtimestamp(int(commit['event_time']), UTC):%Y-%m}"


def written_records(pattern: str) -> list[tuple[str, ...]]:
    """Return the records of all files that match, in order."""
    records: list[tuple[str, ...]] = []
    for path in glob.glob(pattern):
        with open(path, newline="") as file:
            records.extend(tuple(row) for row in list(csv.reader(file))[1:])
    return sorted(records)
