"""Health of a running job: whether it makes progress, and whether it processes records.

A job is *live* unless a restart of its process could help: its loop has stopped turning, a function of user code hasn't
returned for `--health_timeout`, or the job has failed.  It is *ready* while it processes records: after it has restored
its checkpoint, and before it stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from ....sdk.runner import PipelineState
from ...execution.clock import steady_time
from ..job.status import JobStatus, Phase

if TYPE_CHECKING:
    from ..job.job import Job


@attrs.frozen
class Health:
    """The health of a job at one moment.

    Attributes:
      why: the reason why it isn't live; "" if it is.
    """

    phase: Phase
    why: str
    status: JobStatus

    @property
    def is_live(self) -> bool:
        """Whether a restart of the process could not help."""
        return not self.why

    @property
    def is_ready(self) -> bool:
        """Whether the job processes records."""
        return self.is_live and self.phase is Phase.RUNNING


class HealthMonitor:
    """Judges the health of a job.  All calls of `look` come from one thread.

    Args:
      timeout: microseconds without progress after which a running job isn't live.
      clock: returns microseconds of the job's clock.
    """

    def __init__(self, job: Job, timeout: int, clock: Callable[[], int] = steady_time) -> None:
        self._job = job
        self._timeout = timeout
        self._clock = clock
        # The steps with a function that doesn't return, and when they were first seen.
        self._stuck, self._stuck_since = "", 0

    def look(self) -> Health:
        """Return the health now.  A function that doesn't return is noticed by the calls before."""
        job, now = self._job, self._clock()
        steps = job.stuck_steps()
        if steps != self._stuck:
            self._stuck, self._stuck_since = steps, now
        phase, turned_at = job.phase, job.context.status.turned_at
        why = ""
        if job.state == PipelineState.FAILED:
            why = "the job has failed"
        elif phase in (Phase.STARTING, Phase.RUNNING):
            stalled, stuck = now - turned_at, now - self._stuck_since if steps else 0
            # A function in this process also keeps the loop from turning, since before it was seen as stuck.
            if steps and (stuck >= self._timeout or stalled >= self._timeout):
                why = f"{steps}: a function has not returned for {_seconds(max(stalled, stuck))}"
            # While it starts, it restores a checkpoint, for as long as that takes.
            elif phase is Phase.RUNNING and stalled >= self._timeout:
                why = f"the job has not made progress for {_seconds(stalled)}"
        return Health(phase, why, job.status)


def _seconds(micros: int) -> str:
    return f"{micros / 1_000_000:.0f} s"
