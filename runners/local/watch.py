"""A thread that watches one thread at work: it ends slices of time, and names a call that doesn't return.

Loops are left between two elements, so a step that goes on long after its slice is in one call of user code, or of a
source or sink.  After `--worker_timeout` the watch tells which, with the call's stack; and again when it has returned.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType

from ...sdk.metrics import STEPS_OF_LINES
from ...sdk.own_code import is_ours
from ..execution.time_slice import TimeSlice
from .commands import Returned, Stuck

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
    """

    def __init__(
        self,
        time_slice: TimeSlice,
        timeout: float,
        tell: Callable[[Stuck | Returned], None],
        look_on: Callable[[], None] = lambda: None,
    ) -> None:
        self._slice = time_slice
        self._timeout = timeout
        self._tell = tell
        self._look_on = look_on
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


def step_of(frame: FrameType | None) -> str | None:
    """Return the label of the step that a thread is in; None if none is found."""
    while frame is not None:
        labels = frame.f_globals.get(STEPS_OF_LINES)
        if labels is not None and labels[frame.f_lineno - 1]:
            return str(labels[frame.f_lineno - 1])
        if is_ours(frame.f_code.co_filename):
            label = frame.f_locals.get("label") or getattr(frame.f_locals.get("self"), "label", None)
            if isinstance(label, str):
                return label
        frame = frame.f_back
    return None


def stack_of(frame: FrameType) -> str:
    """Return where a thread is, from where it has left this package for the last time; the whole if it hasn't."""
    entries = traceback.extract_stack(frame)
    ours = [i for i, entry in enumerate(entries) if is_ours(entry.filename)]
    own = entries[ours[-1] + 1 :] if ours else entries
    return "".join(traceback.format_list(own or entries[-5:])).rstrip()
