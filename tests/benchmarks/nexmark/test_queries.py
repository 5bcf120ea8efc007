"""The queries of Nexmark on every runner, compared with DuckDB's results for the same events."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from harness.streams import CollectingSink, options
from nexmark.columnar import COLUMNAR
from nexmark.generator import Generator
from nexmark.parquet import ParquetEvents, write_events
from nexmark.queries import QUERIES, Result, described
from nexmark.reference import Reference
from nexmark.settings import Settings
from nexmark.sources import BoundedEvents, UnboundedEvents

import penstock as beam

# Six windows; several files for each window and shard of query 10, and several results for some sessions of query 11.
GENERATOR = Generator(6_000, seed=1, rate=100)
SETTINGS = Settings(open_time=10, max_log_events=100)

# Of elements, and of columns: `tests/model/test_columns.py` has every operation on columns on each runner.
RUNNERS = ["local", "stream", "spark-batch", "spark-microbatch"]
OF_COLUMNS = ["local", "local-2", "spark-microbatch"]


def results_of(
    runner: Any, events: Any, settings: Settings, numbers: Iterable[int], **flags: Any
) -> dict[int, list[Result]]:
    """Run queries as one pipeline, on columns if the events are in Parquet files; return their results by number."""
    sinks = {number: CollectingSink() for number in numbers}
    p = beam.Pipeline(runner, options(**flags))
    is_columnar = isinstance(events, ParquetEvents)
    queries: Any = COLUMNAR if is_columnar else QUERIES
    source = events.read(p) if is_columnar else p | "Events" >> beam.io.Read(events)
    for number, sink in sinks.items():
        results = source | f"Query{number}" >> queries[number].transform(settings)
        results | f"Describe{number}" >> beam.Map(described) | f"Write{number}" >> beam.io.Write(sink)
    p.run().wait_until_finish()
    return {number: sink.values for number, sink in sinks.items()}


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(GENERATOR, SETTINGS)


@pytest.fixture(scope="module", params=RUNNERS)
def runner_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def results(
    runner_name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, list[Result]]:
    """The results of all queries on each runner in turn."""
    directory = tmp_path_factory.mktemp(runner_name)
    settings = attrs.evolve(SETTINGS, log_directory=str(directory / "logs"))
    bounded, stream = BoundedEvents(GENERATOR), UnboundedEvents(GENERATOR, 2)
    return _run(runner_name, request, bounded, stream, settings, QUERIES, directory)


@pytest.fixture(scope="module")
def columnar_results(
    runner_name: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, list[Result]]:
    """The results of the queries on columns."""
    directory = tmp_path_factory.mktemp(runner_name)
    write_events(GENERATOR, directory)
    settings = attrs.evolve(SETTINGS, log_directory=str(directory / "logs"))
    bounded, stream = ParquetEvents(directory), ParquetEvents(directory, 2)
    return _run(runner_name, request, bounded, stream, settings, COLUMNAR, directory)


def _run(
    runner_name: str,
    request: pytest.FixtureRequest,
    bounded: Any,
    stream: Any,
    settings: Settings,
    numbers: Iterable[int],
    directory: Path,
) -> dict[int, list[Result]]:
    if runner_name == "local":
        return results_of("local", bounded, settings, numbers)
    if runner_name == "local-2":
        return results_of("local", bounded, settings, numbers, parallelism=2)
    if runner_name == "stream":
        flags = {"checkpoint_dir": directory / "checkpoints", "checkpoint_interval": 0.2, "parallelism": 2}
        return results_of("local", stream, settings, numbers, **flags)
    from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner

    session = request.getfixturevalue("spark")
    if runner_name == "spark-batch":
        return results_of(SparkBatchRunner(spark_session=session), bounded, settings, numbers)
    runner = SparkMicroBatchRunner(spark_session=session)
    return results_of(runner, stream, settings, numbers, max_records_per_batch=3_000)


@pytest.mark.parametrize("runner_name", OF_COLUMNS, indirect=True, scope="module")
@pytest.mark.parametrize("number", COLUMNAR)
def test_a_query_on_columns_has_the_results_of_its_sql(
    number: int, columnar_results: dict[int, list[Result]], reference: Reference
) -> None:
    """Of the events in Parquet files, bounded and as a stream."""
    expected = reference.rows(number)
    assert expected
    assert COLUMNAR[number].rows(columnar_results[number]) == expected


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_has_the_results_of_its_sql(
    number: int, results: dict[int, list[Result]], reference: Reference
) -> None:
    """With those that depend on panes in the form that doesn't."""
    expected = reference.rows(number)
    assert expected
    assert QUERIES[number].rows(results[number]) == expected


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_by_itself_has_the_results_of_its_sql(number: int, tmp_path: Path) -> None:
    """Each over other events; the last block of the generator is incomplete."""
    generator = Generator(4_321, seed=2 + number, rate=150)
    settings = Settings(window_size=6, window_period=2, auction_skip=11, open_time=10, log_directory=str(tmp_path))

    results = results_of("local", BoundedEvents(generator), settings, [number])

    assert QUERIES[number].rows(results[number]) == Reference(generator, settings).rows(number)


def test_query_6_has_a_price_for_each_winning_bid(results: dict[int, list[Result]]) -> None:
    """Each of a seller's panes is one further."""
    of_sellers: dict[int, list[int]] = {}
    for result in results[6]:
        of_sellers.setdefault(result.value.seller, []).append(result.pane)

    assert len(results[9]) == len(results[6])
    assert all(sorted(panes) == list(range(len(panes))) for panes in of_sellers.values())


def test_a_file_of_query_10_has_no_more_events_than_it_may(results: dict[int, list[Result]]) -> None:
    """And all but the last of a window and shard are full."""
    limit = SETTINGS.max_log_events
    for result in results[10]:
        by_shard: dict[int, list[int]] = {}
        for file in result.value.files:
            by_shard.setdefault(file.shard, []).append(file.records)
        for *full, last in by_shard.values():
            assert all(records == limit for records in full)
            assert last <= limit
