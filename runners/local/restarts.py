"""How often a job starts again after a failure, and how soon."""

from __future__ import annotations

import attrs


@attrs.define
class Restarts:
    """Restarts with a growing delay; when a checkpoint was completed in between, they are counted anew.

    Attributes:
      limit: how many in a row.
      first_delay, longest_delay: in seconds; each delay is twice the one before.

    >>> restarts = Restarts(limit=2, first_delay=1)
    >>> restarts.after_failure(False), restarts.after_failure(False), restarts.after_failure(False)
    (1.0, 2.0, None)
    """

    limit: int = 3
    first_delay: float = 0.1
    longest_delay: float = 30
    _failures: int = 0

    def fresh(self) -> Restarts:
        """The same, before any failure."""
        return Restarts(self.limit, self.first_delay, self.longest_delay)

    def after_failure(self, progressed: bool) -> float | None:
        """How many seconds to wait before the next start; None if there is to be none."""
        if progressed:
            self._failures = 0
        self._failures += 1
        if self._failures > self.limit:
            return None
        return min(self.first_delay * float(2 ** (self._failures - 1)), self.longest_delay)
