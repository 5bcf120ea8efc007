"""Micro-batches without Spark: the runner's own query and shards, in this process.

For what shards do with their state, which takes Spark a tenth of a second a batch, and this a few milliseconds.
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
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.sinks.committer import with_dead_letters
from penstock.runners.spark.micro_batch import query as micro_batch_query
from penstock.runners.spark.micro_batch.exchange import TaskId, TaskResult, addressed
from penstock.runners.spark.micro_batch.plan import PlannedBatch
from penstock.runners.spark.micro_batch.query import MicroBatchQuery, QuerySettings
from penstock.runners.spark.micro_batch.runner import MicroBatchResult, SparkMicroBatchRunner
from penstock.runners.spark.micro_batch.subtask import Program
from penstock.runners.spark.micro_batch.task_worker import ResidentRun, own_part
from penstock.sdk.graph import Graph
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import Capability, PipelineResult, Runner


class BatchesInThisProcess:
    """Runs batches, and keeps shards from one to the next; stands for `MicroBatches`.

    Args:
      forgets: whether before a batch, by its number, all shards are forgotten and have to be read again.
    """

    def __init__(self, program: Program, session: Any, forgets: Callable[[int], bool]) -> None:
        self.jobs = _NoJobs()
        self._program = program
        self._forgets = forgets
        self._resident = ResidentRun(program)

    def run(self, batch: PlannedBatch, parts: Mapping[TaskId, Any], frames: Any = None) -> list[TaskResult]:
        if self._forgets(batch.number):
            self.close()
        levels, shards = self._program.levels, self._program.shards
        sent: dict[tuple[int, int], list[Any]] = {}
        for shard in range(shards):
            sent[0, shard] = [pickle.dumps(batch.of_shard(shard, shards))]
        for level in range(levels):
            for shard in range(shards):
                self._run(TaskId(level, shard), batch, parts.get(TaskId(level, shard), ()), sent)
        results = [pickle.loads(row) for shard in range(shards) for row in sent[levels, shard]]
        return sorted(results, key=lambda result: result.id)

    def _run(self, id: TaskId, batch: PlannedBatch, parts: Sequence[Any], sent: dict[tuple[int, int], Any]) -> None:
        own = sent.pop((id.level, id.shard), [])
        shard = self._resident.shard(id, batch, parts)
        for target, row in shard.run(batch, own, own_part(parts, id, self._program.shards)):
            level, data = addressed(row)
            sent.setdefault((level, target), []).append(data)
        self._resident.shards[id] = shard

    def close(self) -> None:
        for shard in self._resident.shards.values():
            shard.teardown()
        self._resident.shards.clear()


class _NoJobs:
    def activity(self) -> str:
        return ""

    def cancel(self) -> None:
        pass


class RunnerInThisProcess(Runner):
    """Runs pipelines in such batches.

    Args:
      shard_memory: as `--shard_memory` says it.
      forgets: as above.
      store: where state goes; else it is gone afterwards.
      settings: of the query.
    """

    name = "spark-microbatch"

    def __init__(
        self,
        shards: int = 2,
        shard_memory: int | None = None,
        forgets: Callable[[int], bool] = lambda number: False,
        store: SnapshotStore | None = None,
        **settings: Any,
    ) -> None:
        self._shards = shards
        self._forgets = forgets
        self._settings = QuerySettings(shard_memory=shard_memory, **settings)
        self._store = store or SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")

    def run_pipeline(self, graph: Graph, options: PipelineOptions) -> PipelineResult:
        def batches(program: Program, session: Any) -> BatchesInThisProcess:
            return BatchesInThisProcess(program, session, self._forgets)

        graph = with_dead_letters(graph, options)
        execution_graph = cut(fuse(graph, lambda grouping: False), self._shards, by_level=True)
        session: Any = None
        query = MicroBatchQuery(execution_graph, session, self._store, time_of_day, self._settings)
        with patch.object(micro_batch_query, "MicroBatches", batches):
            result = MicroBatchResult(query, None, options)
            result.wait_until_finish()
        return result

    @classmethod
    def capabilities(cls) -> Mapping[Capability, str]:
        return SparkMicroBatchRunner.capabilities()
