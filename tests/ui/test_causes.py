"""The bottleneck of jobs that are slow for one reason each, as their pages name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from support.programs.running_program import wait_until
from support.runners.running_pages import busy, document, running

import penstock as beam
from penstock.io import Sink, SinkContext, SinkWriter
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.transforms.userstate import ReadModifyWriteStateSpec
from penstock.windowing.timestamp import MIN_MICROS


class SlowSource(UnboundedSource[int]):
    """Takes a millisecond for each number."""

    def partitions(self) -> Sequence[int]:
        return [0]

    def identity(self) -> Mapping[str, Any]:
        return {}

    def open(self, partition: int, offset: int | None) -> UnboundedReader[int]:
        return SlowReader()


class SlowReader(UnboundedReader[int]):
    def poll(self, max_elements: int, now: Any) -> Bundle | None:
        return Bundle([busy(n) for n in range(10)], 0)

    def offset(self) -> int:
        return 0

    def watermark(self, now: Any) -> int:
        return MIN_MICROS


class SlowSink(Sink):
    """Takes a millisecond for each element, and keeps none."""

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter:
        return SlowWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        pass

    def abort(self, context: SinkContext) -> None:
        pass


class SlowWriter(SinkWriter):
    def write(self, bundle: Bundle) -> None:
        for value in bundle.values:
            busy(value)

    def stage(self) -> str:
        return ""

    def discard(self) -> None:
        pass


class SlowSum(beam.DoFn):
    """Takes a millisecond for each element of a key."""

    LAST = ReadModifyWriteStateSpec("last")

    def process(self, pair: tuple[str, int], last: Any = beam.DoFn.StateParam(LAST)) -> None:
        last.write(busy(pair[1]))


def numbers(rate: float, period: float = 1) -> Any:
    return "Numbers" >> beam.io.GenerateSequence(0, None, rate, period, partitions=2)


def slow_source(p: beam.Pipeline) -> None:
    _ = p | "Slow" >> beam.io.Read(SlowSource()) | "Text" >> beam.Map(str)


def slow_sink(p: beam.Pipeline) -> None:
    _ = p | numbers(10_000) | "Same" >> beam.Map(abs) | "Slow" >> beam.io.Write(SlowSink())


def slow_function(p: beam.Pipeline) -> None:
    _ = p | numbers(10_000) | "Slow" >> beam.Map(busy) | "Text" >> beam.Map(str)


def skewed_key(p: beam.Pipeline) -> None:
    pairs = p | numbers(10_000) | "Pair" >> beam.Map(lambda n: ("few" if n % 20 == 0 else "most", n))
    _ = pairs | "Slow" >> beam.ParDo(SlowSum())


def no_data(p: beam.Pipeline) -> None:
    _ = p | numbers(1, 1_000) | "Text" >> beam.Map(str)


@pytest.mark.parametrize(
    ("build", "cause", "step"),
    [
        pytest.param(slow_function, "user function", "Slow", id="a function"),
        pytest.param(slow_source, "slow source", "Slow", id="a source"),
        pytest.param(slow_sink, "slow sink", "Slow", id="a sink"),
        pytest.param(skewed_key, "skewed key", "Slow", id="a key"),
        pytest.param(no_data, "source without data", "Numbers/Read(SequenceSource)", id="no data"),
    ],
)
def test_the_cause_is_named(build: Callable[[beam.Pipeline], None], cause: str, step: str) -> None:
    """As soon as the loads have been seen for a while."""
    with running(build=build, parallelism=2) as result:

        def found() -> Any:
            bottleneck = document(result, "status").get("bottleneck") or {}
            return bottleneck.get("cause"), bottleneck.get("step")

        wait_until(lambda: (cause, step) == found(), "the cause")
