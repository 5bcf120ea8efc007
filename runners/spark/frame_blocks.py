"""A DataFrame as an RDD of blocks: rows as Arrow has them, which Spark makes without a Python worker of its own.

PySpark's own ways to rows in Python are several times slower (docs/decisions/011-two-logs-of-a-spark-stream.md).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ...io.spark.arrow_rows import arrow_schema
from ...sdk.spark_interfaces import Block, BoundedFrame, UnboundedFrame
from ..execution.user_errors import guarded
from .planned_batch import FrameRows
from .shard_chain import Rows

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession


def opened(label: str, source: BoundedFrame | UnboundedFrame, session: SparkSession) -> Any:
    """The DataFrame of a source; what user code raises in making it is attributed to the transform."""
    return guarded(label, lambda: source.frame(session))


def blocks(label: str, frame: Any, partitions: int | None = None) -> tuple[RDD[bytes], bytes]:
    """A DataFrame's rows, as messages of Arrow's IPC, and their schema, serialised.

    Args:
      partitions: at most so many, without a shuffle; None for those that it has.

    Raises `SourceError`, naming the transform, for columns that elements can't have.
    """
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    session = frame.sparkSession
    large = session.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true"
    schema = arrow_schema(frame.schema, label, large)
    messages = frame._jdf.toArrowBatchRdd().toJavaRDD()
    if partitions is not None and messages.getNumPartitions() > partitions:
        messages = messages.coalesce(partitions)
    return RDD(messages, session.sparkContext, NoOpSerializer()), schema.serialize().to_pybytes()


def each_as(make: Callable[[Block], bytes], schema: bytes) -> Callable[[Iterable[Any]], Iterator[bytes]]:
    """What makes something of each message of a partition."""

    def run(messages: Iterable[Any]) -> Iterator[bytes]:
        return (make(Block(schema, bytes(message))) for message in messages)

    return run


def as_readings(frames: Mapping[str, Any], shards: int) -> Rows:
    """What the shards of a batch read of DataFrames: of each a part, in its own partition."""
    parts = []
    for label, frame in frames.items():
        messages, schema = blocks(label, frame, shards)
        parts.append((messages, each_as(partial(_reading, label), schema)))
    messages, read = parts[0]
    if len(parts) == 1:
        return Rows(_filled(messages.ctx, messages._jrdd, shards), read)
    # Where they come together nothing tells them apart any more: they are read before.
    joined: Any = None
    for messages, read in parts:
        made: Any = messages.mapPartitions(read)
        # Bytes go out as they are.
        made._bypass_serializer = True
        joined = made._jrdd if joined is None else joined.union(made._jrdd)
    return Rows(_filled(messages.ctx, joined, shards), None)


def _reading(label: str, block: Block) -> bytes:
    return pickle.dumps((FrameRows(label, block),), protocol=5)


def _filled(context: Any, rows: Any, shards: int) -> Any:
    """The same rows in just so many partitions, without a shuffle."""
    missing = shards - rows.getNumPartitions()
    if missing < 0:
        return rows.coalesce(shards)
    if missing == 0:
        return rows
    return rows.union(context._jsc.parallelize(context._jvm.java.util.ArrayList(), missing))
