"""A thread that watches one thread at work: it ends slices of time, and names a call that doesn't return.

Loops are left between two elements, so a step that goes on long after its slice is in one call of user code, or of a
source or sink.  After `--worker_timeout` the watch tells which, with the call's stack; and again when it has returned.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from ...execution.stuck_calls import Returned, Stuck, stack_of, step_of
from ...execution.time_slice import TimeSlice

# Seconds between two looks, while steps are taken and while there is nothing to do.
_OFTEN, _SELDOM = 0.01, 0.05

# After so many looks without a step there is nothing to do.
_IDLE = 10


class Watch:
    """Watches the thread that makes it.

    Args:
      timeout: seconds after which a call is named.
      tell: called with what is `Stuck`, and has `Returned`, on the watch's thread.
      look_on: called on that thread at each look while a call is stuck.
      look_between: called on that thread at each look; for what watches the thread between steps.
    """

    def __init__(
        self,
        time_slice: TimeSlice,
        timeout: float,
        tell: Callable[[Stuck | Returned], None],
        look_on: Callable[[], None] = lambda: None,
        look_between: Callable[[], None] = lambda: None,
    ) -> None:
        self._slice = time_slice
        self._timeout = timeout
        self._tell = tell
        self._look_on = look_on
        self._look_between = look_between
        self._watched = threading.get_ident()
        self._is_over = threading.Event()
        # The step that was told of: its number, its label and when it began.
        self._told: tuple[int, str, int] | None = None
        self._idle, self._seen = 0, 0
        self._thread = threading.Thread(target=self._run, name="penstock watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; unless it is the watch's own thread, wait for its last look."""
        self._is_over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._is_over.wait(_SELDOM if self._idle >= _IDLE else _OFTEN):
            self.look()

    def look(self) -> None:
        """End the slice if it has lasted, and tell of a call that has not returned, or has at last."""
        time_slice = self._slice
        steps, began = time_slice.steps, time_slice.began
        self._idle = self._idle + 1 if began is None and steps == self._seen else 0
        self._seen = steps
        now = time_slice.clock()
        if (self._told is not None and self._told[0] != steps) or (self._told is not None and began is None):
            _, step, since = self._told
            self._told = None
            self._tell(Returned(step, (now - since) / 1_000_000))
        # A call within a step is this watch's to name.
        self._look_between()
        if began is None:
            return
        took = now - began
        if took >= time_slice.length and time_slice.steps == steps:
            time_slice.end()
        if self._told is not None:
            self._look_on()
        elif took >= self._timeout * 1_000_000:
            self._name(steps, began, took)

    def _name(self, steps: int, began: int, took: int) -> None:
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return
        step, stack = step_of(frame) or self._slice.task, stack_of(frame)
        # The step may have ended while its frames were looked at.
        if self._slice.steps == steps and self._slice.began == began:
            self._told = steps, step, began
            self._tell(Stuck(step, took / 1_000_000, stack))
