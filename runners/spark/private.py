"""All uses of private API of PySpark and of Spark's JVM, each with a public way instead of it.

A version of Spark that lacks a name, or has another one behind it, costs time or a name in Spark's UI, and never a
result: what runs instead is logged once in a process.  `docs/versions.md` lists the uses.
"""

from __future__ import annotations

import struct
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ...frozen import frozen
from ...sdk.redaction import logger_of

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_logger = logger_of(__name__)

T = TypeVar("T")


@frozen
class Use:
    """Names without which something runs in another way.

    Attributes:
      names: as `attribute` is called with them.
      without: what runs instead.
    """

    names: tuple[str, ...]
    without: str


STAGE_NAMES = Use(("SCCallSiteSync", "_jsc.setCallSite"), "Spark's UI names stages by lines of code")
DRIVER = Use(("_active_spark_context",), "a SparkContext without a SparkSession is not found")
ARROW_ROWS = Use(
    ("_jdf.toArrowBatchRdd", "NoOpSerializer"), "Python workers copy the rows of DataFrames on their way to the tasks"
)
STREAM_SOURCES = Use(
    ("_jdf.queryExecution", "_jvm.scala.jdk.javaapi.CollectionConverters"),
    "a changed input of FromSparkStream is found by Spark alone",
)
EMPTY_ROWS = Use(("_jsc.parallelize", "_jvm.java.util.ArrayList", "NoOpSerializer"), "Python workers make empty rows")
BYTE_SHUFFLE = Use(
    (
        *("_bypass_serializer", "_jrdd", "_jvm.PairwiseRDD", "_jvm.PythonPartitioner", "_jvm.PythonRDD.valueOfPair"),
        "NoOpSerializer",
    ),
    "shuffles pickle their rows, and gather up to 1,000 of them in a Python worker",
)
OWN_WORKERS = Use(
    (
        *("environment", "_jrdd", "_jrdd_deserializer", "_jvm.PythonUtils.toSeq"),
        "_jvm.org.apache.spark.rdd.PartitionPruningRDD",
    ),
    "subtasks of micro-batches run in any worker, which restores their state from the checkpoint's files",
)
USES = (STAGE_NAMES, DRIVER, ARROW_ROWS, STREAM_SOURCES, EMPTY_ROWS, BYTE_SHUFFLE, OWN_WORKERS)

# What was logged.
told: set[Use] = set()


def attribute(owner: Any, path: str) -> Any:
    """Return an attribute of attributes, by its dotted path."""
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _either(use: Use, ours: Callable[[], T], instead: Callable[[], T]) -> T:
    """Return what the first function does, or, if private API isn't what it was, the second."""
    try:
        return ours()
    except Exception as error:
        if not _is_lack(error):
            raise
        if use not in told:
            told.add(use)
            version = getattr(sys.modules.get("pyspark"), "__version__", "")
            line = (str(error) or type(error).__name__).splitlines()[0]
            _logger.warning("PySpark %s lacks what penstock uses (%s): %s", version, line, use.without)
        return instead()


def _is_lack(error: Exception) -> bool:
    if isinstance(error, (AttributeError, ImportError, TypeError)):
        return True
    py4j = sys.modules.get("py4j.protocol")
    # An error of Java's is one of a method that is there.
    return py4j is not None and isinstance(error, py4j.Py4JError) and not isinstance(error, py4j.Py4JJavaError)


# --- The driver

# The longest name of a stage, in characters.
LONGEST_NAME = 200

_call_sites = threading.Lock()


@contextmanager
def stage_named(context: SparkContext, name: str) -> Iterator[None]:
    """Name the stages that end in an RDD created in this context; Spark's UI shows a line of our code otherwise."""
    with ExitStack() as block:
        _either(STAGE_NAMES, lambda: block.enter_context(_call_site(context, name)), lambda: None)
        yield


@contextmanager
def _call_site(context: SparkContext, name: str) -> Iterator[None]:
    from pyspark import traceback_utils

    # Inside of it PySpark sets no call site of its own.  It counts how many are entered, in all threads.
    outer = attribute(traceback_utils, "SCCallSiteSync")(context)
    with _call_sites:
        outer.__enter__()
    try:
        attribute(context, "_jsc.setCallSite")(name[:LONGEST_NAME])
        yield
    finally:
        with _call_sites:
            outer.__exit__(None, None, None)


