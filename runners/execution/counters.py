"""Counters of elements, by step."""

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
    """The counts of a run, by step label, for progress and metrics."""

    steps: dict[str, StepCount] = attrs.field(factory=dict)

    def of(self, label: str) -> StepCount:
        """Return a step's count."""
        count = self.steps.get(label)
        if count is None:
            count = self.steps[label] = StepCount(label)
        return count

    def add(self, other: Counts) -> None:
        """Add the counts of another process or task."""
        for label, theirs in list(other.steps.items()):
            count = self.of(label)
            count.read += theirs.read
            count.written += theirs.written
