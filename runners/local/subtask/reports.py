"""Reports of a subtask to the coordinator, and its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import attrs

from ....sdk.metrics import MetricName, MetricsContainer
from ...execution.checkpoints.store import Tables
from ...execution.counters import Counts
from ...execution.serialization.records import pickled, unpickled
from ...execution.streaming.snapshot_chunks import Chunk
from ..channels.channel import ChannelId

_GAUGE_IS_DATA = "The value of a gauge has to be data."


@attrs.define
class TaskMetrics:
    """Metrics that user code has reported, and counts of elements: of one subtask, or of several.

    >>> own, other = TaskMetrics(), TaskMetrics()
    >>> own.counts.of("Read").read, other.counts.of("Read").read = 1, 2
    >>> sum_of([own, other]).counts.of("Read").read, own.counts.of("Read").read
    (3, 1)
    """

    user_metrics: MetricsContainer = attrs.field(factory=MetricsContainer)
    counts: Counts = attrs.field(factory=Counts)

    def add(self, other: TaskMetrics) -> None:
        """Add the metrics and counts of another subtask."""
        self.user_metrics.merge(other.user_metrics)
        self.counts.add(other.counts)


def sum_of(parts: Iterable[TaskMetrics]) -> TaskMetrics:
    """Return the sum, which doesn't change with its parts."""
    total = TaskMetrics()
    for part in parts:
        total.add(part)
    return total


def metrics_as_data(metrics: TaskMetrics) -> list[Any]:
    """Return metrics as the fields of a record: user metrics, and counts by step."""
    user_metrics = [
        [
            label,
            list(step.counters.items()),
            list(step.distributions.items()),
            [(name, at, pickled(value, label, _GAUGE_IS_DATA)) for name, (at, value) in step.gauges.items()],
        ]
        for label, step in metrics.user_metrics.steps.items()
    ]
    return [user_metrics, [(count.label, count.read, count.written) for count in metrics.counts.steps.values()]]


def metrics_of(data: list[Any]) -> TaskMetrics:
    """Return the metrics that `metrics_as_data` was given."""
    user_metrics, counts = data
    metrics = TaskMetrics()
    for label, counters, distributions, gauges in user_metrics:
        step = metrics.user_metrics.step(label)
        step.counters.update({MetricName(*name): n for name, n in counters})
        step.distributions.update({MetricName(*name): cell for name, cell in distributions})
        for name, at, value in gauges:
            step.gauges[MetricName(*name)] = at, unpickled(value, f"{label}: a gauge", "the log of its productions")
    for label, read, written in counts:
        count = metrics.counts.of(label)
        count.read, count.written = read, written
    return metrics


class Snapshot(NamedTuple):
    """Snapshot of a subtask, taken at a barrier.

    Attributes:
      records: its chunks, serialized during iteration, which has to come before the next step.
      later: the chunks of keyed state, and of state that isn't in memory, which may be serialized later, and in another
        thread.
      labels: the steps whose state it contains.
      staged: by sink label, pairs of transaction and token that aren't committed yet.
      metrics: what was counted before the barrier.
      now: processing time at the barrier.
      uncopied: returns the chunks, in the place of records and labels: to be called by a forked child.
      offsets: by source label, its partitions and their positions, as text.
      waited: microseconds from the command to the snapshot.
      base: the epoch of the newest committed checkpoint; -1 if there is none.
      tables: the files with the state that isn't in memory; None if there is none.
      kept: by the label of a step with windows or keyed state, how many windows or cells there are.
    """

    epoch: int
    records: Iterable[bytes]
    labels: tuple[str, ...]
    staged: dict[str, list[tuple[str, Any]]]
    is_whole: bool
    metrics: TaskMetrics
    now: int
    uncopied: Callable[[], list[Chunk]] | None = None
    offsets: Mapping[str, list[tuple[str, str]]] = {}
    waited: int = 0
    later: Iterable[bytes] = ()
    base: int = -1
    tables: Tables | None = None
    kept: Mapping[str, int] = {}


class InputState(NamedTuple):
    """State of a subtask's inputs.

    Attributes:
      watermarks, percentiles: by channel, and by percentile and channel, in microseconds.
      signals: the number of the last signal.
      clock: processing time, in microseconds.
    """

    watermarks: dict[ChannelId, int | None]
    percentiles: dict[float, dict[Any, int]]
    signals: int
    clock: int


class Quiesced(NamedTuple):
    """Everything before a barrier has been processed.

    Attributes:
      earliest: timestamp of the earliest feedback since the last such barrier; None if there was none.
      watermark: of the input of loops that begin here, at the barrier; None if none does.
      is_behind: whether the watermark in a loop has not reached that of the loop's input.
    """

    number: int
    earliest: int | None = None
    watermark: int | None = None
    is_behind: bool = False


class Played(NamedTuple):
    """An event of a script has been played; `position` is the script's after it."""

    position: int


class Completed(NamedTuple):
    """There will be no more output."""


class CaughtUp(NamedTuple):
    """All restarted senders have caught up with this subtask.

    Attributes:
      generation: the number of the restart.
    """

    generation: int


Report = Snapshot | Quiesced | Played | Completed | CaughtUp
