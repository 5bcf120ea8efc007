"""Observation of a worker for a page: traffic, keys, panes, logs, and profiles of its thread.

Nothing is observed, and nothing is spent, until a page asks for it (`Observe`).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ..batch import segment_task
from ..batch.segment_task import SegmentTask
from ..log_tail import LogTail
from ..operators.edge_sampler import EdgeSampler, HotKeys
from ..operators.traffic import WorkerTraffic
from ..plan.segments import Segment
from ..streaming.observation import Observe, Observed, drawn_by, pause_after, sampled
from ..streaming.output_sampler import OutputSampler
from .profiles import Profiler

# Reports of traffic, keys and backlogs, which take milliseconds in a large job, take one part in so many of a worker's
# time.
_SHARE = 500

Id = TypeVar("Id", bound=Hashable)
Sampler = TypeVar("Sampler", bound=EdgeSampler)


class WorkerObserver(ABC, Generic[Id, Sampler]):
    """Observes what runs in one thread.  Subclasses make the samplers of the edges.

    Args:
      root: the module of penstock from which all steps are called.

    Attributes:
      tail: the log of the worker's process; None if the run's process tails it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._wanted = Observe()
        self._is_asked = False
        self._samplers: dict[Id, Sampler] = {}
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
                self._attach_all(wanted)
        if wanted.profile > self._profiled:
            self._profiled = wanted.profile
            self._profiler = Profiler(wanted.profile, wanted.seconds, self._root)
        self._wanted = wanted

    @abstractmethod
    def _attach_all(self, wanted: Observe) -> None:
        """Attach a sampler to all that runs."""

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
        is_due = self._wanted.is_open and time.monotonic() >= self._due_at
        drawing = [sampler for sampler in self._samplers.values() if isinstance(sampler, OutputSampler)]
        drawn = any(sampler.inputs or sampler.panes for sampler in drawing)
        if not (is_due or drawn or logs or profile):
            return None
        if is_due:
            began = time.thread_time()
            self._last = self._measured()
            took = time.thread_time() - began
            self._due_at = time.monotonic() + pause_after(took, _SHARE)
        inputs, panes = drawn_by(drawing)
        return self._last._replace(logs=logs, profile=profile, inputs=inputs, panes=panes)

    @abstractmethod
    def _measured(self) -> Observed:
        """Return what the samplers have counted."""


class TaskObserver(WorkerObserver[int, EdgeSampler]):
    """Observes one task after the other.

    Args:
      is_own_process: whether the lines of the process's log are observed.
    """

    def __init__(self, is_own_process: bool) -> None:
        super().__init__(segment_task.__file__)
        self.is_own_process = is_own_process
        self._running: tuple[SegmentTask, Sequence[Segment]] | None = None
        self._keys: dict[str, HotKeys] = {}

    def begin(self, task: SegmentTask, segments: Sequence[Segment]) -> None:
        """Observe a task from now on, with all its segments."""
        self._running = task, segments
        if self._wanted.is_open:
            self._attach_all(self._wanted)

    def end(self) -> None:
        """Observe no task any more; what has passed the last one stays counted."""
        self._running = None
        for sampler in self._samplers.values():
            sampler.detach()
        self._samplers = {}

    def detach(self) -> None:
        super().detach()
        self._keys = {}

    def _attach_all(self, wanted: Observe) -> None:
        if self._running is not None:
            task, segments = self._running
            self._samplers[0] = task.sampled(segments, self._traffic, self._keys)

    def _measured(self) -> Observed:
        return sampled([self._traffic], [self._keys])


class Observable(Protocol):
    """Workers, as far as they are observed."""

    def send(self, command: Any) -> None: ...

    def observed(self) -> list[tuple[int, Observed]]: ...


class Observation:
    """What a page wants observed, and what the workers have observed: between the thread of the page and the run's.

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
        """Send the workers what is wanted again: some are new."""
        self._sent = None

    def exchange(self, workers: Observable) -> None:
        """Send the workers what is wanted, and take what they have observed; on the run's thread."""
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
        """Return the latest observation of each worker, and all that came since the last call."""
        with self._lock:
            taken, self._taken = self._taken, []
            return dict(self._latest), taken
