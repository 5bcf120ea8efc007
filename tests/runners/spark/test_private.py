"""Private API of PySpark that is gone: what runs instead has the same results, and is logged once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner, private
from penstock.sdk.options import PipelineOptions
from penstock.testing import assert_that, equal_to

DOCUMENT = Path(__file__).parents[3] / "docs" / "versions.md"


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`with gone(*names):` lets PySpark have none of these attributes, for penstock's modules."""
    attribute = private.attribute

    @contextmanager
    def gone(*names: str) -> Iterator[None]:
        def found(owner: Any, path: str) -> Any:
            if path in names:
                raise AttributeError(f"no attribute {path!r}")
            return attribute(owner, path)

        with monkeypatch.context() as patched:
            patched.setattr(private, "attribute", found)
            patched.setattr(private, "told", set())
            yield

    return gone


def _named(spark: Any) -> Any:
    with private.stage_named(spark.sparkContext, "a name"):
        return spark.sparkContext.parallelize([1, 2], 1).collect()


def _rows(spark: Any) -> Any:
    import pyarrow

    frame = spark.range(3)
    schema = pyarrow.schema([("id", pyarrow.int64())])
    messages = map(bytes, private.arrow_messages(frame).collect())
    batches = [pyarrow.ipc.read_record_batch(pyarrow.py_buffer(message), schema) for message in messages]
    return sorted(pyarrow.Table.from_batches(batches)["id"].to_pylist())


def _shuffled(spark: Any) -> Any:
    context = spark.sparkContext
    exchange = private.exchange_of(context)
    rows = context.parallelize([(n % 2, bytes([n])) for n in range(4)], 2)
    shuffled = exchange.shuffled([exchange.sent(rows)], 2).glom().collect()
    return [sorted(map(bytes, part)) for part in shuffled], sorted(exchange.collected([exchange.sent(rows)]))


def _placed(spark: Any) -> Any:
    context = spark.sparkContext
    workers = private.workers_of(context, 2, 2)
    outputs = []
    for number, rows in enumerate(workers.split(context.parallelize([1, 2], 2))):
        output = rows.map(lambda n: (n, os.environ.get(private.GROUP_VARIABLE, "any")))
        workers.place(output, number)
        outputs.append(output)
    return context.union(outputs).collect()


def _filled(spark: Any) -> Any:
    return private.in_partitions(spark.sparkContext.parallelize([1], 1), 3).glom().collect()


def _sources(spark: Any) -> Any:
    return private.stream_sources(spark.readStream.format("rate").option("rowsPerSecond", 5).load())


SHUFFLED = ([[b"\0", b"\2"], [b"\1", b"\3"]], [b"\0", b"\1", b"\2", b"\3"])

# By use, what uses it, what that returns, and what it returns without.
EXERCISES: dict[private.Use, tuple[Callable[[Any], Any], Any, Any]] = {
    private.STAGE_NAMES: (_named, [1, 2], [1, 2]),
    private.DRIVER: (lambda spark: private.has_driver(), True, True),
    private.ARROW_ROWS: (_rows, [0, 1, 2], [0, 1, 2]),
    private.STREAM_SOURCES: (_sources, {"source 0": "rate(rowsPerSecond=5)"}, None),
    private.EMPTY_ROWS: (_filled, [[1], [], []], [[1], [], []]),
    private.BYTE_SHUFFLE: (_shuffled, SHUFFLED, SHUFFLED),
    private.OWN_WORKERS: (_placed, [(1, "0"), (2, "1")], [(1, "any"), (2, "any")]),
}


@pytest.mark.parametrize("use", private.USES, ids=lambda use: use.names[0])
def test_each_use_has_a_public_way(
    use: private.Use, spark: Any, gone: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever of its names is gone; a line tells it, once."""
    run, expected, without = EXERCISES[use]
    with gone():
        assert expected == run(spark)
    assert [] == caplog.records
    for name in use.names:
        caplog.clear()
        with caplog.at_level(logging.WARNING), gone(name):
            assert without == run(spark)
            assert without == run(spark)
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith("PySpark ")
        assert line.endswith(f"({name_error(name)}): {use.without}")


def name_error(name: str) -> str:
    return f"no attribute {name!r}"


def test_pipelines_need_no_private_api(spark: Any, gone: Callable[..., Any], tmp_path: Path) -> None:
    """In batch and in micro-batches, with DataFrames, shuffles and state: the results are the same."""

    def build(p: beam.Pipeline) -> None:
        frames = [
            p | f"frame {i}" >> beam.io.FromSpark(spark.range(start, start + 10, 1, 3))
            for i, start in enumerate((0, 10))
        ]
        sums = (
            frames
            | beam.Flatten()
            | beam.Map(lambda row: (row.id % 3, row.id))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: (pair[0] % 2, pair))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, pairs: (key, sorted(pairs)))
        )
        assert_that(sums, equal_to([(0, [(0, 63), (2, 57)]), (1, [(1, 70)])]))

    with gone(*(name for use in private.USES for name in use.names)):
        for runner in (SparkBatchRunner(spark), SparkMicroBatchRunner(spark)):
            options = PipelineOptions([], spark_shuffle_partitions=3)
            with beam.Pipeline(runner, options=options) as p:
                build(p)


def test_an_error_of_a_method_that_is_there_is_raised(gone: Callable[..., Any]) -> None:
    """Such as that of a query: the public way would fail as well, and the line would be wrong."""

    class Frame:
        @property
        def _jdf(self) -> Any:
            raise ValueError("no such table")

    with gone(), pytest.raises(ValueError, match="no such table"):
        private.arrow_messages(Frame())
    assert not private.told


def test_the_document_lists_each_name() -> None:
    """With what runs without it."""
    text = DOCUMENT.read_text()
    assert [] == [name for use in private.USES for name in use.names if f"`{name}`" not in text]


def test_large_rows_are_sent_one_by_one() -> None:
    """Spark takes each before the next one is made: `partitionBy` would gather up to 1,000 of them."""
    made: list[int] = []

    def rows() -> Iterator[tuple[int, bytes]]:
        for n in range(3):
            made.append(n)
            yield n, bytes(n)

    sent = private._alternating(rows())
    seen = [(next(sent), next(sent), list(made)) for _ in range(2)]

    assert [(bytes(8), b"", [0]), (b"\0" * 7 + b"\1", b"\0", [0, 1])] == seen
