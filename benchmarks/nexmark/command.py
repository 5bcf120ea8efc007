"""The table of costs: `python benchmarks nexmark --runner=local,stream --events=1000000`.

A run is that of one query on one runner, with the source that generates the events and a sink that counts results.
Its cost is the CPU time of all its processes, on Spark that of driver, JVM and workers.  Before it, the same
query runs over a hundredth of the events, so that start-up is left out.  Shown is the median of `--rounds`.

`--results FILE` adds them to a file (harness/results.py): docs/nexmark.json, for the tables of docs/nexmark.md.

With `--columns` the queries on columns run, over Parquet files that are written before.  Their first line is the cost
of reading the files.

Event times are 10,000 events a second, so a million events are ten windows of ten seconds.  On all runners there are
two splits or partitions; `local-2` and `stream-2` have two workers.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import pyarrow.parquet
from harness.processes import cpu_of_this_and_children
from harness.results import add, circumstances
from harness.streams import CountingSink, options
from spark.batch import started_session

import penstock as beam
from nexmark.columnar import COLUMNAR
from nexmark.generator import Generator
from nexmark.parquet import KINDS, ParquetEvents, write_events
from nexmark.queries import QUERIES, Query
from nexmark.settings import Settings
from nexmark.sources import BoundedEvents, UnboundedEvents
from penstock.sdk.elements.bundle import BUNDLE_SIZE

# Seconds between checkpoints of the streams.
CHECKPOINT_INTERVAL = 1

RUNNERS = {
    "local": "in process",
    "local-2": "two worker processes",
    "stream": "a stream in process, with a checkpoint every second",
    "stream-2": "the same in two worker processes",
    "spark-batch": "Spark, local[2]",
    "spark-microbatch": "Spark, local[2], in batches of 100,000 events",
}
MICRO_BATCH = 100_000

# The events of a run: a generator, or the directory of its Parquet files.
Events = Generator | Path

# Runs a query over events; returns the number of results.
Run = Callable[[Query, Events], int]


@attrs.frozen
class Cost:
    """CPU seconds, and the number of results."""

    cpu: float
    results: int


def main(arguments: Sequence[str]) -> int:
    """Parse the command line, and print a table for each runner."""
    parser = argparse.ArgumentParser("python benchmarks nexmark", description=__doc__.partition("\n")[0])
    parser.add_argument("--runner", default="local", help=f"Runners, separated by commas: {', '.join(RUNNERS)}.")
    parser.add_argument("--events", type=int, default=1_000_000, help="The number of events.")
    parser.add_argument("--queries", help="Queries, separated by commas.  Default: all.")
    parser.add_argument("--rounds", type=int, default=3, help="The number of runs of each query.")
    parser.add_argument("--seed", type=int, default=0, help="The seed of the generator.")
    parser.add_argument("--columns", action="store_true", help="Run the queries on columns, over Parquet files.")
    parser.add_argument("--results", type=Path, help="A file to which the costs are added, as JSON.")
    given = parser.parse_args(arguments)
    queries = COLUMNAR if given.columns else QUERIES
    numbers = [int(number) for number in given.queries.split(",")] if given.queries else list(queries)
    runners = given.runner.split(",")
    if unknown := [name for name in runners if name not in RUNNERS]:
        parser.error(f"argument --runner: unknown: {', '.join(unknown)}; there are {', '.join(RUNNERS)}")
    if unknown_queries := [str(number) for number in numbers if number not in queries]:
        known = ", ".join(map(str, queries))
        parser.error(f"argument --queries: unknown: {', '.join(unknown_queries)}; there are {known}")
    all_events: Events = Generator(given.events, given.seed)
    few_events: Events = Generator(max(1, given.events // 100), given.seed)
    directory = tempfile.TemporaryDirectory()
    if given.columns:
        all_events, few_events = (
            written(generator, Path(directory.name, str(i))) for i, generator in enumerate((all_events, few_events))
        )
    for name in runners:
        print(f"`{name}` ({RUNNERS[name]}), {given.events:,} events, median of {given.rounds}:\n")
        print("| | query | results | events/s and core | CPU s per million |")
        print("| --- | --- | --- | --- | --- |")
        about = {**circumstances(), "events": given.events, "rounds": given.rounds}
        found: list[dict[str, Any]] = []
        for number, title, cost in costs_on(name, numbers, queries, (few_events, all_events), given.rounds):
            print(line(number, title, cost, given.events), flush=True)
            found.append({"query": number, "title": title, **attrs.asdict(cost)})
        print()
        if given.results is not None:
            add(given.results, f"{name}, columns" if given.columns else name, about, found)
    directory.cleanup()
    return 0


def costs_on(
    name: str, numbers: Sequence[int], queries: Mapping[int, Query], events: tuple[Events, Events], rounds: int
) -> Iterator[tuple[str, str, Cost]]:
    """Yield the number, the title and the costs of the source alone, and of each query on a runner.

    Args:
      events: those of the run before the measured ones, and those of the measured ones.
    """
    few, all = events
    yield "", f"the {'files' if isinstance(all, Path) else 'generator'} alone", cost_of(lambda: alone(all), rounds)
    with runs_of(name) as run:
        for number in numbers:
            query = queries[number]
            run(query, few)
            yield str(number), query.title, cost_of(lambda query=query: run(query, all), rounds)


def line(number: str, title: str, cost: Cost, events: int) -> str:
    """Return a line of the table.

    >>> line("0", "Pass through", Cost(cpu=2.0, results=1_000), 1_000_000)
    '| 0 | Pass through | 1,000 | 500,000 | 2.00 |'
    """
    rate, per_million = events / cost.cpu, cost.cpu / events * 1e6
    return f"| {number} | {title} | {cost.results:,} | {rate:,.0f} | {per_million:.2f} |"


def cost_of(run: Callable[[], int], rounds: int) -> Cost:
    """Return the medians of so many runs."""
    costs = []
    for _ in range(rounds):
        before = cpu_of_this_and_children()
        results = run()
        costs.append(Cost(cpu_of_this_and_children() - before, results))
    return Cost(median(cost.cpu for cost in costs), costs[-1].results)


def written(generator: Generator, directory: Path) -> Path:
    """Write the Parquet files of a generator into a new directory."""
    directory.mkdir()
    write_events(generator, directory)
    return directory


def alone(events: Events) -> int:
    """Generate or read all events, and return their number.

    Without the garbage collector, which hardly runs in a pipeline either (runners/execution/gc_tuning.py).
    """
    if isinstance(events, Path):
        files = [pyarrow.parquet.ParquetFile(events / f"{kind}.parquet") for kind in KINDS]
        return sum(batch.num_rows for file in files for batch in file.iter_batches(BUNDLE_SIZE, use_threads=False))
    source = BoundedEvents(events)
    gc.disable()
    try:
        return sum(len(bundle) for split in source.split(2) for bundle in source.read_bundles(split))
    finally:
        gc.enable()


@contextmanager
def runs_of(name: str) -> Iterator[Run]:
    """Return the function that runs a query on a runner; Spark's session ends with the block."""
    if name == "local":
        yield lambda query, events: results_of("local", query, events)
    elif name == "local-2":
        yield lambda query, events: results_of("local", query, events, parallelism=2)
    elif name.startswith("stream"):
        workers = 2 if name == "stream-2" else 1
        yield lambda query, events: streamed(query, events, parallelism=workers)
    else:
        from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner

        session = started_session()
        try:
            if name == "spark-batch":
                batch = SparkBatchRunner(spark_session=session)
                yield lambda query, events: results_of(batch, query, events)
            else:
                micro_batch = SparkMicroBatchRunner(spark_session=session)
                limit = {"max_records_per_batch": MICRO_BATCH}
                yield lambda query, events: results_of(micro_batch, query, events, partitions=2, **limit)
        finally:
            session.stop()


def streamed(query: Query, events: Events, **flags: Any) -> int:
    with tempfile.TemporaryDirectory() as directory:
        flags |= {"checkpoint_dir": directory, "checkpoint_interval": CHECKPOINT_INTERVAL}
        return results_of("local", query, events, partitions=2, **flags)


def results_of(runner: Any, query: Query, events: Events, partitions: int | None = None, **flags: Any) -> int:
    """Run a query, over a stream of so many partitions if they are given; return the number of its results."""
    sink = CountingSink()
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(log_directory=str(Path(directory, "logs")))
        p = beam.Pipeline(runner, options(**flags))
        if isinstance(events, Path):
            read: Any = ParquetEvents(events, partitions).read(p)
        else:
            source = BoundedEvents(events) if partitions is None else UnboundedEvents(events, partitions)
            read = p | "Events" >> beam.io.Read(source)
        results = read | "Query" >> query.transform(settings)
        results | beam.io.Write(sink)
        p.run().wait_until_finish()
    return sink.count
