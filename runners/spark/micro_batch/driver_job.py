"""A micro-batch: one Spark job over the whole graph.

The graph is cut into levels, each as far as one goes without a shuffle, and the job is a chain of them.
What drives the batches, and when, is known elsewhere (query.py); so is what becomes of the results.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import attrs

from ....sdk.coders import registry
from ....sdk.errors import RunnerError
from ....sdk.serialization import dumps, local_modules_by_value
from ....sdk.spark_interfaces import Block
from ..dataframes import blocks, each_as
from ..jobs import Jobs, raise_original
from .exchange import TaskId, TaskResult, addressed
from .plan import FrameRows, PlannedBatch
from .subtask import Program, StatePart
from .task_rdds import Rows, ShardChain
from .task_worker import LevelTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How often a batch is run again whose tasks were given parcels of different attempts.
_ATTEMPTS = 3

# Of each task, what its state is in.
StateParts = Mapping[TaskId, Sequence[StatePart]]


class MicroBatches:
    """Runs batches of one program.

    Attributes:
      jobs: its Spark jobs.
    """

    def __init__(self, program: Program, session: SparkSession) -> None:
        self.program = program
        self.run_name = uuid4().hex[:12]
        self._context = session.sparkContext
        self.jobs = Jobs(self._context, f"penstock-{self.run_name}")
        self._chain = ShardChain(self._context, program.shards)
        with local_modules_by_value():
            payload = dumps((program, registry.registered()), "the pipeline")
        self._payload = self._context.broadcast(payload)

    def close(self) -> None:
        """Have the workers forget the program."""
        self._payload.destroy()

    def run(self, batch: PlannedBatch, parts: StateParts, frames: Mapping[str, Any] | None = None) -> list[TaskResult]:
        """Run a batch that goes on from these parts.  Nothing of it counts before its results are committed.

        Args:
          frames: DataFrames that it reads besides what it was planned to read, by the labels of their sources.

        Raises what made it fail, as one process would have raised it.
        """
        for _ in range(_ATTEMPTS):
            results = self._run_once(batch, parts, frames or {})
            if is_of_one_attempt(results):
                return results
        raise RunnerError(
            f"batch {batch.number}: in each of {_ATTEMPTS} runs Spark computed a task again whose first results others "
            "had already been given. Are executors being lost?"
        )

    def _run_once(self, batch: PlannedBatch, parts: StateParts, frames: Mapping[str, Any]) -> list[TaskResult]:
        shards = self.program.shards
        with local_modules_by_value():
            readings = [dumps(batch.of_shard(i, shards), "the batch's input") for i in range(shards)]
        # What is read has been sent, and where sources will stand is the driver's business.
        header = attrs.evolve(batch, readings=(), positions=None)
        for task in self.program.execution_graph.tasks:

            def of_shard(shard: int, level: int = task.id) -> LevelTask:
                id, own = TaskId(level, shard), readings[shard] if level == 0 else None
                return LevelTask(self.run_name, self._payload, id, header, parts.get(id, ()), own)

            rows = _as_readings(frames, shards) if task.id == 0 and frames else None
            self._chain.level(of_shard, task.label, rows)
        try:
            told = self.jobs.run(f"batch {batch.number}", self._chain.collect)
        except Exception as error:
            self.jobs.cancel()
            raise_original(error)
            raise
        return sorted((pickle.loads(addressed(row)[1]) for row in told), key=lambda result: result.id)


def is_of_one_attempt(results: Sequence[TaskResult]) -> bool:
    """Whether all that was given to a task's consumers, and to the driver, is of one attempt of it.

    Spark may compute a task again when what it made is lost, while others have been given some of it
    already.  A function that isn't deterministic may have made something else then.
    """
    attempts = {result.id: result.attempt for result in results}
    return all(attempts.get(id) == attempt for result in results for id, attempt in result.consumed.items())


# --- DataFrames as input


def _as_readings(frames: Mapping[str, Any], shards: int) -> Rows:
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
