"""Reads numbers from a topic, in a process that is killed together with all that it has started.

    python killed_reader.py --broker=127.0.0.1:9092 --topic=numbers --checkpoint_dir=kept --die=after-state ...

It runs until there is a file called `drain`.  With `--die=POINT` all processes of its session kill themselves there, in
the second batch of this start.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

# Beside the other programs that are killed: their directory is on PYTHONPATH.
from killed_micro_batches import Death
from killed_pipeline import corrected

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner

# Seconds, and milliseconds.
WINDOW = 20
LOOK = 100


class ReaderOptions(PipelineOptions):
    """The topic to read, and the point at which to die."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--broker")
        parser.add_argument("--topic")
        parser.add_argument("--die")


def build(p: beam.Pipeline, broker: str, topic: str, database: str) -> None:
    """Count each record, and sum the numbers of the records by key and window."""

    def numbers(spark: Any) -> Any:
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
        stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
        return stream.option("maxOffsetsPerTrigger", 50).load()

    # Partitions are read at their own pace: nothing is so far behind the others as to be late.
    records = p | "Read" >> beam.io.FromSparkStream(numbers, timestamp="timestamp", watermark=10_000)
    _ = (
        records
        | "Place" >> beam.Map(lambda row: {"part": row.partition, "place": row.offset})
        | "Records" >> beam.io.WriteToSQLite(database, "records", columns=["part", "place"], count_column="times")
    )
    key = ["key", "window_start"]
    _ = (
        records
        | "Number" >> beam.Map(lambda row: (int(row.key), int(row.value)))
        | "Window" >> beam.WindowInto(beam.window.FixedWindows(WINDOW), **corrected(4))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Sums" >> beam.io.WriteToSQLite(database, "sums", key, columns=["key", "sum"], with_window=True)
    )


def main() -> None:
    """Run until it is told to drain."""
    options = PipelineOptions(sys.argv[1:])
    own = options.view_as(ReaderOptions)
    here = pathlib.Path.cwd()
    death = Death(own.die, str(here / "died"))
    p = beam.Pipeline(SparkMicroBatchRunner(reached=death), options=options)
    build(p, own.broker, own.topic, str(here / "out.db"))
    result = p.run()
    while not (here / "drain").exists():
        result.wait_until_finish(LOOK)
    print("ended:", result.drain(), flush=True)


if __name__ == "__main__":
    main()
