"""A clock that stands still, and the processor time of a thread, in place of the module `time` of a module."""

from __future__ import annotations


class ThreadClock:
    """The seconds that a test sets.

    Attributes:
      now: of the clock.
      spent: of the thread's processor time.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.spent = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.spent
