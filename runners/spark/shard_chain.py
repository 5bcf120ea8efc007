"""A Spark job that is a chain of shuffles, in which each shard has Python workers of its own.

Spark gives a task to any Python worker of its executor that is idle, so what a worker keeps from batch to
batch is rarely what its next task needs.  But Spark keeps workers of different environments apart.  Here
each shard's part of an RDD is an RDD by itself, whose workers have the shard's number in their environment: on
one executor a shard always comes back to the same worker.  (docs/decisions/010-a-shards-own-worker.md)

What is shuffled are bytes, as they are: Spark's own batches of pickled pairs would only wrap them once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

# What tells the workers of one shard from those of others.
SHARD_VARIABLE = "PENSTOCK_SHARD"

# For more shards than this there are workers in common: setting up an RDD takes the driver a millisecond or two.
MOST_OWN = 64

# What a shard's task makes: for which shard, and what.
Row = tuple[int, bytes]
ShardTask = Callable[[Iterable[bytes]], Iterator[Row]]


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

    def level(self, task: Callable[[int], ShardTask], name: str) -> None:
        """Have `task(shard)` run on what the level before has made for the shard; on nothing in the first one."""
        inputs = self._shuffled() if self._parts else [self._nothing[len(group)] for group in self._groups]
        self._parts = []
        for number, (shards, rdd) in enumerate(zip(self._groups, inputs)):
            own = rdd.mapPartitionsWithIndex(_Level([task(shard) for shard in shards]))
            self._made(own, number)
            own.setName(name)
            self._parts.append(own)

    def collect(self) -> list[bytes]:
        """Run it all: what the last level has made, for whichever shard.  The next level will be a first one again."""
        parts, self._parts = self._parts, []
        return self._context.union(parts).collect()[1::2]  # type: ignore[no-any-return]

    def _made(self, rdd: Any, number: int) -> None:
        """Make it an RDD of the JVM's now, in the environment of its workers."""
        environment = self._context.environment
        self._context.environment = {**environment, SHARD_VARIABLE: str(number)}
        try:
            # Bytes go out as they are.
            rdd._bypass_serializer = True
            rdd._jrdd  # noqa: B018
        finally:
            self._context.environment = environment

    def _shuffled(self) -> list[RDD[Any]]:
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        jvm = self._context._jvm
        made: Any = self._context.union(self._parts)
        pairs = jvm.PairwiseRDD(made._jrdd.rdd()).asJavaPairRDD()
        by_shard = jvm.PythonPartitioner(self._shards, id(_Level))
        shuffled = jvm.PythonRDD.valueOfPair(pairs.partitionBy(by_shard)).rdd()
        inputs: list[RDD[Any]] = []
        for shards in self._groups:
            # A set of Scala's is a function that says whether something is in it.
            wanted = jvm.PythonUtils.toSeq(shards).toSet()
            own = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(shuffled, wanted)
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
