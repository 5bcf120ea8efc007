"""A DataFrame as an RDD of blocks: rows as Arrow has them, which Spark makes without a Python worker of its own.

PySpark's own way to bytes of Arrow in Python, `mapInArrow`, needs a worker more for each task, through which all
rows pass once to be packed; `DataFrame.rdd` pickles them one by one.  Two million rows of four columns
were read, on two cores that others used too, in 1.5, 7 and 47 s: in this way and in those two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...io.spark_rows import arrow_schema
from ...sdk.frames import Block, BoundedFrame, UnboundedFrame
from ..execution.user_code import guarded

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
