"""Profiles: how often each stack of a thread was seen, as the step and the frames of user code.

>>> import threading, time
>>> from penstock.runners.execution.user_errors import guarded
>>> def guarded_call() -> None:
...     guarded("Slow", lambda: time.sleep(0.2))
>>> thread = threading.Thread(target=guarded_call)
>>> thread.start()
>>> time.sleep(0.02)
>>> profiler = Profiler(1, 10.0, thread.ident)
>>> time.sleep(0.1)
>>> [stack.splitlines()[0] for stack in profiler.stop()]
['Slow']
>>> thread.join()
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from types import FrameType

from ....sdk.user_code.own_code import is_ours
from ....sdk.user_code.thread_frames import frames_of
from ..clock import fast_switches
from ..step_times import sampled_step
from ..stuck_calls import is_of_pyspark

# Seconds between two samples of a profiler, and its longest profile.
_PROFILED, _LONGEST = 0.01, 60.0

# The most stacks that are told apart.
_MOST = 5_000


class Stacks:
    """How often each stack was seen.

    Args:
      root: the module of penstock from which the thread calls all steps; frames outside of it are left out.

    Attributes:
      counts: by stack: the step, then the frames of user code, from the outermost on, joined by line ends.
    """

    def __init__(self, root: str | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._root = root

    def add(self, frame: FrameType) -> None:
        """Count a stack."""
        stack = stack_of(frame, self._root)
        if stack in self.counts or len(self.counts) < _MOST:
            self.counts[stack] += 1


class Profiler:
    """Samples the stacks of a thread for some seconds, on another thread.

    Args:
      number: the number of the profile.
      seconds: its duration.
      thread: the identity of the thread.
      root: see `Stacks`.
    """

    def __init__(self, number: int, seconds: float, thread: int, root: str | None = None) -> None:
        self.number = number
        self._stacks = Stacks(root)
        self._watched = thread
        self._until = time.monotonic() + min(seconds, _LONGEST)
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock profiler", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once the seconds are over."""
        return not self._thread.is_alive()

    def stop(self) -> Mapping[str, int]:
        """End the profile; return how often each stack was seen."""
        self._is_stopped.set()
        self._thread.join()
        return dict(self._stacks.counts)

    def _run(self) -> None:
        # With the usual interval this thread would find most short calls over.
        with fast_switches():
            while time.monotonic() < self._until:
                with frames_of(self._watched) as frame:
                    if frame is None:
                        return
                    self._stacks.add(frame)
                    del frame
                if self._is_stopped.wait(_PROFILED):
                    return


def stack_of(frame: FrameType | None, root: str | None = None) -> str:
    """Return the step and the frames of user code of a thread, joined by line ends.

    Args:
      root: see `Stacks`.
    """
    step, within = sampled_step(frame), 0
    frames: list[str] = []
    while frame is not None:
        code = frame.f_code
        if is_ours(code.co_filename):
            within = len(frames)
            if code.co_filename == root:
                break
        elif not is_of_pyspark(code.co_filename):
            frames.append(f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    if step is None:
        # The runner's own work, and the wait for input.
        return "(runner)"
    # The frames outside of the root's have started it.
    return "\n".join([step, *reversed(frames[:within])])
