"""Settling: barriers that ask whether everything before them has been done, for a script and for loops.

A script's next event is played when everything is done that the last one has brought about.  In a loop a barrier can't
tell: what came back behind it may go round once more.  So where there are loops barriers follow each other, until one
has found nothing that came back since the one before.  In a stream that may never be; there the earliest of what came
back says how far watermarks may go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ....windowing.timestamp import MIN_MICROS
from ...execution.plan.execution_graph import SubtaskId
from ...execution.streaming.feedback import earliest_of
from ..channels.messages import Barrier, BarrierKind
from ..subtask.reports import Settled
from ..workers.pool import Workers
from ..workers.protocol import GoneRound, Inject, Play

# How long, in microseconds, from one look at what is in loops to the next.
_ROUND = 20_000


class Settling:
    """Sends such barriers, and what follows from them.

    Args:
      subtasks: who is asked.
      clock: microseconds since 1970.
      next_barrier: gives each barrier its number.
      has_script, has_loops: whom it is done for.
    """

    def __init__(
        self,
        subtasks: Collection[SubtaskId],
        workers: Workers,
        clock: Callable[[], int],
        next_barrier: Callable[[], int],
        has_script: bool,
        has_loops: bool,
    ) -> None:
        self._subtasks = subtasks
        self._workers = workers
        self._clock = clock
        self._next_barrier = next_barrier
        self._has_script = has_script
        self._has_loops = has_loops
        # Who hasn't answered; None if no barrier is on its way.
        self._missing: set[SubtaskId] | None = None
        # What the barrier under way has found in loops, the one before it, and when the next is to go.
        self._earliest: int | None = None
        self._watermark: int | None = None
        self._is_behind = False
        self._last: tuple[int, int | None] | None = None
        self._next_round = 0
        self._is_wanted = False

    def ask(self) -> None:
        """Ask everybody whether all that has begun is done; in loops, when no other barrier is on its way."""
        if self._has_loops:
            self._is_wanted = True
        else:
            self._send()

    def look(self, now: int) -> bool:
        """Send a barrier through loops, when it is time for one; whether one is on its way: they go one by one."""
        if not self._has_loops:
            return False
        if self._missing is None and (self._is_wanted or (not self._has_script and now >= self._next_round)):
            self._send()
        return self._missing is not None

    def _send(self) -> None:
        self._is_wanted = False
        self._missing = set(self._subtasks)
        self._earliest, self._watermark, self._is_behind = None, None, False
        self._workers.send(Inject(Barrier(self._next_barrier(), BarrierKind.SETTLE)))

    def heard(self, subtask: SubtaskId, report: Settled) -> None:
        """A subtask has done everything before the barrier."""
        assert self._missing is not None
        self._missing.discard(subtask)
        self._earliest = earliest_of([self._earliest, report.earliest])
        self._watermark = earliest_of([self._watermark, report.watermark])
        self._is_behind |= report.is_behind
        if not self._missing:
            self._missing = None
            self._has_settled(report.number)

    def _has_settled(self, number: int) -> None:
        """Everything before a barrier has been done; but for what is in loops, of which it is known now."""
        before, earliest = self._last, self._earliest
        self._next_round = self._clock() + _ROUND
        self._last = number, self._watermark
        # An event of a script moves watermarks once, when all is done, as where there is one task.
        if before is not None and self._is_behind and (earliest is None or not self._has_script):
            barrier, watermark = before
            floor = earliest_of([watermark, earliest])
            self._workers.send(GoneRound(barrier, earliest, MIN_MICROS if floor is None else floor))
        if not self._has_script:
            return
        if earliest is not None or self._is_behind:
            self.ask()
        else:
            self._workers.send(Play())
