"""Health of a run: whether it makes progress, and whether it processes records.

A run is *live* unless a restart of its process could help: it makes no progress, a function of user code hasn't
returned for `--health_timeout`, or it has failed.  It is *ready* while it processes records: after it has restored its
checkpoint, and before it stops.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ....frozen import frozen
from ....sdk.metrics import MetricsContainer
from ....sdk.runner import PipelineState
from ...execution.clock import steady_time
from ...execution.counters import Counts
from ...execution.page.description import described_observation
from ...execution.page.run_page import RunPage
from ...execution.plan.execution_graph import SubtaskId
from ..job.status import Load, Phase


class RunStatus(Protocol):
    """The status of a run at one moment; that of a job is a `JobStatus`.

    Attributes:
      now, started: microseconds since 1970.
      counts, metrics: what its steps and user code have counted.
      loads: the load of each subtask.
    """

    @property
    def now(self) -> int: ...

    @property
    def started(self) -> int: ...

    @property
    def counts(self) -> Counts: ...

    @property
    def metrics(self) -> MetricsContainer: ...

    @property
    def loads(self) -> Mapping[SubtaskId, Load]: ...


class MonitoredRun(RunPage):
    """A run as its page shows it, and as it is monitored: from any thread.

    Attributes:
      tasks: the labels of the tasks, by their numbers.
    """

    tasks: Sequence[str]

    def status(self) -> dict[str, Any]:
        latest, news = self.observation.take()
        self._add(news)
        return self.described() | (described_observation(latest.values()) if self.wanted.is_open else {})

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the present status as data, without what is observed while the page is open."""

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """The phase of the run."""

    @property
    @abstractmethod
    def turns(self) -> int:
        """A number that grows while the run makes progress."""

    @abstractmethod
    def stuck_steps(self) -> str:
        """Return the steps with a function that doesn't return, as text; "" if none are known."""

    @abstractmethod
    def current_status(self) -> RunStatus:
        """Return the status."""

    @abstractmethod
    def progress(self) -> Mapping[str, Any]:
        """Return how far the run is, for those who ask for its health."""


@frozen
class Health:
    """The health of a run at one moment.

    Attributes:
      why: the reason why it isn't live; "" if it is.
      progress: how far it is: no error, which could contain data.
    """

    phase: Phase
    why: str
    progress: Mapping[str, Any]

    @property
    def is_live(self) -> bool:
        """Whether a restart of the process could not help."""
        return not self.why

    @property
    def is_ready(self) -> bool:
        """Whether the run processes records."""
        return self.is_live and self.phase is Phase.RUNNING

    def described(self) -> dict[str, Any]:
        """Return what clients may know."""
        return {
            "live": self.is_live,
            "ready": self.is_ready,
            "phase": self.phase.value,
            "why": self.why,
            **self.progress,
        }


class HealthMonitor:
    """Judges the health of a run.  All calls of `look` come from one thread.

    Args:
      timeout: microseconds without progress after which a run that processes records isn't live.
      clock: returns microseconds of a monotonic clock.
    """

    def __init__(self, run: MonitoredRun, timeout: int, clock: Callable[[], int] = steady_time) -> None:
        self._run = run
        self._timeout = timeout
        self._clock = clock
        # The turns at the last look, and when they were first seen.
        self._turns, self._turned_at = -1, 0
        # The steps with a function that doesn't return, and when they were first seen.
        self._stuck, self._stuck_since = "", 0

    def look(self) -> Health:
        """Return the health now.  A function that doesn't return is noticed by the calls before."""
        run, now = self._run, self._clock()
        steps, turns, phase = run.stuck_steps(), run.turns, run.phase
        if steps != self._stuck:
            self._stuck, self._stuck_since = steps, now
        if turns != self._turns:
            self._turns, self._turned_at = turns, now
        why = ""
        if run.state == PipelineState.FAILED:
            why = "the run has failed"
        elif phase in (Phase.STARTING, Phase.RUNNING):
            stalled, stuck = now - self._turned_at, now - self._stuck_since if steps else 0
            # A function in this process also keeps the run from turning, since before it was seen as stuck.
            if steps and (stuck >= self._timeout or stalled >= self._timeout):
                why = f"{steps}: a function has not returned for {_seconds(max(stalled, stuck))}"
            # While it starts, it restores a checkpoint, for as long as that takes.
            elif phase is Phase.RUNNING and stalled >= self._timeout:
                why = f"the run has not made progress for {_seconds(stalled)}"
        return Health(phase, why, run.progress())


def _seconds(micros: int) -> str:
    return f"{micros / 1_000_000:.0f} s"
