"""A run on Spark as the subject of a page, which the driver serves.

The driver knows what executors report with their tasks: counts, time of steps and metrics.  A running task can't be
asked for more.  But a micro-batch is told what the page shows when it begins, and reports that when it ends.  Tasks of
a run in batch report all stacks that they sample, if the run has a page.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ...frozen import frozen
from ...sdk.metrics import MetricsContainer
from ...sdk.runner import PipelineState
from ..execution.clock import time_of_day
from ..execution.counters import Counts
from ..execution.page.description import described_observation, described_run
from ..execution.page.event_log import Events
from ..execution.page.run_page import RunPage
from ..execution.streaming.observation import Observe, Observed

_NOT_IN_BATCH = "not measured by --runner=spark-batch"
_NOTHING_WAITS = "a run on Spark processes its whole input at each step, so nothing waits between them"
_NO_PANES = "panes are drawn by --runner=local and --runner=spark-microbatch only: here time passes once, at the end"


@frozen
class SparkProgress:
    """The progress of a run on Spark.

    Attributes:
      state: one of `PipelineState`; None for that of the block in which the page is served.
      counts, metrics: what executors have reported.
      watermarks: by label.
      loads: for each task and subtask, its share of the time of the last batch, 0, and the elements that it read.
      batches: the number of committed batches; None for a run in batch.
      observed: what subtasks have observed for the page.
      stacks: by subtask or segment, how often each stack was seen in tasks that have ended.
    """

    state: str | None
    counts: Counts
    metrics: MetricsContainer
    watermarks: Mapping[str, int] = attrs.field(factory=dict)
    loads: Sequence[Sequence[Sequence[float]]] = ()
    batches: int | None = None
    observed: Sequence[Observed] = ()
    stacks: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)


# What a page can't show of a run in batch, and of micro-batches.
IN_BATCH = {
    "panes": _NO_PANES,
    "backlogs": _NOTHING_WAITS,
    **dict.fromkeys(("hot_keys", "kept", "overdue", "watermarks", "state_size"), _NOT_IN_BATCH),
}
IN_MICRO_BATCHES: Mapping[str, str] = {"backlogs": _NOTHING_WAITS}


class SparkPage(RunPage):
    """A run on Spark as a page shows it.

    Args:
      graph: the graph as data.
      progress: returns the present progress.
      requests: by kind, the functions that execute the run's requests.
      limits: by document or field of a status, why the page can't show it.
      observe: called with what the page shows.
    """

    def __init__(
        self,
        graph: Mapping[str, Any],
        progress: Callable[[], SparkProgress],
        requests: Mapping[str, Callable[[], Any]],
        events: Events,
        limits: Mapping[str, str],
        observe: Callable[[Observe], None] = lambda wanted: None,
    ) -> None:
        super().__init__(graph, requests, events, limits, "driver")
        self._observe = observe
        # The stacks that had been seen when the profile was requested, and the time until which it lasts.
        self._before: Mapping[str, Mapping[str, int]] = {}
        self._until = 0.0
        self._progress = progress
        self._started = time_of_day()

    @property
    def state(self) -> str:
        return self._progress().state or super().state

    def status(self) -> dict[str, Any]:
        progress = self._progress()
        self._end_profile(progress)
        self._add([])
        observed = described_observation(progress.observed) if self.wanted.is_open and progress.observed else {}
        batches = progress.batches
        return observed | described_run(
            progress.state or super().state,
            time_of_day(),
            self._started,
            progress.counts,
            progress.metrics,
            progress.loads,
            watermarks=dict(progress.watermarks),
            **({} if batches is None else {"checkpoints": batches, "epoch": batches or None}),
        )

    def want(self, **changes: Any) -> None:
        super().want(**changes)
        self._observe(self.wanted)

    def profile(self, number: int, seconds: float) -> None:
        """Sample the stacks of tasks that end in these seconds, or of the next ones."""
        self._before, self._until = self._progress().stacks, time.monotonic() + seconds
        super().profile(number, seconds)

    def _end_profile(self, progress: SparkProgress) -> None:
        """Add the events of a profile whose seconds are over, if a task has ended since it was requested."""
        if not self.wanted.profile:
            return
        sampled = {name: Counter(own) - Counter(self._before.get(name, {})) for name, own in progress.stacks.items()}
        sampled = {name: own for name, own in sampled.items() if own}
        is_over = (progress.state or super().state) != PipelineState.RUNNING
        if is_over or (sampled and time.monotonic() >= self._until):
            for name, own in sampled.items():
                self.events.add("profile", number=self.wanted.profile, worker=name, stacks=own)
            self.want(profile=0)
