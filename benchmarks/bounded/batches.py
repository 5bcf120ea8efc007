"""(m) Batched DoFns, against NumPy by hand: on the columns of a Parquet file, and on elements in windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam
from bounded.columns import MINUTE, event_table, number_table

_ROWS_OF_A_BATCH = 1 << 14


class Scaled(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield batch * 3 + 1


class Mixed(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield batch ^ 0x5555


class Kept(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield batch[batch % 3 != 0]


class Halved(beam.DoFn):
    def process_batch(self, batch: numpy.ndarray) -> Iterator[numpy.ndarray]:
        yield (batch - 7) // 2


def four_dofns(path: Path) -> KeepingSink:
    """Pass batches through four DoFns."""
    sink = KeepingSink()
    with beam.Pipeline() as p:
        numbers = p | beam.io.ReadFromParquet(path) | beam.Map(beam.col("x")).with_output_types(int)
        for fn in (Scaled, Mixed, Kept, Halved):
            numbers = numbers | fn.__name__ >> beam.ParDo(fn()).with_output_types(int)
        _ = numbers | beam.io.Write(sink)
    return sink


def four_by_hand(path: Path) -> list[Any]:
    found = []
    for (column,) in _batches(path, ["x"]):
        x = (column * 3 + 1) ^ 0x5555
        found.append((x[x % 3 != 0] - 7) // 2)
    return found


def normalized(batch: numpy.ndarray) -> numpy.ndarray:
    return numpy.sqrt(numpy.abs(batch - 500.0))


def map_in_windows(path: Path) -> KeepingSink:
    """Map the values of a minute."""
    sink = KeepingSink()
    with beam.Pipeline() as p:
        rows = p | beam.io.ReadFromParquet(path, as_rows=True)
        windowed = rows | beam.WithTimestamps("at") | beam.WindowInto(beam.window.FixedWindows(MINUTE))
        values = windowed | beam.Map(beam.col("value")).with_output_types(int)
        _ = values | beam.Map(normalized) | beam.io.Write(sink)
    return sink


def map_by_hand(path: Path) -> list[Any]:
    return [(at // MINUTE, normalized(values)) for at, values in _batches(path, ["at", "value"])]


def _batches(path: Path, columns: list[str]) -> Iterator[list[Any]]:
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(_ROWS_OF_A_BATCH, columns=columns, use_threads=False):
        yield [column.to_numpy() for column in batch.columns]


def _total(found: Any) -> float:
    """Return the sum of the values of a run."""
    if isinstance(found, KeepingSink):
        return sum(float(bundle.native.sum()) for bundle in found.bundles)  # type: ignore[attr-defined]
    return sum(float((each[1] if isinstance(each, tuple) else each).sum()) for each in found)


def run() -> Iterator[Ratio]:
    numbers, events = number_table(), event_table()
    yield compare(
        "(m) four batched DoFns, NumPy",
        lambda: four_dofns(numbers),
        lambda: four_by_hand(numbers),
        2.0,
        result=_total,
        of_both=True,
        warm_up=1,
    )
    yield compare(
        "(m) a Map of batches in windows, NumPy",
        lambda: map_in_windows(events),
        lambda: map_by_hand(events),
        4.0,
        result=lambda found: round(_total(found), 3),
        of_both=True,
        warm_up=1,
    )
