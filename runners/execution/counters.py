"""Counters of elements and of time, by step and by subtask."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from ...sdk.metrics import SubtaskLoad


@attrs.define
class StepCount:
    """The numbers of elements that a step has read and written."""

    label: str
    read: int = 0
    written: int = 0


@attrs.define
class Counts:
    """The counts of a run, by step label, for progress and metrics.

    Attributes:
      steps: the numbers of elements.
      seconds: the sampled time of each transform, also of those within a fused stage.
      busy: by the label of a stage and the number of a subtask, the seconds in which that was processing.

    >>> ours, theirs = Counts(), Counts()
    >>> ours.spend("Parse", 0.5), theirs.spend("Parse", 0.25), ours.add(theirs)
    (None, None, None)
    >>> ours.seconds
    {'Parse': 0.75}
    """

    steps: dict[str, StepCount] = attrs.field(factory=dict)
    # Differs between two runs of one pipeline.
    seconds: dict[str, float] = attrs.field(factory=dict, eq=False, repr=False)
    busy: dict[tuple[str, int], float] = attrs.field(factory=dict, eq=False, repr=False)

    def of(self, label: str) -> StepCount:
        """Return a step's count."""
        count = self.steps.get(label)
        if count is None:
            count = self.steps[label] = StepCount(label)
        return count

    def spend(self, label: str, seconds: float) -> None:
        """Add time of a transform; from one thread only."""
        self.seconds[label] = self.seconds.get(label, 0.0) + seconds

    def work(self, subtask: tuple[str, int], seconds: float) -> None:
        """Add busy time of a subtask; from one thread only."""
        self.busy[subtask] = self.busy.get(subtask, 0.0) + seconds

    def take(self, other: Counts) -> None:
        """Take over the counts of another, which are newer."""
        self.steps, self.seconds, self.busy = other.steps, other.seconds, other.busy

    def add(self, other: Counts) -> None:
        """Add the counts of another process or task."""
        for label, seconds in list(other.seconds.items()):
            self.spend(label, seconds)
        for subtask, seconds in list(other.busy.items()):
            self.work(subtask, seconds)
        for label, theirs in list(other.steps.items()):
            count = self.of(label)
            count.read += theirs.read
            count.written += theirs.written


class BusyTime:
    """Measures the time in which a subtask is processing.

    Args:
      counts: the counts to add the time to.
      stage: the label of the subtask's stage.
      subtask: its number.
      clock: seconds, of any beginning.

    >>> counts, times = Counts(), iter([0.0, 2.0, 5.0, 6.0])
    >>> busy = BusyTime(counts, "Parse", 1, clock=lambda: next(times))
    >>> busy.add(), busy.begin(), busy.add(), counts.busy
    (None, None, None, {('Parse', 1): 3.0})
    """

    def __init__(
        self, counts: Counts, stage: str, subtask: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._counts = counts
        self._subtask = stage, subtask
        self._clock = clock
        self._since = clock()

    def begin(self) -> None:
        """Begin to measure, after a wait."""
        self._since = self._clock()

    def add(self) -> None:
        """Add the time since the last call, or since the beginning."""
        since, self._since = self._since, self._clock()
        self._counts.work(self._subtask, self._since - since)


def loads_of(counts: Counts, seconds: float) -> list[SubtaskLoad]:
    """Return the load of each subtask of a run that has lasted for so many seconds, and has no backpressure.

    The stages come in the order in which they began.

    >>> counts = Counts()
    >>> counts.work(("Parse", 0), 1.5)
    >>> loads_of(counts, 2.0)
    [SubtaskLoad(stage='Parse', subtask=0, busy=0.75, backpressured=0.0, idle=0.25)]
    """
    known = dict(counts.busy)
    places = {stage: place for place, (stage, _) in enumerate(reversed(known))}
    found = sorted(known.items(), key=lambda entry: (-places[entry[0][0]], entry[0][1]))
    shares = {subtask: min(1.0, busy / max(seconds, 1e-9)) for subtask, busy in found}
    return [SubtaskLoad(stage, number, busy, 0.0, 1.0 - busy) for (stage, number), busy in shares.items()]
