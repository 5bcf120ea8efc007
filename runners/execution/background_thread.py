"""A run in a thread beside the one that started it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...sdk.metrics import scoped
from ...sdk.options.context import inside_a_run

# Seconds: how often a thread that waits looks up.
_SLICE = 0.2


class BackgroundRun:
    """Runs a function in a thread of its own, and keeps what made it fail for whoever waits.

    >>> run = BackgroundRun("penstock example", lambda: None)
    >>> run.wait()
    True
    """

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            # What starts the run may itself be in a pipeline, for which nothing is to be counted here.
            with scoped(None), inside_a_run():
                self._function()
        except BaseException as error:
            self._error = error

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for its end, without a word of what made it fail."""
        self._thread.join(seconds)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most so long; whether it has ended.

        Raises what made it fail, once.
        """
        until = None if seconds is None else time.monotonic() + seconds
        # In slices: where a lock is waited for, signals may not be heard.
        while self._thread.is_alive():
            left = _SLICE if until is None else until - time.monotonic()
            if left <= 0:
                return False
            self._thread.join(min(left, _SLICE))
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True
