"""The clocks of a job: the monotonic clock, processing time, and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....sdk.redaction import logger_of
from ...execution.clock import ProcessingTime

_logger = logger_of(__name__)

# The smallest setback of the wall clock that is logged, in microseconds.
_LOGGED_SETBACK = 1_000_000


class JobClocks:
    """The clocks of a job.

    Attributes:
      steady: returns microseconds of the monotonic clock; intervals and timeouts follow it.
      sleep: waits for some seconds.
      time: processing time.
    """

    def __init__(
        self, steady: Callable[[], int], sleep: Callable[[float], Any], time: ProcessingTime | None = None
    ) -> None:
        self.steady = steady
        self.sleep = sleep
        self.time = ProcessingTime.of(steady) if time is None else time
        self._set_back = 0

    def check_wall_clock(self) -> None:
        """Log that the wall clock was set back, once for each time."""
        ahead = self.time.ahead_of_wall()
        if ahead >= self._set_back + _LOGGED_SETBACK:
            _logger.warning(
                "The wall clock was set back: processing time is %.0f seconds ahead of it, and continues from its "
                "last value",
                ahead / 1_000_000,
            )
        if ahead >= self._set_back + _LOGGED_SETBACK or ahead < self._set_back - _LOGGED_SETBACK:
            self._set_back = ahead
