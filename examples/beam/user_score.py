"""Mobile game, 1: the sum of all scores of each user, from a file."""

import argparse

import apache_beam as beam
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from game_events import EVENTS, ParseEvents
from samples import WriteOrPrint


def run(argv=None):
    parser = argparse.ArgumentParser(description="Sum the scores of each user.")
    parser.add_argument("--input", default=EVENTS, help="Events of the game, as game_events.py prints them.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, lines are printed.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Read" >> beam.io.ReadFromText(args.input)
            | "Parse" >> beam.ParDo(ParseEvents())
            | "ByUser" >> beam.Map(lambda event: (event.user, event.score))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Format" >> beam.MapTuple(lambda user, score: f"{user}: {score}")
            | "Write" >> WriteOrPrint(args.output)
        )
    (errors,) = p.result.metrics().query(MetricsFilter().with_name("parse_errors"))["counters"]
    print(f"lines that aren't events: {errors.committed}")


if __name__ == "__main__":
    run()
