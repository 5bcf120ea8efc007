"""Mobile game, 2: the score of each team in each hour of event time, from a file.

The events of a day reach the file after the day: `--stop` and `--start` say which event times count.
"""

import argparse
from datetime import UTC, datetime

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from game_events import EVENTS, MINUTE, ReadEvents
from samples import WriteOrPrint


def minute(text):
    """Return the time in seconds since the epoch of a flag such as 2023-11-15T09:30, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def with_window(scored, window=beam.DoFn.WindowParam):
    team, score = scored
    return f"{window.start.to_utc_datetime():%Y-%m-%d %H:%M} {team}: {score}"


def run(argv=None):
    parser = argparse.ArgumentParser(description="Sum the scores of each team by hour.")
    parser.add_argument("--input", default=EVENTS, help="Events of the game, as game_events.py prints them.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    parser.add_argument("--start", type=minute, default=minute("2023-11-15T09:10"), help="Earlier events don't count.")
    parser.add_argument("--stop", type=minute, default=minute("2023-11-15T10:50"), help="Later events don't count.")
    parser.add_argument("--window_minutes", type=int, default=60, help="Size of the windows.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> ReadEvents(args.input)
            | "Counting" >> beam.Filter(lambda event: args.start <= event.event_time < args.stop)
            | "Hours" >> beam.WindowInto(FixedWindows(args.window_minutes * MINUTE))
            | "ByTeam" >> beam.Map(lambda event: (event.team, event.score))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Format" >> beam.Map(with_window)
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
