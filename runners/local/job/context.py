"""The parts of a job that its attempts share, each of which owns what changes in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs

from ....frozen import frozen
from ...execution.checkpoints.control_requests import PendingRequests
from ...execution.page.event_log import Events
from ...execution.page.observer import Observation
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph
from ...execution.plan.source_identities import identities_of
from ...execution.sinks.committer import SinkCommitter
from ...execution.state.schema import shapes_of
from ...execution.streaming.state_settings import StateSettings
from ..workers.pool import Workers, ids_of
from .checkpoint_coordinator import CheckpointSettings
from .clocks import JobClocks
from .restart_strategy import Restarts, RestartStrategy
from .status import StatusTracker


@frozen
class JobSettings:
    """Settings of a job.

    Attributes:
      checkpoints: the settings of the checkpoint coordinator.
      unaligned: take unaligned checkpoints.
      restarts: the restart strategy.
      allow_dropped_state: drop state of steps that the pipeline no longer has.
      allow_changed_sources: resume changed sources from their checkpointed positions, too.
      recovers_regions: restart only the failover region of a failure.
      state: how much of a worker's state may be in memory; None for all of it.
    """

    checkpoints: CheckpointSettings = attrs.field(factory=CheckpointSettings)
    unaligned: bool = False
    restarts: RestartStrategy = attrs.field(factory=RestartStrategy)
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    recovers_regions: bool = False
    state: StateSettings | None = None


class JobGraph:
    """The execution graph of a job, which a change of parallelism replaces, and what follows from its plan.

    Attributes:
      execution, subtasks: the execution graph, and the ids of its subtasks.
      has_script, has_loops: whether it has them.
      commits_at_end: the pipeline is bounded: sinks publish everything at its end, in one transaction.
      acknowledges: whether unbounded sources are told of the last checkpoint, too.
      state_shapes: the kinds of state that the steps keep.
    """

    def __init__(self, execution: ExecutionGraph) -> None:
        self.use(execution)
        plan = execution.plan
        self.has_script = plan.graph.has_script
        self.has_loops = any(edge.kind is EdgeKind.BACK for task in execution.tasks for edge in task.inputs)
        self.commits_at_end = plan.graph.is_bounded
        self.acknowledges = bool(plan.graph.unbounded_reads())
        self.state_shapes = shapes_of(plan)

    def use(self, execution: ExecutionGraph) -> None:
        """Run this execution graph from the next attempt on."""
        self.execution = execution
        self.subtasks = ids_of(execution)

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The identities of the sources."""
        return identities_of(self.execution.plan)


class BarrierNumbers:
    """Numbers of barriers, which increase from attempt to attempt.

    Attributes:
      last: the last number; 0 before the first.
    """

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """Return the next number."""
        self.last += 1
        return self.last


@frozen(eq=False)
class JobContext:
    """The parts of a job, which outlive an attempt.

    Attributes:
      graph: the execution graph.
      workers: run the subtasks.
      settings: the settings.
      clocks: the clocks.
      token: returns hexadecimal digits that no other call returns.
      requests: the requests that have not been answered.
      status: the status of the job.
      committer: commits the sinks; it has the open transactions.
      restarts: the restarts of this run.
      barriers: the numbers of barriers.
      events: the events of the run, for a page and a log.
      observation: what a page wants observed.
    """

    graph: JobGraph
    workers: Workers
    settings: JobSettings
    clocks: JobClocks
    token: Callable[[], str]
    requests: PendingRequests
    status: StatusTracker
    committer: SinkCommitter
    restarts: Restarts
    events: Events = attrs.field(factory=Events)
    barriers: BarrierNumbers = attrs.field(factory=BarrierNumbers)
    observation: Observation = attrs.field(factory=Observation)
