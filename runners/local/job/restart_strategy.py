"""The restart strategy: how often a job restarts after failures, and after which delay."""

from __future__ import annotations

import attrs

# The greatest number of consecutive restarts of a job that was requested to end.
_ENDING_LIMIT = 3


@attrs.define
class RestartStrategy:
    """Restarts with exponential backoff, which is reset when a checkpoint completes.

    Attributes:
      limit: the greatest number of consecutive restarts.
      first_delay, longest_delay: in seconds; each delay is twice the one before.

    >>> restarts = RestartStrategy(limit=2, first_delay=1)
    >>> restarts.after_failure(False), restarts.after_failure(False), restarts.after_failure(False)
    (1.0, 2.0, None)
    """

    limit: int = 3
    first_delay: float = 0.1
    longest_delay: float = 30
    _failures: int = 0
    _failures_at_end: int = 0

    def fresh(self) -> RestartStrategy:
        """Return the strategy before any failure."""
        return RestartStrategy(self.limit, self.first_delay, self.longest_delay)

    def after_failure(self, progressed: bool, is_ending: bool = False) -> float | None:
        """Return the delay of the next restart in seconds, or None if the job fails.

        Args:
          progressed: a checkpoint has completed since the last restart.
          is_ending: the job was requested to end, so it restarts at once, but only a few times.
        """
        if progressed:
            self._failures = self._failures_at_end = 0
        self._failures += 1
        self._failures_at_end += is_ending
        if self._failures > self.limit or self._failures_at_end > _ENDING_LIMIT:
            return None
        delay = min(self.first_delay * float(2 ** (self._failures - 1)), self.longest_delay)
        return 0.0 if is_ending else delay
