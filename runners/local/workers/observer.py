"""Observation of a slot for a page: traffic, keys, panes, logs, and profiles of its thread.

Nothing is observed, and nothing is spent, until a page asks for it (`Observe`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ...execution.log_tail import LogTail
from ...execution.operators.traffic import WorkerTraffic
from ...execution.page.profiles import Profiler
from ...execution.plan.execution_graph import SubtaskId, Task
from ...execution.streaming.observation import Observe, Observed, drawn_by, observed_of, pause_after
from ...execution.streaming.output_sampler import OutputSampler
from ..subtask.backlog import BacklogMeter
from ..subtask.subtask import Subtask

# Reports of traffic, keys and backlogs, which take milliseconds in a large job, take one part in so many of a slot's
# time.
_SHARE = 500

# The module from which all steps are called.
_SLOT = os.path.join(os.path.dirname(__file__), "slot.py")


class SlotObserver:
    """Observes the subtasks of a slot.

    Args:
      subtasks: the slot's subtasks, which may be replaced.
      tasks: all tasks of the job.

    Attributes:
      tail: the log of the slot's process; None if the job's process tails it.
    """

    def __init__(self, subtasks: Callable[[], Mapping[SubtaskId, Subtask]], tasks: Sequence[Task]) -> None:
        self._subtasks = subtasks
        self._backlogs = BacklogMeter(tasks)
        self._wanted = Observe()
        self._is_asked = False
        self._samplers: dict[SubtaskId, OutputSampler] = {}
        self._traffic = WorkerTraffic()
        self._profiler: Profiler | None = None
        self._profiled = 0
        self._last = Observed()
        self._due_at = 0.0
        self.is_own_process = False
        self.tail: LogTail | None = None

    def obey(self, wanted: Observe) -> None:
        """Observe what is wanted from now on."""
        self._is_asked = True
        if self.is_own_process and self.tail is None:
            self.tail = LogTail()
            self.tail.install()
        if wanted[:3] != self._wanted[:3]:
            self.detach()
            if wanted.is_open:
                for subtask in self._subtasks().values():
                    self._attach(subtask, wanted)
        if wanted.profile > self._profiled:
            self._profiled = wanted.profile
            self._profiler = Profiler(wanted.profile, wanted.seconds, _SLOT)
        self._wanted = wanted

    def made(self, subtask: Subtask) -> None:
        """Observe a subtask that has been made, or replaced."""
        if self._wanted.is_open:
            self._attach(subtask, self._wanted)

    def _attach(self, subtask: Subtask, wanted: Observe) -> None:
        execution = subtask.execution
        self._samplers[subtask.id] = OutputSampler(execution, execution.clock, wanted.step, wanted.key, self._traffic)

    def detach(self) -> None:
        """Detach all samplers."""
        for sampler in self._samplers.values():
            sampler.detach()
        self._samplers, self._traffic, self._last, self._due_at = {}, WorkerTraffic(), Observed(), 0.0

    def taken(self) -> Observed | None:
        """Return what was observed since the last call; None without a page, and if there is no news."""
        if not self._is_asked:
            return None
        profile = None
        if self._profiler is not None and self._profiler.is_over:
            profile, self._profiler = (self._profiler.number, self._profiler.stop()), None
        logs = () if self.tail is None else self.tail.taken()
        is_due = bool(self._samplers) and time.monotonic() >= self._due_at
        drawn = any(sampler.inputs or sampler.panes for sampler in self._samplers.values())
        if not (is_due or drawn or logs or profile):
            return None
        if is_due:
            self._measure()
        inputs, panes = drawn_by(self._samplers.values())
        return self._last._replace(logs=logs, profile=profile, inputs=inputs, panes=panes)

    def _measure(self) -> None:
        began = time.thread_time()
        subtasks = self._subtasks()
        observed = observed_of(sampler for id, sampler in self._samplers.items() if id in subtasks)
        self._last = observed._replace(backlogs=self._backlogs.measure(subtasks.values()))
        took = time.thread_time() - began
        self._due_at = time.monotonic() + pause_after(took, _SHARE)


class Observable(Protocol):
    """Workers, as far as they are observed."""

    def send(self, command: Any) -> None: ...

    def observed(self) -> list[tuple[int, Observed]]: ...


class Observation:
    """What a page wants observed, and what the slots have observed: between the thread of the page and the job's.

    >>> observation = Observation()
    >>> observation.want(Observe(is_open=True))
    >>> observation.wanted
    Observe(is_open=True, step=None, key=None, profile=0, seconds=10.0)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.wanted: Observe | None = None
        self._sent: Observe | None = None
        self._latest: dict[int, Observed] = {}
        self._taken: list[tuple[int, Observed]] = []

    def want(self, wanted: Observe) -> None:
        """Have this observed from now on."""
        self.wanted = wanted

    def restarted(self) -> None:
        """Send the slots of a new attempt what is wanted."""
        self._sent = None

    def exchange(self, workers: Observable) -> None:
        """Send the slots what is wanted, and take what they have observed; on the job's thread."""
        wanted = self.wanted
        if wanted is None:
            return
        if wanted != self._sent:
            self._sent = wanted
            workers.send(wanted)
        observed = workers.observed()
        with self._lock:
            for number, each in observed:
                self._latest[number] = each
            self._taken += observed
            # The page has not asked for a while.
            del self._taken[:-1_000]

    def take(self) -> tuple[Mapping[int, Observed], list[tuple[int, Observed]]]:
        """Return the latest observation of each slot, and all that came since the last call."""
        with self._lock:
            taken, self._taken = self._taken, []
            return dict(self._latest), taken
