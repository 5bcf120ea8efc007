"""A Spark job that is a chain of shuffles, in which each shard has Python workers of its own.

Spark gives a task to any Python worker of its executor that is idle, so what a worker keeps from batch to
batch is rarely what its next task needs.  But Spark keeps workers of different environments apart.  Here
each shard's part of an RDD is an RDD by itself, whose workers have the shard's number in their environment: on
one executor a shard always comes back to the same worker.  (docs/decisions/010-a-shards-own-worker.md)

What is shuffled are bytes, as they are: Spark's own batches of pickled pairs would only wrap them once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..jobs import LONGEST_NAME, stage_named

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

# What tells the workers of one shard from those of others.
SHARD_VARIABLE = "PENSTOCK_SHARD"

# For more shards than this there are workers in common: setting up an RDD takes the driver a millisecond or two.
MOST_OWN = 64

# Held while the context's environment is a shard's: several queries may run in a session.
_environment = threading.Lock()

# What a shard's task makes: for which shard, and what.
Row = tuple[int, bytes]
ShardTask = Callable[[Iterable[bytes]], Iterator[Row]]


class Rows(NamedTuple):
    """What a chain begins with.

    Attributes:
      rows: an RDD of the JVM's, of bytes, with a partition for each shard.
      read: what makes of a partition's bytes those that tasks are given; None if they are that already.
    """

    rows: Any
    read: Callable[[Iterable[Any]], Iterator[bytes]] | None


class ShardChain:
    """Task after task of every shard, with a shuffle in between.

    Args:
      shards: how many there are.
    """

    def __init__(self, context: SparkContext, shards: int) -> None:
        self._context: Any = context
        self._shards = shards
        own = min(shards, MOST_OWN)
        # The shards by whose workers they have.
        self._groups = [list(range(first, shards, own)) for first in range(own)]
        self._nothing = {n: self._context.parallelize([b""] * n, n) for n in {len(group) for group in self._groups}}
        self._parts: list[RDD[Any]] = []
        self._name = ""

    def level(self, task: Callable[[int], ShardTask], name: str, rows: Rows | None = None) -> None:
        """Have `task(shard)` run on what the level before has made for the shard.

        Args:
          name: of the level's stage in Spark's pages.
          rows: what the first level runs on; otherwise that has nothing.
        """
        if self._parts:
            inputs = self._shuffled()
        elif rows is not None:
            read = rows.read
            inputs = [rdd if read is None else rdd.mapPartitions(read) for rdd in self._by_group(rows.rows)]
        else:
            inputs = [self._nothing[len(group)] for group in self._groups]
        self._parts, self._name = [], name
        for number, (shards, rdd) in enumerate(zip(self._groups, inputs)):
            own = rdd.mapPartitionsWithIndex(_Level([task(shard) for shard in shards]))
            self._made(own, number)
            own.setName(name[:LONGEST_NAME])
            self._parts.append(own)

    def collect(self) -> list[bytes]:
        """Run it all: what the last level has made, for whichever shard.  The next level will be a first one again."""
        parts, self._parts = self._parts, []
        with stage_named(self._context, self._name):
            return self._context.union(parts).collect()[1::2]  # type: ignore[no-any-return]

    def _made(self, rdd: Any, number: int) -> None:
        """Make it an RDD of the JVM's now, in the environment of its workers."""
        with _environment:
            environment = self._context.environment
            self._context.environment = {**environment, SHARD_VARIABLE: str(number)}
            try:
                # Bytes go out as they are.
                rdd._bypass_serializer = True
                rdd._jrdd  # noqa: B018
            finally:
                self._context.environment = environment

    def _shuffled(self) -> list[RDD[Any]]:
        jvm = self._context._jvm
        made: Any = self._context.union(self._parts)
        with stage_named(self._context, self._name):
            pairs = jvm.PairwiseRDD(made._jrdd.rdd()).asJavaPairRDD()
        by_shard = jvm.PythonPartitioner(self._shards, id(_Level))
        return self._by_group(jvm.PythonRDD.valueOfPair(pairs.partitionBy(by_shard)))

    def _by_group(self, rows: Any) -> list[RDD[Any]]:
        """An RDD of the JVM's with a partition of bytes for each shard, cut into what each group's workers read."""
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        jvm = self._context._jvm
        inputs: list[RDD[Any]] = []
        for shards in self._groups:
            # A set of Scala's is a function that says whether something is in it.
            wanted = jvm.PythonUtils.toSeq(shards).toSet()
            own = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows.rdd(), wanted)
            inputs.append(RDD(own.toJavaRDD(), self._context, NoOpSerializer()))
        return inputs


class _Level:
    """The function that Spark calls with the partitions of one RDD: of a shard, or of those that share workers."""

    def __init__(self, tasks: Sequence[ShardTask]) -> None:
        self._tasks = tasks

    def __call__(self, index: int, rows: Iterable[bytes]) -> Iterator[bytes]:
        from pyspark.serializers import pack_long

        for shard, data in self._tasks[index](rows):
            yield pack_long(shard)  # type: ignore[no-untyped-call]
            yield data
