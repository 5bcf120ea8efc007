"""Elements that become a DataFrame: packed in the tasks, kept by the executors, unpacked when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...io.optional_package import optional_package
from ...io.spark.arrow_rows import pyarrow
from ...sdk.bundle import Bundle
from ..execution.counters import Counts
from ..execution.user_errors import guarded

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# How many rows are packed together.
_ROWS = 10_000

# What makes bytes of elements: a stream of Arrow's IPC.
Pack = Callable[[list[Any]], bytes]


class FrameOutput:
    """One task's part of a DataFrame.

    Args:
      keep: where packed rows go.
    """

    def __init__(self, label: str, pack: Pack, keep: Callable[[bytes], None], counts: Counts) -> None:
        self.label = label
        self._pack = pack
        self._keep = keep
        self._count = counts.of(label)
        self._rows: list[Any] = []

    def receive(self, bundle: Bundle) -> None:
        """Take the elements of a bundle."""
        self._count.read += len(bundle)
        self._rows.extend(bundle.values)
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Pack what there is."""
        rows, self._rows = self._rows, []
        if rows:
            self._keep(guarded(self.label, lambda: self._pack(rows)))
            self._count.written += len(rows)


def check_packages() -> None:
    """Raise `MissingExtraError` where a package is missing that Spark needs to make a DataFrame of what was packed."""
    pyarrow()
    optional_package("pandas", extra="dataframes", needed_for="ToSpark")


def frame_of(session: SparkSession, packed: RDD[bytes], schema: Any) -> Any:
    """The DataFrame of packed rows."""
    rows = packed.map(_alone)
    return session.createDataFrame(rows, "packed binary", verifySchema=False).mapInArrow(_unpacked, schema)


def _alone(packed: bytes) -> tuple[bytes]:
    return (packed,)


def _unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    pa = pyarrow()
    for batch in batches:
        for packed in batch.column(0):
            yield from pa.ipc.open_stream(packed.as_buffer())
