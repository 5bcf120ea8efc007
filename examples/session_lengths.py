"""Session lengths: results that are put out early, and corrected when more comes.

A session of an author goes on until an hour passes without a commit.  Sessions are classed by
how long they lasted, and a table says how many there are of each class.  Two groupings, one
after the other: when a commit comes that makes a session longer, or makes one of two, the
sessions that were put out before are *retracted*.  Each is then taken out of the class in
which it was counted, and the table's row is corrected.

The same pipeline gets the commits in one of two ways:

- As a stream: one by one, in the order and at the time at which they reached the repository.
  A commit that was made on a branch may get there years later.  The watermark is a guess,
  that what was made more than an hour ago has come; one commit in eleven proves it wrong.
  The clock moves when a commit arrives, and what is due by then happens then.
  Where each event costs a micro-batch, a quarter's commits are played at once instead.
- As a whole: the file is read, and there is nothing to correct.

What the table holds at the end is the same.  (Dataflow Model, section 2.3.)
"""

from __future__ import annotations

import argparse
import csv
import gzip
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

import penstock as beam
from penstock.examples.commits import COMMITS, ReadCommits
from penstock.examples.demo import print_plain
from penstock.sdk.runner import Capability, Runner, create_runner
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.testing import TestStream
from penstock.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    PaneInfoTiming,
    Repeatedly,
)

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# Longer than any commit was on its way, so that each is counted.
TEN_YEARS = 3652 * DAY


