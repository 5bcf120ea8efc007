"""Dead letters are counted by the step that makes them: `penstock.dead_letters`, on every runner."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as beam
from penstock.io.kafka.decoding import UndecodableError, decoded
from penstock.io.requestresponse import UserCodeExecutionException
from penstock.metrics import MetricsFilter
from penstock.options.pipeline_options import PipelineOptions
from penstock.transforms.enrichment import Enrichment, EnrichmentSourceHandler


def counted(result: Any) -> dict[str, int]:
    """The dead letters of each step."""
    found = result.metrics().query(MetricsFilter().with_namespace("penstock").with_name("dead_letters"))["counters"]
    return {one.key.step: one.result for one in found}


def inverse(number: int) -> float:
    """Fail for zero."""
    return 1 / number


async def awaited(number: int) -> float:
    """Fail for zero, after a while."""
    await asyncio.sleep(0)
    return 1 / number


def decode(pair: tuple[int, int]) -> float:
    """Fail as a Kafka deserializer's wrapper does."""
    try:
        return 1 / pair[0]
    except ZeroDivisionError as error:
        raise UndecodableError("no inverse") from error


class Inverses(beam.DoFn):
    """Fails for zero, behind an output."""

    def process(self, number: int) -> Iterator[float]:
        yield 0.0
        yield 1 / number


def crash(number: int) -> int:
    """End the process for zero."""
    if not number:
        os._exit(3)
    return number


HOW: dict[str, tuple[Callable[[Any], Any], str]] = {
    "Map": (lambda n: n | "Try" >> beam.Map(inverse).with_exception_handling(), "Try/Process"),
    "ParDo": (lambda n: n | "Try" >> beam.ParDo(Inverses()).with_exception_handling(partial=True), "Try/Process"),
    "timeout": (lambda n: n | "Try" >> beam.Map(inverse).with_exception_handling(timeout=30), "Try/Process"),
    "AsyncMap": (lambda n: n | "Try" >> beam.AsyncMap(awaited).with_exception_handling(), "Try/Process"),
    "Kafka's decoding": (lambda n: decoded(n | beam.Map(lambda n: (n, 1)), decode, float, {}), "Decode/Process"),
}


@pytest.mark.parametrize("how", HOW)
def test_dead_letters_are_counted_by_step(how: str, pipeline: Any) -> None:
    """Three of six elements."""
    apply, step = HOW[how]
    _, bad = apply(pipeline | beam.Create([1, 0, 2, 0, 0, 4]))
    _ = bad | "Use" >> beam.Map(lambda letter: letter[0])

    assert {step: 3} == counted(pipeline.run())


def test_dead_letters_of_a_handler_are_counted_and_those_of_other_steps_apart(pipeline: Any) -> None:
    """Two steps share a handler."""
    numbers = pipeline | beam.Create([1, 0, 2])
    with beam.transforms.error_handling.ErrorHandler(beam.Map(lambda letter: letter[0])) as handler:
        _ = numbers | "One" >> beam.Map(inverse).with_exception_handling(error_handler=handler)
        _ = numbers | "Other" >> beam.Map(lambda n: 1 / (n - 1) / n).with_exception_handling(error_handler=handler)

    assert {"One/Process": 1, "Other/Process": 2} == counted(pipeline.run())


def test_crashes_of_a_process_are_counted() -> None:
    """In the worker, not in the process that is gone."""
    p = beam.Pipeline()
    _, bad = p | beam.Create([1, 0, 2]) | "Try" >> beam.Map(crash).with_exception_handling(use_subprocess=True)
    _ = bad | "Use" >> beam.Map(lambda letter: letter[0])

    assert {"Try/Process": 1} == counted(p.run())


def test_changes_that_are_no_envelopes_are_counted(pipeline: Any) -> None:
    """Of `FromDebezium`."""
    _, bad = pipeline | beam.Create([b"{", b"[]"]) | "Rows" >> beam.io.FromDebezium().with_exception_handling()
    _ = bad | "Use" >> beam.Map(lambda letter: letter[0])

    assert {"Rows/Decode/Process": 2} == counted(pipeline.run())


class Prices(EnrichmentSourceHandler[Any, Any]):
    """Knows the price of one item."""

    async def __call__(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        if request.item != "tea":
            raise UserCodeExecutionException(f"no price of {request.item}")
        return request, beam.Row(price=5)


def test_rows_whose_calls_fail_are_counted(pipeline: Any) -> None:
    """Of `Enrichment`, by the transform that calls the service."""
    rows = pipeline | beam.Create([beam.Row(item=item) for item in ("tea", "rum", "tea", "ale")])
    _, bad = rows | "Prices" >> Enrichment(Prices()).with_exception_handling()
    _ = bad | "Use" >> beam.Map(lambda letter: letter[0])

    assert {"Prices/Enrichment-RRIO/Process": 2} == counted(pipeline.run())


DEAD_LETTERS = PipelineOptions(["--on_commit_error=dead_letter"])


def test_keys_that_redis_refuses_are_counted(make_pipeline: Any, redis_server: Any) -> None:
    """Two keys have several values each, at the same time."""
    check_keys_that_redis_refuses(make_pipeline(options=DEAD_LETTERS), redis_server)


@pytest.mark.spark
def test_keys_that_redis_refuses_are_counted_in_micro_batches(spark: Any, redis_server: Any) -> None:
    """The driver commits."""
    from penstock.runners.spark import SparkMicroBatchRunner

    p = beam.Pipeline(runner=SparkMicroBatchRunner(spark_session=spark), options=DEAD_LETTERS)
    check_keys_that_redis_refuses(p, redis_server)


def check_keys_that_redis_refuses(p: Any, redis_server: Any) -> None:
    client = redis_server.client()
    client.flushdb()
    pairs = [("ann", 1), ("bob", 2), ("bob", 3), ("cid", 4), ("cid", 5), ("cid", 6)]
    _ = p | beam.Create(pairs) | "Save" >> beam.io.WriteToRedis(redis_server.url, "counted:")
    result = p.run()
    result.wait_until_finish()

    assert {"Save/Write(RedisSink)": 5} == counted(result)
    assert ({"counted:ann"}, "1") == (set(client.keys("counted:*")), client.get("counted:ann"))
    (moved,) = client.keys("penstock:*:dead_letters")
    assert 5 == client.llen(moved)


def test_elements_of_files_that_get_no_name_are_counted(make_pipeline: Any, tmp_path: pathlib.Path) -> None:
    """All of a file, and not the file."""
    p = make_pipeline(options=DEAD_LETTERS)
    long = "x" * 300
    lines = p | beam.Create(["ann 1", f"{long} 2", f"{long} 3", "bob 4", f"{long} 5"])
    by_word = beam.io.fileio.WriteToFiles(str(tmp_path), destination=lambda line: line.split()[0])
    _ = lines | "Save" >> by_word
    result = p.run()

    assert {"ann", "bob"} == {path.name.partition("-")[0] for path in tmp_path.glob("[!.]*")}
    moved = [path for path in tmp_path.glob(".*dead-letters/*") if path.suffix != ".json"]
    assert [f"{long} {n}" for n in (2, 3, 5)] == sorted("".join(path.read_text() for path in moved).splitlines())
    (count,) = counted(result).values()
    assert 3 == count


def test_no_dead_letters_are_no_metric(pipeline: Any) -> None:
    """Nor are transforms without that output."""
    _ = pipeline | beam.Create([1, 2]) | beam.Map(inverse).with_exception_handling()

    assert {} == counted(pipeline.run())
