"""The Spark job of a micro-batch: one stage for each task of the execution graph, with shuffles between them.

Over Spark Connect its stages are those of DataFrames (`subtask_frames.py`), and otherwise those of RDDs.

Spark gives a task to any idle Python worker of its executor, but keeps workers with different environments apart.  So
each subtask's partition is an RDD of its own, whose workers have the number of the subtask in their environment.  On
one executor a subtask always runs in the same worker, which has its state
(docs/decisions/010-a-subtasks-own-worker.md).

Rows are shuffled as bytes, without PySpark's pickled batches of pairs around them.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import attrs
import cloudpickle

from ....sdk.errors import RunnerError
from ....sdk.process.carried_settings import CarriedSettings
from ....sdk.spark_interfaces import Block
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ...execution.batch.attempts import joined, mixed
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import rarely_collected, set_aside
from ...execution.plan.execution_graph import SubtaskId
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import as_exception
from ..dataframes import blocks, each_as
from ..executor_functions import ExecutorFunction
from ..jobs import Jobs, raise_original
from ..private import LONGEST_NAME, exchange_of, in_partitions, stage_named, workers_of
from ..remote import is_remote
from ..remote_jobs import RemoteJobs, default_parallelism
from .commit_log import StatePart
from .exchange import Row, SubtaskResult, addressed
from .plan import FrameRows, PlannedBatch
from .subtask import Program, SubtaskCache
from .subtask_frames import CarriedPayload, RowFunction, SubtaskFrames

if TYPE_CHECKING:
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import SparkSession

# How often a batch runs if Spark recomputes subtasks whose output was already consumed.
_ATTEMPTS = 3

# The most groups of workers.  With more subtasks, several share workers: an RDD costs the driver a millisecond or two.
MAX_WORKER_GROUPS = 64

# The number of runs whose subtasks a worker keeps; a session may have several at the same time.
_MAX_RUNS = 4


class MicroBatches:
    """Runs batches of one program.

    Attributes:
      jobs: its Spark jobs.
    """

    def __init__(self, program: Program, session: SparkSession) -> None:
        self.program = program
        self.run_name = uuid4().hex[:12]
        with local_modules_by_value():
            payload = dumps((program, CarriedSettings.of_this_process()), "the pipeline")
        group = f"penstock-{self.run_name}"
        self.jobs: Jobs | RemoteJobs
        self._payload: Broadcast[bytes] | CarriedPayload
        self._chain: SubtaskRdds | SubtaskFrames
        if is_remote(session):
            self.jobs = RemoteJobs(session, group, default_parallelism(session))
            self._payload, self._chain = CarriedPayload(payload), SubtaskFrames(session, program.parallelism)
        else:
            context = session.sparkContext
            self.jobs = Jobs(context, group)
            self._payload, self._chain = context.broadcast(payload), SubtaskRdds(context, program.parallelism)

    def close(self) -> None:
        """Remove the program from the executors."""
        if not isinstance(self._payload, CarriedPayload):
            self._payload.destroy()

    def run(
        self,
        batch: PlannedBatch,
        parts: Mapping[SubtaskId, Sequence[StatePart]],
        frames: Mapping[str, Any] | None = None,
    ) -> list[SubtaskResult]:
        """Run a batch.  Its output isn't visible before the results are committed.

        Args:
          parts: the state of each subtask before the batch.
          frames: the DataFrames that the batch reads, by the labels of their sources.

        Raises the error that made the batch fail.
        """
        for _ in range(_ATTEMPTS):
            results = self._run_once(batch, parts, frames or {})
            differing = mixed(joined(map(_read_by, results)))
            if not differing:
                return results
        tasks = self.program.execution_graph.tasks
        labels = ", ".join(dict.fromkeys(tasks[id.task].label for id in sorted(differing)))
        raise RunnerError(
            f"{labels}: in each of {_ATTEMPTS} runs of batch {batch.number} Spark computed a task again after other "
            "tasks had read the output of an earlier attempt; expected one attempt's output only. Check whether "
            "executors are being lost"
        )

    def _run_once(
        self, batch: PlannedBatch, parts: Mapping[SubtaskId, Sequence[StatePart]], frames: Mapping[str, Any]
    ) -> list[SubtaskResult]:
        parallelism = self.program.parallelism
        with local_modules_by_value():
            splits = [dumps(batch.splits_of(i, parallelism), "the batch's input") for i in range(parallelism)]
        # Each subtask gets its own splits, and none needs the positions.
        header = attrs.evolve(batch, splits=(), positions=None)
        for task in self.program.execution_graph.tasks:

            def function_of(index: int, number: int = task.id) -> SubtaskFunction:
                id = SubtaskId(number, index)
                own = splits[index] if number == 0 and not isinstance(self._chain, SubtaskFrames) else None
                return SubtaskFunction(self.run_name, self._payload, id, header, parts.get(id, ()), own)

            if isinstance(self._chain, SubtaskFrames):
                self._chain.add_task(function_of, splits)
            else:
                rows = _as_splits(frames, parallelism) if task.id == 0 and frames else None
                self._chain.add_task(function_of, task.label, rows)
        try:
            rows_of_driver = self.jobs.run(f"batch {batch.number}", self._chain.collect)
        except Exception as error:
            self.jobs.cancel()
            raise_original(error)
            raise
        return sorted((pickle.loads(addressed(row)[1]) for row in rows_of_driver), key=lambda result: result.id)


def _read_by(result: SubtaskResult) -> dict[SubtaskId, set[str]]:
    """Return the attempts that a subtask has read, and its own, which the driver has read."""
    return {id: {attempt} for id, attempt in ((result.id, result.attempt), *result.consumed.items())}


# --- RDDs


class InputRows(NamedTuple):
    """The rows that the first task reads.

    Attributes:
      rows: bytes, with one partition for each subtask.
      read: converts the rows of a partition; None if they need no conversion.
    """

    rows: RDD[bytes]
    read: Callable[[Iterable[Any]], Iterator[bytes]] | None


class SubtaskRdds:
    """The RDDs of one job, task by task.

    Args:
      parallelism: the number of subtasks of each task.
    """

    def __init__(self, context: SparkContext, parallelism: int) -> None:
        self._context = context
        self._parallelism = parallelism
        self._exchange = exchange_of(context)
        self._workers = workers_of(context, parallelism, min(parallelism, MAX_WORKER_GROUPS))
        sizes = {len(group) for group in self._workers.groups}
        self._empty = {n: context.parallelize([b""] * n, n) for n in sizes}
        self._outputs: list[RDD[Any]] = []
        self._name = ""

    def add_task(self, function_of: Callable[[int], RowFunction], name: str, rows: InputRows | None = None) -> None:
        """Append a task, whose subtasks read the rows that the task before has sent them.

        Args:
          function_of: returns the function of a subtask, by its index.
          name: the name of the stage in Spark's UI.
          rows: the input of the first task, if it has any.
        """
        workers = self._workers
        if self._outputs:
            with stage_named(self._context, self._name):
                received = self._exchange.shuffled(self._outputs, self._parallelism)
            inputs = workers.split(received)
        elif rows is not None:
            read = rows.read
            inputs = [rdd if read is None else rdd.mapPartitions(read) for rdd in workers.split(rows.rows)]
        else:
            inputs = [self._empty[len(group)] for group in workers.groups]
        self._outputs, self._name = [], name
        for number, (group, rdd) in enumerate(zip(workers.groups, inputs, strict=True)):
            function = _GroupFunction([function_of(index) for index in group])
            output = self._exchange.sent(rdd.mapPartitionsWithIndex(function))
            workers.place(output, number)
            output.setName(name[:LONGEST_NAME])
            self._outputs.append(output)

    def collect(self) -> list[bytes]:
        """Run the job and return the data that the last task's subtasks have sent.  The next task is a first one."""
        outputs, self._outputs = self._outputs, []
        with stage_named(self._context, self._name):
            return self._exchange.collected(outputs)


