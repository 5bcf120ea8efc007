"""Micro-batches without Spark: the runner's own query and subtasks, in this process.

For tests of the subtasks' state: a batch takes a few milliseconds here, and a tenth of a second on Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.clock import time_of_day
from penstock.runners.execution.plan.execution_graph import SubtaskId, cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.sinks.committer import with_dead_letters
from penstock.runners.execution.streaming.state_settings import StateSettings
from penstock.runners.spark.micro_batch import query as micro_batch_query
from penstock.runners.spark.micro_batch.exchange import SubtaskResult, addressed
from penstock.runners.spark.micro_batch.plan import PlannedBatch
from penstock.runners.spark.micro_batch.query import MicroBatchQuery, QuerySettings
from penstock.runners.spark.micro_batch.runner import MicroBatchResult, SparkMicroBatchRunner
from penstock.runners.spark.micro_batch.subtask import Program, SubtaskCache
from penstock.sdk.graph import Graph
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineResult, Runner


def runner_of(request: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """Return the runner of a stream, and its flags.

    Args:
      name: "local", with two workers, or "spark-microbatch".
    """
    if name == "local":
        return name, {"checkpoint_interval": 0.1, "parallelism": 2}
    return SparkMicroBatchRunner(spark_session=request.getfixturevalue("spark")), {}


class BatchesInThisProcess:
    """Runs batches and keeps the subtasks in between, in place of `MicroBatches`.

    Args:
      forgets: returns True for the numbers of batches before which all subtasks are dropped and must be restored.
    """

    def __init__(self, program: Program, session: Any, forgets: Callable[[int], bool]) -> None:
        self.jobs = _NoJobs()
        self._program = program
        self._forgets = forgets
        self._cache = SubtaskCache(program)

    def run(self, batch: PlannedBatch, parts: Mapping[SubtaskId, Any], frames: Any = None) -> list[SubtaskResult]:
        if self._forgets(batch.number):
            self.close()
        tasks, parallelism = self._program.tasks, self._program.parallelism
        sent: dict[SubtaskId, list[Any]] = {}
        for index in range(parallelism):
            sent[SubtaskId(0, index)] = [pickle.dumps(batch.splits_of(index, parallelism))]
        for id in (SubtaskId(task, index) for task in range(tasks) for index in range(parallelism)):
            self._run(id, batch, parts.get(id, ()), sent)
        results = [
            pickle.loads(addressed(row)[1]) for index in range(parallelism) for row in sent[SubtaskId(tasks, index)]
        ]
        return sorted(results, key=lambda result: result.id)

    def _run(self, id: SubtaskId, batch: PlannedBatch, parts: Sequence[Any], sent: dict[SubtaskId, Any]) -> None:
        own = sent.pop(id, [])
        subtask = self._cache.take(id, batch, parts)
        for target, row in subtask.run(batch, own):
            task, _ = addressed(row)
            sent.setdefault(SubtaskId(task, target), []).append(row)
        self._cache.subtasks[id] = subtask

    def close(self) -> None:
        for subtask in self._cache.subtasks.values():
            subtask.teardown()
        self._cache.subtasks.clear()


class _NoJobs:
    def activity(self) -> str:
        return ""

    def cancel(self) -> None:
        pass


class RunnerInThisProcess(Runner):
    """Runs pipelines in such batches.

    Args:
      state_memory: the value of `--state_memory`, in bytes, with `--state_backend=rocksdb`; None for the other.
      forgets: see `BatchesInThisProcess`.
      store: the store of state; a temporary one by default.
      settings: of the query.
    """

    name = "spark-microbatch"

    def __init__(
        self,
        parallelism: int = 2,
        state_memory: int | None = None,
        forgets: Callable[[int], bool] = lambda number: False,
        store: SnapshotStore | None = None,
        **settings: Any,
    ) -> None:
        self._parallelism = parallelism
        self._forgets = forgets
        self._settings = QuerySettings(state=state_memory and StateSettings(state_memory), **settings)
        self._store = store or SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        def batches(program: Program, session: Any) -> BatchesInThisProcess:
            return BatchesInThisProcess(program, session, self._forgets)

        graph = with_dead_letters(graph, options)
        execution_graph = cut(fuse(graph, lambda *_: False), self._parallelism, by_level=True)
        session: Any = None
        query = MicroBatchQuery(execution_graph, session, self._store, time_of_day, self._settings)
        with patch.object(micro_batch_query, "MicroBatches", batches):
            result = MicroBatchResult(query, None, options)
            result.wait_until_finish()
        return result

    @classmethod
    def capabilities(cls) -> Mapping[str, str]:
        return SparkMicroBatchRunner.capabilities()
