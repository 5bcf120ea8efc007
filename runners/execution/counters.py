"""What a runner counts of its own accord: elements, by step."""

from __future__ import annotations

import attrs


@attrs.define
class StepCount:
    """How many elements went into a step and came out of it."""

    label: str
    read: int = 0
    written: int = 0


@attrs.define
class Counts:
    """The counts of a run, by step label; what progress and metrics show."""

    steps: dict[str, StepCount] = attrs.field(factory=dict)

    def of(self, label: str) -> StepCount:
        """A step's count."""
        count = self.steps.get(label)
        if count is None:
            count = self.steps[label] = StepCount(label)
        return count

    def add(self, other: Counts) -> None:
        """Add what was counted elsewhere."""
        for label, theirs in list(other.steps.items()):
            count = self.of(label)
            count.read += theirs.read
            count.written += theirs.written
