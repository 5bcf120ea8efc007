"""Commits: windows in event time.

The same commits are grouped twice, by two notions of what belongs together in time:

- Calendar months, which are as long as months are: the commits of each repository.
- Sessions, which are as long as the work lasted: a session of an author goes on until two
  hours pass without a commit.  Each author has sessions of their own, whose bounds are
  not known in advance.

What counts is the time at which a commit was made, whenever and in whatever order the
pipeline gets to see it.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from typing import Any

import penstock as beam
from penstock.windowing import CalendarMonths, IntervalWindow, Sessions

COMMITS = pathlib.Path(__file__).parent / "data" / "commits.csv.gz"
HOUR = 60 * 60


class ReadCommits(beam.PTransform):
    """The records of a CSV file of commits, each at the time at which it was made."""

    def __init__(self, path: str | pathlib.Path) -> None:
        super().__init__()
        self.path = path

    def expand(self, p: Any) -> Any:
        return (
            p
            | beam.io.ReadFromCsv(self.path, converters={"event_time": int, "parents": int})
            | beam.WithTimestamps(lambda commit: commit["event_time"])
        )


class CommitsPerMonth(beam.PTransform):
    """The number of commits of each repository in each month."""

    def expand(self, commits: Any) -> Any:
        return (
            commits
            | beam.WindowInto(CalendarMonths())
            | "Repository" >> beam.Map(lambda commit: commit["repository"])
            | beam.combiners.Count.PerElement()
            | "WithMonth" >> beam.MapTuple(self.with_month)
        )

    @staticmethod
    def with_month(repository: str, commits: int, window: IntervalWindow = beam.DoFn.WindowParam) -> beam.Row:
        """A result, and the month that it is the result of."""
        return beam.Row(repository=repository, month=f"{window.start.to_utc_datetime():%Y-%m}", commits=commits)


class WorkSessions(beam.PTransform):
    """The sessions of each author: when they began, how long they lasted and how many commits they had.

    Args:
      gap: seconds without a commit that end a session.
    """

    def __init__(self, gap: float) -> None:
        super().__init__()
        self.gap = gap

    def expand(self, commits: Any) -> Any:
        return (
            commits
            | beam.WindowInto(Sessions(self.gap))
            | "Author" >> beam.Map(lambda commit: commit["author"])
            | beam.combiners.Count.PerElement()
            | "WithLength" >> beam.MapTuple(self.with_length)
        )

    def with_length(self, author: str, commits: int, window: IntervalWindow = beam.DoFn.WindowParam) -> beam.Row:
        """A result, and the session that it is the result of."""
        # A session's window ends a gap after the last commit.
        seconds = round(float(window.end - window.start) - self.gap)
        return beam.Row(author=author, start=window.start.to_rfc3339(), seconds=seconds, commits=commits)


def run(argv: Sequence[str] | None = None) -> str:
    """Group the commits; a pattern for the files that hold the results."""
    parser = argparse.ArgumentParser(description="Commits by month, and by session.", allow_abbrev=False)
    parser.add_argument("--input", default=COMMITS, help="The commits: a CSV file, or several as a pattern.")
    parser.add_argument("--output", default="commits", help="What the names of the results begin with.")
    parser.add_argument("--gap_hours", type=float, default=2, help="Hours without a commit that end a session.")
    ours, for_the_pipeline = parser.parse_known_args(argv)

    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        commits = p | "Read" >> ReadCommits(ours.input)
        months = commits | "Months" >> CommitsPerMonth()
        months | "WriteMonths" >> beam.io.WriteToCsv(f"{ours.output}-per-month", file_name_suffix=".csv")
        sessions = commits | "Sessions" >> WorkSessions(ours.gap_hours * HOUR)
        sessions | "WriteSessions" >> beam.io.WriteToCsv(f"{ours.output}-sessions", file_name_suffix=".csv")
    return f"{ours.output}-*.csv"


if __name__ == "__main__":
    print("Written:", run())