def has_driver() -> bool:
    """Return True if this process has a SparkContext."""
    # The package `pyspark-client`, a client alone, has none.
    kind = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return kind is not None and _either(
        DRIVER, lambda: attribute(kind, "_active_spark_context") is not None, _has_session
    )


def _has_session() -> bool:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        SparkSession.active()
    except PySparkException:
        return False
    return True


# --- DataFrames


def arrow_messages(frame: Any) -> RDD[bytes]:
    """Return a DataFrame's rows as messages of Arrow's IPC, without their schema."""

    def of_jvm() -> RDD[bytes]:
        return _of_bytes(attribute(frame, "_jdf.toArrowBatchRdd")().toJavaRDD(), frame.sparkSession.sparkContext)

    return _either(ARROW_ROWS, of_jvm, lambda: frame.mapInArrow(_packed, "message binary").rdd.map(itemgetter(0)))


def _packed(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow

    for batch in batches:
        yield pyarrow.record_batch({"message": [batch.serialize().to_pybytes()]})


def _of_bytes(java: Any, context: SparkContext) -> RDD[bytes]:
    """Return a Java RDD of bytes, which need no serializer."""
    from pyspark import RDD, serializers

    return RDD(java, context, attribute(serializers, "NoOpSerializer")())


# Options of Spark's streaming sources that their offsets depend on.  Others may be passwords.
_PLACES = {"path", "subscribe", "subscribepattern", "assign", "topic", "host", "port", "rowspersecond", "numpartitions"}


def stream_sources(frame: Any) -> Mapping[str, str] | None:
    """Return the names of the Spark sources of a streaming DataFrame, with the options of their input; None if they
    are unknown."""
    return _either(STREAM_SOURCES, lambda: {f"source {i}": s for i, s in enumerate(_sources(frame))}, lambda: None)


def _sources(frame: Any) -> Iterator[str]:
    leaves = attribute(frame, "_jdf.queryExecution")().analyzed().collectLeaves()
    as_java = attribute(frame.sparkSession, "_jvm.scala.jdk.javaapi.CollectionConverters").asJava
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        kind = leaf.getClass().getSimpleName()
        if kind == "StreamingRelationV2":
            name, options = leaf.sourceName(), dict(leaf.extraOptions().asCaseSensitiveMap())
        elif kind == "StreamingRelation":
            name, options = leaf.dataSource().className(), dict(as_java(leaf.dataSource().options()))
        else:
            continue
        own = sorted(f"{key}={value}" for key, value in options.items() if key.lower() in _PLACES)
        yield f"{name}({', '.join(own)})"


# --- Partitions


def in_partitions(rows: RDD[T], partitions: int) -> RDD[T]:
    """Return the rows in exactly this many partitions, without a shuffle."""
    context, missing = rows.context, partitions - rows.getNumPartitions()
    if missing <= 0:
        return rows.coalesce(partitions) if missing else rows

    def of_jvm() -> RDD[Any]:
        nothing = attribute(context, "_jvm.java.util.ArrayList")()
        return _of_bytes(attribute(context, "_jsc.parallelize")(nothing, missing), context)

    return rows.union(_either(EMPTY_ROWS, of_jvm, lambda: context.parallelize([], missing)))


class Exchange(ABC):
    """Shuffles of rows, each of which is the number of a partition and bytes."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @abstractmethod
    def sent(self, rows: RDD[tuple[int, bytes]]) -> RDD[Any]:
        """Return rows as they are sent."""

    @abstractmethod
    def shuffled(self, sent: Sequence[RDD[Any]], partitions: int) -> RDD[bytes]:
        """Return the bytes of the rows that were sent, in their partitions."""

    @abstractmethod
    def collected(self, sent: Sequence[RDD[Any]]) -> list[bytes]:
        """Run a job; return the bytes of all rows that were sent."""


class _Pairs(Exchange):
    def sent(self, rows: RDD[tuple[int, bytes]]) -> RDD[Any]:
        return rows

    def shuffled(self, sent: Sequence[RDD[Any]], partitions: int) -> RDD[bytes]:
        return self._context.union(list(sent)).partitionBy(partitions, int).map(itemgetter(1))

    def collected(self, sent: Sequence[RDD[Any]]) -> list[bytes]:
        return [data for _, data in self._context.union(list(sent)).collect()]


class _Bytes(Exchange):
    """Rows without PySpark's pickled batches of pairs around them, which gather up to 1,000 rows."""

    def sent(self, rows: RDD[tuple[int, bytes]]) -> RDD[Any]:
        sent: Any = rows.mapPartitions(_alternating, preservesPartitioning=True)
        # What isn't there would not be heeded.
        sent._bypass_serializer = not attribute(sent, "_bypass_serializer")
        return sent  # type: ignore[no-any-return]

    def shuffled(self, sent: Sequence[RDD[Any]], partitions: int) -> RDD[bytes]:
        context = self._context
        java = attribute(context.union(list(sent)), "_jrdd")
        pairs = attribute(context, "_jvm.PairwiseRDD")(java.rdd()).asJavaPairRDD()
        partitioner = attribute(context, "_jvm.PythonPartitioner")(partitions, id(Exchange))
        values = attribute(context, "_jvm.PythonRDD.valueOfPair")(pairs.partitionBy(partitioner))
        return _of_bytes(values, context)

    def collected(self, sent: Sequence[RDD[Any]]) -> list[bytes]:
        return self._context.union(list(sent)).collect()[1::2]


_NUMBER = struct.Struct("!q")


def _alternating(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    for number, data in rows:
        yield _NUMBER.pack(number)
        yield data


def exchange_of(context: SparkContext) -> Exchange:
    """Return the exchange of a context."""

    def of_bytes() -> Exchange:
        exchange = _Bytes(context)
        # Describes a shuffle, without a job.
        exchange.shuffled([exchange.sent(context.emptyRDD())], 1)
        return exchange

    return _either(BYTE_SHUFFLE, of_bytes, lambda: _Pairs(context))


# --- Python workers

# The environment variable that tells the workers of one group of partitions from those of others.
GROUP_VARIABLE = "PENSTOCK_SUBTASK"

# Held while the context's environment is that of a group: several queries may run in a session.
_environment = threading.Lock()


class Workers:
    """Any workers, for all partitions.

    Attributes:
      groups: the partitions that have workers in common.
    """

    def __init__(self, partitions: int) -> None:
        self.groups: list[list[int]] = [list(range(partitions))]

    def split(self, rows: RDD[T]) -> list[RDD[T]]:
        """Return the partitions of each group."""
        return [rows]

    def place(self, rows: RDD[Any], group: int) -> None:
        """Compute rows in the workers of a group."""


class _OwnWorkers(Workers):
    def __init__(self, context: Any, partitions: int, groups: int) -> None:
        self._context = context
        self.groups = [list(range(first, partitions, groups)) for first in range(groups)]

    def split(self, rows: RDD[T]) -> list[RDD[T]]:
        from pyspark import RDD

        java = attribute(rows, "_jrdd").rdd()
        to_seq = attribute(self._context, "_jvm.PythonUtils.toSeq")
        pruning = attribute(self._context, "_jvm.org.apache.spark.rdd.PartitionPruningRDD")
        serializer = attribute(rows, "_jrdd_deserializer")
        # A Scala set is a function that returns true for its elements.
        pruned = [pruning.create(java, to_seq(group).toSet()).toJavaRDD() for group in self.groups]
        return [RDD(each, self._context, serializer) for each in pruned]

    def place(self, rows: RDD[Any], group: int) -> None:
        context = self._context
        with _environment:
            before = attribute(context, "environment")
            context.environment = {**before, GROUP_VARIABLE: str(group)}
            try:
                # Creates the Java RDD, with the environment of this moment.
                attribute(rows, "_jrdd")
            finally:
                context.environment = before


def workers_of(context: SparkContext, partitions: int, groups: int) -> Workers:
    """Return the workers of partitions, in so many groups: Spark keeps workers with different environments apart."""

    def own() -> Workers:
        _OwnWorkers(context, 1, 1).place(context.parallelize([], 1), 0)
        _OwnWorkers(context, 1, 1).split(context.parallelize([], 1))
        return _OwnWorkers(context, partitions, groups)

    return _either(OWN_WORKERS, own, lambda: Workers(partitions))