class PlayCommits(beam.PTransform):
    """The records of a CSV file of commits, each arriving when it did.

    Args:
      path: the file, in the order of arrival.
      behind: how many seconds the watermark is behind the clock.
      together: in rounds of how many seconds what arrives is played at once, when the first of it has come.
    """

    def __init__(self, path: str | pathlib.Path, behind: float, together: int = 1) -> None:
        super().__init__()
        self.path = path
        self.behind = behind
        self.together = together

    def expand(self, p: Any) -> Any:
        stream, clock = TestStream(), 0
        for _, round in groupby(read(self.path), key=lambda commit: commit["arrival_time"] // self.together):
            commits = list(round)
            arrival = commits[0]["arrival_time"]
            stream.advance_processing_time(arrival - clock)
            stream.advance_watermark_to(arrival - self.behind)
            stream.add_elements([beam.window.TimestampedValue(commit, commit["event_time"]) for commit in commits])
            clock = arrival
        return p | stream


def read(path: str | pathlib.Path) -> Iterator[dict[str, Any]]:
    """The records of a file, compressed or not."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", newline="") as file:
        for commit in csv.DictReader(file):
            yield {**commit, "arrival_time": int(commit["arrival_time"]), "event_time": int(commit["event_time"])}


class Lengths(beam.PTransform):
    """The length class of each author's sessions: said early, said again on time, and whenever a late commit comes.

    Args:
      gap: seconds without a commit that end a session.
    """

    def __init__(self, gap: float) -> None:
        super().__init__()
        self.gap = gap

    def expand(self, commits: Any) -> Any:
        return (
            commits
            | beam.WindowInto(
                beam.window.Sessions(self.gap),
                trigger=AfterWatermark(early=AfterProcessingTime(align_to=10 * MINUTE), late=AfterCount(1)),
                accumulation_mode=AccumulationMode.RETRACTING,
                allowed_lateness=TEN_YEARS,
            )
            | "Author" >> beam.Map(lambda commit: commit["author"])
            | beam.combiners.Count.PerElement()
            | "LengthClass" >> beam.MapTuple(self.length_class)
        )

    def length_class(self, author: str, commits: int, window: Any = beam.DoFn.WindowParam) -> int:
        """The power of two that the session's minutes reach: 0, 1, 2, 4, 8, ..."""
        # A session's window ends a gap after the last commit.
        minutes = int(float(window.end - window.start) - self.gap) // MINUTE
        return 1 << minutes.bit_length() >> 1


class SessionsPerClass(beam.PTransform):
    """How many sessions each length class has, brought up to date once a day."""

    def expand(self, classes: Any) -> Any:
        return (
            classes
            | beam.WindowInto(
                beam.window.GlobalWindows(),
                trigger=Repeatedly(AfterProcessingTime(align_to=DAY)),
                accumulation_mode=AccumulationMode.RETRACTING,
            )
            | beam.combiners.Count.PerElement()
        )


# What is counted: see `Corrections`.
SESSIONS, LATE, ROWS = "sessions retracted", "late results", "rows corrected"


def changes_of_sessions(
    _length: int, sign: int = beam.DoFn.SignParam, pane: Any = beam.DoFn.PaneInfoParam
) -> Iterator[str]:
    """Emit a change for each retracted length, and for each late one."""
    if sign < 0:
        yield SESSIONS
    elif pane.timing is PaneInfoTiming.LATE:
        yield LATE


def changes_of_rows(_row: tuple[int, int], sign: int = beam.DoFn.SignParam) -> Iterator[str]:
    """Emit a change for each retracted row."""
    if sign < 0:
        yield ROWS


class Corrections(beam.PTransform):
    """Count the changes of each day of processing time, as Rows of `day`, `what` and `times`.

    Goes from several PCollections, whose elements describe changes, to one.
    """

    def expand(self, pcolls: Any) -> Any:
        return (
            pcolls
            | beam.Flatten()
            | beam.WithKeys(lambda what: what)
            | "OnWhichDay" >> beam.ParDo(OnWhichDay())
            | beam.combiners.Count.PerElement()
            | "Row" >> beam.MapTuple(lambda happened, n: beam.Row(day=happened[1], what=happened[0], times=n))
        )


class OnWhichDay(beam.DoFn):
    """The key of each element, with the day on which it comes."""

    # A DoFn isn't told what time it is; but a timer that is due at once says what it was set to.
    NOW = TimerSpec("now", beam.TimeDomain.REAL_TIME)

    def process(self, _element: Any, now: Any = beam.DoFn.TimerParam(NOW)) -> None:
        now.set_relative(0)

    @on_timer(NOW)
    def at_once(self, what: str = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Emit the change with the current day."""
        yield what, f"{time.to_utc_datetime():%Y-%m-%d}"


# One result for all time, when the input is complete.
AT_THE_END: dict[str, Any] = {
    "windowfn": beam.window.GlobalWindows(),
    "trigger": DefaultTrigger(),
    "accumulation_mode": AccumulationMode.RETRACTING,
}


def runner_of(options: beam.options.PipelineOptions) -> Runner:
    """The runner that the flag names."""
    return create_runner(options.view_as(beam.options.StandardOptions).runner or "local")


def table(output: str, name: str, key: str | list[str], columns: dict[str, type]) -> beam.PTransform:
    """Return the transform that writes to a table of an SQLite file, or of the database of a URL."""
    if "://" in output:
        return beam.io.WriteToSQL(output, name, key, columns)
    return beam.io.WriteToSQLite(output, name, key, columns)


def run(argv: Sequence[str] | None = None) -> str:
    """Count the sessions of each length; the database that holds the results."""
    parser = argparse.ArgumentParser(description="Commits in sessions, by length.", allow_abbrev=False)
    parser.add_argument("--input", default=COMMITS, help="The commits: a CSV file, in the order of arrival.")
    parser.add_argument(
        "--output", default="session-lengths.db", help="Where the results go: an SQLite file, or a database's URL."
    )
    parser.add_argument("--gap_minutes", type=float, default=60, help="Minutes without a commit that end a session.")
    parser.add_argument("--behind_minutes", type=float, default=60, help="How far the watermark is behind the clock.")
    parser.add_argument(
        "--arrivals",
        choices=["played", "complete"],
        help="Play the commits one by one, or read them as a whole; by default, played where the runner can.",
    )
    parser.add_argument(
        "--together_days",
        type=int,
        help="Play at once what arrives within so many days; by default, 91 in micro-batches, else one by one.",
    )
    ours, for_the_pipeline = parser.parse_known_args(argv)
    options = beam.options.PipelineOptions(for_the_pipeline)
    runner = runner_of(options)
    plays = runner.capabilities().get(Capability.TEST_STREAM) == "yes"
    played = (ours.arrivals or ("played" if plays else "complete")) == "played"
    days = ours.together_days
    if days is None:
        days = 0 if runner.name == "local" else 91

    with beam.Pipeline(options=options) as p:
        play = PlayCommits(ours.input, ours.behind_minutes * MINUTE, days * DAY or 1)
        arrivals = play if played else ReadCommits(ours.input)
        lengths = p | "Commits" >> arrivals | "Lengths" >> Lengths(ours.gap_minutes * MINUTE)
        counts = lengths | "Sessions" >> SessionsPerClass()
        counts | "Write" >> table(ours.output, "session_lengths", "minutes", {"minutes": int, "sessions": int})
        changes = (
            lengths
            | "OfSessions" >> beam.FlatMap(changes_of_sessions)
            | "AllSessions" >> beam.WindowInto(**AT_THE_END),
            counts | "OfRows" >> beam.FlatMap(changes_of_rows) | "AllRows" >> beam.WindowInto(**AT_THE_END),
        )
        corrections = changes | "Corrections" >> Corrections()
        corrections | "WriteCorrections" >> table(
            ours.output, "corrections", ["day", "what"], {"day": str, "what": str, "times": int}
        )
    return str(ours.output)


def show(path: str) -> None:
    """Print what the table holds, and what was corrected in each year."""
    if "://" in path:
        print("The results are in the database's tables session_lengths and corrections.")
        return
    with closing(sqlite3.connect(path)) as database:
        lengths = database.execute("SELECT minutes, sessions FROM session_lengths ORDER BY minutes").fetchall()
        of_years = database.execute("SELECT substr(day, 1, 4), what, SUM(times) FROM corrections GROUP BY 1, 2")
        times = {(year, what): n for year, what, n in of_years}
        worst = database.execute(
            "SELECT day, times FROM corrections WHERE what = ? ORDER BY times DESC, day LIMIT 3", [LATE]
        ).fetchall()
    print_table("Sessions by length", ["minutes, at least", "sessions"], lengths)
    if not times:
        print("Nothing was corrected.")
        return
    kinds = [SESSIONS, LATE, ROWS]
    years = [[year, *(times.get((year, what), 0) for what in kinds)] for year in sorted({year for year, _ in times})]
    total = ["all", *(sum(year[i] for year in years) for i in range(1, len(kinds) + 1))]
    print_table("What was corrected, and when", ["year", *kinds], [*years, total])
    if worst:
        print("Most late results came on", ", ".join(f"{day} ({n:,})" for day, n in worst))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print numbers as a table."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    print_plain(title, columns, cells, [True] * len(columns))


if __name__ == "__main__":
    show(run())
