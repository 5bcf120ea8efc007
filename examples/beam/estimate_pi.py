"""Estimate pi by the share of random points of the unit square that are within a quarter of the unit circle.

Each batch of points has its own seed, so the estimate is the same on each run and each number of workers.
"""

import argparse
import random

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from samples import WriteOrPrint


def throw(seed, points):
    """Return how many points were thrown, and how many hit the circle."""
    draw = random.Random(seed)
    return points, sum(draw.random() ** 2 + draw.random() ** 2 < 1 for _ in range(points))


class Estimate(beam.CombineFn):
    """The estimate of pi from pairs of points and hits."""

    def create_accumulator(self):
        return 0, 0

    def add_input(self, total, thrown):
        return total[0] + thrown[0], total[1] + thrown[1]

    def merge_accumulators(self, totals):
        points, hits = zip(*totals)
        return sum(points), sum(hits)

    def extract_output(self, total):
        points, hits = total
        return 4 * hits / points if points else float("nan")


def run(argv=None):
    parser = argparse.ArgumentParser(description="Estimate pi.")
    parser.add_argument("--output", help="Prefix of the text files to write; without it, the line is printed.")
    parser.add_argument("--batches", type=int, default=20, help="Batches of points.")
    parser.add_argument("--points", type=int, default=5000, help="Points in each batch.")
    args, pipeline_args = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(pipeline_args)) as p:
        (
            p
            | "Seeds" >> beam.Create(range(args.batches))
            | "Throw" >> beam.Map(throw, args.points)
            | "Estimate" >> beam.CombineGlobally(Estimate())
            | "Format" >> beam.Map(lambda pi: f"pi is about {pi:.5f}")
            | "Write" >> WriteOrPrint(args.output)
        )


if __name__ == "__main__":
    run()
