"""Profiles: how often each stack of a thread was seen, as the step and the frames of user code.

>>> import time
>>> from penstock.runners.execution.user_errors import guarded
>>> def waits() -> None:
...     time.sleep(0.05)
>>> profiler = Profiler(1, 10.0)
>>> for _ in range(3):
...     guarded("Slow", waits)
>>> "Slow" in {stack.splitlines()[0] for stack in profiler.stop()}
True

The time of steps is exact: their slot adds it up.  Stacks are looked at now and then, and share the time of their
step.  Another thread looks at long steps.  It is let in between short ones, and hardly ever within one.  So the thread
looks at its own stack when such a step comes again, at a random moment: when the first function is called, or returns,
after that.
"""

from __future__ import annotations

import math
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from traceback import FrameSummary
from types import FrameType
from typing import Any

from ....sdk.user_code.own_code import is_ours
from ....sdk.user_code.step_slot import FusedSteps, here
from ....sdk.user_code.thread_stack import stack_of_thread
from ..stuck_calls import is_of_pyspark, step_in

# Seconds of a step between two looks at it: for a profile that is asked for, and for one that is always taken.
PROFILED, _SELDOM = 0.01, 0.03

# The most stacks of a step that are told apart.
_MOST = 5_000


class _Step:
    """A step: its time so far, at the last look and at the next one, in seconds; and what was seen.

    Attributes:
      longest: the time that it takes at most before another step begins.
    """

    __slots__ = ("longest", "looked", "next", "seconds", "stacks")

    def __init__(self) -> None:
        self.seconds = self.looked = self.next = self.longest = 0.0
        # By stack, the seconds from the look before.
        self.stacks: defaultdict[str, float] = defaultdict(float)

    def see(self, stack: str, seconds: float) -> None:
        """Add a stack, which was looked at when the step had taken so many seconds."""
        if stack in self.stacks or len(self.stacks) < _MOST:
            self.stacks[stack] += max(0.0, seconds - self.looked)
        self.looked = seconds

    def ran(self, seconds: float) -> None:
        """Add time."""
        self.seconds += seconds
        self.longest = max(seconds, 0.9 * self.longest)

    def next_look(self, interval: float) -> float | None:
        """Return after which time the thread is to look at its stack; None if not before another step begins."""
        if not self.longest or (self.stacks and self.seconds - self.looked < interval):
            return None
        if self.next < self.seconds:
            # Any moment of the step's time is as likely as another one.
            self.next = self.seconds + random.random() * self.longest
        after = self.next - self.seconds
        return after if after <= self.longest else None


class Profiler:
    """Profiles the thread that makes it, for some seconds.

    Args:
      number: the number of the profile.
      seconds: its duration.
      root: the module of penstock from which the thread calls all steps; frames outside of it are left out.
      interval: seconds of a step between two looks.
    """

    def __init__(self, number: int, seconds: float, root: str | None = None, interval: float = PROFILED) -> None:
        self.number = number
        self._root = root
        self._interval = interval
        self._slot = here.slot
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._steps: defaultdict[str | FusedSteps, _Step] = defaultdict(_Step)
        # The step that the thread looks at, and when.
        self._watched: str | FusedSteps | None = None
        self._due = 0.0
        self._slot.profile = self
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock profiler", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once the seconds are over."""
        return time.monotonic() >= self._until

    def stop(self) -> Mapping[str, int]:
        """End the profile; return how often each stack was seen, in hundredths of a second."""
        self._is_stopped.set()
        self._thread.join()
        self._look_no_more()
        self._slot.profile = None
        passed = min(time.monotonic(), self._until) - self._began
        # The runner's own work, and the wait for input.
        shares = defaultdict(float, {"(runner)": passed - sum(step.seconds for step in self._steps.values())})
        for step, known in self._steps.items():
            total = sum(known.stacks.values())
            seen = known.stacks if total else {_label(step): 1.0}
            for stack, seconds in seen.items():
                shares[stack] += known.seconds * seconds / (total or 1.0)
        return {stack: times for stack, seconds in shares.items() if (times := round(seconds / PROFILED)) > 0}

    def switched(self, before: str | FusedSteps | None, step: str | FusedSteps | None, seconds: float) -> None:
        """Note that the thread is in another step now, and how long it has been in the one before."""
        self._look_no_more()
        if before is not None:
            self._steps[before].ran(seconds)
        after = None if step is None else self._steps[step].next_look(self._interval)
        if after is not None and sys.getprofile() is None:
            self._watched, self._due = step, perf_counter() + after
            sys.setprofile(self._called)

    def _look_no_more(self) -> None:
        if self._watched is not None:
            self._watched = None
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        """Look at the stack if it is time: what returns has run until now, and what is called hasn't."""
        step, now = self._watched, perf_counter()
        if step is None or now < self._due:
            return
        running = frame.f_back if event == "call" else frame
        if running is None or (is_ours(running.f_code.co_filename) and not _is_loop(running, step)):
            # A function of this package, which takes no time.
            return
        self._look_no_more()
        stack = traceback.StackSummary.extract(traceback.walk_stack(running), lookup_lines=False)
        stack.reverse()
        self._see(step, stack, now)

    def _see(self, step: str | FusedSteps, stack: Sequence[FrameSummary], now: float) -> None:
        known = self._steps[step]
        text = "\n".join([step_in(step, stack), *_user_frames(stack, self._root)])
        known.see(text, known.seconds + now - self._slot.since)

    def _run(self) -> None:
        slot = self._slot
        while not self._is_stopped.wait(self._interval) and not self.is_over:
            step, moves = slot.step, slot.moves
            if step is None or self._watched is not None:
                continue
            stack, now = stack_of_thread(slot.thread), perf_counter()
            if slot.step is step and (slot.moves == moves or not isinstance(step, str)):
                self._see(step, stack, now)


def _is_loop(frame: FrameType, step: str | FusedSteps) -> bool:
    return not isinstance(step, str) and frame.f_code is step.code


def _label(step: str | FusedSteps) -> str:
    return step if isinstance(step, str) else step.label


@contextmanager
def profiled(counts: Counter[str]) -> Iterator[None]:
    """Add to `counts` how often each stack of this thread is seen within the block."""
    profiler = Profiler(0, math.inf, interval=_SELDOM)
    try:
        yield
    finally:
        counts.update(profiler.stop())


def _user_frames(stack: Sequence[FrameSummary], root: str | None) -> list[str]:
    """Return the frames of user code from the outermost of penstock's frames on, or from the root's."""
    ours = [i for i, entry in enumerate(stack) if is_ours(entry.filename)]
    of_root = [i for i in ours if stack[i].filename == root]
    start = (of_root or ours or [len(stack)])[0]
    return [
        f"{entry.name} ({os.path.basename(entry.filename)}:{entry.lineno})"
        for entry in stack[start:]
        if not is_ours(entry.filename) and not is_of_pyspark(entry.filename)
    ]
