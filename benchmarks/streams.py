"""What the benchmarks of streams share: DoFns with state, a sink that counts, options."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import penstock as beam
from penstock.sdk.bundle import Bundle
from penstock.sdk.options import PipelineOptions
from penstock.sdk.sink import Sink, SinkWriter
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

    def prepare(self, transaction: str) -> None:
        pass

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        return _CountingWriter()

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        self.count += sum(staged)

    def abort(self, transaction: str) -> None:
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

    def prepare(self, transaction: str) -> None:
        pass

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        return _CollectingWriter()

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        for values in staged:
            self.values += values

    def abort(self, transaction: str) -> None:
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
