"""Time per step: sampled from a thread's stack, so that the transforms of a fused stage are told apart.

A sample attributes the time since the last one to the step that the thread is in.  The watched thread has no overhead,
except that it gives up the interpreter for some microseconds at each sample.

>>> import sys, threading, time
>>> from penstock.runners.execution.counters import Counts
>>> counts = Counts()
>>> def guarded_call() -> None:
...     guarded("Slow", lambda: time.sleep(0.05))
>>> thread = threading.Thread(target=guarded_call)
>>> thread.start()
>>> time.sleep(0.02)
>>> sampled_step(sys._current_frames()[thread.ident])
'Slow'
>>> thread.join()
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import FrameType

from ...sdk.user_code.thread_frames import frames_of
from .counters import Counts
from .stuck_calls import label_of_line, step_of
from .user_errors import guarded

# Seconds between two samples.
INTERVAL = 0.03

_GUARDED = guarded.__code__


def sampled_step(frame: FrameType | None) -> str | None:
    """Return the label of the innermost step that a thread is in; None between steps.

    Unlike `step_of`, it seldom reads local variables, which Python copies for it.
    """
    innermost = frame
    while frame is not None:
        if (label := label_of_line(frame)) is not None:
            return label
        if frame.f_code is _GUARDED:
            return str(frame.f_locals["label"])
        frame = frame.f_back
    return step_of(innermost)


class StepSampler:
    """Samples the thread that makes it.  The samples are taken on another thread.

    Args:
      counts: the counts to add the time to.
      is_one_of_many: True if the thread runs one of many tasks, which may be shorter than `INTERVAL`.  Then the first
        sample is at a random moment and stands for `INTERVAL`, so that the sum over the tasks is right.
      see: called with each stack that is sampled.
      clock: seconds, of any beginning.
    """

    def __init__(
        self,
        counts: Counts,
        is_one_of_many: bool = False,
        see: Callable[[FrameType], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts = counts
        self._see = see
        self._clock = clock
        self._watched = threading.get_ident()
        self._last = clock()
        if is_one_of_many:
            self._last -= random.random() * INTERVAL

    def due_in(self) -> float:
        """Return the seconds until the next sample is due."""
        return max(0.0, self._last + INTERVAL - self._clock())

    def sample(self) -> None:
        """Attribute the time since the last sample to the running step, if `INTERVAL` is over."""
        now = self._clock()
        if now - self._last < INTERVAL:
            return
        since, self._last = self._last, now
        with frames_of(self._watched) as frame:
            if frame is None:
                return
            step = sampled_step(frame)
            if self._see is not None:
                self._see(frame)
        if step is not None:
            self._counts.spend(step, now - since)
