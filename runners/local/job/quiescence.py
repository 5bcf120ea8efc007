"""Quiescence: barriers find out whether everything before them has been processed, for scripts and for loops.

A script's next event is played when everything that follows from the last one has been processed.  A barrier can't
detect that in a loop: records that come back behind it may go round once more.  So where there are loops, one barrier
follows the other, until no record has come back since the one before.  In a stream that may never be so; there the
earliest record that came back limits how far watermarks may advance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ....windowing.timestamp import MIN_MICROS
from ...execution.plan.execution_graph import SubtaskId
from ...execution.streaming.feedback import earliest_of
from ..channels.messages import Barrier, BarrierKind
from ..subtask.reports import Quiesced
from ..workers.pool import Workers
from ..workers.protocol import AdvanceLoops, Inject, Play

# The interval between two barriers through loops, in microseconds.
_INTERVAL = 20_000


class Quiescence:
    """Injects the barriers, and sends the commands that follow from their results.

    Args:
      subtasks: the subtasks that report on each barrier.
      clock: returns microseconds.
      next_barrier: returns the number of the next barrier.
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
        # The subtasks that have not reported; None if no barrier is in progress.
        self._unreported: set[SubtaskId] | None = None
        # What the barrier in progress has found in loops; the last barrier, with its watermark; when the next is due.
        self._earliest: int | None = None
        self._watermark: int | None = None
        self._is_behind = False
        self._last: tuple[int, int | None] | None = None
        self._next_barrier_at = 0
        self._is_requested = False

    def request(self) -> None:
        """Inject a barrier; in loops, as soon as no other barrier is in progress."""
        if self._has_loops:
            self._is_requested = True
        else:
            self._send()

    def is_in_progress(self, now: int) -> bool:
        """Inject a barrier into loops if one is due.  Returns whether one is in progress: checkpoints wait for it."""
        if not self._has_loops:
            return False
        if self._unreported is None and (self._is_requested or (not self._has_script and now >= self._next_barrier_at)):
            self._send()
        return self._unreported is not None

    def _send(self) -> None:
        self._is_requested = False
        self._unreported = set(self._subtasks)
        self._earliest, self._watermark, self._is_behind = None, None, False
        self._workers.send(Inject(Barrier(self._next_barrier(), BarrierKind.QUIESCE)))

    def process(self, subtask: SubtaskId, report: Quiesced) -> None:
        """Process the report of a subtask that has processed everything before the barrier."""
        assert self._unreported is not None
        self._unreported.discard(subtask)
        self._earliest = earliest_of([self._earliest, report.earliest])
        self._watermark = earliest_of([self._watermark, report.watermark])
        self._is_behind |= report.is_behind
        if not self._unreported:
            self._unreported = None
            self._finish(report.number)

    def _finish(self, number: int) -> None:
        """Advance watermarks and the script after all subtasks have reported on a barrier."""
        before, earliest = self._last, self._earliest
        self._next_barrier_at = self._clock() + _INTERVAL
        self._last = number, self._watermark
        # An event of a script advances watermarks once, when the loops are empty, as in a graph of one task.
        if before is not None and self._is_behind and (earliest is None or not self._has_script):
            barrier, watermark = before
            floor = earliest_of([watermark, earliest])
            self._workers.send(AdvanceLoops(barrier, earliest, MIN_MICROS if floor is None else floor))
        if not self._has_script:
            return
        if earliest is not None or self._is_behind:
            self.request()
        else:
            self._workers.send(Play())
