"""A run on Spark as the subject of a page, which the driver serves.

The driver knows what executors report with their tasks: counts, time of steps and metrics.  A running task can't be
asked for more.  But a micro-batch is told what the page shows when it begins, and reports that when it ends.  Tasks of
a run in batch report all stacks that they sample, if the run has a page.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from ...sdk.metrics import MetricsContainer
from ...sdk.options import PipelineOptions
from ...sdk.runner import PipelineState
from ..execution.clock import time_of_day
from ..execution.counters import Counts
from ..execution.log_tail import LogTail
from ..execution.page.description import described_counts, described_metrics, described_observation
from ..execution.page.event_log import Events, described_error
from ..execution.page.feed import PageFeed
from ..execution.streaming.observation import Observe, Observed

_NOT_IN_BATCH = "not measured by --runner=spark-batch"
_NOTHING_WAITS = "a run on Spark processes its whole input at each step, so nothing waits between them"
_NO_PANES = "panes are drawn by --runner=local and --runner=spark-microbatch only: here time passes once, at the end"


@attrs.frozen
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


class SparkPage:
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
        graph: dict[str, Any],
        progress: Callable[[], SparkProgress],
        requests: Mapping[str, Callable[[], Any]],
        events: Events,
        limits: Mapping[str, str],
        observe: Callable[[Observe], None] = lambda wanted: None,
    ) -> None:
        self.events = events
        self.limits = limits
        self._observe = observe
        self._wanted = Observe()
        # The stacks that had been seen when the profile was requested, and the time until which it lasts.
        self._before: Mapping[str, Mapping[str, int]] = {}
        self._until = 0.0
        self.requests = tuple(requests)
        self._graph = graph
        self._progress = progress
        self._executes = requests
        self._started = time_of_day()
        self._tail = LogTail()
        self._state = PipelineState.RUNNING

    def graph(self) -> dict[str, Any]:
        """Return the graph as data."""
        return self._graph

    def status(self) -> dict[str, Any]:
        """Return the present progress as data."""
        progress = self._progress()
        self._end_profile(progress)
        if lines := self._tail.taken():
            self.events.add("logs", lines=[["driver", *line] for line in lines])
        observed = described_observation(progress.observed) if self._wanted.is_open and progress.observed else {}
        return {
            "state": progress.state or self._state,
            "now": time_of_day(),
            "started": self._started,
            **described_counts(progress.counts),
            "watermarks": dict(progress.watermarks),
            "subtasks": progress.loads,
            "backlog": None,
            "checkpoints": progress.batches or 0,
            "failed_checkpoints": 0,
            "epoch": progress.batches or None,
            "restarts": 0,
            "metrics": described_metrics(progress.metrics),
            **observed,
        }

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Observe what an open page shows, from the next batch on."""
        self._want(is_open=is_open, step=step, key=key)

    def _want(self, **changes: Any) -> None:
        self._wanted = self._wanted._replace(**changes)
        self._observe(self._wanted)

    def profile(self, number: int, seconds: float) -> None:
        """Sample the stacks of tasks that end in these seconds, or of the next ones."""
        self._before, self._until = self._progress().stacks, time.monotonic() + seconds
        self._want(profile=number, seconds=seconds)

    def _end_profile(self, progress: SparkProgress) -> None:
        """Add the events of a profile whose seconds are over, if a task has ended since it was requested."""
        if not self._wanted.profile:
            return
        sampled = {name: Counter(own) - Counter(self._before.get(name, {})) for name, own in progress.stacks.items()}
        sampled = {name: own for name, own in sampled.items() if own}
        is_over = (progress.state or self._state) != PipelineState.RUNNING
        if is_over or (sampled and time.monotonic() >= self._until):
            for name, own in sampled.items():
                self.events.add("profile", number=self._wanted.profile, worker=name, stacks=own)
            self._want(profile=0)

    def request(self, kind: str, number: int) -> None:
        """Execute a request, and answer with an event."""
        self._executes[kind]()
        self.events.add("answer", number=number, is_done=True, text=f"requested: {kind}", epoch=None)

    def open(self, options: PipelineOptions) -> PageFeed:
        """Open the page, if the options ask for it.  Raises the errors of `PageFeed`."""
        feed = PageFeed(self, options)
        if feed.url is not None:
            self._tail.install()
        return feed

    @contextmanager
    def served(self, feed: PageFeed) -> Iterator[None]:
        """Serve the page in the `with` block, and record the start and the end of the run."""
        graph = self._graph if self.events.is_logged else None
        # The run takes no requests through its directory.
        self.events.add("started", graph=graph, pid=os.getpid(), host=socket.gethostname(), is_asked_by_files=False)
        feed.start()
        try:
            yield
            self._state = PipelineState.DONE
        except BaseException as error:
            self._state = PipelineState.FAILED
            self.events.add("failed", error=described_error(error))
            raise
        finally:
            self.events.add("ended", state=self._progress().state or self._state)
            feed.close()
            self._tail.remove()
