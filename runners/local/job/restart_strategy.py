"""How often a job starts again after a failure, and how soon."""

from __future__ import annotations

import attrs

# How many starts there are at most, in a row, when the job is to end.
_LAST_TRIES = 3


@attrs.define
class RestartStrategy:
    """RestartStrategy with a growing delay; when a checkpoint was completed in between, they are counted anew.

    Attributes:
      limit: how many in a row.
      first_delay, longest_delay: in seconds; each delay is twice the one before.

    >>> restarts = RestartStrategy(limit=2, first_delay=1)
    >>> restarts.after_failure(False), restarts.after_failure(False), restarts.after_failure(False)
    (1.0, 2.0, None)
    """

    limit: int = 3
    first_delay: float = 0.1
    longest_delay: float = 30
    _failures: int = 0
    _last_tries: int = 0

    def fresh(self) -> RestartStrategy:
        """The same, before any failure."""
        return RestartStrategy(self.limit, self.first_delay, self.longest_delay)

    def after_failure(self, progressed: bool, is_ending: bool = False) -> float | None:
        """How many seconds to wait before the next start; None if there is to be none.

        Args:
          is_ending: somebody wants the job to end, and doesn't wait: then there are few more starts, however many
            are allowed.
        """
        if progressed:
            self._failures = self._last_tries = 0
        self._failures += 1
        self._last_tries += is_ending
        if self._failures > self.limit or self._last_tries > _LAST_TRIES:
            return None
        delay = min(self.first_delay * float(2 ** (self._failures - 1)), self.longest_delay)
        return 0.0 if is_ending else delay
