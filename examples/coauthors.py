"""Coauthors: a join by CoGroupByKey, within windows.

A project has authors: some write changes, some merge them.  Two authors are coauthors in a
month in which one merged and the other wrote changes in the same repository.

So two collections are joined, the mergers and the writers, by repository.  Their windows do
the rest: only what falls into the same month meets.  Afterwards the months of each pair are
counted, in one window for all time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import penstock as beam
from penstock.examples.commits import COMMITS, ReadCommits
from penstock.windowing import CalendarMonths, GlobalWindows


class AuthorsByRepository(beam.PTransform):
    """(repository, author) of commits, once for each window."""

    def expand(self, commits: Any) -> Any:
        return commits | beam.Map(lambda commit: (commit["repository"], commit["author"])) | beam.Distinct()


def pairs(repository: str, authors: dict[str, list[str]]) -> Iterator[tuple[str, str, str]]:
    """(repository, merger, writer) for all that met in a month."""
    for merger in authors["mergers"]:
        for writer in authors["writers"]:
            if merger != writer:
                yield repository, merger, writer


def as_row(pair: tuple[str, str, str], months: int) -> beam.Row:
    """A pair and its months as a record."""
    repository, merger, writer = pair
    return beam.Row(repository=repository, merger=merger, writer=writer, months=months)


def run(argv: Sequence[str] | None = None) -> str:
    """Find the pairs; a pattern for the files that hold them."""
    parser = argparse.ArgumentParser(description="Pairs of authors that work together.", allow_abbrev=False)
    parser.add_argument("--input", default=COMMITS, help="The commits: a CSV file, or several as a pattern.")
    parser.add_argument("--output", default="coauthors", help="What the names of the results begin with.")
    parser.add_argument("--least_months", type=int, default=3, help="Leave out pairs with fewer months together.")
    ours, for_the_pipeline = parser.parse_known_args(argv)

    with beam.Pipeline(options=beam.options.PipelineOptions(for_the_pipeline)) as p:
        commits = p | "Read" >> ReadCommits(ours.input) | "Monthly" >> beam.WindowInto(CalendarMonths())
        merges = commits | "Merges" >> beam.Filter(lambda commit: commit["parents"] > 1)
        changes = commits | "Changes" >> beam.Filter(lambda commit: commit["parents"] <= 1)
        (
            {
                "mergers": merges | "Mergers" >> AuthorsByRepository(),
                "writers": changes | "Writers" >> AuthorsByRepository(),
            }
            | "Join" >> beam.CoGroupByKey()
            | "Pairs" >> beam.FlatMapTuple(pairs)
            | "OfAllTime" >> beam.WindowInto(GlobalWindows())
            | "CountMonths" >> beam.combiners.Count.PerElement()
            | "LongEnough" >> beam.Filter(lambda counted: counted[1] >= ours.least_months)
            | "Format" >> beam.MapTuple(as_row)
            | "Write" >> beam.io.WriteToCsv(ours.output, file_name_suffix=".csv")
        )
    return f"{ours.output}-*.csv"


if __name__ == "__main__":
    print("Written:", run())
