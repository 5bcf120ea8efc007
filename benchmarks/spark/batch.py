"""(e) (b) and (c) on Spark, against hand-written RDDs of Python functions, in one session.

The comparison is of the CPU time of the driver, its JVM and the Python workers together.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bounded import windowed_sums, word_count
from harness.inputs import Event, events, word_file
from harness.keeping_sink import KeepingSink
from harness.processes import cpu_of_this_and_children
from harness.spark_session import WARM_UP, started_session
from harness.timing import Ratio, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def words_by_hand(session: SparkSession, path: Path) -> dict[str, int]:
    lines = session.sparkContext.textFile(str(path))
    pairs = lines.flatMap(lambda line: line.split()).map(lambda word: (word, 1))
    return dict(pairs.reduceByKey(add).collect())


def sums_by_hand(session: SparkSession, occurred: list[Event]) -> dict[tuple[str, int], int]:
    rows = session.sparkContext.parallelize(occurred)
    pairs = rows.map(lambda event: ((event[0], event[1] // 60), event[2]))
    return dict(pairs.reduceByKey(add).collect())


def run() -> list[Ratio]:
    from penstock.runners.spark import SparkBatchRunner

    session = started_session()

    def contest(
        name: str, pipeline: Callable[..., KeepingSink], by_hand: Callable[..., Any], what: Any, result: Any
    ) -> Ratio:
        return compare(
            f"(e) {name}, on Spark",
            lambda: pipeline(what, SparkBatchRunner(spark_session=session)),
            lambda: by_hand(session, what),
            1.0,
            result=result,
            clock=cpu_of_this_and_children,
            warm_up=WARM_UP,
        )

    try:
        return [
            contest("word count", word_count.pipeline, words_by_hand, word_file(), word_count.comparable),
            contest("sums by minute", windowed_sums.pipeline, sums_by_hand, events(), windowed_sums.comparable),
        ]
    finally:
        session.stop()
