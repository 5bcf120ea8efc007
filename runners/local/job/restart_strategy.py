"""The restarts of a job: how often it restarts after failures, and after which delay."""

from __future__ import annotations

import attrs

from ...execution.checkpoints.control_requests import PendingRequests, RequestKind
from .clocks import JobClocks

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


class Restarts:
    """The restarts of a run by its strategy; a request to end the job hastens them."""

    def __init__(self, strategy: RestartStrategy, clocks: JobClocks, requests: PendingRequests) -> None:
        self._strategy = strategy.fresh()
        self._clocks = clocks
        self._requests = requests

    def delay(self, progressed: bool) -> float | None:
        """Return the seconds to wait before a restart, or None if the strategy allows no other.

        Args:
          progressed: something became durable since the last restart.
        """
        return self._strategy.after_failure(progressed, is_ending=bool(self._requests.kinds))

    def wait(self, seconds: float) -> bool:
        """Wait before a restart, or until there is a request to end the job.

        Returns whether the job is cancelled.
        """
        requests, clocks = self._requests, self._clocks
        until = clocks.steady() + round(seconds * 1_000_000)
        while (remaining := until - clocks.steady()) > 0 and not requests.kinds:
            clocks.sleep(min(remaining / 1_000_000, 0.1))
            requests.poll()
        return RequestKind.CANCEL in requests.kinds
