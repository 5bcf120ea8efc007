"""Bounded pipelines of many parts on Spark, against RDDs by hand, in one session.

A Flatten of 50 inputs into a sink is one job; ten sinks behind ten groupings of one input are two.  The comparison is
of elapsed time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.spark_session import started_session
from harness.timing import Result, compare

import penstock as beam
from spark.micro_batch import TotalSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INPUTS, GROUPINGS, NUMBERS = 50, 10, 10_000


def flattened(session: SparkSession) -> int:
    """Return the number of elements that the sink has written."""
    from penstock.runners.spark import SparkBatchRunner

    sink = TotalSink()
    with beam.Pipeline(SparkBatchRunner(session)) as p:
        parts = [p | f"Create {i}" >> beam.Create([("all", i)]) for i in range(INPUTS)]
        _ = parts | beam.Flatten() | beam.io.Write(sink)
    return sink.found[0]


def flattened_by_hand(session: SparkSession) -> int:
    context = session.sparkContext
    return context.union([context.parallelize([("all", i)], 1) for i in range(INPUTS)]).count()


def grouped(session: SparkSession) -> int:
    """Return the number of sums of all sinks."""
    from penstock.runners.spark import SparkBatchRunner

    sinks = [TotalSink() for _ in range(GROUPINGS)]
    with beam.Pipeline(SparkBatchRunner(session)) as p:
        numbers = p | beam.Create(range(NUMBERS))
        for i, sink in enumerate(sinks, 1):
            pairs = numbers | f"Pair {i}" >> beam.Map(lambda n, i=i: (n % i, n))
            _ = pairs | f"Sum {i}" >> beam.CombinePerKey(sum) | f"Write {i}" >> beam.io.Write(sink)
    return sum(sink.found[0] for sink in sinks)


def grouped_by_hand(session: SparkSession) -> int:
    numbers = session.sparkContext.parallelize(range(NUMBERS)).cache()
    found = 0
    for i in range(1, GROUPINGS + 1):
        sums = numbers.map(lambda n, i=i: (n % i, n)).reduceByKey(lambda a, b: a + b)
        found += sums.count()
    numbers.unpersist()
    return found


def run() -> Iterator[Result]:
    session = started_session()
    try:
        for name, ours, by_hand, limit in (
            (f"a Flatten of {INPUTS} into a sink", flattened, flattened_by_hand, 5.0),
            (f"{GROUPINGS} sinks behind {GROUPINGS} groupings", grouped, grouped_by_hand, 2.0),
        ):
            yield compare(
                f"{name}, RDDs: clock",
                lambda ours=ours: ours(session),
                lambda by_hand=by_hand: by_hand(session),
                limit,
                clock=time.monotonic,
                warm_up=1,
                runs=3,
            )
    finally:
        session.stop()
