"""The clock of a run: processing time, which a script may move."""

from __future__ import annotations


class Clock:
    """Processing time, in microseconds.  It starts at zero and moves when it is told to."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0

    def advance(self, micros: int) -> None:
        """Move on by this much."""
        self.now += micros
