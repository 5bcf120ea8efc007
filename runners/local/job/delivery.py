"""Delivery: what a job recovers from, and how the output of its sinks is published exactly once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ....sdk.errors import UnsupportedError
from ...execution.plan.fusion import Plan
from ...execution.sinks.committer import SinkCommitter
from .attempt import Attempt
from .context import JobContext

if TYPE_CHECKING:
    from ...execution.inspection.committed_state import StepState


class Delivery(ABC):
    """A strategy of a job: `BarrierDelivery` or `ProductionDelivery`.

    Attributes:
      is_durable: the job can restart without beginning anew.
    """

    is_durable: bool

    @abstractmethod
    def committer_of(self, plan: Plan) -> SinkCommitter:
        """Return the committer of a plan's sinks, with the record of its open transactions."""

    @abstractmethod
    def attach(self, context: JobContext) -> None:
        """Serve the job with this context from now on."""

    @abstractmethod
    def take_over(self) -> None:
        """Become the owner of the directory, which ends any other run that writes to it."""

    @abstractmethod
    def next_attempt(self) -> Attempt | str:
        """Return the next attempt, ready to run; or the final state of the run, if that has ended."""

    @abstractmethod
    def restart_delay(self, error: Exception, progressed: bool) -> float | None:
        """Return the seconds to wait before a restart, or None if the job fails.

        Args:
          progressed: something became durable since the last restart.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Leave committed and aborted what an attempt would have left, cancelled."""

    @abstractmethod
    def abort(self) -> None:
        """Abort uncommitted output: the job has failed."""

    @property
    @abstractmethod
    def ends_with_savepoint(self) -> bool:
        """Whether the next run can resume without losing anything of this one."""

    def committed_state(self, step: str) -> StepState:
        """Return the state of a step as the newest complete checkpoint has it, for reads in any thread.

        Raises `UnsupportedError` if the job takes no checkpoints, and `StateNotFoundError` for an unknown step.
        """
        raise UnsupportedError(
            f"{step}: its state can't be read, because this run takes no checkpoints. Give --checkpoint_dir, with "
            "--delivery=barriers"
        )
