"""Counters of elements and of time, by step."""

from __future__ import annotations

import attrs


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

    >>> ours, theirs = Counts(), Counts()
    >>> ours.spend("Parse", 0.5), theirs.spend("Parse", 0.25), ours.add(theirs)
    (None, None, None)
    >>> ours.seconds
    {'Parse': 0.75}
    """

    steps: dict[str, StepCount] = attrs.field(factory=dict)
    # Differs between two runs of one pipeline.
    seconds: dict[str, float] = attrs.field(factory=dict, eq=False, repr=False)

    def of(self, label: str) -> StepCount:
        """Return a step's count."""
        count = self.steps.get(label)
        if count is None:
            count = self.steps[label] = StepCount(label)
        return count

    def spend(self, label: str, seconds: float) -> None:
        """Add time of a transform; from one thread only."""
        self.seconds[label] = self.seconds.get(label, 0.0) + seconds

    def add(self, other: Counts) -> None:
        """Add the counts of another process or task."""
        for label, seconds in list(other.seconds.items()):
            self.spend(label, seconds)
        for label, theirs in list(other.steps.items()):
            count = self.of(label)
            count.read += theirs.read
            count.written += theirs.written
