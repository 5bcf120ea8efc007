"""Watch thread of a slot: samples the steps, and reports calls that don't return.

Bundles are as large as a step of milliseconds allows, so a step that lasts for seconds is in one call of user code, or
of a source or sink.  After `--worker_timeout` the watch reports the call with its stack, and again when it has
returned.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from types import FrameType

from ....sdk.user_code.thread_frames import frames_of
from ...execution.clock import StepClock, fast_switches
from ...execution.step_times import INTERVAL
from ...execution.stuck_calls import Returned, Stuck, stack_of, step_of

# Seconds between two looks, while the slot is busy and while it is idle.
_OFTEN, _SELDOM = 0.01, 0.05

# Microseconds between two samples.
_SAMPLES = round(INTERVAL * 1_000_000)

# Microseconds after which a step is sampled where it is found.
_LONG = 5_000

# Looks without a step after which the slot is idle.
_IDLE = 10


class Watch:
    """Watches the thread that makes it.

    Args:
      timeout: seconds after which a call is reported.
      report: called with `Stuck` and `Returned`, on the watch's thread.
      look_on: called on that thread at each look while a call is stuck.
      look_between: called on that thread at each look, to watch calls between steps.
      sampled: called on that thread with the stack of a step, and the busy microseconds that the sample stands for.
    """

    def __init__(
        self,
        step_clock: StepClock,
        timeout: float,
        report: Callable[[Stuck | Returned], None],
        look_on: Callable[[], None] = lambda: None,
        look_between: Callable[[], None] = lambda: None,
        sampled: Callable[[FrameType, int], None] | None = None,
    ) -> None:
        self._step_clock = step_clock
        self._timeout = timeout
        self._report = report
        self._look_on = look_on
        self._look_between = look_between
        self._sampled = sampled
        # When the last sample was taken, and the busy time then.
        self._sampled_at, self._busy = step_clock.clock(), step_clock.busy
        self._watched = threading.get_ident()
        self._is_over = threading.Event()
        # The step that was reported as stuck: its number, its label and when it began.
        self._stuck: tuple[int, str, int] | None = None
        self._idle, self._seen = 0, 0
        self._thread = threading.Thread(target=self._run, name="penstock watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for its last look unless it is the calling thread."""
        self._is_over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._is_over.wait(_SELDOM if self._idle >= _IDLE else _OFTEN):
            self.look()

    def look(self) -> None:
        """Report a call that is stuck, or has returned."""
        step_clock = self._step_clock
        steps, began = step_clock.steps, step_clock.began
        self._idle = self._idle + 1 if began is None and steps == self._seen else 0
        self._seen = steps
        now = step_clock.clock()
        if self._stuck is not None and (self._stuck[0] != steps or began is None):
            _, step, since = self._stuck
            self._stuck = None
            self._report(Returned(step, (now - since) / 1_000_000))
        # Calls within a step are reported below.
        self._look_between()
        if self._sampled is not None and now - self._sampled_at >= _SAMPLES:
            self._sample(now)
        if began is None:
            return
        took = now - began
        if self._stuck is not None:
            self._look_on()
        elif took >= self._timeout * 1_000_000:
            self._report_stuck(steps, began, took)

    def _sample(self, now: int) -> None:
        """Attribute the busy time since the last sample to what the thread is doing at a random moment.

        A moment between two steps attributes nothing: steps are sampled in proportion to their time.
        """
        step_clock = self._step_clock
        began = step_clock.began
        if began is not None and now - began >= _LONG:
            self._sample_now()
        elif began is not None or step_clock.busy != self._busy:
            with fast_switches():
                # This thread often gets the interpreter when a step is over: the moment is one of several steps.
                time.sleep(random.random() * 2 * _LONG / 1_000_000)
                self._sample_now()

    def _sample_now(self) -> None:
        step_clock = self._step_clock
        steps, began = step_clock.steps, step_clock.began
        with frames_of(self._watched) as frame:
            # The step may have ended while its frames were read.
            if frame is None or began is None or step_clock.steps != steps or step_clock.began != began:
                return
            now = step_clock.clock()
            busy = step_clock.busy + now - began
            assert self._sampled is not None
            self._sampled(frame, busy - self._busy)
        self._busy, self._sampled_at = busy, now

    def _report_stuck(self, steps: int, began: int, took: int) -> None:
        with frames_of(self._watched) as frame:
            if frame is None:
                return
            step, stack = step_of(frame) or self._step_clock.task, stack_of(frame)
        # The step may have ended while its frames were read.
        if self._step_clock.steps == steps and self._step_clock.began == began:
            self._stuck = steps, step, began
            self._report(Stuck(step, took / 1_000_000, stack))
