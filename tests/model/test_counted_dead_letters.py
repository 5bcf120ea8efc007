"""Dead letters are counted by the step that makes them: `penstock.dead_letters`, on every runner."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as beam
from penstock.io.kafka.decoding import UndecodableError, decoded
from penstock.metrics import MetricsFilter


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


def test_no_dead_letters_are_no_metric(pipeline: Any) -> None:
    """Nor are transforms without that output."""
    _ = pipeline | beam.Create([1, 2]) | beam.Map(inverse).with_exception_handling()

    assert {} == counted(pipeline.run())
