"""Sums with corrections, on a cluster whose executors are killed, one in each phase.

    python lost_executors.py --numbers=3000 --directory=/work --runner=spark-batch --spark_master=...

Each death leaves a file in `deaths/`, and each executor that has worked one in `executors/`.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs
from pyspark import TaskContext

import penstock as beam
from penstock.io import Sink, SinkContext, SinkSpec, SinkWriter
from penstock.io.sql.table_sink import TableSink
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import Bundle

# In the order of the deaths.  The last is of an idle executor, while the driver publishes.
PHASES = ("read", "shuffle write", "shuffle read", "sink stage", "sink commit")

KEYS = 40
WINDOW = 10


@attrs.frozen
class Deaths:
    """The deaths of executors.

    Attributes:
      directory: of the run.
    """

    directory: str

    def come_to(self, phase: str) -> None:
        """In an executor: kill it, if it is the first that comes to a phase."""
        if TaskContext.get() is None:
            return
        executor = parent_of(os.getppid())
        self._leave("executors", str(executor))
        if self._leave("deaths", phase):
            # The daemon that has forked this worker is a child of the executor.
            os.kill(executor, signal.SIGKILL)
            os._exit(1)

    def kill_another(self, phase: str) -> None:
        """On the driver: kill an executor."""
        alive = [int(file.name) for file in self._files("executors") if is_executor(int(file.name))]
        if alive and self._leave("deaths", phase):
            os.kill(alive[0], signal.SIGKILL)

    def _files(self, name: str) -> list[pathlib.Path]:
        place = pathlib.Path(self.directory, name)
        return list(place.iterdir()) if place.is_dir() else []

    def _leave(self, kind: str, name: str) -> bool:
        """Leave a file.  Returns whether it is new."""
        place = pathlib.Path(self.directory, kind)
        place.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(place / name, os.O_CREAT | os.O_EXCL))
            return True
        return False


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_executor(pid: int) -> bool:
    """Return whether a process is an executor that lives."""
    with suppress(OSError):
        return b"ExecutorBackend" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


class Total:
    """A number, or a sum, whose executor may die while it is written to a shuffle, and while it is read."""

    def __init__(self, sum: int, deaths: Deaths) -> None:
        self.sum = sum
        self.deaths = deaths

    def __reduce__(self) -> tuple[Callable[..., Total], tuple[int, Deaths]]:
        self.deaths.come_to("shuffle write")
        return _read, (self.sum, self.deaths)


def _read(sum: int, deaths: Deaths) -> Total:
    deaths.come_to("shuffle read")
    return Total(sum, deaths)


class Sum(beam.CombineFn):
    """Sums."""

    def __init__(self, deaths: Deaths) -> None:
        self._deaths = deaths

    def create_accumulator(self) -> Total:
        return Total(0, self._deaths)

    def add_input(self, accumulator: Total, element: Total) -> Total:
        return Total(accumulator.sum + element.sum, self._deaths)

    def merge_accumulators(self, accumulators: Any) -> Total:
        return Total(sum(each.sum for each in accumulators), self._deaths)

    def extract_output(self, accumulator: Total) -> int:
        return accumulator.sum


class FragileSink(Sink[Any]):
    """A table whose executor may die when it has staged rows, and another one while rows are published."""

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self, table: TableSink, deaths: Deaths) -> None:
        self._table = table
        self._deaths = deaths

    def prepare(self, context: SinkContext) -> None:
        self._table.prepare(context)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return FragileWriter(self._table.open_writer(context), self._deaths)

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        self._table.precommit(staged)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self._deaths.kill_another("sink commit")
        self._table.commit(context, staged)

    def abort(self, context: SinkContext) -> None:
        self._table.abort(context)


class FragileWriter(SinkWriter[Any]):
    """The writer of an executor."""

    def __init__(self, writer: SinkWriter[Any], deaths: Deaths) -> None:
        self._writer = writer
        self._deaths = deaths

    def write(self, bundle: Bundle) -> None:
        self._writer.write(bundle)

    def stage(self) -> Any:
        staged = self._writer.stage()
        self._deaths.come_to("sink stage")
        return staged

    def discard(self) -> None:
        self._writer.discard()


def build(p: beam.Pipeline, numbers: int, deaths: Deaths) -> None:
    """Sums by key and window of ten numbers of each key, said early and corrected."""
    parts = p | beam.Create(range(8)) | beam.FlatMap(lambda part: range(part, numbers, 8))

    def keyed(n: int) -> tuple[tuple[int, int], Total]:
        if n > numbers // 2:
            deaths.come_to("read")
        return (n % KEYS, n // (KEYS * WINDOW)), Total(n, deaths)

    sums = (
        parts
        | "Key" >> beam.Map(keyed)
        | "Window"
        >> beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(4)),
            accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
        )
        | "Sum" >> beam.CombinePerKey(Sum(deaths))
    )
    rows = sums | "Row" >> beam.MapTuple(lambda key, total: {"key": key[0], "part": key[1], "sum": total})
    write = beam.io.WriteToSQLite(
        os.path.join(deaths.directory, "out.db"), "sums", ["key", "part"], ["key", "part", "sum"]
    )
    rows | "Write" >> beam.io.Write(FragileSink(write.sink_for(rows), deaths))


def expected(numbers: int) -> Iterator[tuple[int, int, int]]:
    """Compute the rows, without the library, in the order of their keys."""
    sums: dict[tuple[int, int], int] = {}
    for n in range(numbers):
        key = n % KEYS, n // (KEYS * WINDOW)
        sums[key] = sums.get(key, 0) + n
    for (key, part), total in sorted(sums.items()):
        yield key, part, total


def main() -> None:
    """Run to the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--numbers", type=int)
    parser.add_argument("--directory")
    ours, flags = parser.parse_known_args()
    with beam.Pipeline(options=PipelineOptions(flags)) as p:
        build(p, ours.numbers, Deaths(ours.directory))


if __name__ == "__main__":
    sys.exit(main())