class _GroupFunction(ExecutorFunction):
    """The function that Spark calls with each partition of one group's RDD."""

    def __init__(self, functions: Sequence[RowFunction]) -> None:
        self._functions = functions

    def __call__(self, index: int, rows: Iterable[bytes]) -> Iterator[Row]:
        return self._functions[index](rows)


# --- Subtasks in a Python worker


_caches: OrderedDict[str, SubtaskCache] = OrderedDict()


def _cache_of(run: str, payload: Broadcast[bytes] | CarriedPayload) -> SubtaskCache:
    found = _caches.get(run)
    if found is None:
        program, settings = cloudpickle.loads(payload.value)
        settings.apply()
        found = _caches[run] = SubtaskCache(program)
        while len(_caches) > _MAX_RUNS:
            _caches.popitem(last=False)
    _caches.move_to_end(run)
    return found


class SubtaskFunction:
    """A batch on one subtask.

    Args:
      run: the name of the run.
      payload: the run's program and settings, pickled.
      parts: the state of the subtask before the batch.
      splits: the input of a subtask of the first task, pickled; None if it comes as a row.
    """

    def __init__(
        self,
        run: str,
        payload: Broadcast[bytes] | CarriedPayload,
        id: SubtaskId,
        batch: PlannedBatch,
        parts: Sequence[StatePart],
        splits: bytes | None = None,
    ) -> None:
        self._run = run
        self._payload = payload
        self._id = id
        self._batch = batch
        self._parts = parts
        self._splits = splits

    def __call__(self, rows: Iterable[bytes]) -> Iterator[Row]:
        """Yield the rows that the subtask sends, and forward messages for later tasks."""
        try:
            cache = _cache_of(self._run, self._payload)
            with rarely_collected(), CallWatch(cache.program.worker_timeout):
                yield from self._run_batch(cache, rows)
        except GeneratorExit:
            # Spark needs no more rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None

    def _run_batch(self, cache: SubtaskCache, rows: Iterable[bytes]) -> Iterator[Row]:
        id = self._id
        if self._splits is not None:
            # The rows of a first task are those of DataFrames, read one by one, or one empty row.
            rows = chain([self._splits], filter(None, rows))
        subtask = cache.take(id, self._batch, self._parts)
        yield from subtask.run(self._batch, rows)
        cache.subtasks[id] = subtask
        # Otherwise PySpark's daemon would collect garbage among all of the state after each task.
        set_aside()


# --- DataFrames as input


def _as_splits(frames: Mapping[str, Any], parallelism: int) -> InputRows:
    """Return the rows of DataFrames as splits, with a part of each DataFrame in each partition."""
    parts = []
    for label, frame in frames.items():
        messages, schema = blocks(label, frame, parallelism)
        parts.append((messages, each_as(partial(_frame_rows, label), schema)))
    messages, read = parts[0]
    if len(parts) == 1:
        return InputRows(in_partitions(messages, parallelism), read)
    # The union no longer tells the frames apart, so each is converted before.
    converted = [messages.mapPartitions(read) for messages, read in parts]
    return InputRows(in_partitions(messages.context.union(converted), parallelism), None)


def _frame_rows(label: str, block: Block) -> bytes:
    return pickle.dumps((FrameRows(label, block),), protocol=5)
