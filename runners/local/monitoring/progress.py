"""The progress of a job on the terminal: throughput, watermark lags and backpressure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...execution.counters import Counts
from ...execution.plan.execution_graph import ExecutionGraph, label_of
from ...execution.progress import Progress, range_of
from ..job.status import JobStatus

if TYPE_CHECKING:
    from rich.table import Table

# The number of updates, four a second, that rates are averaged over.
_UPDATES = 20
# The width of all columns but the label.
_NUMBERS_WIDTH = 82


class JobProgress(Progress):
    """A table with a row for each step, and the status of the job below it.

    Args:
      status: returns the current status.
    """

    def __init__(
        self,
        status: Callable[[], JobStatus],
        execution_graph: ExecutionGraph,
        wanted: bool | None,
        console: Any = None,
    ) -> None:
        super().__init__(Counts(), (), wanted, console)
        self._status = status
        self._tasks = [[label_of(step) for step in task.steps] for task in execution_graph.tasks]
        self._last: deque[JobStatus] = deque(maxlen=_UPDATES)

    def table(self, width: int) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        status = self._status()
        self._last.append(status)
        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, caption=headline(status))
        shown.caption_justify = "left"
        shown.add_column("step", no_wrap=True)
        for name in ("read", "per s", "written", "lag", "time", "busy", "backpr.", "idle"):
            shown.add_column(name, justify="right", no_wrap=True)
        for number, labels in enumerate(self._tasks):
            # The load of subtasks is shown once for each task.
            loads = [load for id, load in status.loads.items() if id.task == number]
            shares = [range_of([getattr(load, name) for load in loads]) for name in ("busy", "backpressured", "idle")]
            for label in labels:
                count = status.attempted.counts.steps.get(label)
                if count is None:
                    continue
                shown_label = Text(label)
                shown_label.truncate(max(width - _NUMBERS_WIDTH, 20), overflow="ellipsis")
                shown.add_row(
                    shown_label,
                    f"{count.read:,}",
                    f"{self._rate(label):,.0f}",
                    f"{count.written:,}" if count.written else "",
                    lag_of(status, label),
                    _time_of(status, label),
                    *shares,
                )
                shares = ["", "", ""]
        return shown

    def _rate(self, label: str) -> float:
        """Return the elements a second of a step, lately."""
        first, last = self._last[0], self._last[-1]
        if last.now == first.now:
            return 0.0
        before = first.attempted.counts.steps.get(label)
        read = last.attempted.counts.of(label).read - (before.read if before else 0)
        # A restart resets the counts to those of the checkpoint.
        return max(0, read) / ((last.now - first.now) / 1e6)


def lag_of(status: JobStatus, label: str) -> str:
    """Return how far a step's watermark is behind the clock, as text."""
    micros = status.watermarks.get(label, MIN_MICROS)
    if micros <= MIN_MICROS:
        return ""
    return "done" if micros >= MAX_MICROS else duration((status.now - micros) / 1e6)


def _time_of(status: JobStatus, label: str) -> str:
    """Return the sampled time of a step, of which a fused stage has several, as text."""
    seconds = status.attempted.counts.seconds
    own = sum(seconds.get(each, 0.0) for each in label.split(" + "))
    return duration(own) if own else ""


def duration(seconds: float) -> str:
    """Return a duration as text.

    >>> duration(0.034), duration(75), duration(7300), duration(-2)
    ('0.0 s', '75 s', '2.0 h', '-2.0 s')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (600, "min")):
        if abs(seconds) >= size:
            return f"{seconds / (60 if unit == 'min' else size):.1f} {unit}"
    return f"{seconds:.1f} s" if abs(seconds) < 10 else f"{seconds:.0f} s"


def headline(status: JobStatus) -> str:
    """Return the status of the job in a line."""
    parts = [duration((status.now - status.started) / 1e6)]
    if status.checkpoint_at is not None and status.epoch is not None:
        size = "" if status.checkpoint_size is None else f", {status.checkpoint_size / 1000:,.1f} kB"
        age = duration(max(0, status.now - status.checkpoint_at) / 1e6)
        parts.append(f"checkpoint {status.epoch}: {age} ago{size}")
    if status.failed_checkpoints:
        parts.append(f"{status.failed_checkpoints} failed")
    if status.restarts:
        parts.append(f"{status.restarts} restarts")
    if status.backlog is not None:
        parts.append(f"backlog {status.backlog:,}")
    return ", ".join(parts)
