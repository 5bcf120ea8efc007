"""DataFrames as RDDs of blocks, and elements as DataFrames.

A block has rows in Arrow's format, which the JVM writes without a Python worker.  PySpark's own conversions to Python
rows are several times slower (docs/decisions/011-two-logs-of-a-spark-stream.md).  Tasks pack the elements that become
a DataFrame, and executors keep them until the DataFrame is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...io.optional_package import optional_package
from ...io.spark.arrow_rows import arrow_schema, pyarrow
from ...sdk.elements.bundle import Bundle
from ...sdk.spark_interfaces import Block, BoundedFrame, UnboundedFrame
from ..execution.counters import Counts
from ..execution.user_errors import guarded
from .private import arrow_messages

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession


def opened(label: str, source: BoundedFrame | UnboundedFrame, session: SparkSession) -> Any:
    """Return the DataFrame of a source, with errors of user code attributed to the transform."""
    return guarded(label, lambda: source.frame(session))


def blocks(label: str, frame: Any, partitions: int | None = None) -> tuple[RDD[bytes], bytes]:
    """Return a DataFrame's rows as messages of Arrow's IPC, and their serialised schema.

    Args:
      partitions: the most partitions, without a shuffle; None for those of the DataFrame.

    Raises `SourceError`, naming the transform, for columns that elements can't have.
    """
    large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    schema = arrow_schema(frame.schema, label, large)
    messages = arrow_messages(frame)
    if partitions is not None and messages.getNumPartitions() > partitions:
        messages = messages.coalesce(partitions)
    return messages, schema.serialize().to_pybytes()


def each_as(make: Callable[[Block], bytes], schema: bytes) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    """Return a function that converts each message of a partition."""

    def run(messages: Iterable[Any]) -> Iterator[bytes]:
        return (make(Block(schema, bytes(message))) for message in messages)

    return run


# The most rows that are packed together.
_ROWS = 10_000

# A function that packs elements as a stream of Arrow's IPC.
Pack = Callable[[list[Any]], bytes]


class FrameOutput:
    """The writer of one task's part of a DataFrame.

    Args:
      keep: receives packed rows.
    """

    def __init__(self, label: str, pack: Pack, keep: Callable[[bytes], None], counts: Counts) -> None:
        self.label = label
        self._pack = pack
        self._keep = keep
        self._count = counts.of(label)
        self._rows: list[Any] = []

    def receive(self, bundle: Bundle) -> None:
        """Add the elements of a bundle."""
        self._count.read += len(bundle)
        self._rows.extend(bundle.values)
        if len(self._rows) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Pack the elements that were added."""
        rows, self._rows = self._rows, []
        if rows:
            self._keep(guarded(self.label, lambda: self._pack(rows)))
            self._count.written += len(rows)


def check_packages() -> None:
    """Raise `MissingExtraError` if a package is missing that Spark needs to unpack DataFrames."""
    pyarrow()
    optional_package("pandas", extra="dataframes", needed_for="ToSpark")


def frame_of(session: SparkSession, packed: RDD[bytes], schema: Any) -> Any:
    """Return the DataFrame of packed rows."""
    rows = packed.map(_as_column)
    return session.createDataFrame(rows, "packed binary", verifySchema=False).mapInArrow(unpacked, schema)


def _as_column(packed: bytes) -> tuple[bytes]:
    return (packed,)


def unpacked(batches: Iterable[Any]) -> Iterator[Any]:
    """Return the record batches of packed rows."""
    pa = pyarrow()
    for batch in batches:
        for packed in batch.column(0):
            yield from pa.ipc.open_stream(packed.as_buffer())
