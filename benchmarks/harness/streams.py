"""Parts shared by the benchmarks of streams: DoFns with state, a sink that counts, options."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from statistics import median
from typing import Any, TypeVar

import attrs

import penstock as beam
from harness.processes import cpu_of_this_and_children
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.options import PipelineOptions
from penstock.sdk.sink import Sink, SinkContext, SinkWriter
from penstock.sdk.userstate import ReadModifyWriteStateSpec


class RunningSum(beam.DoFn):
    """The sum so far of each element's key."""

    SUM = ReadModifyWriteStateSpec("sum")

    def process(self, element: Any, total: Any = beam.DoFn.StateParam(SUM)) -> Any:
        key, value = element
        value += total.read() or 0
        total.write(value)
        yield key, value


class CountingSink(Sink[Any]):
    """Keeps how many elements were committed, as `count`."""

    def __init__(self) -> None:
        self.count = 0

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _CountingWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.count += sum(staged)

    def abort(self, context: SinkContext) -> None:
        pass


class _CountingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.count = 0

    def write(self, bundle: Bundle) -> None:
        self.count += len(bundle)

    def stage(self) -> int:
        return self.count

    def discard(self) -> None:
        self.count = 0


def options(**flags: Any) -> PipelineOptions:
    """Options of flags: `options(parallelism=2)`."""
    return PipelineOptions([f"--{name}={value}" for name, value in flags.items()])


class MicrosSinceDue(beam.DoFn):
    """How many microseconds ago each element's event time was; after a shuffle, since it has state."""

    LAST = ReadModifyWriteStateSpec("last")

    def process(self, element: Any, due: Any = beam.DoFn.TimestampParam, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        late = time.time_ns() // 1000 - due.micros
        last.write(late)
        yield element[0], late


class CollectingSink(Sink[Any]):
    """Keeps all that was committed, as `values`."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _CollectingWriter()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        for values in staged:
            self.values += values

    def abort(self, context: SinkContext) -> None:
        pass


class _CollectingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.values += bundle.values

    def stage(self) -> list[Any]:
        return self.values

    def discard(self) -> None:
        self.values = []


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them doesn't exceed.

    >>> percentile([3, 1, 2, 4], 0.5)
    2
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


VariantT = TypeVar("VariantT", bound=Hashable)


@attrs.frozen
class Times:
    """The runs of one variant, round by round.

    Attributes:
      walls: seconds by the clock on the wall.
      cpus: CPU seconds of this process and all those that it started.
    """

    walls: list[float] = attrs.field(factory=list)
    cpus: list[float] = attrs.field(factory=list)

    @property
    def wall(self) -> float:
        return median(self.walls)

    @property
    def cpu(self) -> float:
        return median(self.cpus)

    def against(self, other: Times) -> float:
        """The median of the ratios of runs of one round, which the machine was alike in."""
        return median(own / others for own, others in zip(self.walls, other.walls, strict=True))

    def __str__(self) -> str:
        return f"{self.wall:6.2f} s ({min(self.walls):.2f} to {max(self.walls):.2f}), CPU {self.cpu:6.2f} s"


def interleaved(variants: Sequence[VariantT], rounds: int, run: Callable[[VariantT], float]) -> dict[VariantT, Times]:
    """Run all variants in turn, so many times; each round begins with another one, and every other goes backwards.

    `run` returns seconds by the clock on the wall.  Before the first round one variant runs for nothing.
    """
    found = {variant: Times() for variant in variants}
    run(variants[0])
    for number in range(rounds):
        start = number * len(variants) // rounds
        turn = [*variants[start:], *variants[:start]]
        for variant in turn[:: -1 if number % 2 else 1]:
            before = cpu_of_this_and_children()
            found[variant].walls.append(run(variant))
            found[variant].cpus.append(cpu_of_this_and_children() - before)
    return found
