"""An unbounded source's partitions on the driver of micro-batches.  Spark isn't needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.spark.micro_batch.plan import BatchInput
from penstock.runners.spark.micro_batch.sources import DriverSources
from penstock.runners.spark.micro_batch.structured_streaming import StreamSettings
from penstock.runners.spark.micro_batch.unbounded_source import Admission, DriverUnboundedSource
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.bounded import BoundedSource
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing import GLOBAL_WINDOW, Timestamp
from penstock.windowing.timestamp import MIN_MICROS


class Nothing(BoundedSource[Any]):
    """A source without splits."""

    def split(self, desired_splits: int) -> list[Any]:
        return []

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        yield from ()


class Hourly(UnboundedSource[Any]):
    """A partition for each hour, which ends after its element, and whose watermark is after that element."""

    discovery_interval = 1.0

    def __init__(self) -> None:
        self.hours = [1]

    def __deepcopy__(self, memo: Any) -> Hourly:
        return self

    def partitions(self) -> Sequence[int]:
        return self.hours

    def open(self, partition: int, offset: int | None) -> UnboundedReader[Any]:
        return HourReader(partition, offset or 0)


class HourReader(UnboundedReader[Any]):
    def __init__(self, hour: int, at: int) -> None:
        self.hour = hour
        self.at = at

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        self.at = 1
        return Bundle([self.hour], [self.hour], (GLOBAL_WINDOW,))

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> int:
        self.at = 1
        return 1

    def offset(self) -> int:
        return self.at

    def watermark(self, now: Timestamp) -> int:
        return self.hour + self.at if self.at else MIN_MICROS

    def is_finished(self) -> bool:
        return self.at == 1


def watermark_of(source: DriverUnboundedSource, now: int) -> int:
    """Return the watermark of a batch that is planned at this time."""
    planned_input = BatchInput(now * 1_000_000)
    source.add_input(planned_input, Admission())
    (watermark,) = planned_input.watermarks.values()
    return watermark


def test_the_last_watermark_of_a_partition_counts_where_others_may_be_found() -> None:
    """Otherwise complete windows would wait for the partitions that are found next."""
    hours = Hourly()
    (step,) = graph_of(lambda p: p | beam.io.Read(hours)).tasks[0].sources
    source = DriverUnboundedSource(step)

    assert 2 == watermark_of(source, 0)
    assert 2 == watermark_of(source, 2)
    hours.hours.append(5)
    assert 6 == watermark_of(source, 4)
    source.close()


def of_files(pattern: Path) -> DriverUnboundedSource:
    """The lines of files, with discovery each second."""
    graph = graph_of(lambda p: p | beam.io.ReadContinuouslyFromText(str(pattern), poll_interval=1))
    (step,) = graph.tasks[0].sources
    return DriverUnboundedSource(step)


def planned(source: DriverUnboundedSource, now: int) -> list[tuple[int, int]]:
    """Return the ranges of bytes that a batch reads."""
    planned_input = BatchInput(now * 1_000_000)
    source.add_input(planned_input, Admission())
    readings: list[Any] = planned_input.splits
    return [(reading.start[0], reading.end[0]) for reading in readings]


def test_an_empty_bounded_source_does_not_delay_a_stream(tmp_path: Path) -> None:
    """An available-now run once ended without reading anything."""
    (tmp_path / "a.log").write_text("one\n")
    p = beam.Pipeline("spark-microbatch")
    p | "Bounded" >> beam.io.Read(Nothing())
    p | beam.io.ReadContinuouslyFromText(str(tmp_path / "*.log"), poll_interval=1)
    nothing: Any = None
    streams = StreamSettings(nothing, str(tmp_path), nothing, 0, True, lambda: False)
    sources = DriverSources(fuse(p.graph(), lambda *_: False), 1, Admission(), streams)

    readings: list[Any] = sources.plan_input(0).splits
    assert ["ReadContinuouslyFromText"] == [reading.label.partition("/")[0] for reading in readings]
    sources.close()


def test_a_removed_file_does_not_stop_a_stream(tmp_path: Path) -> None:
    """It once was opened at each start, which failed because the file is gone."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    source = of_files(path)
    assert [(0, 4)] == planned(source, 0)
    path.unlink()
    assert [] == planned(source, 2)
    source.acknowledge(source.position())

    again = of_files(path)
    again.restore(source.position())
    assert [] == planned(again, 4)
    source.close()
    again.close()


def test_a_file_that_gets_the_name_of_a_removed_one_is_read(tmp_path: Path) -> None:
    """It is read from its beginning, also by a driver that restores a position from before."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    source = of_files(path)
    assert [(0, 4)] == planned(source, 0)
    path.unlink()
    planned(source, 2)
    position = source.position()
    path.write_text("another\n")

    assert [(0, 8)] == planned(source, 4)
    source.restore(position)
    assert [(0, 8)] == planned(source, 4)
    source.close()
