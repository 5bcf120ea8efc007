"""A run in a background thread."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable

from ...sdk.metrics import scoped
from ...sdk.options.context import inside_a_run
from ...sdk.redaction import logger_of

_logger = logger_of(__name__)

# The interval, in seconds, at which a waiting thread wakes up.
_SLICE = 0.2


class BackgroundRun:
    """Runs a function in a thread of its own, and raises its error in `wait`.

    A program that exits before its end logs that.

    >>> run = BackgroundRun("penstock example", lambda: None)
    >>> run.wait()
    True
    """

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        atexit.register(self._exiting)
        self._thread.start()

    def _run(self) -> None:
        try:
            # The caller may itself be in a pipeline, whose metrics must not count this run.
            with scoped(None), inside_a_run():
                self._function()
        except BaseException as error:
            self._error = error
        finally:
            atexit.unregister(self._exiting)

    def _exiting(self) -> None:
        if self._thread.is_alive():
            _logger.warning(
                "The program exits while its pipeline runs, which ends with it; call wait_until_finish() on the result "
                "before, or cancel()"
            )

    @property
    def is_alive(self) -> bool:
        """Return True while it runs."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for its end, without raising its error."""
        self._thread.join(seconds)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most `seconds`; return False if it still runs.

        Raises the function's error, once.
        """
        until = None if seconds is None else time.monotonic() + seconds
        # In slices, because a thread that waits for a lock may not handle signals.
        while self._thread.is_alive():
            remaining = _SLICE if until is None else until - time.monotonic()
            if remaining <= 0:
                return False
            self._thread.join(min(remaining, _SLICE))
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True
