"""Recovery of a region: after a failure only those go back to the last checkpoint that have to (ABS, section 5).

A checkpoint that was under way is given up, and none begins before everybody who went back has caught up with those
that kept their state: until then the two are not at one point of the stream.  Where anything stands in the way, the
job starts again as a whole, which is the stronger measure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..execution.plan.execution_graph import ExecutionGraph
from .region import left_ahead, region_of
from .repeatable_tasks import why_not_repeatable
from .subtask_reports import CaughtUp, SubtaskId


class RegionRecovery:
    """Who goes back, and who is yet to be heard of.

    Attributes:
      repeatable: the tasks that number what they send, since they say the same again.
      reasons: why the other tasks that read don't.
      generation: how many times some have gone back.
    """

    def __init__(self, execution_graph: ExecutionGraph) -> None:
        self._graph = execution_graph
        found = why_not_repeatable(execution_graph)
        self.repeatable = frozenset(task for task, why in found.items() if why is None)
        self.reasons = tuple(why for why in found.values() if why is not None)
        self.generation = 0
        # Of the subtasks that go back those which have yet to hear of it: whatever they say is old.
        self._to_hear: dict[SubtaskId, int] = {}
        # Of those that kept their state while somebody they listen to went back: when that was, the last time.
        self._ahead: dict[SubtaskId, int] = {}

    @property
    def is_under_way(self) -> bool:
        """Whether somebody who has gone back hasn't caught up."""
        return bool(self._to_hear or self._ahead)

    def region_of(self, failed: Iterable[SubtaskId]) -> frozenset[SubtaskId]:
        """Who goes back when these have failed;"""
        return region_of(self._graph, failed, self.repeatable)

    def go_back(self, region: Collection[SubtaskId], lost: Collection[SubtaskId]) -> None:
        """A region goes back; these of it are made anew, and so have nothing to hear."""
        self.generation += 1
        for id in region:
            if id in lost:
                self._to_hear.pop(id, None)
            else:
                self._to_hear[id] = self.generation
        self._ahead.update(dict.fromkeys(left_ahead(self._graph, region), self.generation))
        for id in region:
            self._ahead.pop(id, None)

    def is_old(self, subtask: SubtaskId) -> bool:
        """Whether what a subtask says is of before it went back."""
        return subtask in self._to_hear

    def have_heard(self, generation: int, subtasks: Iterable[SubtaskId]) -> None:
        """Subtasks have gone back."""
        for id in subtasks:
            if self._to_hear.get(id) == generation:
                del self._to_hear[id]

    def has_caught_up(self, subtask: SubtaskId, report: CaughtUp) -> None:
        """All that a subtask listens to are as far as it is."""
        if report.generation >= self._ahead.get(subtask, self.generation):
            self._ahead.pop(subtask, None)
