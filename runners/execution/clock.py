"""Clocks: processing time, which a script may move, or the time of the day does."""

from __future__ import annotations

import time


class Clock:
    """Processing time, in microseconds.  It starts at zero and moves when it is told to."""

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def advance(self, micros: int) -> None:
        """Move on by this much."""
        self.now += micros


def time_of_day() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
