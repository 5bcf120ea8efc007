"""Scheduling of tasks: segments in the order of their dependencies, and to each task partitions that are adjacent.

Adjacent splits of a source often have keys and windows in common, such as the minutes of a log.  A task that reads them
folds more before the shuffle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count, groupby
from typing import Any

from ..plan.segments import Segment, dependencies


class Schedule:
    """The segments of a run, and the partitions of each that are yet to be processed.

    A task is a segment in one worker.  It takes partitions of the segment until none is left: the one behind its last,
    or else from the longest run of those that wait.  If the worker fails, all that its task has taken waits again, so a
    task counts as a whole or not at all.

    Args:
      segments: in an order in which inputs come first.
      partitions_of: returns the partitions of a segment, by its number, once those that it needs are complete.

    >>> schedule = Schedule([], lambda number: [])
    >>> schedule.is_over, schedule.begin(worker=0)
    (True, None)
    """

    def __init__(self, segments: Sequence[Segment], partitions_of: Callable[[int], Sequence[Any]]) -> None:
        self._partitions_of = partitions_of
        self._needs = dependencies(segments)
        self._needed_by: list[list[int]] = [[] for _ in segments]
        for number, needs in enumerate(self._needs):
            for other in needs:
                self._needed_by[other].append(number)
        # Of each segment that may run, its partitions, the indices of those that no task has taken, and the number of
        # its tasks.
        self._partitions: dict[int, Sequence[Any]] = {}
        self._waiting: dict[int, list[int]] = {}
        self._tasks: dict[int, int] = {}
        # By worker, its segment and the indices of the partitions that it has taken.
        self._taken: dict[int, tuple[int, list[int]]] = {}
        self._open = len(segments)
        # By segment, the number of all its partitions; 0 until they are known.
        self._totals = [0] * len(segments)
        # Complete segments, for the caller to take.
        self.completed: list[int] = []
        for number, needs in enumerate(self._needs):
            if not needs and number not in self._waiting:
                self._make_ready(number)
        self._drop_empty()

    @property
    def is_over(self) -> bool:
        """Return True when all segments are complete."""
        return not self._open

    def segment_of(self, worker: int) -> int | None:
        """Return the number of a worker's segment; None if the worker is idle."""
        return self._taken[worker][0] if worker in self._taken else None

    def begin(self, worker: int) -> int | None:
        """Assign a task to an idle worker; return its segment's number, or None if no task can begin now."""
        for number in sorted(self._waiting):
            if self._waiting[number]:
                self._taken[worker] = (number, [])
                self._tasks[number] += 1
                return number
        return None

    def next(self, worker: int) -> Any:
        """Assign the next partition to a worker's task; return None if none remains."""
        number, taken = self._taken[worker]
        waiting = self._waiting[number]
        if not waiting:
            return None
        index = taken[-1] + 1 if taken else 0
        if index not in waiting:
            index = self._away_from_others(number)
        waiting.remove(index)
        taken.append(index)
        return self._partitions[number][index]

    def _away_from_others(self, number: int) -> int:
        """Return the start of the longest run that waits, or its middle if a task is to continue at its start."""
        run = max(_runs(self._waiting[number]), key=len)
        latest = {taken[-1] for other, taken in self._taken.values() if other == number and taken}
        return run[len(run) // 2] if run[0] - 1 in latest else run[0]

    def complete(self, worker: int) -> None:
        """Note that a worker's task is complete."""
        number, _ = self._taken.pop(worker)
        self._tasks[number] -= 1
        self._drop_empty()

    def lose(self, worker: int) -> None:
        """Note that a worker has failed: the partitions of its task are queued again."""
        if worker in self._taken:
            number, taken = self._taken.pop(worker)
            self._tasks[number] -= 1
            self._waiting[number] = sorted([*self._waiting[number], *taken])
            # It may have been the last task, without a partition.
            self._drop_empty()

    def progress(self) -> list[tuple[int, int, int]]:
        """Return for each segment the numbers of its partitions that are complete, taken, and waiting; in any thread.

        Those of a segment whose input isn't complete are not known yet, and not counted.
        """
        taken = Counter[int]()
        for number, indices in list(self._taken.values()):
            taken[number] += len(indices)
        waiting = [len(self._waiting.get(number, ())) for number in range(len(self._needs))]
        return [
            (max(0, total - taken[number] - waiting[number]), taken[number], waiting[number])
            for number, total in enumerate(self._totals)
        ]

    def _make_ready(self, number: int) -> None:
        self._partitions[number] = self._partitions_of(number)
        self._waiting[number] = list(range(len(self._partitions[number])))
        self._tasks[number] = 0
        self._totals[number] = len(self._partitions[number])

    def _drop_empty(self) -> None:
        """Complete the segments whose partitions are all processed, and make ready those that need them."""
        found = [number for number, remaining in self._waiting.items() if not remaining and not self._tasks[number]]
        while found:
            number = found.pop()
            del self._partitions[number], self._waiting[number], self._tasks[number]
            self._open -= 1
            self.completed.append(number)
            for other in self._needed_by[number]:
                self._needs[other].discard(number)
                if not self._needs[other]:
                    self._make_ready(other)
                    if not self._waiting[other]:
                        found.append(other)


def _runs(indices: Iterable[int]) -> list[list[int]]:
    """Return the runs of successive numbers.

    >>> _runs([1, 2, 5])
    [[1, 2], [5]]
    """
    ascending = count()
    return [list(run) for _, run in groupby(indices, lambda index: index - next(ascending))]
