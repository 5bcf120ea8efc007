"""A script (TestStream) at work: one event, and then a wait until all that it makes due has been done."""

from __future__ import annotations

from ....sdk import graph
from ....sdk.bundle import Bundle
from ....sdk.sources.scripted_source import (
    ClockMoves,
    ElementsArrive,
    PercentileMoves,
    Script,
    SignalArrives,
    WatermarkMoves,
)
from ....windowing.timestamp import MAX_MICROS
from ...execution.counters import Counts
from ...execution.plan.fusion import Plan, Source
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import SCRIPT
from ...execution.streaming.task_execution import TaskExecution
from ..channels.messages import ClockMoved, Message, PercentileMoved, SignalCame


class ScriptInjector:
    """Plays a script, in the first of its task's subtasks; in the others there is nothing to do.

    Attributes:
      position: how many events have been played.
      is_finished: whether all have.
    """

    def __init__(self, step: Source, index: int) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, Script)
        self.label = step.transform.label
        self._outputs = step.transform.outputs
        self._events = primitive.source.events if index == 0 else ()
        self.position = 0
        self.is_player = index == 0
        self.is_finished = not self.is_player

    def start(self, execution: TaskExecution, position: int) -> None:
        """Begin, or go on where a snapshot says."""
        self.position = position
        if self.is_finished:
            self._finish(execution)

    def play(self, execution: TaskExecution, counts: Counts) -> Message | None:
        """Do the next event; what all other subtasks have to be told of it, if anything."""
        if self.position == len(self._events):
            self._finish(execution)
            return None
        event = self._events[self.position]
        self.position += 1
        if isinstance(event, ElementsArrive):
            count = counts.of(self.label)
            count.read += len(event.bundle)
            count.written += len(event.bundle)
            self._send(execution, event.tag, event.bundle)
        elif isinstance(event, WatermarkMoves):
            execution.move(self._outputs[event.tag], event.micros)
        elif isinstance(event, ClockMoves):
            return ClockMoved(execution.clock.now + event.micros)
        elif isinstance(event, SignalArrives):
            return SignalCame(self.position, event.name)
        else:
            assert isinstance(event, PercentileMoves)
            return PercentileMoved(event.percentile, event.micros)
        return None

    def _send(self, execution: TaskExecution, tag: str | None, bundle: Bundle) -> None:
        execution.dataflow.send_to(self._outputs[tag])(bundle)

    def _finish(self, execution: TaskExecution) -> None:
        self.is_finished = True
        for output in self._outputs.values():
            execution.move(output, MAX_MICROS)


def time_of_scripts(plan: Plan, restored: Restored) -> int:
    """What processing time a snapshot's scripts had come to, in microseconds; 0 without a script."""
    time = 0
    for step in plan.steps:
        if isinstance(step, Source) and isinstance(step.transform.primitive, graph.Read):
            source = step.transform.primitive.source
            if isinstance(source, Script):
                played = source.events[: max(restored.newest(step.transform.label, SCRIPT), default=0)]
                time = max(time, sum(event.micros for event in played if isinstance(event, ClockMoves)))
    return time
