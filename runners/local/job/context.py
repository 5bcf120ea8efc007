"""Settings, resources and state of a job that its attempts share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import attrs

from ....sdk.redaction import logger_of
from ...execution.checkpoints.manifest import Checkpoint
from ...execution.clock import ProcessingTime
from ...execution.page.event_log import Events
from ...execution.page.observer import Observation
from ...execution.plan.execution_graph import EdgeKind, ExecutionGraph
from ...execution.plan.source_identities import identities_of
from ...execution.sinks.committer import OpenTransactions, SinkCommitter
from ...execution.sinks.known_sinks import KnownSinks
from ...execution.state.schema import shapes_of
from ..workers.pool import Workers, ids_of
from .checkpoint_coordinator import CheckpointSettings
from .control_requests import PendingRequests, RequestInbox, RequestKind
from .restart_strategy import RestartStrategy
from .status import Phase, StatusTracker

_logger = logger_of(__name__)

# The smallest setback of the wall clock that is logged, in microseconds.
_LOGGED_SETBACK = 1_000_000


@attrs.frozen
class JobSettings:
    """Settings of a job.

    Attributes:
      checkpoints: the settings of the checkpoint coordinator.
      unaligned: take unaligned checkpoints.
      restarts: the restart strategy.
      allow_dropped_state: drop state of steps that the pipeline no longer has.
      allow_changed_sources: resume changed sources from their checkpointed positions, too.
      recovers_regions: restart only the failover region of a failure.
    """

    checkpoints: CheckpointSettings = attrs.field(factory=CheckpointSettings)
    unaligned: bool = False
    restarts: RestartStrategy = attrs.field(factory=RestartStrategy)
    allow_dropped_state: bool = False
    allow_changed_sources: bool = False
    recovers_regions: bool = False


class JobContext:
    """Resources and state of a job that outlive an attempt.

    Args:
      open_transactions: the record of the open transactions; None for a job that keeps none.
      inbox: the requests of other processes; None if there can be none.
      known_sinks: the record of the sinks; None for a job that keeps none.

    Attributes:
      execution_graph, subtasks: the execution graph, and the ids of its subtasks.
      clock: returns microseconds of the monotonic clock; intervals and timeouts follow it.
      time: processing time.
      token: returns hexadecimal digits that no other call returns.
      requests: the requests that have not been answered.
      status: tracks the status of the job.
      committer: commits the sinks.
      commits_at_end: the pipeline is bounded: sinks publish everything at its end, in one transaction.
      state_shapes: the kinds of state that the steps keep.
      restarts: the restart strategy of this run.
      barriers: the number of the last barrier.
      phase: the phase of the current attempt: starting, running or restarting.
      turned_at: when the loop of the attempt last turned, by `clock`.
      events: the events of the run, for a page and a log.
      observation: what a page wants observed.
    """

    def __init__(
        self,
        execution_graph: ExecutionGraph,
        workers: Workers,
        settings: JobSettings,
        open_transactions: OpenTransactions | None,
        clock: Callable[[], int],
        sleep: Callable[[float], Any],
        token: Callable[[], str],
        inbox: RequestInbox | None,
        time: ProcessingTime | None,
        known_sinks: KnownSinks | None = None,
    ) -> None:
        plan = execution_graph.plan
        self.use(execution_graph)
        self.workers = workers
        self.settings = settings
        self.clock = clock
        self.time = ProcessingTime.of(clock) if time is None else time
        self.token = token
        self._sleep = sleep
        self._set_back = 0
        self.requests = PendingRequests(inbox, clock)
        labels = [task.label for task in execution_graph.tasks]
        self.status = StatusTracker(labels, self.time(), lambda: self.committer.metrics)
        self.committer = SinkCommitter(plan, open_transactions, known=known_sinks)
        self.commits_at_end = plan.graph.is_bounded
        self.has_script = plan.graph.has_script
        self.has_loops = any(edge.kind is EdgeKind.BACK for task in execution_graph.tasks for edge in task.inputs)
        self.state_shapes = shapes_of(plan)
        self.restarts = settings.restarts.fresh()
        self.barriers = 0
        self.events = Events()
        self.observation = Observation()
        self.checkpoints_completed = 0
        self.phase = Phase.STARTING
        self.turned_at = clock()
        self.last_checkpoint: Checkpoint | None = None

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The identities of the sources."""
        return identities_of(self.execution_graph.plan)

    def use(self, execution_graph: ExecutionGraph) -> None:
        """Run this execution graph from the next attempt on."""
        self.execution_graph = execution_graph
        self.subtasks = ids_of(execution_graph)

    def next_barrier(self) -> int:
        """Return the number of the next barrier."""
        self.barriers += 1
        return self.barriers

    def restart_delay(self, progressed: bool) -> float | None:
        """Return the seconds to wait before a restart, or None if the restart strategy allows no other.

        Args:
          progressed: something became durable since the last restart.
        """
        return self.restarts.after_failure(progressed, is_ending=bool(self.requests.kinds))

    def wait_for_restart(self, seconds: float) -> bool:
        """Wait before a restart, or until there is a request to end the job.

        Returns whether the job is cancelled.
        """
        requests, until = self.requests, self.clock() + round(seconds * 1_000_000)
        while (remaining := until - self.clock()) > 0 and not requests.kinds:
            self._sleep(min(remaining / 1_000_000, 0.1))
            requests.poll()
        return RequestKind.CANCEL in requests.kinds

    def check_wall_clock(self) -> None:
        """Log that the wall clock was set back, once for each time."""
        ahead = self.time.ahead_of_wall()
        if ahead >= self._set_back + _LOGGED_SETBACK:
            _logger.warning(
                "The wall clock was set back: processing time is %.0f seconds ahead of it, and continues from its "
                "last value",
                ahead / 1_000_000,
            )
        if ahead >= self._set_back + _LOGGED_SETBACK or ahead < self._set_back - _LOGGED_SETBACK:
            self._set_back = ahead
