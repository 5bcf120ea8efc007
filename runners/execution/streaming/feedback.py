"""Feedback of loops: re-injected records, and the watermark behind a loop's head.

No record in the loop may be before the watermark.  Within one task feedback is processed before the watermark advances,
so none is.  Between tasks it is established in rounds: barriers pass through the whole pipeline one after the other, so
the records in the loop at one barrier have come back before the next, or have left the loop.  The earliest record that
has come back holds the watermark.  If none has, the input before the first barrier has left the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from ....sdk.elements.bundle import Bundle
from ....windowing.timestamp import MIN_MICROS
from ..operators.dataflow import Receiver
from ..plan.fusion import Back, Head, Step


def earliest_of(times: Iterable[int | None]) -> int | None:
    """Return the minimum of the times that are not None; None if there are none."""
    return min((time for time in times if time is not None), default=None)


class LoopInTask:
    """A loop that begins and ends in one task.

    Attributes:
      waiting: the feedback to process.
    """

    def __init__(self) -> None:
        self.waiting: deque[Bundle] = deque()


class LoopBetweenTasks:
    """The head of a loop that ends in another task.

    >>> loop = LoopBetweenTasks()
    >>> loop.add_feedback(Bundle(["a", "b"], [40, 45])), loop.mark(1, watermark=50)
    (None, 40)
    >>> loop.add_feedback(Bundle(["b"], [45])), loop.mark(2, watermark=60), loop.is_behind(60)
    (None, 45, True)
    >>> loop.complete_round(1, earliest=45, floor=45), loop.watermark
    (None, 45)
    >>> loop.mark(3, watermark=60), loop.complete_round(2, earliest=None, floor=60), loop.watermark
    (None, None, 60)

    Attributes:
      watermark: the watermark behind the head, in microseconds.
    """

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        # The earliest feedback since the last barrier; earlier records than the floor are late everywhere and hold
        # nothing.
        self._earliest: int | None = None
        self._floor = MIN_MICROS
        # The watermark of the loop's input at each barrier.
        self._marks: dict[int, int] = {}

    def add_feedback(self, bundle: Bundle) -> None:
        """Note the timestamps of feedback."""
        times = bundle.timestamps
        if isinstance(times, int):
            times = [times]
        self._earliest = earliest_of([self._earliest, *(time for time in times if time >= self._floor)])

    def mark(self, number: int, watermark: int) -> int | None:
        """Note that a barrier has passed, with the input at this watermark.

        Returns the timestamp of the earliest feedback since the last barrier.
        """
        self._marks[number] = watermark
        earliest, self._earliest = self._earliest, None
        return earliest

    def complete_round(self, number: int, earliest: int | None, floor: int) -> None:
        """Advance the watermark: the records in the loop at this barrier have come back before the next, or have left.

        Args:
          earliest: the timestamp of the earliest feedback in between, of all loops; None if there was none.
          floor: the least watermark of all heads of loops at the barrier; earlier records are late.
        """
        mark = self._marks.get(number, MIN_MICROS)
        self.watermark = max(self.watermark, mark if earliest is None else min(mark, earliest))
        self._floor = max(self._floor, floor)
        self._marks = {n: mark for n, mark in self._marks.items() if n > number}

    def is_behind(self, watermark: int) -> bool:
        """Return True if the watermark of the input is further."""
        return self.watermark < watermark


class TaskLoops:
    """The loops of a task.

    Args:
      steps: the task's steps.
      send_to: returns the receiver of a PCollection's elements, for those behind a head.
      input_watermark: returns the watermark of a head's input.

    Attributes:
      within: the loops that begin and end in the task, by the label of their heads.
      between: the heads of loops that end in other tasks, by label.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        send_to: Callable[[int], Receiver],
        input_watermark: Callable[[Step, int], int],
    ) -> None:
        self._heads = {step.transform.label: step for step in steps if isinstance(step, Head)}
        self._backs = [step for step in steps if isinstance(step, Back)]
        self._send_to = send_to
        self._input_watermark = input_watermark
        self._restored: list[tuple[str, Bundle]] = []
        ends = {back.head for back in self._backs}
        self.within = {label: LoopInTask() for label in self._heads if label in ends}
        self.between = {label: LoopBetweenTasks() for label in self._heads if label not in ends}

    def receivers(self) -> Iterator[tuple[str, Receiver]]:
        """Yield the receivers at the ends of loops, by label."""
        for back in self._backs:
            loop = self.within.get(back.head)
            yield back.transform.label, _elsewhere if loop is None else loop.waiting.append

    @property
    def are_waiting(self) -> bool:
        """Return True if feedback within the task waits to be processed."""
        return any(loop.waiting for loop in self.within.values())

    def process(self, label: str, stops: Callable[[], object]) -> bool:
        """Process feedback of a loop within the task; return False if the task stopped before its end."""
        waiting, send = self.within[label].waiting, self._behind(self._heads[label])
        while waiting:
            if stops():
                return False
            send(waiting.popleft())
        return True

    def receive(self, head: Head, bundle: Bundle) -> None:
        """Process feedback from another task."""
        self.between[head.transform.label].add_feedback(bundle)
        self._behind(head)(bundle)

    def _behind(self, head: Head) -> Receiver:
        (looped,) = head.transform.outputs.values()
        return self._send_to(looped)

    def _input(self, label: str) -> int:
        head = self._heads[label]
        return self._input_watermark(head, head.transform.inputs[0])

    def watermark(self, label: str) -> int:
        """Return the watermark behind a head whose feedback within the task has been processed."""
        loop = self.between.get(label)
        return self._input(label) if loop is None else loop.watermark

    def mark(self, number: int) -> tuple[int | None, int | None]:
        """Note that a barrier enters every loop.

        Returns the earliest feedback since the last barrier, and the least watermark of the loops' inputs.
        """
        watermarks = {label: self._input(label) for label in self.between}
        earliest = [loop.mark(number, watermarks[label]) for label, loop in self.between.items()]
        return earliest_of(earliest), earliest_of(watermarks.values())

    def complete_round(self, number: int, earliest: int | None, floor: int) -> None:
        """Note that the records in the loops at a barrier have come back or left; see `LoopBetweenTasks`."""
        for loop in self.between.values():
            loop.complete_round(number, earliest, floor)

    def are_behind(self) -> bool:
        """Return True if the watermark behind some loop's head has yet to follow its input's."""
        return any(loop.is_behind(self._input(label)) for label, loop in self.between.items())

    def waiting(self) -> Iterator[tuple[str, list[Bundle]]]:
        """Yield the feedback within the task that is still to be processed, by the loop's head."""
        for label, loop in self.within.items():
            if loop.waiting:
                yield label, list(loop.waiting)

    def restore(self, label: str, bundle: Bundle) -> None:
        """Restore feedback of a loop."""
        loop = self.within.get(label)
        if loop is None:
            self._restored.append((label, bundle))
        else:
            loop.waiting.append(bundle)

    def process_restored(self) -> None:
        """Process restored feedback of loops that end in other tasks now."""
        restored, self._restored = self._restored, []
        for label, bundle in restored:
            self.receive(self._heads[label], bundle)


def _elsewhere(bundle: Bundle) -> None:
    """Do nothing: the loop ends in another task, which an edge leads to."""
