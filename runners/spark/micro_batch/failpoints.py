"""The points of a micro-batch at which it matters most that something fails: before and after whatever is written.

A run tells somebody when it comes to each, and nobody does anything about that.  Whoever tests what becomes of a run
that fails there has a function of his own, which raises, waits, or kills the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# What the driver comes to, in this order.
DRIVER_POINTS = (
    "before-plan",
    "after-plan",
    "before-manifest",
    "after-manifest",
    "before-publication",
    "after-publication",
)

# What each task with state comes to, in a worker, between the driver's `after-plan` and `before-manifest`.
TASK_POINTS = ("before-state", "after-state")

# Is called with a point and the number of the batch.  Workers are sent a copy.
Reached: TypeAlias = Callable[[str, int], None]


def go_on(point: str, batch: int) -> None:
    """Nothing happens."""
