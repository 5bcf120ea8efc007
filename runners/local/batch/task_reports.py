"""Reports of running tasks of a batch run: what they have counted, and what was observed of them for a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....sdk.metrics import MetricsContainer
from ...execution.batch.segment_task import SegmentTask
from ...execution.counters import Counts
from ...execution.plan.segments import Segment

if TYPE_CHECKING:
    from ...execution.page.observer import TaskObserver
    from ...execution.streaming.observation import Observe, Observed

# Seconds between two reports.
INTERVAL = 0.25


class TaskReport(NamedTuple):
    """What a task has counted, or several have.

    Attributes:
      metrics: what its user code has reported, if the run is monitored.
      observed: what was observed since the last report; None if nothing was.
    """

    counts: Counts
    metrics: MetricsContainer
    observed: Observed | None = None

    def copy(self) -> TaskReport:
        """Return one with the same numbers, which shares none of them."""
        return total([self])


def total(reports: Iterable[TaskReport]) -> TaskReport:
    """Return the sum of what reports have counted."""
    counts, metrics = Counts(), MetricsContainer()
    for each in reports:
        counts.add(each.counts)
        metrics.merge(each.metrics)
    return TaskReport(counts, metrics)


class TaskReporter:
    """Reports what the tasks of one thread count, a few times a second.

    Args:
      tell: receives the reports.
      is_monitored: whether they have the metrics of user code.
      is_own_process: whether the lines of the process's log are observed.
    """

    def __init__(
        self, tell: Callable[[TaskReport], None], is_monitored: bool = True, is_own_process: bool = False
    ) -> None:
        self._tell = tell
        self._is_monitored = is_monitored
        self._is_own_process = is_own_process
        self._counts, self._metrics = Counts(), MetricsContainer()
        self._due_at = 0.0
        self._observer: TaskObserver | None = None
        # The task that runs, and its segments.
        self._running: tuple[SegmentTask, Sequence[Segment]] | None = None

    def obey(self, wanted: Observe) -> None:
        """Observe what is wanted from now on."""
        if self._observer is None:
            # Most runs are not observed.
            from ...execution.page.observer import TaskObserver

            self._observer = TaskObserver(self._is_own_process)
            if self._running is not None:
                self._observer.begin(*self._running)
        self._observer.obey(wanted)

    def begin(self, task: SegmentTask, segments: Sequence[Segment], counts: Counts, metrics: MetricsContainer) -> None:
        """Report on a task from now on."""
        self._running = task, segments
        self._counts, self._metrics = counts, metrics
        self._due_at = time.monotonic() + INTERVAL
        if self._observer is not None:
            self._observer.begin(task, segments)

    def pause(self) -> None:
        """Report, if it is time."""
        now = time.monotonic()
        if now >= self._due_at:
            self._due_at = now + INTERVAL
            self.report()

    def report(self) -> None:
        """Report now."""
        metrics = self._metrics if self._is_monitored else MetricsContainer()
        self._tell(TaskReport(self._counts, metrics, self._taken()))

    def news(self) -> TaskReport | None:
        """Return a report if something was observed, for a worker that waits; otherwise None."""
        observed = self._taken()
        return None if observed is None else TaskReport(self._counts, self._metrics, observed)

    def _taken(self) -> Observed | None:
        return None if self._observer is None else self._observer.taken()

    def end(self) -> None:
        """Report on no task any more."""
        self._running = None
        self._counts, self._metrics = Counts(), MetricsContainer()
        if self._observer is not None:
            self._observer.end()
