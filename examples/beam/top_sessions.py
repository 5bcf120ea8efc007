"""Top pages by session: the sessions of each day with the most visits, and the page that each visited most.

A session of a user ends when the user visits no page for half an hour.
"""

import argparse
import os
from collections import Counter

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from samples import DATA, WriteOrPrint

MINUTE = 60
DAY = 24 * 60 * MINUTE


def parse(line):
    """Return the user and the page of a visit, at its time."""
    time, user, page = line.split(",")
    return TimestampedValue((user, page), int(time))


def summarize(session, window=beam.DoFn.WindowParam):
    """Return the number of visits, then what is printed of the session."""
    user, pages = session
    visits = Counter(pages)
    # The first in the alphabet, of pages with as many visits.
    page, n = min(visits.items(), key=lambda counted: (-counted[1], counted[0]))
    start = window.start.to_utc_datetime()
    return sum(visits.values()), f"{user} from {start:%H:%M}, most often {page} ({n})"


class TopPerDay(beam.PTransform):
    """The `n` largest elements of each day, as a list for each day."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def expand(self, sessions):
        return (
            sessions
            | beam.WindowInto(FixedWindows(DAY))
            | beam.CombineGlobally(beam.combiners.TopCombineFn(self.n)).without_defaults()
        )


def lines(sessions, window=beam.DoFn.WindowParam):
    for rank, (visits, text) in enumerate(sessions, 1):
        yield f"{window.start.to_utc_datetime():%Y-%m-%d} {rank}. {visits} visits of {text}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Print the longest sessions of each day.")
    parser.add_argument("--input", default=os.path.join(DATA, "visits.csv"), help="Visits: time, user and page.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--top", type=int, default=3, help="How many sessions of each day.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> beam.io.ReadFromText(args.input, skip_header_lines=1)
            | "Parse" >> beam.Map(parse)
            | "Sessions" >> beam.WindowInto(Sessions(30 * MINUTE))
            | "Group" >> beam.GroupByKey()
            | "Summarize" >> beam.Map(summarize)
            | "Top" >> TopPerDay(args.top)
            | "Format" >> beam.FlatMap(lines)
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
